"""What lowering of every ISA shares: fields handed out once, sources of records, and the records themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ..refusal import EmulatorRefusal
from . import uops as u

T = TypeVar("T")
Operand = TypeVar("Operand")
PredSource = tuple[int, bool]

# Which flag bit carries a source modifier, by source slot; the fourth source has none.
INVERT = (u.INV_A, u.INV_B, u.INV_C)
NEGATE = (u.NEG_A, u.NEG_B, u.NEG_C)
ABSOLUTE = (u.ABS_A, u.ABS_B, u.ABS_C)
NONE: PredSource = (u.PT, True)  # an absent carry-in: the negated true predicate
ALWAYS: PredSource = (u.PT, False)


class LoweringError(EmulatorRefusal):
    """The engine has no meaning for this instruction or for one of its fields."""


class Fields(Generic[Operand]):
    """Modifiers and operands of one instruction.

    A handler takes what it implements; `finish` refuses the rest, also where it holds its default. So a field that a
    decoder row gains later, or that a handler forgot, stops the program instead of being ignored.
    """

    def __init__(self, mods: Mapping[str, str | int | bool], args: Mapping[str, Operand], where: str) -> None:
        self._mods = dict(mods)
        self._args = dict(args)
        self._where = where

    def refuse(self, what: str) -> LoweringError:
        return LoweringError(f"{self._where}: {what}")

    def mod(self, name: str, meanings: Mapping[Any, T], absent: str | int | bool | None = None) -> T:
        """Take an enumeration. `meanings`: every value that is implemented; `absent`: that of a row without it."""
        if name not in self._mods and absent is None:
            raise self.refuse(f"has no modifier {name!r}")
        value = self._mods.pop(name, absent)
        if value not in meanings:
            raise self.refuse(f"modifier {name} = {value!r} is not implemented")
        return meanings[value]

    def flag(self, name: str) -> bool:
        """Take a flag; a row without the field never has it set."""
        value = self._mods.pop(name, False)
        if not isinstance(value, bool):
            raise self.refuse(f"modifier {name!r} is {value!r}, not a flag")
        return value

    def unset(self, *names: str) -> None:
        """Take flags that are only implemented when they are clear."""
        for name in names:
            if self.flag(name):
                raise self.refuse(f"modifier {name} = True is not implemented")

    def no_effect(self, *names: str) -> None:
        """Take modifiers that steer caches, ordering or timing: one thread sees the same values whatever they hold."""
        for name in names:
            self._mods.pop(name, None)

    def arg(self, name: str) -> Operand:
        if name not in self._args:
            raise self.refuse(f"has no operand {name!r}")
        return self._args.pop(name)

    def optional(self, name: str) -> Operand | None:
        return self._args.pop(name, None)

    def finish(self) -> None:
        for name, value in self._mods.items():
            raise self.refuse(f"modifier {name} = {value!r} is not consumed")
        for name, operand in self._args.items():
            raise self.refuse(f"operand {name} = {operand!r} is not consumed")


class Source(NamedTuple):
    """A source of a record, with the modifiers that its flags carry. `half`: choice of halves (HADD2 and its like)."""

    kind: int
    value: int
    neg: bool = False
    abs: bool = False
    inv: bool = False
    half: int = 0


ZERO = Source(u.ZERO, 0)


def immediate(value: int) -> Source:
    return Source(u.IMM, value & 0xFFFFFFFF)


def register(number: int) -> Source:
    return Source(u.REG, number)


class Emitter(Fields[Operand]):
    """One instruction on its way to records.

    `guard` holds for every record that names no other, `always` are flags of every record, `scratch` are the registers
    that the ISA leaves free.
    """

    scratch_registers: range

    def __init__(
        self, mods: Mapping[str, str | int | bool], args: Mapping[str, Operand], where: str, pc: int, guard: PredSource
    ) -> None:
        super().__init__(mods, args, where)
        self.pc = pc
        self.guard = guard
        self.always = 0
        self.records: list[Any] = []
        self._scratch = self.scratch_registers.start
        self._scratch_pred = u.SCRATCH_PREDICATE

    def scratch(self, words: int = 1) -> int:
        first = self._scratch + self._scratch % words
        self._scratch = first + words
        if self._scratch > self.scratch_registers.stop:
            raise AssertionError("lowering: out of scratch registers")
        return first

    def temporary(self) -> tuple[int, Source]:
        """A scratch register as destination and as source."""
        number = self.scratch()
        return number, register(number)

    def scratch_pred(self) -> int:
        self._scratch_pred += 1
        if self._scratch_pred > u.PREDICATES:
            raise AssertionError("lowering: out of scratch predicates")
        return self._scratch_pred - 1

    def branch(self, target_va: int, guard: PredSource) -> None:
        """A branch to an address, which discovery resolves."""
        if not 0 <= target_va < 1 << 63:
            raise self.refuse(f"branches to {target_va:#x}, which is no address")
        self.emit("BRA", imm=target_va, guard=guard)

    def emit(
        self,
        op: str,
        d: int = u.NO_REG,
        *sources: Source,
        flags: int = 0,
        p: PredSource = NONE,
        p2: PredSource = NONE,
        p3: PredSource = NONE,
        guard: PredSource | None = None,
        **fields: int,
    ) -> None:
        """Append one record; the modifiers of the sources become flags. `fields` are those of the record."""
        new = u.record(op, d=d, pc=self.pc, **fields)
        for slot, source in enumerate(sources):
            new["kind"][slot], new["src"][slot] = source.kind, source.value
            if source.neg:
                flags |= NEGATE[slot]
            if source.abs:
                flags |= ABSOLUTE[slot]
            if source.inv:
                flags |= INVERT[slot]
        new["flags"] = flags | (0 if self.records else u.FIRST) | self.always
        new["guard"], new["guard_neg"] = guard or self.guard
        new["p"], new["p_neg"] = p
        new["p2"], new["p2_neg"] = p2
        new["p3"], new["p3_neg"] = p3
        self.records.append(new)
