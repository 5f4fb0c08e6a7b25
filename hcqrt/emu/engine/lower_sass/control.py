"""Branches, barriers, votes, shuffles and special registers."""

from __future__ import annotations

from ....isa.sass import RZ, Barrier, Imm, Num, Reg, SpecialReg, Target
from .. import uops as u
from .lowering import ZERO, Lowering, PredSource, Source, immediate, lowers

INSTRUCTION_BYTES = 16
ALL_LANES = 0xFFFF_FFFF
PLOP3_BOTH = 0xC0  # p and p2, whatever p3
# Special registers by number; the numbers without an entry are refused.
SPECIAL = {
    0x00: u.SR_LANE, 0x21: u.SR_TID_X, 0x22: u.SR_TID_Y, 0x23: u.SR_TID_Z,
    0x25: u.SR_CTAID_X, 0x26: u.SR_CTAID_Y, 0x27: u.SR_CTAID_Z,
    0x2E: u.SR_LOCAL_WINDOW_HI, 0x2F: u.SR_SHARED_WINDOW_HI, 0x30: u.SR_SHARED_WINDOW_LO, 0x34: u.SR_LOCAL_WINDOW_LO,
    0x32: u.SR_SMEM_SIZE, 0x38: u.SR_MASK_EQ, 0x39: u.SR_MASK_LT, 0x3A: u.SR_MASK_LE, 0x3B: u.SR_MASK_GT,
    0x3C: u.SR_MASK_GE, 0x43: u.SR_SM_ID, 0x50: u.SR_CLOCK_LO, 0x51: u.SR_CLOCK_HI, 0x52: u.SR_TIME_LO,
    0x53: u.SR_TIME_HI, 0xFF: u.SR_ZERO,
}  # fmt: skip
# Their value is one per warp, so a uniform register can hold it.
PER_WARP = {
    u.SR_CTAID_X, u.SR_CTAID_Y, u.SR_CTAID_Z, u.SR_SMEM_SIZE, u.SR_SHARED_WINDOW_LO, u.SR_SHARED_WINDOW_HI,
    u.SR_LOCAL_WINDOW_LO, u.SR_LOCAL_WINDOW_HI, u.SR_SM_ID, u.SR_CLOCK_LO, u.SR_CLOCK_HI, u.SR_TIME_LO, u.SR_TIME_HI,
    u.SR_ZERO,
}  # fmt: skip
HIGH_WORD = {u.SR_CLOCK_LO: u.SR_CLOCK_HI, u.SR_TIME_LO: u.SR_TIME_HI, u.SR_ZERO: u.SR_ZERO}
VOTES = {"ALL": u.VOTE_ALL, "ANY": u.VOTE_ANY, "EQ": u.VOTE_EQ}
SHUFFLES = {"IDX": u.SHFL_IDX, "UP": u.SHFL_UP, "DOWN": u.SHFL_DOWN, "BFLY": u.SHFL_BFLY}
REDUCTIONS = {
    "": u.RED_AND, "OR": u.RED_OR, "XOR": u.RED_XOR, "SUM": u.RED_SUM, "MIN": u.RED_MIN, "MAX": u.RED_MAX,
}  # fmt: skip


def special(i: Lowering) -> int:
    operand = i.arg("sr")
    if not isinstance(operand, SpecialReg) or operand.index not in SPECIAL:
        raise i.refuse(f"special register {operand!r} is not implemented")
    return SPECIAL[operand.index]


@lowers("S2R")
def s2r(i: Lowering) -> None:
    i.emit("S2R", i.dst("d"), imm=special(i))


@lowers("S2UR")
def s2ur(i: Lowering) -> None:
    number = special(i)
    if number not in PER_WARP:
        raise i.refuse("this special register differs from lane to lane")
    i.emit("S2R", i.dst("d"), imm=number, flags=u.FULL)


@lowers("CS2R")
def cs2r(i: Lowering) -> None:
    number = special(i)
    if i.mod("width", {"32": False, "": True}):
        if number not in HIGH_WORD:
            raise i.refuse("this special register is not 64 bits wide")
        d = i.dst("d", 2)
        i.emit("S2R", d, imm=number)
        if d != u.NO_REG:
            i.emit("S2R", d + 1, imm=HIGH_WORD[number])
        return
    i.emit("S2R", i.dst("d"), imm=number)


@lowers("R2UR")
def r2ur(i: Lowering) -> None:
    i.no_pred("pd")
    i.emit("BCAST", i.dst("d"), i.word("a"), flags=u.FULL)


