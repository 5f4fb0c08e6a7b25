"""One instruction on its way to records: operands become sources and destinations, handlers emit micro-ops."""

from __future__ import annotations

from collections.abc import Callable

from ....isa.sass import RZ, Const, Imm, Instruction, Num, Pred, Reg, UPred, UReg
from ....isa.sass.families import family
from ....isa.sass.model import Operand
from .. import uops as u
from ..lowering import ALWAYS, NONE, ZERO, Emitter, LoweringError, PredSource, Source, immediate

SCRATCH_REGISTERS = 24
LOW_UNIFORMS = u.SCRATCH_BASE - u.UNIFORM_BASE  # uniform registers in front of the scratch registers; the rest follow
HIGH_UNIFORM_BASE = u.SCRATCH_BASE + SCRATCH_REGISTERS
UNIFORMS = LOW_UNIFORMS + u.REGISTERS - 4 - HIGH_UNIFORM_BASE  # the engine's last registers only end an operand
UNIFORM_ALWAYS = (u.UPT, False)
UNREAD = (ALWAYS, NONE, UNIFORM_ALWAYS, (u.UPT, True), (0, False), (u.UP_BASE, False))
PACKED_HALF = {"": 0, "H0_H0": 2, "H1_H1": 3}


class Lowering(Emitter[Operand]):
    """`registers`: the launch's register count; a register number from there on is refused."""

    scratch_registers = range(u.SCRATCH_BASE, HIGH_UNIFORM_BASE)

    def __init__(self, instruction: Instruction, pc: int, registers: int) -> None:
        i = instruction
        where = f"sm_{i.sm} instruction {i.mnemonic} (opcode {i.opcode:#05x}) at pc {pc:#x}"
        super().__init__(i.mods, i.args, where, pc, ALWAYS)
        self.instruction = instruction
        self.registers = registers
        self.urz = family(i.sm).urz
        self.guard = self._pred(instruction.guard)
        self.always = u.FULL if isinstance(instruction.guard, UPred) else 0

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
            if operand not in (None, Reg(RZ), UReg(self.urz), Reg(0), UReg(0), Num(0)):
                raise self.refuse(f"operand {name} = {operand!r} is not consumed")

    def count(self, name: str) -> int:
        operand = self.arg(name)
        if not isinstance(operand, Num):
            raise self.refuse(f"operand {name} = {operand!r} is no number")
        return operand.value

    def register(self, operand: object, words: int = 1) -> int | None:
        """The number in the engine's register file of a register or an aligned group; None for RZ and URZ."""
        if isinstance(operand, UReg):
            first, last, limit = operand.index, self.urz, min(self.urz, UNIFORMS)
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
        if isinstance(operand, Reg):
            return first
        return first + (u.UNIFORM_BASE if first < LOW_UNIFORMS else HIGH_UNIFORM_BASE - LOW_UNIFORMS)

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
    "ALWAYS", "HANDLERS", "NONE", "ZERO", "Handler", "Lowering", "LoweringError", "PredSource", "Source", "immediate",
    "lowers",
]  # fmt: skip
