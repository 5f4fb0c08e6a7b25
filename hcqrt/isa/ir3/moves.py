"""Operands that only moves have: typed 32-bit immediates, and destinations relative to a0.x."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

from .fields import bits, ones, parse_integer, put, sign_extend, unsign
from .model import A0_X, A1_X, Const, Imm, Ir3Error, Operand, Reg, Relative
from .slots import Context, Slot
from .sources import OFFSET_BITS, Core, SourceSlot, core_text, parse_core

RAW_LIMIT = 0x1000  # u32 immediates above print in hexadecimal


def float_text(value: int, half: bool, exact: bool) -> str:
    """Raw bits as C prints them with six decimals; `exact`: as hexadecimal bits where that loses something."""
    format_, width = ("<e", 2) if half else ("<f", 4)
    (number,) = struct.unpack(format_, value.to_bytes(width, "little"))
    text = f"{number:f}"
    if math.isnan(number):
        text = "-nan" if value >> (8 * width - 1) else "nan"
    if exact and (math.isnan(number) or struct.pack(format_, float(text)) != value.to_bytes(width, "little")):
        text = f"{value:#x}"
    return f"h({text})" if half else f"({text})"


def parse_float(text: str, half: bool) -> int:
    inner = text.removeprefix("h").removeprefix("(").removesuffix(")")
    if inner.startswith("0x"):
        return parse_integer(inner)
    try:
        return int.from_bytes(struct.pack("<e" if half else "<f", float(inner)), "little")
    except (ValueError, OverflowError) as bad:
        raise Ir3Error(f"{text!r} is no float of this width") from bad


@dataclass(frozen=True)
class MoveSource(SourceSlot):
    """The source of a move, whose kind is in bits 54:53. `r_kinds`: where (r) is legal: regs or imm."""

    r_kinds: str = "regs"
    type_field: str = "src_type"

    KIND_LSB = 53

    @property
    def mask(self) -> int:
        return ones(0, 32) | ones(self.KIND_LSB, 2) | ones(self.r_bit)

    def _r_allowed(self, core: Core) -> bool:
        return isinstance(core, Imm) == (self.r_kinds == "imm")

    def decode(self, word: int, context: Context) -> Operand:
        half, kind, field = context.is_half(self.half), bits(word, self.KIND_LSB, 2), bits(word, 0, 32)
        core: Core
        if kind == 0 and field >> 11 == 0 and not field & 0x300:
            core = Reg(field & 0xFF, half, last=bool(field >> 10))
        elif kind == 0 and field >> 11 == 1:
            core = Relative(sign_extend(field & 0x3FF, OFFSET_BITS), bool(field >> 10 & 1), half)
        elif kind == 1 and field >> 11 == 0:
            core = Const(field, half)
        elif kind == 2 and not (half and field >> 16):
            type_ = str(context.mods[self.type_field])
            core = Imm(field, type_ if type_ in ("f16", "f32") else "int", half)
        else:
            raise Ir3Error(f"operand {self.name} of kind {kind} (bits 54:53) = {field:#010x} has no meaning")
        core = self.modify(core, word)
        if core.r and not self._r_allowed(core):
            raise Ir3Error(f"operand {self.name}: (r) at bit {self.r_bit} has no meaning here")
        return core

    def encode(self, operand: Operand, context: Context) -> int:
        core = self.checked(operand, context)
        if core.r and not self._r_allowed(core):
            raise self.wrong(operand)
        kind = 0
        if isinstance(core, Reg):
            field = put(self.name, core.number, 0, 8) | int(core.last) << 10
        elif isinstance(core, Relative):
            field = 1 << 11 | unsign(self.name, core.offset, OFFSET_BITS) | int(core.const) << 10
        elif isinstance(core, Const):
            kind, field = 1, put(self.name, core.number, 0, 11)
        elif isinstance(core, Imm):
            type_ = str(context.mods[self.type_field])
            if core.kind != (type_ if type_ in ("f16", "f32") else "int"):
                raise self.wrong(operand)
            kind, field = 2, put(self.name, core.value, 0, 16 if core.half else 32)
        else:
            raise self.wrong(operand)
        return field | kind << self.KIND_LSB | self.put_modifiers(core)

    def core_text(self, core: Core, context: Context) -> str:
        if not isinstance(core, Imm):
            return core_text(core)
        type_ = str(context.mods[self.type_field])
        if type_ in ("f16", "f32"):
            return float_text(core.value, type_ == "f16", context.exact)
        if type_ in ("s16", "s32"):
            return str(sign_extend(core.value, int(type_[1:])))
        return f"{core.value:#x}" if type_ == "u32" and core.value > RAW_LIMIT else str(core.value)

    def parse_core(self, text: str, context: Context) -> Core:
        type_ = str(context.mods[self.type_field])
        half = context.is_half(self.half)
        if type_ in ("f16", "f32") and text.startswith(("(", "h(")):
            return Imm(parse_float(text, half), type_, half)
        if re.match(r"-?\d", text):
            return Imm(parse_integer(text) & (0xFFFF if half else 0xFFFF_FFFF), half=half)
        return parse_core(text)


@dataclass(frozen=True)
class MoveDst(Slot):
    """The destination of a move: a register, or with bit 49 one at a0.x + 0..255."""

    RELATIVE_BIT = 49
    ADDRESS_MOVES = ((A0_X, "s16"), (A1_X, "u16"))  # these are spelt mova and mova1

    @property
    def mask(self) -> int:
        return ones(self.lsb, 8) | ones(self.RELATIVE_BIT)

    def _check(self, number: int, context: Context) -> None:
        for address, type_ in self.ADDRESS_MOVES:
            if number == address and context.mods["src_type"] == context.mods["dst_type"] == type_:
                raise Ir3Error(f"destination {number:#x} of type {type_} belongs to mova")

    def decode(self, word: int, context: Context) -> Reg | Relative:
        number, half = bits(word, self.lsb, 8), context.is_half(self.half)
        self._check(number, context)
        if bits(word, self.RELATIVE_BIT, 1):
            return Relative(number, half=half)
        return Reg(number, half)

    def encode(self, operand: Operand, context: Context) -> int:
        half = context.is_half(self.half)
        if isinstance(operand, Relative) and operand == Relative(operand.offset, half=half):
            self._check(operand.offset, context)
            return put(self.name, operand.offset, self.lsb, 8) | ones(self.RELATIVE_BIT)
        if not isinstance(operand, Reg) or operand != Reg(operand.number, half):
            raise self.wrong(operand)
        self._check(operand.number, context)
        return put(self.name, operand.number, self.lsb, 8)

    def text(self, operand: Operand, context: Context) -> str:
        assert isinstance(operand, (Reg, Relative))
        return core_text(operand)

    @property
    def pattern(self) -> str:
        return r"[^,<]+?(?:<[^>]*>)?"

    def parse(self, text: str, context: Context) -> Operand:
        return parse_core(text)
