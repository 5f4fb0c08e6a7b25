"""One instruction of the table, ready to use: its fields, its text, and the bits that have one legal value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .fields import UNSET, Mod, bits, ones
from .model import FIRST_PREDICATE, Instruction, Ir3Error, Operand, Reg, Value
from .slots import Context, Slot

FLAG_BITS = {"sy": 60, "jp": 59, "ss": 44, "ul": 45, "eq": 48}
DST_LSB = 32  # ALU destinations


@dataclass(frozen=True)
class Precision:
    """Bits that decide how wide the operands of rule `src` and `dst` are.

    `full`: set when sources have 32 bits (`fixed_full` where no bit says it); `conv`: set when the destination has the
    other width; `dst_full`: set when it has 32 bits.
    """

    full: int = UNSET
    fixed_full: bool = True
    conv: int = UNSET
    dst_full: int = UNSET

    @property
    def mask(self) -> int:
        return ones(self.full) | ones(self.conv) | ones(self.dst_full)

    def read(self, word: int) -> tuple[bool, bool]:
        """Whether sources are half registers, and whether the destination is one."""
        full = bool(bits(word, self.full, 1)) if self.full != UNSET else self.fixed_full
        predicate = bits(word, DST_LSB, 8) >= FIRST_PREDICATE
        if self.dst_full != UNSET:
            half = not bits(word, self.dst_full, 1)
            if half and predicate:
                raise Ir3Error(f"half destination (bit {self.dst_full}) beside a predicate has no meaning")
            return not full, half
        if self.conv == UNSET:
            return not full, False
        converts = bool(bits(word, self.conv, 1))
        if converts and predicate:
            raise Ir3Error(f"conversion (bit {self.conv}) to a predicate has no meaning")
        return not full, full == converts

    def write(self, src_half: bool, dst: Operand | None) -> int:
        if self.full == UNSET and src_half == self.fixed_full:
            raise Ir3Error(f"sources must have {32 if self.fixed_full else 16} bits")
        word = 0 if src_half else ones(self.full)
        dst_half = isinstance(dst, Reg) and dst.half
        if self.dst_full != UNSET:
            return word | (0 if dst_half else ones(self.dst_full))
        predicate = isinstance(dst, Reg) and dst.number >= FIRST_PREDICATE
        return word | (ones(self.conv) if self.conv != UNSET and dst_half != src_half and not predicate else 0)


@dataclass(frozen=True, eq=False)
class Row:
    opcode: str
    category: int
    parts: tuple[str, ...]  # text: literals at even places, names of fields at odd ones
    flags: tuple[str, ...]
    mods: Mapping[str, Mod]
    slots: Mapping[str, Slot]
    precision: Precision
    fixed: int  # value of the bits that no field covers
    key_mask: int  # bits that name the opcode and the form
    repeat: tuple[int, int] | None = None
    delay: tuple[int, int] | None = None

    @property
    def owned(self) -> int:
        """Bits that belong to a field; the delay's only where operands have them too."""
        mask = self.precision.mask | (ones(*self.repeat) if self.repeat else 0)
        for flag in self.flags:
            mask |= ones(FLAG_BITS[flag])
        for mod in self.mods.values():
            mask |= mod.mask
        for slot in self.slots.values():
            mask |= slot.mask
        return mask

    def context(self, mods: Mapping[str, Value], args: Mapping[str, Operand]) -> Context:
        """The context of an instruction that exists: half as its operands say."""
        halves = (getattr(args.get(slot.name), "half", False) for slot in self.slots.values() if slot.half == "src")
        dst = args.get("dst")
        return Context(mods, any(halves), isinstance(dst, Reg) and dst.half)

    def check(self, inst: Instruction) -> None:
        """What no single field can see."""
        if self.opcode in ("mov", "cov"):
            same = inst.mods["src_type"] == inst.mods["dst_type"]
            if same != (self.opcode == "mov"):
                raise Ir3Error(f"{self.opcode} from {inst.mods['src_type']} to {inst.mods['dst_type']}")
        if inst.nop and (inst.repeat or self.delay is None or not 0 < inst.nop < 4):
            raise Ir3Error(f"a delay of {inst.nop} is not possible here")
        if inst.nop and any(getattr(operand, "r", False) for operand in inst.args.values()):
            raise Ir3Error("(r) beside a delay has no meaning")
        if inst.repeat and self.repeat is None:
            raise Ir3Error("does not repeat")
