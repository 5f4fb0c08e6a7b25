"""One ir3 instruction on its way to records: handlers take sources of a kind and targets, and emit micro-ops."""

from __future__ import annotations

from collections.abc import Callable

from ....isa.ir3 import Instruction, Operand, Reg, Relative
from .. import uops as u
from ..launch import Ir3Setup
from ..lowering import ALWAYS, ZERO, LoweringError, PredSource, Source, immediate, register
from .registers import (
    A0,
    A_AND_B,
    A_AND_NOT_B,
    A_XOR_B,
    BITS,
    EXCLUDED,
    FIRST_PREDICATE,
    FLOAT,
    HALF_MASK,
    HALF_SIGN,
    INSERT,
    INTEGER,
    PREDICATES,
    SHARED,
    Registers,
)


class Lowering(Registers):
    """`predicated`: the instruction may run between predt or predf and prede, so excluded fibres must sit it out."""

    def __init__(self, instruction: Instruction, pc: int, setup: Ir3Setup, predicated: bool) -> None:
        i = instruction
        where = f"a{i.gen}xx instruction {i.opcode} (category {i.category}) at pc {pc:#x}"
        super().__init__(i.mods, i.args, where, pc, (EXCLUDED, True) if predicated else ALWAYS)
        self.instruction = instruction
        self.setup = setup
        self._later: list[Callable[[], None]] = []

    def finish(self) -> None:
        """What must come last: results on their way to where they belong."""
        while self._later:
            self._later.pop()()
        super().finish()

    def number(self, name: str) -> int:
        """Take a modifier that is a number."""
        value = self._mods.pop(name, None)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.refuse(f"modifier {name} = {value!r} is no number")
        return value

    def is_half(self, name: str) -> bool:
        return bool(getattr(self._args.get(name), "half", False))

    def floating(self, name: str) -> Source:
        """A float source. Modifiers of full ones become flags, those of half ones are applied to the bits."""
        half = self.is_half(name)
        source = self.value(name, FLOAT)
        return self.signed_bits(source, HALF_SIGN) if half else source

    def signed_bits(self, source: Source, sign: int) -> Source:
        """`abs`, then `neg` of a float, on its sign bit."""
        for wanted, table in ((source.abs, A_AND_NOT_B), (source.neg, A_XOR_B)):
            if wanted:
                d, changed = self.temporary()
                self.emit("LOP3", d, source._replace(neg=False, abs=False), immediate(sign), mod=table)
                source = changed._replace(neg=source.neg and table == A_AND_NOT_B)
        return source

    def integer(self, name: str, signed: bool = False) -> Source:
        """An integer source with its sign or magnitude taken; `signed`: a half one is extended by its sign."""
        half = self.is_half(name)
        source = self.value(name, INTEGER)
        plain = source._replace(neg=False, abs=False)
        if half and (signed or source.abs):
            d, extended = self.temporary()
            self.emit("SGXT", d, plain, immediate(16), flags=u.SIGNED)
            plain = extended
        if source.abs:
            d, magnitude = self.temporary()
            self.emit("IABS", d, plain)
            plain = magnitude
        if source.neg:
            d, negative = self.temporary()
            self.emit("ADD3", d, plain._replace(inv=True), imm=1)
            plain = negative
            if half and not signed:  # an unsigned half stays one
                d, narrow = self.temporary()
                self.emit("LOP3", d, plain, immediate(HALF_MASK), mod=A_AND_B)
                plain = narrow
        return plain

    def bits(self, name: str) -> Source:
        """A source of a bit operation; `neg` means `not`, and a half one keeps its zeros above."""
        mask = HALF_MASK if self.is_half(name) else 0xFFFFFFFF
        source = self.value(name, BITS)
        if source.abs:
            raise self.refuse(f"operand {name}: a magnitude of bits")
        plain = source._replace(neg=False)
        if not source.neg:
            return plain
        d, inverted = self.temporary()
        self.emit("LOP3", d, immediate(mask), plain, mod=A_AND_NOT_B)
        return inverted

    def plain(self, name: str, kind: str = BITS) -> Source:
        """A source that may have no modifier."""
        source = self.value(name, kind)
        if source.neg or source.abs:
            raise self.refuse(f"operand {name}: neg or abs is not implemented")
        return source

    # results

    def target(self, operand: Operand) -> int:
        """Where to write a result; what must follow to bring it to its place runs in `finish`.

        Only the last record of a handler may write it, for it may be one of the sources.
        """
        if isinstance(operand, Relative):
            return self._relative_target(operand)
        if not isinstance(operand, Reg):
            raise self.refuse(f"operand {operand!r} is no destination")
        if operand.number in PREDICATES:
            d, value = self.temporary()
            component = operand.number - FIRST_PREDICATE
            self._later.append(lambda: self.emit("ISETP", u.NO_REG, value, ZERO, mod=u.C_NE, p=ALWAYS, pd=component))
            return d
        if operand.half and self.setup.merged:
            d, value = self.temporary()
            place = self.merged(operand.number)
            selector = immediate(INSERT[operand.number & 1])
            self._later.append(lambda: self.emit("PRMT", place, value, selector, register(place)))
            return d
        place = self.half(operand.number) if operand.half else self.full(operand.number)
        if operand.number not in SHARED:
            return place
        d, value = self.temporary()
        self._later.append(lambda: self.emit("BCAST", place, value, flags=u.FULL))
        return d

    def _relative_target(self, operand: Relative) -> int:
        d, value = self.temporary()
        base, mod = self._relative_range(operand)
        self._later.append(lambda: self.emit("RPUT", u.NO_REG, register(A0), value, imm=base + operand.offset, mod=mod))
        return d

    def mark(self) -> tuple[int, int, int]:
        """Where one of several results begins, for `settle`."""
        return len(self._later), self._scratch, self._scratch_pred

    def settle(self, mark: tuple[int, int, int]) -> None:
        """Bring what was written since `mark` to its place; its scratch registers are free again."""
        later, self._scratch, self._scratch_pred = mark
        for action in reversed(self._later[later:]):
            action()
        del self._later[later:]

    def later(self, action: Callable[[], None]) -> None:
        """Run `action` when the handler is done, before what targets asked for earlier."""
        self._later.append(action)


Handler = Callable[[Lowering], None]
HANDLERS: dict[str, Handler] = {}


def lowers(*opcodes: str) -> Callable[[Handler], Handler]:
    def known(handler: Handler) -> Handler:
        for opcode in opcodes:
            if opcode in HANDLERS:
                raise AssertionError(f"{opcode} is lowered twice")
            HANDLERS[opcode] = handler
        return handler

    return known


__all__ = [
    "ALWAYS", "HANDLERS", "ZERO", "Handler", "Lowering", "LoweringError", "PredSource",
    "Source", "immediate", "lowers", "register",
]  # fmt: skip
