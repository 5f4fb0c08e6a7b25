"""Stores of symbols to memory: which ones changed since the last submission, and writing those with few calls."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

from hcqrt.core.sints import (
    Expression,
    ForeignSymbol,
    Sint,
    Symbol,
    Variable,
    VarVals,
    check_value,
    evaluate,
    source,
    variables_of,
)


class MemoryPatch:
    """One item of `fmt` at byte `offset` of `mv` that takes `value`; with a mask, only the bits in it."""

    __slots__ = ("fmt", "mask", "mv", "offset", "value")

    def __init__(self, mv: memoryview, offset: int, fmt: str, value: Sint, mask: int | None) -> None:
        self.mv, self.offset, self.fmt, self.value, self.mask = mv, offset, fmt, value, mask

    def store(self, value: Any) -> None:
        """Write `value`; raises ValueError when it is too wide, having written nothing."""
        item = struct.Struct(f"<{self.fmt}")
        if self.mask is not None:
            if value & ~self.mask:
                raise ValueError(f"{self.value!r} = {value:#x} leaves mask {self.mask:#x}")
            value |= item.unpack_from(self.mv, self.offset)[0] & ~self.mask
        try:
            item.pack_into(self.mv, self.offset, value)
        except struct.error as error:
            raise ValueError(f"{self.value!r} = {value:#x} does not fit format {self.fmt!r}") from error


class PatchPlan:
    """All symbol stores of a queue.

    Variables are kept in two groups: those that have not changed since the first submission are only compared, as one
    tuple; those that have are stored every time by one generated function. A variable moves from the first group to
    the second the first time it changes.
    """

    def __init__(self, patches: Sequence[MemoryPatch]) -> None:
        self._patches = list(patches)
        self.variables: list[Variable] | None = variables_of(p.value for p in patches) or None
        self._foreign = any(_has_foreign(p.value) for p in patches)
        if self._foreign and self.variables is None:
            self.variables = []
        self._stable: list[Variable] = list(self.variables or ())
        self._moving: list[Variable] = []
        self._stable_values: tuple[int, ...] | None = None
        self._moving_values: tuple[int, ...] | None = None
        self._get_stable = _getter(self._stable)
        self._get_moving = _getter(self._moving)
        self._store: Callable[[tuple[int, ...], tuple[int, ...]], None] | None = None
        self._seen: dict[Variable, int] | None = None

    def apply(self, var_vals: VarVals) -> None:
        """Store what changed. Raises KeyError or ValueError; a failed call stores everything anew next time."""
        if self._foreign:
            self._apply_all(var_vals)
            return
        try:
            stable, moving = self._get_stable(var_vals), self._get_moving(var_vals)
        except KeyError as error:
            name = error.args[0].name if isinstance(error.args[0], Variable) else error.args[0]
            raise KeyError(f"no value for variable {name}") from None
        if stable != self._stable_values:
            self._apply_all(var_vals)
            self._learn(stable)
        elif moving != self._moving_values and self._store is not None:
            self._moving_values = None
            try:
                self._store(self._stable_values, moving)
            except struct.error:
                self._apply_all(var_vals)  # words the error
                raise
            self._moving_values = moving

    def _apply_all(self, var_vals: VarVals) -> None:
        self._stable_values = self._moving_values = None
        stores = [(patch, evaluate(patch.value, var_vals)) for patch in self._patches]
        for patch, value in stores:
            patch.store(value)

    def _learn(self, stable: tuple[int, ...]) -> None:
        """Note the values just stored, and move the variables that changed."""
        stable = tuple(map(operator.index, stable))  # plain ones: these are computed with until they change
        last = self._seen
        if last is not None:
            changed = [v for v, value in zip(self._stable, stable, strict=True) if last[v] != value]
            self._moving += changed
            if 2 * len(self._moving) > len(self._stable) + len(changed):
                self._moving += [v for v in self._stable if v not in changed]
            moved = set(self._moving)
            values = dict(zip(self._stable, stable, strict=True))
            self._stable = [v for v in self._stable if v not in moved]
            stable = tuple(values[v] for v in self._stable)
            self._get_stable, self._get_moving = _getter(self._stable), _getter(self._moving)
            self._store = _compile(self._patches, self._stable, self._moving)
        self._seen = dict(zip(self._stable, stable, strict=True))
        self._stable_values = stable


def _has_foreign(value: Sint) -> bool:
    if isinstance(value, Expression):
        return _has_foreign(value.left) or _has_foreign(value.right)
    return not isinstance(value, (int, Symbol)) and isinstance(value, ForeignSymbol)


def _getter(variables: Sequence[Variable]) -> Callable[[VarVals], tuple[int, ...]]:
    if not variables:
        return lambda var_vals: ()
    if len(variables) == 1:
        only = variables[0]
        return lambda var_vals: (var_vals[only],)
    get: Callable[[VarVals], tuple[int, ...]] = operator.itemgetter(*variables)
    return get


def _compile(
    patches: Sequence[MemoryPatch], stable: Sequence[Variable], moving: Sequence[Variable]
) -> Callable[[tuple[int, ...], tuple[int, ...]], None]:
    """One function that stores every patch with a moving variable, neighbours in one `pack_into`.

    The source consists of our own operators, decimal numbers and generated names only.
    """
    names = {variable: f"s[{index}]" for index, variable in enumerate(stable)}
    names.update({variable: f"v{index}" for index, variable in enumerate(moving)})
    scope: dict[str, Any] = {"check": check_value}
    lines = [f"{', '.join(names[v] for v in moving)}, = m"] if moving else []
    for index, variable in enumerate(moving):
        if (variable.lo, variable.hi) != (0, (1 << 64) - 1) or not any(_checks_64(p, variable) for p in patches):
            scope[f"w{index}"] = variable
            lines.append(f"if not {variable.lo} <= v{index} <= {variable.hi}: check(w{index}, v{index})")
    computed = set(variables_of(p.value for p in patches if p.value not in names))
    for index in (index for index, variable in enumerate(moving) if variable in computed):
        scope["plain"] = operator.index  # NumPy's integers would overflow
        lines.append(f"if type(v{index}) is not int: v{index} = plain(v{index})")
    wanted = set(moving)
    for number, run in enumerate(_runs([p for p in patches if wanted & set(variables_of([p.value]))])):
        values = ", ".join(source(p.value, names) for p in run)
        first = run[0]
        if first.mask is not None:
            scope[f"p{number}"] = first.store
            lines.append(f"p{number}({values})")
        else:
            scope[f"p{number}"] = struct.Struct("<" + "".join(p.fmt for p in run)).pack_into
            scope[f"m{number}"] = first.mv
            lines.append(f"p{number}(m{number}, {first.offset}, {values})")
    body = "\n    ".join(lines or ["pass"])
    exec(f"def store(s, m):\n    {body}\n", scope)
    store: Callable[[tuple[int, ...], tuple[int, ...]], None] = scope["store"]
    return store


def _checks_64(patch: MemoryPatch, variable: Variable) -> bool:
    """Whether the store itself refuses what is no unsigned 64-bit value: the value as it is, or its upper half."""
    value = patch.value
    upper_half = isinstance(value, Expression) and (value.op, value.left, value.right) == (">>", variable, 32)
    return patch.mask is None and (value is variable or upper_half) and patch.fmt in "IQ"


def _runs(patches: Sequence[MemoryPatch]) -> list[list[MemoryPatch]]:
    """Patches whose items lie one behind the other in one memory."""
    runs: list[list[MemoryPatch]] = []
    end: tuple[int, int] | None = None
    for patch in sorted(patches, key=lambda p: (id(p.mv.obj), p.offset)):
        where = (id(patch.mv), patch.offset)
        if patch.mask is None and where == end:
            runs[-1].append(patch)
        else:
            runs.append([patch])
        end = None if patch.mask is not None else (id(patch.mv), patch.offset + struct.calcsize(f"<{patch.fmt}"))
    return runs
