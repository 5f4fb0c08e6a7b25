"""The assembler: labels, comments, scheduling by hand and the safe scheduling of everything else."""

from __future__ import annotations

import struct

import pytest

from hcqrt.isa.sass import Instruction, SassError, Target, assemble, decode, disassemble
from hcqrt.isa.sass.assembler import assemble_instructions
from hcqrt.isa.sass.model import NO_BARRIER
from hcqrt.isa.sass.schedule import read, written

URZ = 63
VECTOR_ADD = """
    // out, a, b: pointers at c[0x0][0x0], 0x8, 0x10
    S2R R0, SR_TID.X
    LEA R2, P0, R0, c[0x0][0x8], 0x2
    LEA.HI.X R3, R0, c[0x0][0xc], RZ, 0x2, P0
    LDG.E R4, [R2]
    LEA R2, P0, R0, c[0x0][0x10], 0x2
    LEA.HI.X R3, R0, c[0x0][0x14], RZ, 0x2, P0
    LDG.E R5, [R2]
    LEA R2, P0, R0, c[0x0][0x0], 0x2
    LEA.HI.X R3, R0, c[0x0][0x4], RZ, 0x2, P0
    FADD R4, R4, R5
    STG.E [R2], R4
    EXIT
"""


def words(code: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack("<QQ", code))


def test_a_program_assembles_to_the_text_it_was_written_as() -> None:
    lines = [line.split("//")[0].strip() for line in VECTOR_ADD.splitlines()]
    assert disassemble(assemble(VECTOR_ADD, 86), 86) == [line for line in lines if line]


def test_labels_reach_forward_and_backward() -> None:
    code = assemble_instructions("start: @P0 BRA end\nBRA start\nend: EXIT", 86)
    assert code[0].args["target"] == Target(16)
    assert code[1].args["target"] == Target(-32)


def test_scheduling_by_hand_is_taken_as_it_is() -> None:
    (lo, hi), = words(assemble("LDG.E R4, [R2] [stall=4 wr=1 rd=2 wait=0x3 yield]", 86))  # fmt: skip
    sched = decode(lo, hi, 86).sched
    assert (sched.stall, sched.write_barrier, sched.read_barrier, sched.wait_mask) == (4, 1, 2, 3)
    assert sched.yield_


def check_safe(code: list[Instruction]) -> None:
    """Replay `code` as hardware runs it: whoever touches a register must have waited for those still using it."""
    to_write: dict[int, set[tuple[str, int]]] = {}
    to_read: dict[int, set[tuple[str, int]]] = {}
    for inst in code:
        for number in range(6):
            if inst.sched.wait_mask >> number & 1:
                to_write.pop(number, None)
                to_read.pop(number, None)
        sources, results = read(inst, URZ), written(inst, URZ)
        for pending in to_write.values():
            assert not pending & (sources | results), f"{inst} does not wait for a result"
        for pending in to_read.values():
            assert not pending & results, f"{inst} overwrites a source in use"
        if inst.sched.write_barrier != NO_BARRIER:
            to_write.setdefault(inst.sched.write_barrier, set()).update(results)
        if inst.sched.read_barrier != NO_BARRIER:
            to_read.setdefault(inst.sched.read_barrier, set()).update(sources)


def test_results_of_variable_latency_are_waited_for() -> None:
    code = assemble_instructions(VECTOR_ADD, 86)
    check_safe(code)
    by_name = {inst.mnemonic: inst for inst in code}
    load, add = code[3], by_name["FADD"]
    assert load.sched.write_barrier != NO_BARRIER
    assert load.sched.read_barrier != NO_BARRIER
    assert add.sched.wait_mask >> load.sched.write_barrier & 1
    # The second address overwrites R2 and R3, which the first load still reads.
    assert code[4].sched.wait_mask >> load.sched.read_barrier & 1


