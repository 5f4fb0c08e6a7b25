"""Strict lowering of decoded ir3 to micro-ops: every field of an instruction is consumed, or it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....isa.ir3 import Const, Instruction, Operand, Reg, Relative
from .. import uops as u
from ..launch import Ir3Setup
from . import control, convert, floats, images, integer, memory
from .lowering import HANDLERS, Lowering, LoweringError

__all__ = ["LoweringError", "lower", "opcodes", "state_after"]

_FAMILIES = (convert, integer, floats, memory, images, control)  # importing them fills HANDLERS
PREDICATED = 1  # state bit: predt or predf may have run, and no prede since
STATES = {"predt": PREDICATED, "predf": PREDICATED, "prede": 0}
# Fields that only steer timing: waits, reconvergence (fibres find together by their addresses), last use of values.
TIMING = frozenset(("sy", "ss", "jp", "ul", "eq"))


def opcodes() -> tuple[str, ...]:
    """Every opcode that has a meaning here."""
    return tuple(sorted(HANDLERS))


def state_after(instruction: Instruction, state: int) -> int:
    return STATES.get(instruction.opcode, state)


def lower(instruction: Instruction, pc: int, setup: Ir3Setup, predicated: bool = False) -> list[Any]:
    """The records of one instruction; the first has FIRST. A BRA carries the address of its target in `imm`.

    Args:
        predicated: whether it may run after predt or predf.
    Raises:
        LoweringError: an instruction, a modifier or an operand without a meaning here; names opcode, pc and value.
    """
    handler = HANDLERS.get(instruction.opcode)
    records: list[Any] = []
    # A nop that repeats waits longer, which is nothing here.
    repeats = 0 if instruction.opcode == "nop" else instruction.repeat
    for step in range(repeats + 1):
        lowering = Lowering(advanced(instruction, step), pc, setup, predicated)
        if handler is None:
            raise lowering.refuse("is not implemented")
        if instruction.category in (0, 5, 6, 7) and repeats:
            raise lowering.refuse(f"repeated {repeats} times is not implemented")
        if not instruction.flags <= TIMING:
            raise lowering.refuse(f"flags {sorted(instruction.flags - TIMING)} are not implemented")
        handler(lowering)
        lowering.finish()
        records += lowering.records
    if not records:
        raise AssertionError(f"{instruction.opcode} lowers to nothing")
    for one in records[1:]:
        one["flags"] &= 0xFFFFFFFF ^ u.FIRST
    return records


def advanced(instruction: Instruction, step: int) -> Instruction:
    """One run of a repeated instruction: destinations move on by one each time, sources where they say so."""
    if not step:
        return instruction
    args = {name: moved(name, operand, step) for name, operand in instruction.args.items()}
    return replace(instruction, args=args)


def moved(name: str, operand: Operand, step: int) -> Operand:
    if not name.startswith("dst") and not getattr(operand, "r", False):
        return operand
    if isinstance(operand, Relative):
        return replace(operand, offset=operand.offset + step)
    if isinstance(operand, (Reg, Const)):
        return replace(operand, number=operand.number + step)
    raise LoweringError(f"operand {name} = {operand!r} cannot advance with a repeat")
