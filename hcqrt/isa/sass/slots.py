"""Where one operand lives in the 128-bit word: each slot reads it from the word and puts it back, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .model import (
    Barrier,
    Bindless,
    Const,
    Imm,
    Mem,
    Num,
    Operand,
    Pred,
    Reg,
    SassError,
    Scoreboard,
    SpecialReg,
    Target,
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
        for name, is_set, bit in (("-", operand.neg, neg_bit), ("| |", operand.abs, self.abs), ("~", operand.inv, inv_bit)):
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


@dataclass(frozen=True)
class ConstSlot(Slot):
    """c[bank][offset]: `step` is the unit of the stored offset in bytes."""

    modifiers: Modifiers = PLAIN
    lsb: int = 40
    width: int = 14
    step: int = 4
    index_lsb: int = UNSET  # a register added to the offset
    index_width: int = 8
    default_index: int = 255  # number that means "no register"; UNSET: there is always one

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width) | ones(54, 5) | self.modifiers.mask | ones(self.index_lsb, self.index_width)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        index: Reg | UReg | None = None
        if self.index_lsb != UNSET:
            number = bits(word, self.index_lsb, self.index_width)
            if number != self.default_index:
                index = (Reg if self.index_width == 8 else UReg)(number)
        offset = bits(word, self.lsb, self.width) * self.step
        if self.index_lsb != UNSET:
            offset = sign_extend(offset, CONST_OFFSET_BITS)
        return Const(bits(word, 54, 5), offset, *self.modifiers.decode(word, mods), index=index)

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Const) or operand.offset % self.step:
            raise self.wrong(operand)
        word = put("bank", operand.bank, 54, 5) | self.modifiers.encode(self.name, operand, mods)
        offset = operand.offset
        if self.index_lsb != UNSET:
            offset = unsign("constant offset", offset, CONST_OFFSET_BITS)
        word |= put("constant offset", offset // self.step, self.lsb, self.width)
        if self.index_lsb == UNSET:
            if operand.index is not None:
                raise self.wrong(operand)
            return word
        if not isinstance(operand.index, Reg if self.index_width == 8 else UReg) and operand.index is not None:
            raise self.wrong(operand)
        number = operand.index.index if operand.index is not None else self.default_index
        return word | put("index register", number, self.index_lsb, self.index_width)


@dataclass(frozen=True)
class BindlessSlot(Slot):
    modifiers: Modifiers = PLAIN
    lsb: int = 40
    width: int = 14
    step: int = 4
    index_lsb: int = UNSET
    handle_lsb: int = 32

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width) | ones(self.handle_lsb, 6) | self.modifiers.mask | ones(self.index_lsb, 8)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        number = bits(word, self.index_lsb, 8) if self.index_lsb != UNSET else 255
        offset = bits(word, self.lsb, self.width) * self.step
        index = Reg(number) if number != 255 else None
        return Bindless(UReg(bits(word, self.handle_lsb, 6)), offset, *self.modifiers.decode(word, mods), index=index)

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Bindless) or operand.offset % self.step:
            raise self.wrong(operand)
        word = put("handle", operand.handle.index, self.handle_lsb, 6) | self.modifiers.encode(self.name, operand, mods)
        word |= put("constant offset", operand.offset // self.step, self.lsb, self.width)
        if self.index_lsb == UNSET:
            if operand.index is not None:
                raise self.wrong(operand)
            return word
        return word | put("index register", operand.index.index if operand.index else 255, self.index_lsb, 8)


SCALES = (1, 4, 8, 16)


@dataclass(frozen=True)
class MemSlot(Slot):
    """A memory address. The row's fixed bits say whether bit 91 must be set; here only the pieces are read."""

    ureg_lsb: int = UNSET
    wide_bit: int = UNSET
    descriptor_bit: int = UNSET
    scale_lsb: int = UNSET
    select: int = UNSET  # bit that says whether there is a uniform register at all
    base_lsb: int = 24
    offset_lsb: int = 40
    offset_width: int = 24

    @property
    def mask(self) -> int:
        word = ones(self.base_lsb, 8) | ones(self.offset_lsb, self.offset_width) | ones(self.select)
        word |= ones(self.ureg_lsb, 6) | ones(self.scale_lsb, 2)
        return word | ones(self.wide_bit) | ones(self.descriptor_bit)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        ureg = None
        if self.ureg_lsb != UNSET:
            number = bits(word, self.ureg_lsb, 6)
            if self.select == UNSET or word >> self.select & 1:
                ureg = UReg(number)
            elif number:
                raise SassError(f"bits {self.ureg_lsb + 5}:{self.ureg_lsb} are set without bit {self.select}")
        return Mem(
            Reg(bits(word, self.base_lsb, 8)),
            sign_extend(bits(word, self.offset_lsb, self.offset_width), self.offset_width) if self.offset_width else 0,
            ureg,
            self.wide_bit != UNSET and bool(word >> self.wide_bit & 1),
            self.descriptor_bit != UNSET and bool(word >> self.descriptor_bit & 1),
            SCALES[bits(word, self.scale_lsb, 2)] if self.scale_lsb != UNSET else 1,
        )

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Mem) or operand.scale not in SCALES:
            raise self.wrong(operand)
        if (operand.ureg is not None and self.ureg_lsb == UNSET) or (
            operand.ureg is None and self.ureg_lsb != UNSET and self.select == UNSET
        ):
            raise self.wrong(operand)
        word = put("base", operand.base.index, self.base_lsb, 8)
        if self.offset_width:
            word |= unsign("offset", operand.offset, self.offset_width) << self.offset_lsb
        elif operand.offset:
            raise self.wrong(operand)
        if operand.ureg is not None:
            word |= put("uniform register", operand.ureg.index, self.ureg_lsb, 6) | ones(self.select)
        for is_set, bit in ((operand.wide, self.wide_bit), (operand.descriptor, self.descriptor_bit)):
            if is_set and bit == UNSET:
                raise self.wrong(operand)
            word |= ones(bit) if is_set else 0
        if operand.scale != 1 and self.scale_lsb == UNSET:
            raise self.wrong(operand)
        return word | (SCALES.index(operand.scale) << self.scale_lsb if self.scale_lsb != UNSET else 0)


@dataclass(frozen=True)
class TargetSlot(Slot):
    """Signed distance in units of 4 bytes. `style`: T printed as an address, J as one after a register, D as it is."""

    lsb: int = 34
    width: int = 48
    style: str = "T"

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        return Target(4 * sign_extend(bits(word, self.lsb, self.width), self.width))

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Target) or operand.relative % 4:
            raise self.wrong(operand)
        return unsign("branch distance", operand.relative // 4, self.width) << self.lsb


@dataclass(frozen=True)
class IndexSlot(Slot):
    """A numbered thing that is no register: special register, convergence barrier, scoreboard."""

    kind: type[SpecialReg] | type[Barrier] | type[Scoreboard] = field(default=SpecialReg)
    lsb: int = 72
    width: int = 8

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        return self.kind(bits(word, self.lsb, self.width))

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, self.kind):
            raise self.wrong(operand)
        return put(self.name, operand.index, self.lsb, self.width)
