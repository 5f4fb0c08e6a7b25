"""Waves of 32, 64 and 128 lanes on every core: what lanes see of each other beyond 32 of them, partial waves, faults of
later lanes, and which programs only a wave of 32 lanes can run."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cores import CORES, direct
from uop_programs import Buffers, const, imm, launch, operands, program, reg, vector_add, vector_add_launch

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.launch import Result
from hcqrt.emu.engine.uops import A64, FULL, InvalidProgram, record
from hcqrt.emu.engine.verify import check_lanes

TRUE = {"p": uops.PT, "p_neg": 0}
VALUE = 10  # the register whose end each thread shows
Go = Callable[..., tuple[Result, list[int]]]


@pytest.fixture(params=CORES)
def core(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=uops.WAVES)
def lanes(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def go(core: str, lanes: int) -> Go:
    """Run records between a head (R1 = thread, R4 = va of its word) and a store of R10 to that word."""

    def run(records: list[Any], threads: int, patience: int = 0, **more: Any) -> tuple[Result, list[int]]:
        out = np.zeros(threads, np.uint32)
        buffers = Buffers(out)
        head = [
            record("S2R", d=1, imm=uops.SR_TID_X),
            record("MADW", d=4, **operands(reg(1), imm(4), const(0))),
        ]
        show = record("ST", flags=A64, width=uops.W_32, **operands(reg(4), None, reg(VALUE)))
        code = replace(program(*head, *records, show, record("EXIT")), patience=patience)
        job = launch(buffers, struct.pack("<Q", buffers.va[0]), (1,), (threads,), **{"lanes": lanes, **more})
        return direct(core)(code, job), out.tolist()

    return run


def below(d: int, limit: int, number: int = 1) -> Any:
    """Predicate d = R[number] < limit."""
    return record("ISETP", pd=d, mod=uops.C_LT, **TRUE, **operands(reg(number), imm(limit)))


@pytest.mark.parametrize("n", (1, 1000, 40000))
def test_vector_add(core: str, lanes: int, n: int) -> None:
    described, buffers = vector_add_launch(n)
    result = direct(core)(vector_add(), replace(described, lanes=lanes))
    assert (result.fault, result.instructions) == (None, 5 * (-(-n // 256) * 256) + 8 * n)
    assert buffers.arrays[2].tobytes() == (buffers.arrays[0] + buffers.arrays[1]).tobytes()


def test_an_empty_grid_or_block_runs_nothing(core: str, lanes: int) -> None:
    described, buffers = vector_add_launch(100)
    for change in ({"grid": (0, 1, 1)}, {"block": (0, 1, 1)}):
        assert direct(core)(vector_add(), replace(described, lanes=lanes, **change)) == Result(0)
    assert not buffers.arrays[2].any()


def test_lanes_and_warps_are_counted_by_the_lanes_of_the_launch(go: Go, lanes: int) -> None:
    lane, warp = record("S2R", d=2, imm=uops.SR_LANE), record("S2R", d=3, imm=uops.SR_WARP_ID)
    result, out = go([lane, warp, record("LEA", d=VALUE, imm=8, **operands(reg(3), reg(2)))], 300)
    assert result.fault is None
    assert out == [n // lanes << 8 | n % lanes for n in range(300)]


@pytest.mark.parametrize("word", range(4))
def test_a_vote_gives_each_word_of_the_mask(go: Go, lanes: int, word: int) -> None:
    """Of 200 threads those that a third divides; the last warp has lanes without a thread."""
    third = record("MADH", d=2, **operands(reg(1), imm(0x55555556)))
    rest = record("MAD", d=2, **operands(reg(2), imm(-3), reg(1)))
    none = record("ISETP", pd=0, mod=uops.C_EQ, **TRUE, **operands(reg(2)))
    vote = record("VOTE", d=VALUE, imm=word, mod=uops.VOTE_ANY, p=0, p_neg=0)
    result, out = go([third, rest, none, vote], 200)
    assert result.fault is None
    for n, mask in enumerate(out):
        first = n - n % lanes
        whole = sum(1 << t - first for t in range(first, min(first + lanes, 200)) if t % 3 == 0)
        assert mask == whole >> 32 * word & 0xFFFFFFFF, n


def test_a_vote_of_all_asks_every_lane(go: Go, lanes: int) -> None:
    """One lane of the second half says no; threads that are not there are not asked."""
    odd_one_out = lanes // 2 + 5
    no = record("ISETP", pd=0, mod=uops.C_NE, **TRUE, **operands(reg(1), imm(odd_one_out)))
    vote = [record("VOTE", pd=1, mod=how, p=0, p_neg=0) for how in (uops.VOTE_ALL, uops.VOTE_EQ)]
    result, out = go([no, vote[0], record("SEL", d=VALUE, p=1, p_neg=0, **operands(imm(2), imm(1)))], lanes + 7)
    assert result.fault is None and out == [1] * lanes + [2] * 7
    result, out = go([no, vote[1], record("SEL", d=VALUE, p=1, p_neg=0, **operands(imm(2), imm(1)))], lanes + 7)
    assert result.fault is None and out == [1] * lanes + [2] * 7


def test_a_shuffle_reaches_across_the_whole_wave(go: Go, lanes: int) -> None:
    """Rotated by 33 lanes, mirrored by the top bit, and the clamp at the last lane."""
    add = record("ADD3", d=2, **operands(reg(1), imm(33)))
    turn = record("SHFL", d=VALUE, mod=uops.SHFL_IDX, **operands(reg(1), reg(2), imm(0xFF)))
    result, out = go([add, turn], 2 * lanes)
    assert result.fault is None
    assert out == [n - n % lanes + (n + 33) % lanes for n in range(2 * lanes)]
    mirror = record("SHFL", d=VALUE, mod=uops.SHFL_BFLY, **operands(reg(1), imm(lanes // 2), imm(0xFF)))
    result, out = go([mirror], lanes)
    assert out == [n ^ lanes // 2 for n in range(lanes)]
    down = record("SHFL", d=2, pd=0, mod=uops.SHFL_DOWN, **operands(reg(1), imm(20), imm(0xFF)))
    result, out = go([down, record("SEL", d=VALUE, p=0, p_neg=0, **operands(reg(2), imm(-1)))], lanes)
    assert out == [n + 20 if n + 20 < lanes else 0xFFFFFFFF for n in range(lanes)]


def test_a_shuffle_stays_in_the_segment_of_its_mask(go: Go, lanes: int) -> None:
    """Halves of the wave by the mask's top bit: each lane reads lane 3 of its half."""
    half = lanes // 2
    c = half << 8 | half - 1
    result, out = go([record("SHFL", d=VALUE, mod=uops.SHFL_IDX, **operands(reg(1), imm(3), imm(c)))], lanes)
    assert result.fault is None and out == [3] * half + [half + 3] * half


