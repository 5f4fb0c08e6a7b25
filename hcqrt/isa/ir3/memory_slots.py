"""Operands that only loads, stores and their like have: register or index, constant destination, scaled offset."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .fields import UNSET, bits, ones, parse_integer, put
from .model import COMPONENTS, ConstDst, Imm, Ir3Error, Operand, Reg, Scaled
from .names import ELEMENT_SHIFTS
from .slots import REGISTER_LIKE, Context, Slot, parse_register, register_text

SCALED = re.compile(r"\(*(\w+\.[xyzw])(?:<<(\w+))?\)?(?:\+(\w+))?\)?(?:<<(\w+))?\)*$")


@dataclass(frozen=True)
class IndexSlot(Slot):
    """A full register, or an 8-bit immediate where bit `imm_bit` or mode `imm` says so."""

    imm_bit: int = UNSET

    @property
    def mask(self) -> int:
        return ones(self.lsb, 8) | ones(self.imm_bit)

    def decode(self, word: int, context: Context) -> Reg | Imm:
        number = bits(word, self.lsb, 8)
        immediate = bool(bits(word, self.imm_bit, 1)) if self.imm_bit != UNSET else context.mods["mode"] == "imm"
        return Imm(number) if immediate else Reg(number)

    def encode(self, operand: Operand, context: Context) -> int:
        if isinstance(operand, Imm) and operand == Imm(operand.value):
            value, immediate = operand.value, True
        elif isinstance(operand, Reg) and operand == Reg(operand.number):
            value, immediate = operand.number, False
        else:
            raise self.wrong(operand)
        if self.imm_bit == UNSET and immediate != (context.mods["mode"] == "imm"):
            raise Ir3Error(f"operand {self.name}: {operand!r} does not go with mode {context.mods['mode']}")
        return put(self.name, value, self.lsb, 8) | (ones(self.imm_bit) if immediate else 0)

    def text(self, operand: Operand, context: Context) -> str:
        if isinstance(operand, Imm):
            return str(operand.value)
        assert isinstance(operand, Reg)
        return f"r{operand.number >> 2}.{COMPONENTS[operand.number & 3]}"

    @property
    def pattern(self) -> str:
        return rf"{REGISTER_LIKE}|\w+"

    def parse(self, text: str, context: Context) -> Reg | Imm:
        return Reg(parse_register(text)[0]) if text[:1].isalpha() else Imm(parse_integer(text))


@dataclass(frozen=True)
class ConstDstSlot(Slot):
    @property
    def mask(self) -> int:
        return ones(self.lsb, 9)

    def decode(self, word: int, context: Context) -> ConstDst:
        return ConstDst(bits(word, self.lsb, 8), bool(bits(word, self.lsb + 8, 1)))

    def encode(self, operand: Operand, context: Context) -> int:
        if not isinstance(operand, ConstDst):
            raise self.wrong(operand)
        return put(self.name, operand.offset, self.lsb, 8) | put(self.name, int(operand.a1), self.lsb + 8, 1)

    def text(self, operand: Operand, context: Context) -> str:
        assert isinstance(operand, ConstDst)
        if operand.a1:
            return "a1.x" + (f"+{operand.offset}" if operand.offset else "")
        return str(operand.offset)

    @property
    def pattern(self) -> str:
        return r"a1\.x(?:\s*\+\s*\w+)?|\w+"

    def parse(self, text: str, context: Context) -> ConstDst:
        if text.startswith("a1.x"):
            tail = re.sub(r"[\s+]", "", text[len("a1.x") :])
            return ConstDst(parse_integer(tail) if tail else 0, True)
        return ConstDst(parse_integer(text))


@dataclass(frozen=True)
class ScaledSlot(Slot):
    """Register at `lsb`, a small offset at 10:9, a shift at 13:12; elements as wide as the type says."""

    OFFSET = (9, 2)
    SHIFT = (12, 2)

    @property
    def mask(self) -> int:
        return ones(self.lsb, 8) | ones(*self.OFFSET) | ones(*self.SHIFT)

    def element_shift(self, context: Context) -> int:
        return ELEMENT_SHIFTS.get(str(context.mods["type"]), 2)

    def checked(self, operand: Scaled, context: Context) -> Scaled:
        if operand.shift and not self.element_shift(context):
            raise Ir3Error(f"operand {self.name}: a shift of {operand.shift} with elements of one byte")
        return operand

    def decode(self, word: int, context: Context) -> Scaled:
        found = Scaled(bits(word, self.lsb, 8), bits(word, *self.SHIFT), bits(word, *self.OFFSET))
        return self.checked(found, context)

    def encode(self, operand: Operand, context: Context) -> int:
        if not isinstance(operand, Scaled):
            raise self.wrong(operand)
        self.checked(operand, context)
        word = put("offset", operand.offset, *self.OFFSET) | put("shift", operand.shift, *self.SHIFT)
        return word | put(self.name, operand.number, self.lsb, 8)

    def text(self, operand: Operand, context: Context) -> str:
        assert isinstance(operand, Scaled)
        register, element = register_text(operand.number), self.element_shift(context)
        offset = f"+{operand.offset}" if operand.offset else ""
        if element == 0:
            return register + offset
        if not offset:
            return f"({register}<<{operand.shift + element})"
        inner = f"({register}<<{operand.shift})" if operand.shift else register
        return f"(({inner}{offset})<<{element})"

    @property
    def pattern(self) -> str:
        return r"\(*[rap]\d+\.[xyzw][\s\w()<+]*"

    def parse(self, text: str, context: Context) -> Scaled:
        match = SCALED.match(re.sub(r"\s", "", text))
        if match is None:
            raise Ir3Error(f"{text!r} is no register offset")
        element = self.element_shift(context)
        inner, outer = (parse_integer(match[group] or "0") for group in (2, 4))
        if not match[4]:
            inner, outer = max(0, inner - element), min(inner, element)
        if outer != element:
            raise Ir3Error(f"{text!r} does not scale by elements of {1 << element} bytes")
        number = parse_register(match[1])[0]
        return Scaled(number, inner, parse_integer(match[3] or "0"))
