"""Branches, predication, votes and barriers (categories 0 and 7).

Branches and barriers are no writes: predication does not keep a fibre from them. A fibre's exclusion is its own: it is
taken from its p0.x when it runs predt or predf, not when other fibres of the wave do.
"""

from __future__ import annotations

from ....isa.ir3 import Pred, Target
from .. import uops as u
from .lowering import ALWAYS, ZERO, Lowering, PredSource, lowers
from .registers import EXCLUDED

INSTRUCTION_BYTES = 8
EITHER, BOTH = 0xFC, 0xC0  # PLOP3 tables of p and p2
IS_TRUE, IS_FALSE, NEVER = 0xF0, 0x0F, 0x00  # of p alone


def condition(i: Lowering, name: str) -> PredSource:
    operand = i.arg(name)
    if not isinstance(operand, Pred):
        raise i.refuse(f"operand {name} = {operand!r} is no predicate")
    return operand.component, operand.inv


def branch(i: Lowering, guard: PredSource) -> None:
    target = i.arg("target")
    if not isinstance(target, Target):
        raise i.refuse(f"operand target = {target!r}")
    i.branch(i.pc + INSTRUCTION_BYTES * target.relative, guard)


@lowers("nop")
def nop(i: Lowering) -> None:
    i.emit("NOP")


@lowers("end")
def end(i: Lowering) -> None:
    i.emit("EXIT", guard=ALWAYS)


@lowers("kill")
def kill(i: Lowering) -> None:
    i.emit("EXIT", guard=condition(i, "pred1"))


@lowers("jump")
def jump(i: Lowering) -> None:
    branch(i, ALWAYS)


@lowers("br")
def br(i: Lowering) -> None:
    branch(i, condition(i, "pred1"))


@lowers("brao", "braa")
def br_two(i: Lowering) -> None:
    joined = i.scratch_pred()
    table = EITHER if i.instruction.opcode == "brao" else BOTH
    i.emit("PLOP3", mod=table, pd=joined, p=condition(i, "pred1"), p2=condition(i, "pred2"), guard=ALWAYS)
    branch(i, (joined, False))


@lowers("bany", "ball")
def br_vote(i: Lowering) -> None:
    """Taken by all active fibres of the wave or by none."""
    verdict = i.scratch_pred()
    mod = u.VOTE_ANY if i.instruction.opcode == "bany" else u.VOTE_ALL
    i.emit("VOTE", mod=mod, pd=verdict, p=condition(i, "pred1"), guard=ALWAYS)
    branch(i, (verdict, False))


@lowers("getone")
def getone(i: Lowering) -> None:
    """One active fibre goes on, the lowest; the others take the branch."""
    (to_own, own), (to_first, first), other = i.temporary(), i.temporary(), i.scratch_pred()
    i.emit("S2R", to_own, imm=u.SR_LANE, guard=ALWAYS)
    i.emit("BCAST", to_first, own, flags=u.FULL, guard=ALWAYS)
    i.emit("ISETP", u.NO_REG, own, first, mod=u.C_NE, p=ALWAYS, pd=other, guard=ALWAYS)
    branch(i, (other, False))


@lowers("predt", "predf")
def predicate(i: Lowering) -> None:
    table = IS_FALSE if i.instruction.opcode == "predt" else IS_TRUE
    i.emit("PLOP3", mod=table, pd=EXCLUDED, p=(0, False), guard=ALWAYS)


@lowers("prede")
def end_predication(i: Lowering) -> None:
    i.emit("PLOP3", mod=NEVER, pd=EXCLUDED, guard=ALWAYS)


@lowers("bar")
def bar(i: Lowering) -> None:
    """Every live fibre of the group waits; which memory it orders does not matter where all accesses are at once."""
    i.no_effect("g", "l", "r", "w")
    i.emit("BAR", u.NO_REG, ZERO, ZERO, mod=u.BAR_SYNC, guard=ALWAYS)


@lowers("fence", "icinv", "dccln", "dcinv", "dcflu", "lock", "unlock")
def order(i: Lowering) -> None:
    """Nothing is cached here and nothing happens late."""
    i.no_effect("g", "l", "r", "w", "scope")
    i.emit("NOP")


@lowers("sleep")
def sleep(i: Lowering) -> None:
    i.no_effect("duration")
    i.emit("YIELD", guard=ALWAYS)