def test_more_loads_than_scoreboards_stay_safe() -> None:
    loads = "\n".join(f"LDG.E R{4 + at}, [R2+{at * 4:#x}]" for at in range(20))
    sums = "\n".join(f"FADD R3{at % 2}, R{4 + at}, R{5 + at}" for at in range(18))
    check_safe(assemble_instructions(f"{loads}\n{sums}\nEXIT", 86))


def test_64_bit_results_cover_both_registers() -> None:
    code = assemble_instructions("LDG.E.64 R4, [R2]\nMOV R8, R5\nEXIT", 86)
    assert code[1].sched.wait_mask >> code[0].sched.write_barrier & 1
    code = assemble_instructions("DADD R4, R2, R6\nDMUL R8, R4, R4\nMOV R0, R9\nEXIT", 86)
    check_safe(code)
    assert code[2].sched.wait_mask


def test_fixed_latency_stalls_cover_their_results() -> None:
    code = assemble_instructions("IADD3 R0, R1, R2, RZ\nISETP.EQ.AND P0, PT, R0, RZ, PT\nUMOV UR4, 0x1\nEXIT", 86)
    assert code[0].sched.stall >= 6
    assert code[1].sched.stall >= 13  # predicates reach guards later than registers reach operands
    assert code[2].sched.stall >= 12


def test_only_instructions_that_read_registers_count_for_a_read_scoreboard() -> None:
    (guarded, load, _) = assemble_instructions("@P0 S2R R0, SR_TID.X\nLDG.E R4, [R2]\nEXIT", 86)
    assert guarded.sched.read_barrier == NO_BARRIER
    assert load.sched.read_barrier != NO_BARRIER


def test_instructions_of_fixed_latency_set_no_scoreboard() -> None:
    for line in ("CS2R R2, SR_CLOCKLO", "ULDC UR4, c[0x0][0x0]", "VOTE.ANY R7, PT, P0", "UFLO.U32 UR1, UR2"):
        inst = assemble_instructions(f"{line}\nEXIT", 86)[0]
        assert (inst.sched.write_barrier, inst.sched.read_barrier) == (NO_BARRIER, NO_BARRIER)
        assert inst.sched.stall >= 12


def test_what_has_a_fixed_latency_depends_on_the_chip() -> None:
    """As the compilers' code shows: ptxas for Hopper stalls after doubles, Blackwell's uniform loads are waited for."""
    for sm, line, waits in (
        (86, "DADD R4, R2, R6", True), (90, "DADD R4, R2, R6", False), (100, "DADD R4, R2, R6", True),
        (90, "ULDC UR4, c[0x0][0x0]", False), (120, "LDCU UR4, c[0x0][0x4]", True),
    ):  # fmt: skip
        inst = assemble_instructions(f"{line}\nEXIT", sm)[0]
        assert (inst.sched.write_barrier != NO_BARRIER) == waits, (sm, line)
        assert waits or inst.sched.stall == 15


def test_nothing_is_in_flight_at_a_branch() -> None:
    code = assemble_instructions("top: LDG.E R4, [R2]\nISETP.EQ.AND P0, PT, R0, RZ, PT\n@P0 BRA top\nEXIT", 86)
    wanted = 1 << code[0].sched.write_barrier | 1 << code[0].sched.read_barrier
    assert code[2].sched.wait_mask & wanted == wanted


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("NOP\nFROB R1, R2", "line 2: .*FROB"),
        ("MOV R300, R1", "line 1: .*MOV R300"),
        ("BRA nowhere", "line 1: .*BRA nowhere"),
        ("a: NOP\na: NOP", "line 2: label a is defined twice"),
        ("NOP [stall=16]", "stall = 0x10 does not fit"),
        ("NOP [wr=6]", "there are 6 scoreboards"),
        ("IADD3 R1, R2, |R3|, RZ", "line 1"),
        ("MOV R1, 0x100000000", "line 1"),
        ("HMMA.16816.F32 R4, R16, R2, R4", "scheduling fields written by hand"),
    ],
)
def test_mistakes_are_refused(source: str, message: str) -> None:
    with pytest.raises(SassError, match=message):
        assemble(source, 86)
