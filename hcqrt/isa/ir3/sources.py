"""ALU source operands: register, constant, relative or immediate in one slot, in the three encodings ir3 has."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .fields import UNSET, bits, ones, parse_integer, put, sign_extend, unsign
from .model import COMPONENTS, Const, FloatImm, Imm, Ir3Error, Operand, Reg, Relative
from .model import Source as SOURCES
from .names import FLOAT_NAMES
from .slots import Context, Slot, parse_register, register_text

PREFIX = re.compile(r"\((neg|abs|absneg|r|last)\)")
RELATIVE = re.compile(r"(h?)([rc])<a0\.x(?:([+-])(-?\w+))?>$")
CONSTANT = re.compile(r"(h?)c(\d+)\.([xyzw])$")
INTEGER_BITS = 11
OFFSET_BITS = 10

Core = Reg | Const | Relative | Imm | FloatImm


def core_text(operand: Core, zero_offset: bool = False) -> str:
    """Without prefixes. `zero_offset`: cat3 prints `+ 0`."""
    h = "h" if operand.half else ""
    if isinstance(operand, Reg):
        return h + register_text(operand.number)
    if isinstance(operand, Const):
        return f"{h}c{operand.number >> 2}.{COMPONENTS[operand.number & 3]}"
    if isinstance(operand, Relative):
        offset = f" + {operand.offset}" if operand.offset or zero_offset else ""
        return f"{h}{'c' if operand.const else 'r'}<a0.x{offset}>"
    if isinstance(operand, FloatImm):
        return f"{h}({FLOAT_NAMES[operand.index]})"
    return f"h({operand.value})" if operand.half else str(operand.value)


def parse_core(text: str) -> Core:
    text = re.sub(r"\s", "", text)
    if relative := RELATIVE.match(text):
        offset = parse_integer(relative[4]) if relative[4] else 0
        return Relative(-offset if relative[3] == "-" else offset, relative[2] == "c", bool(relative[1]))
    if constant := CONSTANT.match(text):
        return Const(int(constant[2]) * 4 + COMPONENTS.index(constant[3]), bool(constant[1]))
    half, inner = text.startswith("h("), text.removeprefix("h")
    if inner.startswith("(") and inner.endswith(")"):
        if inner[1:-1] in FLOAT_NAMES:
            return FloatImm(FLOAT_NAMES.index(inner[1:-1]), half)
        return Imm(parse_integer(inner[1:-1]), half=half)
    if re.match(r"-?\d", text):
        return Imm(parse_integer(text))
    return Reg(*parse_register(text))


@dataclass(frozen=True)
class SourceSlot(Slot):
    """Base of the three: which modifier bits exist. `zero_offset`: the text shows an offset of 0 too."""

    r_bit: int = UNSET
    neg_bit: int = UNSET
    abs_bit: int = UNSET
    zero_offset: bool = False

    @property
    def pattern(self) -> str:
        return r"(?:\((?:neg|abs|absneg|r|last)\))*[^,<]+?(?:<[^>]*>)?"

    @property
    def modifier_mask(self) -> int:
        return ones(self.r_bit) | ones(self.neg_bit) | ones(self.abs_bit)

    def modify(self, core: Core, word: int) -> Core:
        r, neg, absolute = (
            bit != UNSET and bool(bits(word, bit, 1)) for bit in (self.r_bit, self.neg_bit, self.abs_bit)
        )
        return replace(core, r=r, neg=neg, abs=absolute)

    def put_modifiers(self, operand: Core) -> int:
        word = 0
        for what, is_set, bit in (
            ("(r)", operand.r, self.r_bit),
            ("(neg)", operand.neg, self.neg_bit),
            ("(abs)", operand.abs, self.abs_bit),
        ):
            if is_set and bit == UNSET:
                raise Ir3Error(f"operand {self.name}: {what} is not possible here")
            word |= ones(bit) if is_set else 0
        return word

    def checked(self, operand: Operand, context: Context) -> Core:
        if not isinstance(operand, SOURCES):
            raise self.wrong(operand)
        if operand.half != context.is_half(self.half):
            raise Ir3Error(f"operand {self.name}: {operand!r} has the wrong width")
        return operand

    def text(self, operand: Operand, context: Context) -> str:
        assert isinstance(operand, SOURCES)
        sign = {(1, 0): "(neg)", (0, 1): "(abs)", (1, 1): "(absneg)"}.get((int(operand.neg), int(operand.abs)), "")
        r = "(r)" if operand.r else ""
        last = "(last)" if isinstance(operand, Reg) and operand.last else ""
        prefix = sign + r + last if self.zero_offset else last + sign + r
        return prefix + self.core_text(operand, context)

    def core_text(self, core: Core, context: Context) -> str:
        return core_text(core, self.zero_offset)

    def parse(self, text: str, context: Context) -> Operand:
        found: set[str] = set()
        while match := PREFIX.match(text):
            found.update(("neg", "abs") if match[1] == "absneg" else (match[1],))
            text = text[match.end() :]
        core = self.parse_core(text, context)
        if "last" in found:
            if not isinstance(core, Reg):
                raise Ir3Error(f"(last)({text}): only a register has a last use")
            core = replace(core, last=True)
        return replace(core, r="r" in found, neg="neg" in found, abs="abs" in found)

    def parse_core(self, text: str, context: Context) -> Core:
        return parse_core(text)


@dataclass(frozen=True)
class WideSource(SourceSlot):
    """16 bits: cat2 and cat4."""

    @property
    def mask(self) -> int:
        return ones(self.lsb, 16) | ones(self.r_bit)

    def decode(self, word: int, context: Context) -> Operand:
        half, field = context.is_half(self.half), bits(word, self.lsb, 14)
        kind, low = field >> 11, field & 0x7FF
        core: Core
        if kind == 0:
            if low & 0x300:
                raise Ir3Error(f"operand {self.name}: bits 9:8 beside a register are {low >> 8 & 3}")
            core = Reg(low & 0xFF, half, last=bool(low >> 10))
        elif kind == 1:
            core = Relative(sign_extend(low & 0x3FF, OFFSET_BITS), bool(low >> 10), half)
        elif kind == 2:
            core = Const(low, half)
        elif kind == 4:
            core = Imm(sign_extend(low, INTEGER_BITS), half=half)
        elif kind == 5 and low & 0x3FF < len(FLOAT_NAMES) and bool(low >> 10) == half:
            core = FloatImm(low & 0x3FF, half)
        else:
            raise Ir3Error(f"operand {self.name} = {field:#06x} has no meaning")
        return self.modify(core, word)

    def encode(self, operand: Operand, context: Context) -> int:
        core = self.checked(operand, context)
        if isinstance(core, Reg):
            field = put(self.name, core.number, 0, 8) | int(core.last) << 10
        elif isinstance(core, Relative):
            field = 1 << 11 | unsign(self.name, core.offset, OFFSET_BITS) | int(core.const) << 10
        elif isinstance(core, Const):
            field = 2 << 11 | put(self.name, core.number, 0, 11)
        elif isinstance(core, Imm):
            if core.kind != "int":
                raise self.wrong(core)
            field = 4 << 11 | unsign(self.name, core.value, INTEGER_BITS)
        else:
            if not 0 <= core.index < len(FLOAT_NAMES):
                raise self.wrong(core)
            field = 5 << 11 | core.index | int(core.half) << 10
        return field << self.lsb | self.put_modifiers(core)


@dataclass(frozen=True)
class NarrowSource(SourceSlot):
    """13 bits: cat3. `wide_kind`: what bit 12 makes of the rest: const, imm or nothing."""

    wide_kind: str = "const"

    @property
    def mask(self) -> int:
        return ones(self.lsb, 13) | self.modifier_mask

    def decode(self, word: int, context: Context) -> Operand:
        half, field = context.is_half(self.half), bits(word, self.lsb, 13)
        kind, low = field >> 11, field & 0x7FF
        core: Core
        if kind == 0 and not low & 0x300:
            core = Reg(low & 0xFF, half, last=bool(low >> 10))
        elif kind == 1:
            core = Relative(sign_extend(low & 0x3FF, OFFSET_BITS), bool(low >> 10), half)
        elif kind == 2 and self.wide_kind == "const":
            core = Const(low, half)
        elif kind in (2, 3) and self.wide_kind == "imm":
            core = Imm(field & 0xFFF, half=half)
        else:
            raise Ir3Error(f"operand {self.name} = {field:#06x} has no meaning")
        return self.modify(core, word)

    def encode(self, operand: Operand, context: Context) -> int:
        core = self.checked(operand, context)
        if isinstance(core, Reg):
            field = put(self.name, core.number, 0, 8) | int(core.last) << 10
        elif isinstance(core, Relative):
            field = 1 << 11 | unsign(self.name, core.offset, OFFSET_BITS) | int(core.const) << 10
        elif isinstance(core, Const) and self.wide_kind == "const":
            field = 2 << 11 | put(self.name, core.number, 0, 11)
        elif isinstance(core, Imm) and self.wide_kind == "imm" and core.kind == "int":
            field = 2 << 11 | put(self.name, core.value, 0, 12)
        else:
            raise self.wrong(operand)
        return field << self.lsb | self.put_modifiers(core)

    def core_text(self, core: Core, context: Context) -> str:
        return str(core.value) if isinstance(core, Imm) else core_text(core, True)


@dataclass(frozen=True)
class PlainSource(SourceSlot):
    """8 bits: the middle source of cat3, always a register."""

    @property
    def mask(self) -> int:
        return ones(self.lsb, 8) | self.modifier_mask

    def decode(self, word: int, context: Context) -> Operand:
        return self.modify(Reg(bits(word, self.lsb, 8), context.is_half(self.half)), word)

    def encode(self, operand: Operand, context: Context) -> int:
        core = self.checked(operand, context)
        if not isinstance(core, Reg) or core.last:
            raise self.wrong(operand)
        return put(self.name, core.number, self.lsb, 8) | self.put_modifiers(core)