@lowers("VOTE", "VOTEU")
def vote(i: Lowering) -> None:
    flags = u.FULL if i.instruction.mnemonic == "VOTEU" else 0
    i.emit("VOTE", i.dst("d"), mod=i.mod("op", VOTES), flags=flags, pd=i.pdst("pd"), p=i.pred("ps"))


@lowers("SHFL")
def shfl(i: Lowering) -> None:
    lane, clamp = (number_or_register(i, name) for name in "bc")
    i.emit("SHFL", i.dst("d"), i.word("a"), lane, clamp, mod=i.mod("op", SHUFFLES), pd=i.pdst("pd"))


def number_or_register(i: Lowering, name: str) -> Source:
    operand = i.arg(name)
    return immediate(operand.value) if isinstance(operand, Num) else i.source(operand)


@lowers("MATCH")
def match(i: Lowering) -> None:
    i.mod("op", {"ANY": None})
    i.unset("U64")
    i.emit("MATCH", i.dst("d"), i.word("a"))


@lowers("REDUX")
def redux(i: Lowering) -> None:
    sign = i.mod("sign", {"": 0, "S32": u.SIGNED})
    i.emit("REDUX", i.dst("d"), i.word("a"), mod=i.mod("op", REDUCTIONS), flags=sign | u.FULL)


def condition(i: Lowering) -> PredSource:
    """The guard together with the predicate operand that control instructions have beside it."""
    operand = i.pred("ps")
    if operand == (u.PT, False):
        return i.guard
    if i.guard == (u.PT, False):
        i.guard = operand
        return operand
    both = i.scratch_pred()
    i.emit("PLOP3", mod=PLOP3_BOTH, pd=both, p=i.guard, p2=operand, guard=(u.PT, False))
    return both, False


@lowers("BRA")
def bra(i: Lowering) -> None:
    i.mod("depth", {"": None})
    target = i.arg("target")
    if not isinstance(target, Target):
        raise i.refuse(f"operand target = {target!r}")
    guard = condition(i)
    i.branch(i.pc + INSTRUCTION_BYTES + target.relative, guard)


@lowers("EXIT")
def leave(i: Lowering) -> None:
    i.mod("mode", {"": None})
    i.unset("NO_ATEXIT")
    i.emit("EXIT", guard=condition(i))


@lowers("BSSY", "BSYNC", "BREAK")
def convergence(i: Lowering) -> None:
    i.no_effect("kind")  # how surely lanes meet: here they always do
    i.optional("target")  # where the lanes meet: the BSYNC there does the work
    i.emit(i.instruction.mnemonic, imm=barrier(i), guard=condition(i))


def barrier(i: Lowering) -> int:
    operand = i.arg("barrier")
    if not isinstance(operand, Barrier):
        raise i.refuse(f"operand barrier = {operand!r}")
    return operand.index


@lowers("BMOV")
def bmov(i: Lowering) -> None:
    """Only the form that clears: no register holds a mask that could be read or written elsewhere."""
    i.mod("CLEAR", {True: None})
    if i.optional("d") != Reg(RZ):
        raise i.refuse("reading a barrier register is not implemented")
    i.emit("BCLR", imm=barrier(i))


@lowers("WARPSYNC")
def warpsync(i: Lowering) -> None:
    i.unset("EXCLUSIVE")
    mask = i.optional("mask") or Imm(ALL_LANES)
    source = immediate(mask.value) if isinstance(mask, (Imm, Num)) else i.source(mask)
    guard = condition(i)
    i.emit("WARPSYNC", u.NO_REG, source, guard=guard)


@lowers("BAR")
def bar(i: Lowering) -> None:
    i.no_effect("DEFER_BLOCKING")  # who waits first is a matter of timing
    mod = i.mod("op", {"SYNC": u.BAR_SYNC, "ARV": u.BAR_ARRIVE})
    number = number_or_register(i, "id")
    threads = i.optional("count")
    if not isinstance(threads, Num):
        raise i.refuse(f"operand count = {threads!r} is not implemented")
    i.emit("BAR", u.NO_REG, number, immediate(threads.value) if threads.value else ZERO, mod=mod)


@lowers("NOP", "PMTRIG")
def nop(i: Lowering) -> None:
    i.optional("mask")
    i.no_pred("ps")
    i.emit("NOP")


@lowers("YIELD", "NANOSLEEP")
def give_way(i: Lowering) -> None:
    i.no_effect("WARP", "RAND")
    i.optional("b")  # how long: time passes by instructions here
    i.no_pred("ps")
    i.emit("YIELD")


@lowers("BPT")
def trap(i: Lowering) -> None:
    i.optional("code")
    i.emit("TRAP")