def test_one_lane_of_the_last_slice_speaks_for_the_wave(go: Go, lanes: int) -> None:
    """Only the last lane passes: it alone is reduced and broadcast, and FULL stores to all."""
    only = record("ISETP", pd=0, mod=uops.C_EQ, **TRUE, **operands(reg(1), imm(lanes - 1)))
    for name in ("BCAST", "REDUX"):
        one = record(name, d=VALUE, flags=FULL, guard=0, mod=uops.RED_MIN * (name == "REDUX"), **operands(reg(1)))
        result, out = go([only, one], lanes)
        assert result.fault is None and out == [lanes - 1] * lanes
    total = record("REDUX", d=VALUE, flags=FULL, mod=uops.RED_SUM, **operands(reg(1)))
    result, out = go([total], lanes + 2)
    assert out == [lanes * (lanes - 1) // 2] * lanes + [2 * lanes + 1] * 2
    result, out = go([only, record("MOV", d=VALUE, flags=FULL, guard=0, **operands(imm(7)))], lanes + 2)
    assert out == [7] * lanes + [0] * 2  # nobody of the second wave passes


def test_lanes_that_leave_a_loop_wait_for_the_others_while_there_is_patience(go: Go, lanes: int) -> None:
    """Lane n turns n + 1 times. The smallest position runs first, so with patience they vote together behind the loop;
    without any the lane that leaves goes ahead when those that stay have had their turn."""
    word = lanes // 32 - 1
    records = [
        record("MOV", d=2, **operands(reg(1))),
        record("ADD3", d=2, **operands(reg(2), imm(-1))),
        record("ISETP", pd=0, mod=uops.C_GE, flags=uops.SIGNED, **TRUE, **operands(reg(2))),
        record("BRA", guard=0, target=3),
        record("VOTE", d=VALUE, mod=uops.VOTE_ALL, imm=word, **TRUE),
    ]
    back = lanes - 1  # branches backwards, of fewer lanes each time
    for patience, together in ((back, True), (back - 1, False), (0, False)):
        result, out = go(records, lanes, patience)
        assert result.fault is None
        if together:
            assert out == [0xFFFFFFFF] * lanes
        else:
            assert out != [0xFFFFFFFF] * lanes
        assert result.instructions == 6 * lanes + 3 * lanes * (lanes + 1) // 2
    assert out == [(1 << n) >> 32 * word for n in range(lanes)]


def test_a_lane_that_waits_for_a_later_one_lets_it_run(go: Go, lanes: int) -> None:
    """Lane 0 spins until the last lane, behind it in the program and in another slice, has stored."""
    base = record("MOV", d=6, flags=uops.WIDE, **operands(const(0)))
    others = record("ISETP", pd=0, mod=uops.C_NE, **TRUE, **operands(reg(1)))
    records = [
        base,
        others,
        record("BRA", guard=0, target=8),
        record("LD", d=2, flags=A64, width=uops.W_32, imm=4 * (lanes - 1), **operands(reg(6))),
        record("ISETP", pd=1, mod=uops.C_EQ, **TRUE, **operands(reg(2))),
        record("BRA", guard=1, target=5),
        record("MOV", d=VALUE, **operands(imm(9))),
    ]
    for patience in (0, 100):
        result, out = go(records, lanes, patience, budget=1_000_000)
        assert result.fault is None and out == [9] * lanes
        turns = 2 * (patience + 1) + 1  # the others need two: a move, and the store that the last turn reads
        assert result.instructions == 8 * lanes + 3 * turns
    result, out = go(records, lanes, 1000, budget=1000)
    assert result.fault is not None and result.fault.kind == "budget"  # too much patience for this budget


def test_lanes_that_end_are_not_asked_again(go: Go, lanes: int) -> None:
    """The first half of every wave ends; what is left votes alone."""
    half = [record("S2R", d=2, imm=uops.SR_LANE), below(0, lanes // 2, 2), record("EXIT", guard=0)]
    word = (lanes - 1) // 32
    vote = record("VOTE", d=VALUE, mod=uops.VOTE_ALL, imm=word, pd=1, **TRUE)
    result, out = go([*half, vote], 2 * lanes)
    mask = 0xFFFF0000 if lanes == 32 else 0xFFFFFFFF
    assert result.fault is None and out == ([0] * (lanes // 2) + [mask] * (lanes // 2)) * 2
    assert result.instructions == 2 * (5 * lanes + 3 * lanes // 2)


def test_a_block_barrier_holds_whole_waves(go: Go, lanes: int) -> None:
    """Thread t leaves t in shared memory and reads, behind the barrier, what the thread across the block left."""
    threads = 3 * lanes - 9
    there, back = record("LEA", d=2, imm=2, **operands(reg(1))), operands(reg(1), imm(-4), imm(4 * (threads - 1)))
    records = [
        there,
        record("ST", space=uops.S_SHARED, width=uops.W_32, **operands(reg(2), None, reg(1))),
        record("BAR"),
        record("MAD", d=2, **back),
        record("LD", d=VALUE, space=uops.S_SHARED, width=uops.W_32, **operands(reg(2))),
    ]
    result, out = go(records, threads, shared_bytes=4 * threads)
    assert result.fault is None and out == list(range(threads - 1, -1, -1))


def test_a_barrier_of_more_waves_than_there_are_is_a_deadlock(go: Go, lanes: int) -> None:
    bar = record("BAR", **operands(imm(1), imm(3 * lanes)))
    result, _ = go([below(0, lanes), record("EXIT", guard=0), bar], 3 * lanes)
    assert result.fault is not None
    assert (result.fault.kind, result.fault.pc, result.fault.thread) == ("deadlock", 0x1040, (lanes, 0, 0))
    result, _ = go([bar], 3 * lanes)
    assert result.fault is None


@pytest.mark.parametrize("name", ("ST", "ATOM"))
def test_a_fault_of_the_last_lane_keeps_the_others_from_storing(go: Go, lanes: int, name: str) -> None:
    """All lanes are checked before the first one writes, however many there are."""
    fields = {"mod": uops.AT_ADD} if name == "ATOM" else {"width": uops.W_32}
    access = record(name, flags=A64, **fields, **operands(reg(4), None, imm(5)))
    move = record("MADW", d=4, imm=0, guard=0, **operands(imm(1), imm(64), reg(4)))
    last = record("ISETP", pd=0, mod=uops.C_EQ, **TRUE, **operands(reg(1), imm(lanes - 1)))
    result, out = go([last, move, access], lanes)
    fault = result.fault
    assert fault is not None and (fault.kind, fault.thread) == ("global", (lanes - 1, 0, 0))
    assert fault.access == ("atomic" if name == "ATOM" else "write") and out == [0] * lanes


def test_a_constant_that_is_not_there_is_the_fault_of_the_first_lane_that_passes(go: Go, lanes: int) -> None:
    late = lanes - 3
    for flags in (0, FULL):
        missing = record("MOV", d=VALUE, guard=0, guard_neg=1, flags=flags, **operands(const(0x100)))
        result, _ = go([below(0, late), missing], lanes)
        assert result.fault is not None
        assert (result.fault.kind, result.fault.address, result.fault.thread) == ("constant", 0x100, (late, 0, 0))


def test_atomics_run_lane_after_lane(go: Go, lanes: int) -> None:
    base = record("MOV", d=6, flags=uops.WIDE, **operands(const(0)))
    tick = record("ATOM", d=VALUE, flags=A64, mod=uops.AT_ADD, **operands(reg(6), None, imm(2)))
    result, out = go([base, tick], lanes)
    assert result.fault is None and out == [2 * n for n in range(lanes)]  # word 0 is thread 0's, which stores it anew


def test_local_memory_is_each_lanes_own(go: Go) -> None:
    common = {"space": uops.S_LOCAL, "width": uops.W_32, "imm": 8}
    keep, again = record("ST", **common, **operands(None, None, reg(1))), record("LD", d=VALUE, **common)
    result, out = go([keep, again], 200, local_low_bytes=16)
    assert result.fault is None and out == list(range(200))


def fill_registers(count: int) -> list[Any]:
    """R20 on = 1000 * k + thread."""
    return [record("ADD3", d=20 + k, **operands(reg(1), imm(1000 * k))) for k in range(count)]


RANGE = 20 | 23 << 16


def test_a_lane_reads_the_register_it_names(go: Go) -> None:
    index = record("LOP3", d=2, mod=0xC0, **operands(reg(1), imm(3)))
    result, out = go([*fill_registers(4), index, record("RGET", d=VALUE, imm=20, mod=RANGE, **operands(reg(2)))], 150)
    assert result.fault is None and out == [1000 * (n % 4) + n for n in range(150)]
    back = record("RGET", d=VALUE, imm=-5, mod=RANGE, **operands(imm(25)))  # K may be negative, and a no register
    result, out = go([*fill_registers(4), back], 150)
    assert result.fault is None and out == list(range(150))


def test_a_lane_writes_the_register_it_names_and_no_other(go: Go) -> None:
    """Threads 0, 4, 8 … write R20, the next ones R21, R22, R23; thread 1 and its like are kept out by the guard."""
    index = record("LOP3", d=2, mod=0xC0, **operands(reg(1), imm(3)))
    skip = record("ISETP", pd=0, mod=uops.C_NE, **TRUE, **operands(reg(2), imm(1)))
    write = record("RPUT", imm=20, mod=RANGE, guard=0, **operands(reg(2), imm(7)))
    gather = [record("LEA", d=VALUE, imm=4, **operands(reg(VALUE), reg(20 + k))) for k in range(4)]
    clear = [record("MOV", d=20 + k) for k in range(4)]
    result, out = go([*clear, index, skip, write, *gather], 150)
    assert result.fault is None
    assert out == [0 if n % 4 == 1 else 7 << 4 * (3 - n % 4) for n in range(150)]


def test_the_number_of_a_register_is_read_before_it_is_written(go: Go) -> None:
    """R20 holds its own number and R21's in turn; RPUT and RGET of it take the number from before."""
    records = [
        record("LOP3", d=20, mod=0xC0, **operands(reg(1), imm(1))),
        record("RPUT", imm=20, mod=RANGE, **operands(reg(20), reg(1))),
        record("RGET", d=20, imm=0, mod=RANGE, **operands(imm(21))),
        record("MOV", d=VALUE, **operands(reg(20))),
    ]
    result, out = go(records, 150)
    assert result.fault is None and out == [n if n % 2 else 0 for n in range(150)]


@pytest.mark.parametrize(("name", "access"), (("RGET", "read"), ("RPUT", "write")))
@pytest.mark.parametrize(("bias", "thread", "number"), ((0, 24, 24), (-10, 0, 0xFFFFFFF6), (20, 4, 24)))
def test_a_register_out_of_range_is_a_fault(
    go: Go, lanes: int, name: str, access: str, bias: int, thread: int, number: int
) -> None:
    """Thread n names register n + bias; those the guard keeps out may name any."""
    access_it = record(name, d=VALUE, imm=bias, mod=RANGE, guard=0, guard_neg=1, **operands(reg(1), imm(1)))
    guarded = below(0, 20 - bias) if bias == 0 else record("NOP")
    result, out = go([guarded, access_it], 40)
    fault = result.fault
    assert fault is not None and not any(out)
    assert (fault.kind, fault.access, fault.pc) == ("register", access, 0x1030)
    assert (fault.thread, fault.address) == ((thread, 0, 0), number)


def test_the_last_instruction_ends_where_its_isa_says(core: str, lanes: int) -> None:
    for size in (8, 16):
        code = replace(program(record("NOP")), instruction_bytes=size)
        result = direct(core)(code, launch(Buffers(np.zeros(4, np.uint8)), b"", (1,), (40,), lanes=lanes))
        assert result.fault is not None
        assert (result.fault.kind, result.fault.pc) == ("illegal_instruction", 0x1000 + size)


ONE_REGISTER_MASKS = {
    "match": record("MATCH", d=0),
    "warpsync": record("WARPSYNC", **operands(imm(-1))),
    "bssy": record("BSSY", imm=0),
    "bsync": record("BSYNC", imm=0),
    "break": record("BREAK", imm=0),
    "bclr": record("BCLR", imm=0),
    **{f"mask {n}": record("S2R", d=0, imm=n) for n in range(uops.SR_MASK_EQ, uops.SR_MASK_GE + 1)},
}


@pytest.mark.parametrize("what", ONE_REGISTER_MASKS)
def test_masks_in_one_register_need_waves_of_32(core: str, what: str) -> None:
    code = program(record("NOP"), ONE_REGISTER_MASKS[what], record("EXIT"))
    job = launch(Buffers(np.zeros(4, np.uint8)), b"", (1,), (32,))
    for many in (64, 128):
        with pytest.raises(InvalidProgram, match=f"record 1 needs warps of 32 lanes, not {many}"):
            direct(core)(code, replace(job, lanes=many))
    assert direct(core)(code, job).fault is None


def test_waves_of_other_sizes_are_refused(core: str) -> None:
    job = launch(Buffers(np.zeros(4, np.uint8)), b"", (1,), (32,))
    for many in (0, 1, 16, 33, 96, 256):
        with pytest.raises(InvalidProgram, match=f"warps of {many} lanes"):
            direct(core)(program(record("EXIT")), replace(job, lanes=many))


def test_other_special_registers_are_no_masks() -> None:
    others = [n for n in range(30) if not uops.SR_MASK_EQ <= n <= uops.SR_MASK_GE]
    moved = record("MOV", d=0, imm=uops.SR_MASK_EQ)  # K of another operation
    check_lanes(program(*[record("S2R", d=0, imm=n) for n in others], moved, record("EXIT")), 64)
