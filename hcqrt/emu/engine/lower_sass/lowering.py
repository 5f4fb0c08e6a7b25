"""One instruction on its way to records: operands become sources and destinations, handlers emit micro-ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....isa.sass import PT, RZ, Const, Imm, Instruction, Num, Pred, Reg, UPred, UReg
from .. import uops as u
from .fields import Fields

URZ = 63  # up to sm_90
# Which flag bit carries a source modifier, by source slot; the fourth source has none.
INVERT = (u.INV_A, u.INV_B, u.INV_C)
NEGATE = (u.NEG_A, u.NEG_B, u.NEG_C)
ABSOLUTE = (u.ABS_A, u.ABS_B, u.ABS_C)
NONE = (PT, True)  # an absent carry-in: the negated true predicate
ALWAYS, UNIFORM_ALWAYS = (PT, False), (u.UPT, False)
UNREAD = (ALWAYS, NONE, UNIFORM_ALWAYS, (u.UPT, True), (0, False), (u.UP_BASE, False))
PACKED_HALF = {"": 0, "H0_H0": 2, "H1_H1": 3}

PredSource = tuple[int, bool]


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


class Lowering(Fields):
    """`registers`: the launch's register count; a register number from there on is refused."""

    def __init__(self, instruction: Instruction, pc: int, registers: int) -> None:
        super().__init__(instruction, pc)
        self.registers = registers
        self.records: list[Any] = []
        self.guard = self._pred(instruction.guard)
        self.uniform = isinstance(instruction.guard, UPred)
        self._scratch = u.SCRATCH_BASE
        self._scratch_pred = u.SCRATCH_PREDICATE

    # operands

    def _pred(self, operand: object) -> PredSource:
        if isinstance(operand, UPred):
            return operand.index + u.UP_BASE, operand.neg
        if isinstance(operand, Pred):
            return operand.index, operand.neg
        raise self.refuse(f"operand {operand!r} is no predicate")

    def pred(self, name: str) -> PredSource:
        return self._pred(self.arg(name))

    def pdst(self, name: str) -> int:
        index, negated = self.pred(name)
        if negated:
            raise self.refuse(f"operand {name}: a negated destination")
        return index

    def no_pred(self, *names: str) -> None:
        """Predicates that are only implemented as PT."""
        for name in names:
            operand = self.optional(name)
            if operand is not None and self._pred(operand) not in (ALWAYS, UNIFORM_ALWAYS):
                raise self.refuse(f"operand {name} = {operand!r} is not implemented")

    def unread_pred(self, *names: str) -> None:
        """Predicates that this form does not read: compilers write PT, !PT or 0, the rest might have a meaning."""
        for name in names:
            operand = self.optional(name)
            if operand is not None and self._pred(operand) not in UNREAD:
                raise self.refuse(f"operand {name} = {operand!r} is not consumed")

    def unused(self, *names: str) -> None:
        """Registers that this form does not read."""
        for name in names:
            operand = self.optional(name)
            if operand not in (None, Reg(RZ), UReg(URZ), Reg(0), UReg(0), Num(0)):
                raise self.refuse(f"operand {name} = {operand!r} is not consumed")

    def count(self, name: str) -> int:
        operand = self.arg(name)
        if not isinstance(operand, Num):
            raise self.refuse(f"operand {name} = {operand!r} is no number")
        return operand.value

    def register(self, operand: object, words: int = 1) -> int | None:
        """The number in the engine's register file of a register or an aligned group; None for RZ and URZ."""
        if isinstance(operand, UReg):
            first, last, limit = operand.index, URZ, URZ
        elif isinstance(operand, Reg):
            first, last, limit = operand.index, RZ, self.registers
        else:
            raise self.refuse(f"operand {operand!r} is no register")
        if first == last:
            return None
        name = f"{'U' if isinstance(operand, UReg) else ''}R{first}"
        if first % words:
            raise self.refuse(f"{name} is not aligned for {words} registers")
        if first + words > limit:
            raise self.refuse(f"{name} with {words} words: the program has {limit} registers")
        return first + (u.UNIFORM_BASE if isinstance(operand, UReg) else 0)

    def dst(self, name: str, words: int = 1) -> int:
        number = self.register(self.arg(name), words)
        return u.NO_REG if number is None else number

    def source(self, operand: object, words: int = 1, allowed: str = "") -> Source:
        """`allowed`: the modifiers that the caller implements, of `neg abs inv half`."""
        if isinstance(operand, Imm):
            return Source(u.IMM, operand.value)
        if not isinstance(operand, (Reg, UReg, Const)):
            raise self.refuse(f"operand {operand!r} is not implemented")
        for modifier in ("neg", "abs", "inv", "half"):
            if getattr(operand, modifier) and modifier not in allowed.split():
                raise self.refuse(f"operand {operand!r}: {modifier} is not implemented")
        if operand.half not in PACKED_HALF:
            raise self.refuse(f"operand {operand!r}: halves {operand.half} are not implemented")
        modifiers = operand.neg, operand.abs, operand.inv, PACKED_HALF[operand.half]
        if isinstance(operand, Const):
            if operand.index is not None or operand.offset % (4 * words):
                raise self.refuse(f"operand {operand!r}: indexed or misaligned constant")
            return Source(u.CONST, operand.bank << 16 | operand.offset, *modifiers)
        number = self.register(operand, words)
        return Source(u.ZERO, 0, *modifiers) if number is None else Source(u.REG, number, *modifiers)

    def word(self, name: str, allowed: str = "") -> Source:
        return self.source(self.arg(name), 1, allowed)

    def single(self, name: str) -> Source:
        return self.word(name, "neg abs")

    def packed(self, name: str) -> Source:
        return self.word(name, "neg abs half")

    def double(self, name: str) -> Source:
        """A register pair, 8 bytes of a bank, or an immediate that holds the high word."""
        operand = self.arg(name)
        if not isinstance(operand, Imm):
            return self.source(operand, 2, "neg abs")
        pair = self.scratch(2)
        self.emit("MOV", pair, ZERO)
        self.emit("MOV", pair + 1, immediate(operand.value))
        return Source(u.REG, pair)

    def carry(self, extended: bool, name: str) -> PredSource:
        """A carry-in, which only exists with .X."""
        if extended:
            return self.pred(name)
        self.unread_pred(name)
        return NONE

    # results

    def scratch(self, words: int = 1) -> int:
        first = self._scratch + self._scratch % words
        self._scratch = first + words
        if self._scratch > u.REGISTERS:
            raise AssertionError("lowering: out of scratch registers")
        return first

    def temporary(self) -> tuple[int, Source]:
        """A scratch register as destination and as source."""
        number = self.scratch()
        return number, Source(u.REG, number)

    def scratch_pred(self) -> int:
        self._scratch_pred += 1
        if self._scratch_pred > u.PREDICATES:
            raise AssertionError("lowering: out of scratch predicates")
        return self._scratch_pred - 1

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
        new["flags"] = flags | (0 if self.records else u.FIRST) | (u.FULL if self.uniform else 0)
        new["guard"], new["guard_neg"] = guard or self.guard
        new["p"], new["p_neg"] = p
        new["p2"], new["p2_neg"] = p2
        new["p3"], new["p3_neg"] = p3
        self.records.append(new)


Handler = Callable[[Lowering], None]
HANDLERS: dict[str, Handler] = {}


def lowers(*mnemonics: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for mnemonic in mnemonics:
            if mnemonic in HANDLERS:
                raise AssertionError(f"{mnemonic} is lowered twice")
            HANDLERS[mnemonic] = handler
        return handler

    return register


__all__ = [
    "ALWAYS", "HANDLERS", "NONE", "ZERO", "Handler", "Lowering", "PredSource", "Source", "immediate", "lowers",
]  # fmt: skip
