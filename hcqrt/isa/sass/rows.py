"""Turns the lines of table.py into rows: typed fields and slots, with the mask of every bit a row accounts for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from . import table
from .families import Family, chips_of
from .memory_slots import BindlessSlot, ConstSlot, IndexSlot, MemSlot, TargetSlot
from .model import Barrier, Scoreboard, SpecialReg
from .names import ENUMS, WHEN_NOT_NAMED
from .row import GUARD_MASK, OPCODE_MASK, SCHED_MASK, UNIFORM_BIT, ModField, Row
from .slots import UNSET, EitherPredSlot, ImmSlot, Modifiers, NumSlot, PredSlot, RegSlot, Slot, URegSlot, ones

REUSE_A, REUSE_B, REUSE_C = 1, 2, 4  # bits of Sched.reuse
REUSE_PLACES = {24: REUSE_A, 32: REUSE_B, 64: REUSE_C}

# Bits of the source modifiers by place: flexible slot, bits 71:64, source A.
PLACES = {
    "slot": {"-": 63, "%": 62, "^": 63, "~": 63, "h": 60},
    "high": {"-": 75, "%": 74, "^": 75, "~": 75, "h": 81},
    "a": {"-": 72, "%": 73, "^": 72, "~": 72, "h": 74},
}
OPERAND = re.compile(
    r"(?P<name>\w+)=(?P<kind>[A-Z]+)(?P<lsb>\d*)(?:\+(?P<width>\d+))?(?P<unsigned>u?)(?:,(?P<more>\d+)(?:\+(?P<more_width>\d+))?)?"
    r"(?::(?P<imm>\w+?))?(?P<mods>(?:[-%^~hm!]\d*)*)(?:\?(?P<shown>.*))?$"
)


def _modifiers(spec: str, place: str) -> Modifiers:
    names = {"-": "neg", "%": "abs", "^": "x", "~": "inv", "h": "half", "m": "high"}
    found = {
        names[sign]: int(bit) if bit else PLACES[place][sign]
        for sign, bit in re.findall(r"([-%^~hm])(\d*)", spec)
    }  # fmt: skip
    return Modifiers(**found)


@dataclass(frozen=True)
class Shape:
    """What the opcode column and the family decide about the operands of one row."""

    family: Family
    form: int = 0
    bindless: bool = False
    uniform: bool = False
    second_is_c: bool = False  # an instruction of two sources whose second one has the role of C

    def flexible(self, name: str, shown: str | None, spec: str, imm: str) -> Slot:
        """The operand in bits 63:32, whose kind the form names."""
        place = _modifiers(re.sub(r"(?<=[-%^~h])\d+", "", spec), "slot")
        if self.form == 1:
            if self.uniform:
                return self.uniform_register(name, shown, 32, place)
            return RegSlot(name, shown, 32, place, REUSE_C if self.second_is_c else REUSE_B)
        if self.form in (2, 4):
            return ImmSlot(name, shown, imm or "int")
        if self.form in (3, 5):
            if not self.bindless:
                return ConstSlot(name, shown, place)
            return BindlessSlot(name, shown, place, handle_width=self.family.ureg_bits)
        return self.uniform_register(name, shown, 32, place)

    def high(self, name: str, shown: str | None, spec: str, reuse: int) -> Slot:
        place = _modifiers(spec, "high")
        if self.uniform:
            return self.uniform_register(name, shown, 64, place)
        return RegSlot(name, shown, 64, place, reuse)

    def uniform_register(self, name: str, shown: str | None, lsb: int, modifiers: Modifiers) -> URegSlot:
        return URegSlot(name, shown, lsb, modifiers, self.family.ureg_bits)


MEMORY_KINDS = {
    "M": MemSlot(""),
    "ML": MemSlot("", offset_lsb=32, offset_width=32),
    "MU": MemSlot("", wide_bit=90, descriptor_bit=76),
    "MV": MemSlot("", wide_bit=90),
    "MA": MemSlot("", ureg_lsb=64, wide_bit=70, descriptor_bit=71),
    "MR": MemSlot("", ureg_lsb=64, wide_bit=90, descriptor_bit=71),
    "MB": MemSlot("", ureg_lsb=64, wide_bit=63, descriptor_bit=76, offset_width=23),
    "MC": MemSlot("", ureg_lsb=64, wide_bit=90, descriptor_bit=81),
    "MD": MemSlot("", ureg_lsb=64, wide_bit=63, descriptor_bit=90, offset_width=23),
    "MX": MemSlot("", scale_lsb=78),
    "MY": MemSlot("", scale_lsb=78),
    "MS": MemSlot("", select=UNIFORM_BIT),
    "MG": MemSlot("", base_lsb=16, offset_lsb=44, offset_width=20),
    "MI": MemSlot("", ureg_lsb=64, wide_bit=83, descriptor_bit=76, offset_lsb=32, offset_width=12),
    "MH": MemSlot("", ureg_lsb=64, wide_bit=70, descriptor_bit=76, offset_lsb=32, offset_width=12),
}
# Rows whose address always has a uniform register: bit 91 is fixed to 1.
ALWAYS_UNIFORM = ("MU", "MV", "MA", "MB", "MC", "MD", "MR", "MY", "MH", "MI")


def _memory(kind: str, lsb: int, name: str, shown: str | None, family: Family) -> MemSlot:
    slot = replace(MEMORY_KINDS[kind], ureg_width=family.ureg_bits)
    if lsb != UNSET:
        slot = replace(slot, ureg_lsb=lsb)
    if kind == "MX" and lsb != UNSET:
        slot = replace(slot, select=UNIFORM_BIT)
    return replace(slot, name=name, shown=shown)


def _operand(spec: str, shape: Shape) -> Slot:
    match = OPERAND.match(spec)
    if match is None:
        raise AssertionError(f"table line: operand {spec!r}")
    name, kind, shown, signs = match["name"], match["kind"], match["shown"], match["mods"] or ""
    lsb = int(match["lsb"]) if match["lsb"] else UNSET
    negation = re.search(r"!(\d+)", signs)
    neg_bit = int(negation[1]) if negation else UNSET
    if kind == "S" or (kind == "B" and shape.form in (1, 4, 5, 6)) or (kind == "C" and shape.form in (2, 3, 7)):
        return shape.flexible(name, shown, signs, match["imm"] or "")
    if kind in ("B", "C") and lsb == UNSET:
        return shape.high(name, shown, signs, REUSE_B if kind == "B" else REUSE_C)
    if kind in ("R", "A", "U"):
        at = 24 if kind == "A" else lsb
        modifiers = _modifiers(signs, "a")
        if shape.uniform or kind == "U":
            return shape.uniform_register(name, shown, at, modifiers)
        return RegSlot(name, shown, at, modifiers, REUSE_PLACES.get(at, 0))
    if kind in ("P", "UP"):
        return PredSlot(name, shown, lsb, neg_bit, shape.uniform or kind == "UP")
    if kind == "EP":
        return EitherPredSlot(name, shown, lsb, neg_bit)
    return (
        _memory(kind, lsb, name, shown, shape.family) if kind in MEMORY_KINDS else _numbered(match, lsb, shape.family)
    )


def _numbered(match: re.Match[str], lsb: int, family: Family) -> Slot:
    """Operands given by a place and a width: numbers, constants by byte, targets, indices."""
    name, kind, shown = match["name"], match["kind"], match["shown"]
    width, more = int(match["width"] or 0), int(match["more"] or UNSET)
    if kind == "I":
        return ImmSlot(name, shown, "uint" if match["unsigned"] else "int", lsb, width)
    if kind == "N":
        return NumSlot(name, shown, lsb, width, more, int(match["more_width"] or 0))
    if kind == "LX":
        return BindlessSlot(
            name, shown, lsb=lsb, width=width, step=1, index_lsb=more, handle_lsb=24, handle_width=family.ureg_bits
        )
    if kind == "L":
        return ConstSlot(name, shown, PLAIN_SOURCE, lsb, width, 1, more)
    if kind in ("LU", "LI"):
        default = family.urz if kind == "LU" else UNSET
        return ConstSlot(name, shown, PLAIN_SOURCE, lsb, width, 1, more, True, family.ureg_bits, default)
    if kind in ("T", "D", "J"):
        return TargetSlot(name, shown, lsb, width, kind, 16 if family.far_targets and width == FAR_WIDTH else UNSET)
    if kind == "SR":
        return IndexSlot(name, shown, SpecialReg, 72, 8)
    return IndexSlot(name, shown, Barrier, lsb, 4) if kind == "B" else IndexSlot(name, shown, Scoreboard, lsb, 3, 6)


PLAIN_SOURCE = Modifiers()
CONSTANT_FORMS = (3, 5)
FAR_WIDTH = 48  # branch distances of this width may have eight more bits


def _suffix(spec: str, family: Family) -> tuple[list[ModField | str], int, int]:
    """Suffix column -> (printed items, mask and value of the fixed bits)."""
    items: list[ModField | str] = []
    mask = value = 0
    for token in spec.split():
        if token.startswith("="):
            lsb, width, number = map(int, re.split(r"[+:]", token[1:]))
            mask |= ones(lsb, width)
            value |= number << lsb
        elif token.endswith('"'):
            items.append(token[:-1])
        elif ":" in token:
            name, rest = token.split(":")
            enum, where = rest.split("@")
            pieces = tuple((int(p.split("+")[0]), int(p.split("+")[1])) for p in where.split(","))
            enum = family.enums.get(enum, enum)
            codes = {text: code for code, text in ENUMS[enum].items()}
            if enum in WHEN_NOT_NAMED:
                codes[""] = WHEN_NOT_NAMED[enum]
            items.append(ModField(name, pieces, ENUMS[enum], codes))
        else:
            name, bit = token.split("@")
            name, _, only = name.partition("=")
            items.append(ModField(name, ((int(bit), 1),), only=int(only) if only else None))
    return items, mask, value


def _shapes(column: str, family: Family) -> Iterator[tuple[int, Shape, int]]:
    """Opcode column -> (12-bit opcode, shape, fixed bits)."""
    if "/" not in column:
        yield int(column, 16), Shape(family), 0
        return
    base, forms = column.split("/")
    uniform = forms.startswith("u")
    for form in map(int, forms.lstrip("u")):
        if form in CONSTANT_FORMS and not family.constant_operands:
            continue
        opcode = int(base, 16) | form << 9
        if uniform:
            yield opcode, Shape(family, form, uniform=True), ones(UNIFORM_BIT)
            continue
        shape = Shape(family, form, second_is_c=forms == "1237")
        yield opcode, shape, ones(UNIFORM_BIT) if form in (6, 7) else 0
        if form in CONSTANT_FORMS:
            yield opcode, replace(shape, bindless=True), ones(UNIFORM_BIT)


@dataclass(frozen=True)
class Line:
    mnemonic: str
    opcode: str
    suffix: str
    operands: str
    chips: str


def _lines() -> Iterator[Line]:
    for text in table.TABLES:
        for line in text.strip().splitlines():
            columns = [column.strip() for column in line.split("|")]
            yield Line(*columns, *[""] * (5 - len(columns)))


def _row(line: Line, opcode: int, shape: Shape, fixed: int, uniform_guard: bool) -> Row:
    items, mask, value = _suffix(line.suffix, shape.family)
    slots = tuple(_operand(spec, shape) for spec in line.operands.split())
    chips = chips_of(line.chips)
    if any(re.search(rf"=({'|'.join(ALWAYS_UNIFORM)})\d*(\?|$)", spec) for spec in line.operands.split()):
        fixed |= ones(UNIFORM_BIT)
    row = Row(line.mnemonic, opcode, tuple(items), slots, opcode | value | fixed, uniform_guard, chips)
    taken = mask | OPCODE_MASK | GUARD_MASK | SCHED_MASK
    for item in row.fields:
        if taken & item.mask:
            raise AssertionError(f"table line {line.mnemonic} {opcode:#x}: {item.name} overlaps another field")
        taken |= item.mask
    return row


def _uniform(lines: list[Line], family: Family) -> Iterator[Row]:
    for name, (vector, base, forms) in table.UNIFORM.items():
        for line in lines:
            if line.mnemonic == vector:
                for form in map(int, forms):
                    own = replace(line, mnemonic=name)
                    yield _row(own, base | form << 9, Shape(family, form, uniform=True), ones(UNIFORM_BIT), True)


UNIFORM_GUARDS = ("ULDC", "LDCU", "UMOV", "UPLOP3", "S2UR")


@cache
def rows(family: Family) -> tuple[Row, ...]:
    """The rows of a family, in the order in which a decoder tries them."""
    found: list[Row] = []
    lines = [line for line in _lines() if not chips_of(line.chips).isdisjoint(family.chips)]
    for line in lines:
        for opcode, shape, fixed in _shapes(line.opcode, family):
            guard = shape.uniform or line.mnemonic in UNIFORM_GUARDS
            found.append(_row(line, opcode, shape, fixed, guard))
    found.extend(_uniform(lines, family))
    return tuple(found)
