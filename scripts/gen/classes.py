"""Sort the constants of a class header into methods, their fields and the fields' values; the same for QMD headers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gen.clang import GeneratorError

Range = tuple[int, int]
# A method array: offset of element 0, stride in bytes, number of elements (None: the header does not tell).
Array = tuple[int, int, int | None]

# Element counts that the gap to the next method does not give.
COUNTS: dict[str, int | None] = {
    "LOAD_INLINE_QMD_DATA": 64,  # one 256-byte QMD
    "SET_SCG_COMPUTE_SCHEDULING_PARAMETERS": None,  # the gap behind it is no round number: unknown
}
# A value whose name carries another method's letter than the field it belongs to.
MISNAMED = {"MEM_OP_B_OPERATION_L2_INVALIDATE_CLEAN_LINES"}
METHOD_SPACE_BYTES = 0x4000  # 12-bit method address in words


@dataclass
class ClassTables:
    """What a class header says."""

    methods: dict[str, int | Array] = field(default_factory=dict)
    fields: dict[str, dict[str, Range]] = field(default_factory=dict)
    values: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    flat: dict[str, int | Range | Array] = field(default_factory=dict)


def owner(name: str, candidates: Sequence[str]) -> str | None:
    """The longest candidate that is a whole-word prefix of `name`."""
    return max((c for c in candidates if name.startswith(c + "_")), key=len, default=None)


def class_tables(
    entries: Mapping[str, int | Range | Array], formats: Sequence[str] = (), constants: Sequence[str] = ()
) -> ClassTables:
    """Sort `entries` (names without the class prefix, in file order).

    formats: groups of fields that are no methods (pushbuffer entries and headers). constants: names that are neither.
    """
    tables = ClassTables(flat=dict(entries))
    ranges = [name for name, value in entries.items() if _is_range(value)]
    group = ""
    for name, value in entries.items():
        form = next((f for f in formats if name == f or name.startswith(f + "_")), None)
        if name in constants or name in MISNAMED:
            continue
        if form is not None:
            group = form
            if name == form:
                continue
        if _is_range(value):
            if not group or not name.startswith(group + "_"):
                raise GeneratorError(f"field {name} follows method {group or 'none'}")
            tables.fields.setdefault(group, {})[name[len(group) + 1 :]] = value  # type: ignore[assignment]
            continue
        if len(value) == 3 if isinstance(value, tuple) else form is None and _is_method(name, group, tables, ranges):
            group = name
            tables.methods[name] = value  # type: ignore[assignment]
            tables.fields.setdefault(name, {})
            continue
        _add_value(tables, group, name, value)  # type: ignore[arg-type]
    _check_methods(tables)
    return tables


def _is_range(value: int | Range | Array) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _is_method(name: str, group: str, tables: ClassTables, ranges: Sequence[str]) -> bool:
    """An integer is a value if it lies under a field of the current method and has no fields of its own."""
    known = [f"{group}_{f}" for f in tables.fields.get(group, {})]
    return owner(name, known) is None or any(r.startswith(name + "_") and r not in known for r in ranges)


def _add_value(tables: ClassTables, group: str, name: str, value: int) -> None:
    known = [f"{group}_{f}" for f in tables.fields.get(group, {})]
    under = owner(name, known)
    if under is None:
        if any(name == f"{group}_{other}" for other in ("NOP",)):  # an all-zero pushbuffer header
            return
        raise GeneratorError(f"value {name} belongs to no field of {group}")
    of_field = tables.values.setdefault(group, {}).setdefault(under[len(group) + 1 :], {})
    of_field[name[len(under) + 1 :]] = value


def _check_methods(tables: ClassTables) -> None:
    """Offsets are word aligned, inside the method space and used once; array lengths come from the gap behind them."""
    taken: dict[int, str] = {}
    for name, value in tables.methods.items():
        offset = value[0] if isinstance(value, tuple) else value
        if offset % 4 or offset >= METHOD_SPACE_BYTES or offset in taken:
            raise GeneratorError(f"method {name} at {offset:#x}: not a free word of the method space")
        taken[offset] = name
    for name, value in tables.methods.items():
        if not isinstance(value, tuple):
            continue
        start, stride, _ = value
        # What lies inside element 0 is a sibling array of the same stride; the next method behind it ends the array.
        end = min((o for o in taken if o >= start + stride), default=METHOD_SPACE_BYTES)
        count = COUNTS.get(name, (end - start + stride - 1) // stride)
        for index in range(1, count or 0):
            if start + index * stride in taken:
                raise GeneratorError(f"method {name}({index}) falls on {taken[start + index * stride]}")
        tables.methods[name] = tables.flat[name] = (start, stride, count)


_QMD_NAME = re.compile(r"QMD(V\d\d_\d\d)_(\w+)$")


def qmd_tables(
    entries: Mapping[str, int | Range | tuple[int, int, int]],
) -> dict[str, tuple[dict[str, tuple[int, ...]], dict[str, dict[str, int]]]]:
    """Per version: fields (msb, lsb) or (msb, lsb, stride in bits), and the values of fields."""
    versions: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, dict[str, int]]]] = {}
    for name, value in entries.items():
        match = _QMD_NAME.match(name)
        if match is None:
            raise GeneratorError(f"{name} in a QMD header is no QMD field")
        fields, values = versions.setdefault(match.group(1), ({}, {}))
        short = match.group(2)
        if isinstance(value, tuple):
            fields[short] = value
            continue
        under = owner(short, list(fields))
        if under is None:
            raise GeneratorError(f"value {name} belongs to no field")
        values.setdefault(under, {})[short[len(under) + 1 :]] = value
    return versions
