"""The operand slots of memory, branches and numbered things; see slots.py for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .model import (
    Barrier,
    Bindless,
    Const,
    Mem,
    Operand,
    Reg,
    SassError,
    Scoreboard,
    SpecialReg,
    Target,
    UReg,
    Value,
)
from .slots import CONST_OFFSET_BITS, PLAIN, UNSET, Modifiers, Slot, bits, ones, put, sign_extend, unsign


@dataclass(frozen=True)
class ConstSlot(Slot):
    """c[bank][offset]: `step` is the unit of the stored offset in bytes."""

    modifiers: Modifiers = PLAIN
    lsb: int = 40
    width: int = 14
    step: int = 4
    index_lsb: int = UNSET  # a register added to the offset
    index_uniform: bool = False
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
                index = (UReg if self.index_uniform else Reg)(number)
        offset = bits(word, self.lsb, self.width) * self.step
        if self.index_lsb != UNSET:
            offset = sign_extend(offset, self.width)
        return Const(bits(word, 54, 5), offset, *self.modifiers.decode(word, mods), index=index)

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Const) or operand.offset % self.step:
            raise self.wrong(operand)
        word = put("bank", operand.bank, 54, 5) | self.modifiers.encode(self.name, operand, mods)
        offset = operand.offset
        if self.index_lsb != UNSET:
            offset = unsign("constant offset", offset, self.width)
        word |= put("constant offset", offset // self.step, self.lsb, self.width)
        if self.index_lsb == UNSET:
            if operand.index is not None:
                raise self.wrong(operand)
            return word
        if not isinstance(operand.index, UReg if self.index_uniform else Reg) and operand.index is not None:
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
    handle_width: int = 6

    @property
    def mask(self) -> int:
        word = ones(self.handle_lsb, self.handle_width)
        return word | ones(self.lsb, self.width) | self.modifiers.mask | ones(self.index_lsb, 8)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        number = bits(word, self.index_lsb, 8) if self.index_lsb != UNSET else 255
        offset = bits(word, self.lsb, self.width) * self.step
        index = Reg(number) if number != 255 else None
        if index is not None:
            offset = sign_extend(offset, CONST_OFFSET_BITS)
        handle = UReg(bits(word, self.handle_lsb, self.handle_width))
        return Bindless(handle, offset, *self.modifiers.decode(word, mods), index=index)

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Bindless) or operand.offset % self.step:
            raise self.wrong(operand)
        word = put("handle", operand.handle.index, self.handle_lsb, self.handle_width)
        word |= self.modifiers.encode(self.name, operand, mods)
        offset = (
            operand.offset if operand.index is None else unsign("constant offset", operand.offset, CONST_OFFSET_BITS)
        )
        word |= put("constant offset", offset // self.step, self.lsb, self.width)
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
    ureg_width: int = 6

    @property
    def mask(self) -> int:
        word = ones(self.base_lsb, 8) | ones(self.offset_lsb, self.offset_width) | ones(self.select)
        word |= ones(self.ureg_lsb, self.ureg_width) | ones(self.scale_lsb, 2)
        return word | ones(self.wide_bit) | ones(self.descriptor_bit)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        ureg = None
        if self.ureg_lsb != UNSET:
            number = bits(word, self.ureg_lsb, self.ureg_width)
            if self.select == UNSET or word >> self.select & 1:
                ureg = UReg(number)
            elif number:
                top = self.ureg_lsb + self.ureg_width - 1
                raise SassError(f"bits {top}:{self.ureg_lsb} are set without bit {self.select}")
        self.check(word)
        return Mem(
            Reg(bits(word, self.base_lsb, 8)),
            sign_extend(bits(word, self.offset_lsb, self.offset_width), self.offset_width),
            ureg,
            self.wide_bit != UNSET and bool(word >> self.wide_bit & 1),
            self.descriptor_bit != UNSET and bool(word >> self.descriptor_bit & 1),
            SCALES[bits(word, self.scale_lsb, 2)] if self.scale_lsb != UNSET else 1,
        )

    def check(self, word: int) -> None:
        if self.descriptor_bit != UNSET and word >> self.descriptor_bit & 1 and not word >> self.wide_bit & 1:
            raise SassError(f"a descriptor (bit {self.descriptor_bit}) without a 64-bit base (bit {self.wide_bit})")

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Mem) or operand.scale not in SCALES:
            raise self.wrong(operand)
        if (
            (operand.ureg is not None and self.ureg_lsb == UNSET)
            or (operand.ureg is None and self.ureg_lsb != UNSET and self.select == UNSET)
            or (operand.wide and self.wide_bit == UNSET)
            or (operand.descriptor and self.descriptor_bit == UNSET)
            or (operand.scale != 1 and self.scale_lsb == UNSET)
        ):
            raise self.wrong(operand)
        word = put("base", operand.base.index, self.base_lsb, 8)
        word |= unsign("offset", operand.offset, self.offset_width) << self.offset_lsb
        if operand.ureg is not None:
            word |= put("uniform register", operand.ureg.index, self.ureg_lsb, self.ureg_width) | ones(self.select)
        word |= ones(self.wide_bit) if operand.wide else 0
        word |= ones(self.descriptor_bit) if operand.descriptor else 0
        word |= SCALES.index(operand.scale) << self.scale_lsb if self.scale_lsb != UNSET else 0
        self.check(word)
        return word


@dataclass(frozen=True)
class TargetSlot(Slot):
    """Signed distance in units of 4 bytes. `style`: T printed as an address, J as one after a register, D as it is."""

    lsb: int = 34
    width: int = 48
    style: str = "T"
    low_lsb: int = UNSET  # where the low byte lies, if not below the rest

    @property
    def low_bits(self) -> int:
        return 0 if self.low_lsb == UNSET else 8

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width) | ones(self.low_lsb, self.low_bits)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        distance = sign_extend(bits(word, self.lsb, self.width), self.width) << self.low_bits
        return Target(4 * (distance + (bits(word, self.low_lsb, self.low_bits) if self.low_bits else 0)))

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, Target) or operand.relative % 4:
            raise self.wrong(operand)
        distance = unsign("branch distance", operand.relative // 4, self.width + self.low_bits)
        word = distance >> self.low_bits << self.lsb
        return word | ((distance & 0xFF) << self.low_lsb if self.low_bits else 0)


@dataclass(frozen=True)
class IndexSlot(Slot):
    """A numbered thing that is no register: special register, convergence barrier, scoreboard."""

    kind: type[SpecialReg] | type[Barrier] | type[Scoreboard] = field(default=SpecialReg)
    lsb: int = 72
    width: int = 8
    limit: int = 256

    @property
    def mask(self) -> int:
        return ones(self.lsb, self.width)

    def decode(self, word: int, mods: Mapping[str, Value]) -> Operand:
        number = bits(word, self.lsb, self.width)
        if number >= self.limit:
            raise SassError(f"{self.kind.__name__} {number}: there are {self.limit}")
        return self.kind(number)

    def encode(self, operand: Operand, mods: Mapping[str, Value]) -> int:
        if not isinstance(operand, self.kind) or operand.index >= self.limit:
            raise self.wrong(operand)
        return put(self.name, operand.index, self.lsb, self.width)
