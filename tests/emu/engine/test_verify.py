"""A program that breaks the contract is refused, by the check and by every core, before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cores import CORES, direct
from random_programs import random_case
from uop_programs import imm, operands, reg, vector_add_launch

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.uops import InvalidProgram, Program, record
from hcqrt.emu.engine.verify import DETAILS, verify

ABOVE = uops.REGISTERS - 3
BAD: dict[str, Any] = {
    "destination": record("MOV", d=ABOVE),
    "source": record("MOV", d=0, **operands(reg(ABOVE))),
    "kind of source": record("MOV", d=0, kind=[4, 0, 0, 0]),
    "predicate": record("PLOP3", pd=uops.PREDICATES),
    "guard": record("NOP", guard=uops.PREDICATES),
    "target": record("BRA", target=1),
    "barrier register": record("BSSY", imm=uops.BARRIER_REGISTERS),
    "barrier register below 0": record("BSYNC", imm=-1),
    "width": record("LD", width=7),
    "space": record("LD", space=5),
    "load from a bank in a register": record("LD", space=uops.S_CONST, **operands(None, None, reg(0))),
    "store to constants": record("ST", space=uops.S_CONST),
    "atomic on constants": record("ATOM", space=uops.S_CONST),
    "atomic operation": record("ATOM", mod=10),
    "atomic type": record("ATOM", mod=5 << uops.ATOMIC_TYPE_SHIFT),
    "special register": record("S2R", imm=30),
    "special function": record("MUFU", mod=6),
    "table of logic": record("LOP3", mod=0x100),
    "table of predicates": record("PLOP3", mod=0x10000),
    "prmt mode": record("PRMT", mod=7),
    "shift of LEA": record("LEA", imm=32),
    "integer comparison": record("ISETP", mod=8),
    "combination": record("FSETP", mod=3 << uops.BOOL_SHIFT),
    "halves": record("HADD2", mod=1),
    "halves of a comparison": record("HSETP2", mod=1 << 15),
    "format of a float conversion": record("F2F", mod=uops.I8),
    "format of an integer conversion": record("F2I", mod=uops.F32),
    "part of a source": record("I2F", mod=uops.F32 | uops.U16 << uops.FORMAT_SHIFT, imm=2),
    "formats of a rounding": record("FRND", mod=uops.F16 | uops.F32 << uops.FORMAT_SHIFT),
    "scale": record("FMUL", imm=65),
    "vote": record("VOTE", mod=3),
    "word of a vote": record("VOTE", imm=4),
    "word of a vote below 0": record("VOTE", imm=-1),
    "register range upside down": record("RGET", mod=9 | 8 << 16),
    "register range past the end": record("RPUT", mod=8 | uops.REGISTERS << 16),
    "shuffle": record("SHFL", mod=4),
    "reduction": record("REDUX", mod=6),
    "barrier": record("BAR", mod=2),
}


def broken(what: str) -> Program:
    return Program(np.array([BAD[what]], uops.RECORD), {0x1000: 0})


@pytest.mark.parametrize("what", BAD)
def test_a_record_that_breaks_the_contract_is_named(what: str) -> None:
    with pytest.raises(InvalidProgram, match="record 0 of 1"):
        verify(broken(what))


@pytest.mark.parametrize("core", CORES)
def test_no_core_runs_a_broken_program(core: str) -> None:
    for what in ("destination", "source", "predicate", "target", "barrier register", "width", "special register"):
        with pytest.raises(InvalidProgram):
            direct(core)(broken(what), vector_add_launch(32)[0])


def test_an_empty_program_and_an_entry_outside_are_refused() -> None:
    nothing = np.zeros(0, uops.RECORD)
    for records, entry, positions in (
        (nothing, 0, {}),
        (np.array([record("EXIT")]), 1, {}),
        (np.array([record("EXIT")]), 0, {0x1000: 1}),
        (np.zeros(1, np.uint64), 0, {}),
    ):
        with pytest.raises(InvalidProgram):
            verify(Program(records, positions, entry))


def test_every_operation_that_reads_mod_is_checked() -> None:
    """All others ignore it, so that nothing can hide there."""
    readers = {name for name, meaning in uops.OPS.items() if "mod" in meaning}
    assert readers - set(DETAILS) == set()


def test_what_random_programs_hold_is_accepted() -> None:
    for seed in range(50):
        verify(random_case(seed)[0])


def test_numbers_of_immediates_are_not_taken_for_registers() -> None:
    verify(Program(np.array([record("MOV", d=0, **operands(imm(-1))), record("EXIT")]), {}))
