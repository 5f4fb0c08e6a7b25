"""Strict lowering of decoded SASS to micro-ops: every field of an instruction is consumed, or it is refused."""

from __future__ import annotations

from typing import Any

from ....isa.sass import Instruction
from . import control, convert, floats, halves, integer, memory
from .lowering import HANDLERS, Lowering, LoweringError

__all__ = ["LoweringError", "lower", "mnemonics"]

_FAMILIES = (integer, floats, halves, convert, memory, control)  # importing them fills HANDLERS


def mnemonics() -> tuple[str, ...]:
    """Every mnemonic that has a meaning here."""
    return tuple(sorted(HANDLERS))


def lower(instruction: Instruction, pc: int, registers: int = 255) -> list[Any]:
    """The records of one instruction; the first has FIRST. A BRA carries the address of its target in `imm`.

    Args:
        pc: address of the instruction.
        registers: the launch's register count, with the two that hardware keeps for itself.
    Raises:
        LoweringError: an instruction, a modifier or an operand without a meaning here; names opcode, pc and value.
    """
    lowering = Lowering(instruction, pc, registers)
    handler = HANDLERS.get(instruction.mnemonic)
    if handler is None:
        raise lowering.refuse("is not implemented")
    handler(lowering)
    lowering.finish()
    if not lowering.records:
        raise AssertionError(f"{instruction.mnemonic} lowers to nothing")
    return lowering.records
