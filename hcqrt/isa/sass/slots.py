"""Where one operand lives in the 128-bit word: each slot reads it from the word and puts it back, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .model import (
    Bindless,
    Const,
    Imm,
    Num,
    Operand,
    Pred,
    Reg,
    SassError,
    UPred,
    UReg,
    Value,
)

HALVES = ("", "F32", "H0_H0", "H1_H1")
HIGH_HALF = "H1"
CONST_OFFSET_BITS = 16
UNSET = -1  # "this slot has no such bit"


def bits(word: int, lsb: int, width: int) -> int:
    return word >> lsb & ((1 << width) - 1)


def ones(lsb: int, width: int = 1) -> int:
    return 0 if lsb == UNSET else ((1 << width) - 1) << lsb


def put(what: str, value: int, lsb: int, width: int) -> int:
    if not 0 <= value < 1 << width:
        raise SassError(f"{what} = {value:#x} does not fit bits {lsb + width - 1}:{lsb}")
    return value << lsb


def sign_extend(value: int, width: int) -> int:
    return value - (value >> (width - 1) << width)


def unsign(what: str, value: int, width: int) -> int:
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise SassError(f"{what} = {value:#x} does not fit {width} signed bits")
    return value & ((1 << width) - 1)


@dataclass(frozen=True)
class Slot:
    """Base: `name` in Instruction.args; `shown` says when the text prints it (see rows.py, `Shown`)."""

    name: str
    shown: str | None = None

    @property
    def mask(self) -> int:
        raise NotImplementedError

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        raise NotImplementedError

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        raise NotImplementedError

    def wrong(self, operand: object) -> SassError:
        return SassError(f"operand {self.name}: {operand!r} does not fit this form")


@dataclass(frozen=True)
class Modifiers:
    """Bits that modify a source: each is a bit number or UNSET. `x_bit`: `-`, or `~` when the X flag is set."""

    neg: int = UNSET
    abs: int = UNSET
    inv: int = UNSET
    x: int = UNSET
    half: int = UNSET
    high: int = UNSET  # one bit: the upper half is read

    @property
    def mask(self) -> int:
        return ones(self.high) | ones(self.neg) | ones(self.abs) | ones(self.inv) | ones(self.x) | ones(self.half, 2)

    def decode(self, word: int, mods: Mapping[str, Value]) -> tuple[bool, bool, bool, str]:
        neg = self.neg != UNSET and bool(word >> self.neg & 1)
        inv = self.inv != UNSET and bool(word >> self.inv & 1)
        if self.x != UNSET and word >> self.x & 1:
            neg, inv = (False, True) if mods["X"] else (True, False)
        absolute = self.abs != UNSET and bool(word >> self.abs & 1)
        half = HALVES[bits(word, self.half, 2)] if self.half != UNSET else ""
        if self.high != UNSET and word >> self.high & 1:
            half = HIGH_HALF
        return neg, absolute, inv, half

    def encode(self, what: str, operand: Reg | UReg | Const | Bindless, mods: Mapping[str, Value]) -> int:
        neg_bit, inv_bit = self.neg, self.inv
        if self.x != UNSET:
            neg_bit, inv_bit = (UNSET, self.x) if mods["X"] else (self.x, UNSET)
        word = 0
        for name, is_set, bit in (
            ("-", operand.neg, neg_bit),
            ("| |", operand.abs, self.abs),
            ("~", operand.inv, inv_bit),
        ):
            if is_set and bit == UNSET:
                raise SassError(f"operand {what}: `{name}` is not possible here")
            word |= ones(bit) if is_set else 0
        if operand.half == HIGH_HALF and self.high != UNSET:
            return word | ones(self.high)
        if operand.half and (self.half == UNSET or operand.half not in HALVES):
            raise SassError(f"operand {what}: half select {operand.half!r} is not possible here")
        return word | (HALVES.index(operand.half) << self.half if operand.half else 0)


PLAIN = Modifiers()


@dataclass(frozen=True)
class RegSlot(Slot):
    lsb: int = 16
    modifiers: Modifiers = PLAIN
    reuse: int = 0  # bit in Sched.reuse that keeps this operand's register: 1 A, 2 B, 4 C

    @property
    def mask(self) -> int:
        return ones(self.lsb, 8) | self.modifiers.mask

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        return Reg(word >> self.lsb & 0xFF, *self.modifiers.decode(word, mods))

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Reg):
            raise self.wrong(operand)
        return put(self.name, operand.index, self.lsb, 8) | self.modifiers.encode(self.name, operand, mods)


@dataclass(frozen=True)
class URegSlot(Slot):
    lsb: int = 16
    modifiers: Modifiers = PLAIN
    width: int = 6

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width) | self.modifiers.mask

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        return UReg(bits(word, self.lsb, self.width), *self.modifiers.decode(word, mods))

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, UReg):
            raise self.wrong(operand)
        return put(self.name, operand.index, self.lsb, self.width) | self.modifiers.encode(self.name, operand, mods)


@dataclass(frozen=True)
class PredSlot(Slot):
    lsb: int = 81
    neg_bit: int = UNSET
    uniform: bool = False

    @property
    def mask(self) -> int:
        return ones(self.lsb, 3) | ones(self.neg_bit)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        neg = self.neg_bit != UNSET and bool(word >> self.neg_bit & 1)
        return (UPred if self.uniform else Pred)(word >> self.lsb & 7, neg)

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, UPred if self.uniform else Pred) or (operand.neg and self.neg_bit == UNSET):
            raise self.wrong(operand)
        return put(self.name, operand.index, self.lsb, 3) | (ones(self.neg_bit) if operand.neg else 0)


@dataclass(frozen=True)
class EitherPredSlot(Slot):
    """A predicate source that bit `select` moves to the uniform file."""

    lsb: int = 68
    neg_bit: int = 71
    select: int = 67

    @property
    def mask(self) -> int:
        return ones(self.lsb, 3) | ones(self.neg_bit) | ones(self.select)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        kind = UPred if word >> self.select & 1 else Pred
        return kind(word >> self.lsb & 7, bool(word >> self.neg_bit & 1))

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, (Pred, UPred)):
            raise self.wrong(operand)
        word = put(self.name, operand.index, self.lsb, 3) | (ones(self.neg_bit) if operand.neg else 0)
        return word | (ones(self.select) if isinstance(operand, UPred) else 0)


@dataclass(frozen=True)
class ImmSlot(Slot):
    kind: str = "int"
    lsb: int = 32
    width: int = 32

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        value, kind = bits(word, self.lsb, self.width), self.kind_for(mods)
        if kind == "f16s" and value >> 16:
            raise SassError("bits 63:48 are set beside a half-precision immediate")
        return Imm(value, kind)

    def kind_for(self, mods: Mapping[str, Value]) -> str:
        """The number format, where a suffix decides it."""
        if self.kind == "f16" and mods.get("BF16_V2"):
            return "bf16"
        if self.kind == "fsrc":
            source = str(mods.get("src", mods.get("format", ""))).rpartition(".")[2]
            return {"F16": "f16s", "F64": "f64"}.get(source, "f32")
        if self.kind == "fint":
            return "uint" if str(mods.get("src", mods.get("sign"))).startswith("U") else "int"
        if self.kind == "fmufu":
            return "f64" if str(mods["op"]).endswith("64H") else "f32"
        return self.kind

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Imm) or operand.kind != self.kind_for(mods):
            raise self.wrong(operand)
        if operand.kind == "f16s" and operand.value >> 16:
            raise self.wrong(operand)
        return put(self.name, operand.value, self.lsb, self.width)


@dataclass(frozen=True)
class NumSlot(Slot):
    """A number, possibly in two pieces: the low `width` bits at `lsb`, the rest (`high_width`) at `high_lsb`."""

    lsb: int = 0
    width: int = 8
    high_lsb: int = UNSET
    high_width: int = 0

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width) | ones(self.high_lsb, self.high_width)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        high = bits(word, self.high_lsb, self.high_width) if self.high_width else 0
        return Num(bits(word, self.lsb, self.width) | high << self.width)

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Num):
            raise self.wrong(operand)
        if not 0 <= operand.value < 1 << (self.width + self.high_width):
            raise SassError(f"{self.name} = {operand.value:#x} does not fit {self.width + self.high_width} bits")
        low = operand.value & ((1 << self.width) - 1)
        return low << self.lsb | ((operand.value >> self.width) << self.high_lsb if self.high_width else 0)
