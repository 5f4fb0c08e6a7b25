"""Checks that a program keeps the contract, so that cores need not ask again what a record may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from . import uops
from .uops import NAMES, NO_REG, NUMBERS, InvalidProgram, Program

# Operations whose lane masks are words.
ONE_WORD = ("MATCH", "BSSY", "BSYNC", "BREAK", "BCLR", "WARPSYNC")
Bool = npt.NDArray[np.bool_]
Detail = Callable[[Any], Any]  # records of one operation -> whether each is right

# Registers that the widest operand may span; scratch lies behind the others, so a narrow one loses nothing by it.
SPAN = 4
HALF_CHOICES = (0, 2, 3)
PRMT_MODES, LEA_SHIFTS, LEA_ADDENDS = 7, 32, 3
FMUL_SCALES = 64  # far beyond any ISA's, and exact in float64
INTEGERS = range(uops.I8, uops.U64 + 1)
FLOATS = range(uops.F16, uops.F64 + 1)
MASK_WORDS = max(uops.WAVES) // 32
FUNCTIONS = (
    uops.MUFU_COS, uops.MUFU_SIN, uops.MUFU_EX2, uops.MUFU_LG2, uops.MUFU_RCP, uops.MUFU_RSQ, uops.MUFU_SQRT,
    uops.MUFU_TANH,
)  # fmt: skip


def mod_below(limit: int) -> Detail:
    return lambda r: r["mod"] < limit


def imm_below(limit: int) -> Detail:
    return lambda r: (r["imm"] >= 0) & (r["imm"] < limit)


def comparison(conditions: int) -> Detail:
    """Condition in bits 3:0, how it combines from BOOL_SHIFT on."""
    return lambda r: (r["mod"] & 15 < conditions) & (r["mod"] >> uops.BOOL_SHIFT <= uops.B_XOR)


def halves(r: Any) -> Any:
    """The choice of halves of three sources, and nothing above."""
    chosen = [np.isin(r["mod"] >> shift & 3, HALF_CHOICES) for shift in (0, 2, 4)]
    return np.logical_and.reduce(chosen)


def packed(r: Any) -> Any:
    return halves(r) & (r["mod"] >> 6 == 0)


def packed_comparison(r: Any) -> Any:
    return halves(r) & (r["mod"] >> 6 & 3 == 0) & (r["mod"] >> 12 & 3 <= uops.B_XOR) & (r["mod"] >> 15 == 0)


def formats(to: range, origin: range, same: bool = False) -> Detail:
    """Destination and source of a conversion; `imm` names the part of a narrow source."""

    def known(r: Any) -> Any:
        target, source = r["mod"] & 15, r["mod"] >> uops.FORMAT_SHIFT
        parts = np.where(np.isin(source, (uops.I8, uops.U8)), 4, 2)
        fits = np.isin(target, to) & np.isin(source, origin) & (r["imm"] >= 0) & (r["imm"] < parts)
        return fits & (target == source) if same else fits

    return known


def atomic(r: Any) -> Any:
    operation, kind = r["mod"] & 15, r["mod"] >> uops.ATOMIC_TYPE_SHIFT
    known = (operation <= uops.AT_CAS) & (kind <= uops.AT_F32) & (r["space"] != uops.S_CONST)
    return known & ((kind != uops.AT_F32) | (operation == uops.AT_ADD))


def load(r: Any) -> Any:
    """A constant load names its bank at once."""
    return (r["space"] != uops.S_CONST) | (r["kind"][:, 2] == uops.IMM)


def register_range(r: Any) -> Any:
    """First and last register that a number may choose."""
    first, last = r["mod"] & 0xFFFF, r["mod"] >> 16
    return (first <= last) & (last < uops.REGISTERS)


DETAILS: dict[str, Detail] = {
    "LEA": lambda r: imm_below(LEA_SHIFTS)(r) & mod_below(LEA_ADDENDS)(r),
    "LOP3": mod_below(1 << 8),
    "PRMT": mod_below(PRMT_MODES),
    "PLOP3": mod_below(1 << 16),
    "ISETP": comparison(8),
    "FSETP": comparison(16),
    "FSET": comparison(16),
    "DSETP": comparison(16),
    "FMUL": lambda r: (r["imm"] >= -FMUL_SCALES) & (r["imm"] <= FMUL_SCALES),
    "MUFU": lambda r: np.isin(r["mod"], FUNCTIONS),
    **dict.fromkeys(("HADD2", "HMUL2", "HFMA2", "HMNMX2"), packed),
    "HSETP2": packed_comparison,
    "F2F": formats(FLOATS, FLOATS),
    "FRND": formats(FLOATS, FLOATS, same=True),
    "F2I": formats(INTEGERS, FLOATS),
    "I2F": formats(FLOATS, INTEGERS),
    "VOTE": lambda r: mod_below(uops.VOTE_EQ + 1)(r) & imm_below(MASK_WORDS)(r),
    "SHFL": mod_below(uops.SHFL_BFLY + 1),
    "REDUX": mod_below(uops.RED_MAX + 1),
    **dict.fromkeys(("RGET", "RPUT"), register_range),
    "S2R": imm_below(uops.SR_LOCAL_WINDOW_HI + 1),
    "LD": load,
    "ST": lambda r: r["space"] != uops.S_CONST,
    "ATOM": atomic,
    **dict.fromkeys(("BSSY", "BSYNC", "BREAK", "BCLR"), imm_below(uops.BARRIER_REGISTERS)),
    "BAR": mod_below(uops.BAR_ARRIVE + 1),
}


def verify(program: Program) -> None:
    """Raise InvalidProgram naming the first record that breaks the contract, and how. Once for each program."""
    if program.detail.get("verified"):
        return
    records = program.records
    if records.dtype != uops.RECORD or not len(records) or not 0 <= program.entry < len(records):
        raise InvalidProgram("no records, or of another type")
    outside = [place for place in program.positions.values() if not 0 <= place < len(records)]
    if outside:
        raise InvalidProgram(f"an instruction at record {outside[0]} of {len(records)}")
    _refuse(records, "an operation that does not exist", records["op"] >= len(NAMES))
    for column in ("guard", "p", "p2", "p3", "pd", "pd2"):
        _refuse(records, f"predicate {column}", records[column] >= uops.PREDICATES)
    past = records["src"] > uops.REGISTERS - SPAN
    _refuse(records, "a source", ((records["kind"] > uops.CONST) | ((records["kind"] == uops.REG) & past)).any(axis=1))
    _refuse(records, "the destination", (records["d"] != NO_REG) & (records["d"] > uops.REGISTERS - SPAN))
    _refuse(records, "width or space", (records["width"] > uops.W_128) | (records["space"] > uops.S_GENERIC))
    _refuse(records, "the target", (records["op"] == NUMBERS["BRA"]) & (records["target"] >= len(records)))
    for name, known in DETAILS.items():
        at = np.flatnonzero(records["op"] == NUMBERS[name])
        if at.size:
            bad = np.zeros(len(records), np.bool_)
            bad[at] = ~known(records[at])
            _refuse(records, "mod, imm or space", bad)
    program.detail["verified"] = True


def _refuse(records: Any, what: str, bad: Bool) -> None:
    if bad.any():
        index = int(np.argmax(bad))
        raise InvalidProgram(f"record {index} of {len(records)}, {what}: {records[index]}")


def check_lanes(program: Program, lanes: int) -> None:
    """Raise InvalidProgram unless the program can run in warps of this many lanes: some operations hold a lane mask in
    one register."""
    if lanes not in uops.WAVES:
        raise InvalidProgram(f"warps of {lanes} lanes: there are {uops.WAVES}")
    if lanes == 32:
        return
    if "masked" not in program.detail:
        records = program.records
        masks = np.isin(records["op"], [NUMBERS[name] for name in ONE_WORD])
        special = (records["imm"] >= uops.SR_MASK_EQ) & (records["imm"] <= uops.SR_MASK_GE)
        program.detail["masked"] = np.flatnonzero(masks | (records["op"] == NUMBERS["S2R"]) & special)
    found = program.detail["masked"]
    if len(found):
        raise InvalidProgram(f"record {found[0]} needs warps of 32 lanes, not {lanes}: {program.records[found[0]]}")
