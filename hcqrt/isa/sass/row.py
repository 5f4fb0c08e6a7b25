"""One instruction of the table, ready to use: suffix fields, operand slots, and the bits that have one legal value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .model import SassError, Value
from .slots import Slot, bits, ones

SCHED_MASK = ones(105, 21)
GUARD_MASK = ones(12, 4)
OPCODE_MASK = ones(0, 12)
UNIFORM_BIT = 91


@dataclass(frozen=True)
class ModField:
    """One suffix field. `names` None: a flag that prints its own name; pieces: (lsb, width), low bits first."""

    name: str
    pieces: tuple[tuple[int, int], ...] = ()
    names: Mapping[int, str] | None = None
    codes: Mapping[str, int] = field(default_factory=dict)
    only: int | None = None  # the one value that this row allows to a flag

    @property
    def mask(self) -> int:
        return sum(ones(lsb, width) for lsb, width in self.pieces)

    def decode(self, word: int) -> Value:
        code, shift = 0, 0
        for lsb, width in self.pieces:
            code |= bits(word, lsb, width) << shift
            shift += width
        if self.names is None:
            self.check(code)
            return bool(code)
        if code not in self.names:
            raise SassError(f"{self.name} = {code} at bits {self.where} has no meaning")
        return self.names[code]

    def check(self, code: int) -> None:
        if self.only is not None and code != self.only:
            raise SassError(f"flag {self.name} at bit {self.where} is {code}")

    @property
    def where(self) -> str:
        return " and ".join(f"{lsb + width - 1}:{lsb}" for lsb, width in self.pieces)

    def encode(self, value: Value) -> int:
        if self.names is None:
            if not isinstance(value, bool):
                raise SassError(f"flag {self.name} is {value!r}, not a bool")
            code = int(value)
            self.check(code)
        elif isinstance(value, str) and value in self.codes:
            code = self.codes[value]
        else:
            raise SassError(f"{self.name} = {value!r}: possible are {', '.join(map(repr, self.codes))}")
        word = 0
        for lsb, width in self.pieces:
            word |= (code & ((1 << width) - 1)) << lsb
            code >>= width
        return word

    def text(self, value: Value) -> str:
        return (
            (f".{self.name}" if value else "")
            if self.names is None
            else (f".{value}" if value and not str(value).startswith("_") else "")
        )


@dataclass(frozen=True)
class Row:
    mnemonic: str
    opcode: int
    suffix: tuple[ModField | str, ...]
    slots: tuple[Slot, ...]
    fixed: int  # value of the bits that no field covers
    uniform_guard: bool
    chips: frozenset[int]

    @property
    def mods(self) -> tuple[ModField, ...]:
        return tuple(item for item in self.suffix if isinstance(item, ModField))

    @property
    def fields(self) -> tuple[ModField | Slot, ...]:
        return (*self.mods, *self.slots)

    @property
    def free_mask(self) -> int:
        """Bits that belong to a field; all others must equal `fixed`."""
        mask = SCHED_MASK | GUARD_MASK
        for item in self.fields:
            mask |= item.mask
        return mask
