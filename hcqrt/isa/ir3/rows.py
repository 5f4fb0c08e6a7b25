"""Turns the lines of table.py into rows: typed fields and slots, with the bits that each row accounts for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from . import table
from .expand import resource_lines, texture_lines
from .fields import UNSET, Enum, Flag, Mod, Number, Pieces, Words, WriteMask, ones
from .memory_slots import ConstDstSlot, IndexSlot, ScaledSlot
from .model import A0_X, A1_X
from .moves import MoveDst, MoveSource
from .names import ENUMS, FLAG_TEXTS
from .row import FLAG_BITS, Precision, Row
from .slots import FixedReg, PredSlot, RegSlot, Slot, TargetSlot
from .sources import NarrowSource, PlainSource, WideSource

FIELD = re.compile(
    r"(?P<name>\w+)=(?P<kind>[A-Za-z]\w*)@(?P<at>\d+(?:\+\d+)?(?:,\d+(?:\+\d+)?)*)(?::(?P<rule>src_type|dst_type|src|dst|type|yes))?"
    r"(?P<marks>[!%~]*)(?P<bits>(?:[rnip]\d+)*)(?:=(?P<value>\w+))?$"
)
NEG_AT, ABS_AT = 14, 15  # in a source of 16 bits
CATEGORY_LSB = 61
NARROW_KINDS = {"N": "const", "NI": "imm", "NN": ""}


def _pieces(spec: str) -> Pieces:
    return tuple((int(lsb), int(width or 1)) for lsb, width in re.findall(r"(\d+)(?:\+(\d+))?", spec))


def _enum(name: str, kind: str, pieces: Pieces, value: str | None) -> Enum:
    names = ENUMS[kind]
    if value is not None:
        names = {code: text for code, text in names.items() if text == value}
    return Enum(name, pieces, names, "({})" if kind == "round" else "{}")


def _mod(match: re.Match[str], numbers: dict[str, int]) -> Mod:
    name, kind, pieces, value = match["name"], match["kind"], _pieces(match["at"]), match["value"]
    marks = match["marks"]
    if kind == "flag":
        only_flag = None if value is None else bool(int(value))
        return Flag(name, pieces, FLAG_TEXTS.get(name, f".{name}"), "~" in marks, only_flag)
    if kind == "mask":
        return WriteMask(name, pieces)
    if kind == "words":
        return Words(name, pieces)
    if kind in ("u", "o", "so", "oz", "pow"):
        style = {"o": "offset", "so": "offset", "oz": "offset", "pow": "power"}.get(kind, "plain")
        only = None if value is None else int(value)
        return Number(name, pieces, kind[0] == "s", numbers.get("p", 0), style, only, kind == "oz")
    return _enum(name, kind, pieces, value)


def _slot(match: re.Match[str], opcode: str, numbers: dict[str, int]) -> Slot | None:
    """None where the kind is no operand."""
    name, kind, rule, marks = match["name"], match["kind"], match["rule"] or "", match["marks"]
    lsb = int(match["at"]) if match["at"].isdigit() else 0
    r, neg, index = numbers.get("r", UNSET), numbers.get("n", UNSET), numbers.get("i", UNSET)
    if kind == "R":
        return RegSlot(name, lsb, rule, "!" in marks, "%" in marks)
    if kind == "W":
        return WideSource(name, lsb, rule, r, lsb + NEG_AT, lsb + ABS_AT)
    if kind in NARROW_KINDS:
        return NarrowSource(name, lsb, rule, r, neg, zero_offset=True, wide_kind=NARROW_KINDS[kind])
    if kind == "P":
        return PlainSource(name, lsb, rule, r, neg, zero_offset=True)
    if kind == "M":
        return MoveSource(name, lsb, rule, r, r_kinds=match["value"])
    if kind == "A":
        return FixedReg(name, lsb, rule, A0_X if opcode == "mova" else A1_X, "a0.x" if opcode == "mova" else "a1.x")
    if kind == "I":
        return IndexSlot(name, lsb, rule, index)
    if kind == "C":
        return PredSlot(name, lsb, rule, index)
    plain: dict[str, Callable[[str, int, str], Slot]] = {
        "D": MoveDst, "K": ConstDstSlot, "T": TargetSlot, "X": ScaledSlot,
    }  # fmt: skip
    return plain[kind](name, lsb, rule) if kind in plain else None


def _fields(spec: str, opcode: str) -> tuple[dict[str, Mod], dict[str, Slot]]:
    mods: dict[str, Mod] = {}
    slots: dict[str, Slot] = {}
    for item in spec.split():
        match = FIELD.match(item)
        if match is None:
            raise AssertionError(f"table: field {item!r}")
        numbers = {letter: int(number) for letter, number in re.findall(r"([rnip])(\d+)", match["bits"])}
        slot = _slot(match, opcode, numbers)
        if slot is not None:
            slots[slot.name] = slot
        else:
            mods[match["name"]] = _mod(match, numbers)
    return mods, slots


def _pair(spec: str | None) -> tuple[int, int] | None:
    if spec is None:
        return None
    first, second = re.findall(r"\d+", spec)
    return int(first), int(second)


def _precision(words: list[str], numbers: dict[str, str]) -> Precision:
    full, conv, dst_full = (int(numbers.get(name, UNSET)) for name in ("full", "conv", "dstfull"))
    return Precision(full, "narrow" not in words, conv, dst_full)


def _parts(template: str, opcode: str) -> tuple[str, ...]:
    for prefix, meaning in table.PREFIXES.items():
        template = template.replace(prefix, meaning)
    return tuple(re.split(r"\{(\w+)\}", template.replace("{name}", opcode)))


def _line_rows(line: str) -> Iterator[Row]:
    template, fixed_spec, other, fields, opcodes = (column.strip() for column in line.split("|"))
    place, *names = opcodes.split()
    fixed, mask = 0, ones(CATEGORY_LSB, 3)
    for lsb, width, value in re.findall(r"(\d+)\+(\d+):(\d+)", fixed_spec):
        fixed |= int(value) << int(lsb)
        mask |= ones(int(lsb), int(width))
    words = other.split()
    flags = tuple(word for word in words if word in FLAG_BITS)
    numbers = dict(re.findall(r"(full|conv|dstfull|rpt|nop)([\d+,]+)", other))
    precision, repeat, delay = _precision(words, numbers), _pair(numbers.get("rpt")), _pair(numbers.get("nop"))
    for name in names:
        opcode, _, number = name.partition("=")
        key = Number("opcode", _pieces(place))
        mods, slots = _fields(fields, opcode)
        row_fixed = fixed | key.write(int(number))
        yield Row(
            opcode, row_fixed >> CATEGORY_LSB, _parts(template, opcode), flags, mods, slots, precision, row_fixed,
            mask | key.mask, repeat, delay,
        )  # fmt: skip


def _lines() -> Iterator[str]:
    for block in (table.FLOW, table.MOVE, table.ALU, table.TEXTURE, table.MEMORY, table.BARRIER):
        yield from block.strip().splitlines()
    yield from resource_lines()
    yield from texture_lines()


@cache
def rows() -> tuple[Row, ...]:
    """Every row of the table, by category."""
    return tuple(row for line in _lines() for row in _line_rows(line))
