"""The NumPy core: order, faults, divergence, barriers, and that a wide run leaves what a narrow run leaves."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from cores import CORES, direct
from random_programs import random_case
from uop_programs import Buffers, const, engine_ns, imm, launch, operands, program, reg, vector_add, vector_add_launch

from hcqrt.emu.engine import core_numpy, uops
from hcqrt.emu.engine.core_numpy import grid
from hcqrt.emu.engine.uops import A64, FULL, RM, SIGNED, record

SEEDS = {32: 60, 64: 30, 128: 20}  # random programs, by the lanes of a warp


@pytest.fixture(params=("wide", "narrow", *(core for core in CORES if core != "numpy")))
def run(request, monkeypatch):
    """`core_numpy.run`, once free to go wide and once block by block, and every other core."""
    if request.param == "narrow":
        monkeypatch.setattr(grid, "can_go_wide", lambda records: False)
    return direct("numpy" if request.param in ("wide", "narrow") else request.param)


def lane_index(block_threads):
    """R0 = index of the thread in the grid, R1 = its number in the block."""
    return [
        record("S2R", d=1, imm=uops.SR_TID_X),
        record("S2R", d=264, imm=uops.SR_CTAID_X, flags=FULL),
        record("MAD", d=0, **operands(reg(264), imm(block_threads), reg(1))),
    ]


def address(d, base_offset, index=0, scale=4):
    return record("MADW", d=d, **operands(reg(index), imm(scale), const(base_offset)))


def load(d, base, **more):
    return record("LD", **{"d": d, "flags": A64, "width": uops.W_32, **operands(reg(base)), **more})


def store(base, value, **more):
    return record("ST", **{"flags": A64, "width": uops.W_32, **operands(reg(base), None, reg(value)), **more})


def outputs(run, records, count, block=32, blocks=1, extra=b"", **more):
    """Run with c[0][0] = the va of `count` words of output; the result and the words."""
    out = np.zeros(count, np.uint32)
    buffers = Buffers(out)
    constants = struct.pack("<Q", buffers.va[0]) + extra
    return run(program(*records), launch(buffers, constants, (blocks,), (block,), **more)), out


@pytest.mark.parametrize("n", (1, 255, 256, 1000, 40000))
@pytest.mark.parametrize("in_place", (False, True))
def test_vector_add(run, n, in_place):
    described, buffers = vector_add_launch(n, in_place)
    want = buffers.arrays[0] + buffers.arrays[1]
    result = run(vector_add(), described)
    threads = -(-n // 256) * 256
    assert (result.fault, result.instructions) == (None, 5 * threads + 8 * n)
    assert buffers.arrays[0 if in_place else 2].tobytes() == want.tobytes()


def test_the_last_thread_wins_where_all_store_to_one_word(run):
    records = [*lane_index(64), record("MOV", d=2, **operands(const(0))), record("MOV", d=3, **operands(const(4)))]
    result, out = outputs(run, [*records, store(2, 0), record("EXIT")], 1, 64, 8)
    assert result.fault is None and out[0] == 64 * 8 - 1


def test_threads_that_meet_in_memory_do_so_in_the_order_of_the_contract(run):
    """Each thread adds its index to a running total without any atomic: block after block, warp after warp."""
    records = [*lane_index(32), record("MOV", d=2, **operands(const(0))), record("MOV", d=3, **operands(const(4)))]
    records += [load(4, 2), record("ADD3", d=4, **operands(reg(4), reg(0))), store(2, 4), record("EXIT")]
    result, out = outputs(run, records, 1, 32, 5)
    assert result.fault is None
    assert out[0] == sum(32 * block + 31 for block in range(5))


def test_a_shifted_copy_inside_one_buffer_reads_what_earlier_blocks_wrote(run):
    """x[i + 32] = x[i]: each block of 32 copies what the one before left."""
    records = [*lane_index(32), address(2, 0), load(4, 2)]
    records += [store(2, 4, imm=128), record("EXIT")]
    out = np.arange(32 * 5, dtype=np.uint32)
    buffers = Buffers(out)
    result = run(program(*records), launch(buffers, struct.pack("<Q", buffers.va[0]), (4,), (32,)))
    assert result.fault is None and out.tolist() == list(range(32)) * 5


def test_two_mappings_of_the_same_bytes_are_seen_as_one(run):
    shared = np.arange(64, dtype=np.uint32)
    buffers = Buffers(shared, shared)
    records = [*lane_index(32), address(2, 0), address(4, 8), load(6, 2)]
    records += [store(4, 6, imm=128), record("EXIT")]
    result = run(program(*records), launch(buffers, struct.pack("<QQ", *buffers.va), (1,), (32,)))
    assert result.fault is None and shared.tolist() == list(range(32)) * 2


@pytest.mark.parametrize(
    ("change", "kind", "access", "lane", "offset"),
    [
        ({}, "global", "write", 8, 32),
        ({"imm": 2}, "misaligned", "write", 0, 2),
        ({"width": uops.W_64}, "misaligned", "write", 1, 4),
    ],
)
def test_a_fault_names_the_first_lane_and_keeps_what_came_before(run, change, kind, access, lane, offset):
    records = [*lane_index(64), address(2, 0), store(2, 0, **change), record("EXIT")]
    result, out = outputs(run, records, 8, 64, 2)
    fault = result.fault
    assert (fault.kind, fault.access, fault.pc, fault.thread, fault.block) == (
        kind, access, 0x1000 + 16 * 4, (lane, 0, 0), (0, 0, 0)
    )  # fmt: skip
    assert fault.address - 0x7F0000000000 == offset
    assert not out.any()  # no lane of the faulting record has stored


def test_a_fault_in_a_later_block_leaves_the_stores_of_earlier_blocks(run):
    records = [*lane_index(32), address(2, 0), store(2, 0), record("EXIT")]
    result, out = outputs(run, records, 64, 32, 4)
    assert result.fault.block == (2, 0, 0) and result.fault.kind == "global"
    assert out.tolist() == list(range(64))
    assert result.instructions == 2 * 32 * 6 + 32 * 5


def test_a_store_to_read_only_memory_faults(run):
    out = np.zeros(64, np.uint32)
    buffers = Buffers(out, writable=(False,))
    records = [*lane_index(32), address(2, 0), load(4, 2), store(2, 0), record("EXIT")]
    result = run(program(*records), launch(buffers, struct.pack("<Q", buffers.va[0]), (1,), (32,)))
    assert (result.fault.kind, result.fault.access, result.fault.pc) == ("read_only", "write", 0x1050)


def test_constants_outside_their_bank_fault(run):
    for source, kind in ((const(0x4000), "constant"), (const(2), "misaligned"), (const(0, 3), "constant")):
        result, _ = outputs(run, [record("MOV", d=0, **operands(source)), record("EXIT")], 1, 64)
        assert (result.fault.kind, result.fault.access, result.fault.thread) == (kind, "read", (0, 0, 0))


def test_the_budget_ends_an_endless_loop(run):
    records = [record("NOP"), record("BRA", target=0)]
    result, _ = outputs(run, records, 1, 64, 3, budget=1000)
    assert result.fault.kind == "budget" and result.instructions == 992  # 31 records of 32 lanes
    assert result.fault.block == (0, 0, 0)


def test_running_past_the_end_and_traps(run):
    result, _ = outputs(run, [record("NOP")], 1, 64)
    assert (result.fault.kind, result.fault.pc) == ("illegal_instruction", 0x1010)
    test = record("ISETP", pd=0, mod=uops.C_EQ, p=7, p_neg=0, **operands(reg(0), imm(70)))
    result, _ = outputs(run, [*lane_index(64), test, record("TRAP", guard=0), record("EXIT")], 1, 64, 2)
    assert (result.fault.kind, result.fault.block, result.fault.thread) == ("trap", (1, 0, 0), (6, 0, 0))


def diverging(body_even, body_odd):
    """if (lane & 1) odd else even, rejoined by B0."""
    head = [*lane_index(32), record("LOP3", d=2, pd=0, mod=0xC0, **operands(reg(0), imm(1)))]
    start = len(head)
    records = [*head, record("BSSY", imm=0)]
    records.append(record("BRA", guard=0, target=start + 3 + len(body_even)))
    records += [*body_even, record("BRA", target=start + 3 + len(body_even) + len(body_odd))]
    return [*records, *body_odd, record("BSYNC", imm=0)]


def test_lanes_part_and_join_again(run):
    records = diverging([record("MOV", d=4, **operands(imm(10)))], [record("MOV", d=4, **operands(imm(20)))])
    records += [record("VOTE", d=5, p=7, p_neg=0, mod=uops.VOTE_ALL), address(6, 0)]
    records += [record("ADD3", d=4, **operands(reg(4), reg(5))), store(6, 4), record("EXIT")]
    result, out = outputs(run, records, 128, 32, 4)
    assert result.fault is None
    assert out.tolist() == [9, 19] * 64  # all 32 lanes voted together: the mask is -1


def test_a_loop_whose_lanes_leave_one_by_one(run):
    """R4 = R0 + ... + 1, counted down; lanes wait for each other at the end."""
    records = [*lane_index(32), record("MOV", d=3, **operands(reg(0))), record("MOV", d=4)]
    records += [record("BSSY", imm=1)]
    loop = len(records)
    records += [
        record("ISETP", pd=0, mod=uops.C_EQ, p=7, p_neg=0, **operands(reg(3))),
        record("BRA", guard=0, target=loop + 5),
        record("ADD3", d=4, **operands(reg(4), reg(3))),
        record("ADD3", d=3, **operands(reg(3), imm(-1))),
        record("BRA", target=loop),
        record("BSYNC", imm=1),
        record("VOTE", d=5, p=7, p_neg=0, mod=uops.VOTE_ALL),
        record("SEL", d=4, p=0, p_neg=0, **operands(reg(4), imm(0))),
        address(6, 0),
        store(6, 4),
        address(6, 8),
        store(6, 5),
        record("EXIT"),
    ]
    out, masks = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    buffers = Buffers(out, masks)
    result = run(program(*records), launch(buffers, struct.pack("<QQ", *buffers.va), (2,), (32,)))
    assert result.fault is None
    assert out.tolist() == [n * (n + 1) // 2 for n in range(64)] and set(masks) == {0xFFFFFFFF}


def test_a_spin_between_lanes_of_a_warp_ends(run):
    """Lane 0 waits for a word that lane 1, behind it in the program, stores."""
    records = [*lane_index(32), record("MOV", d=2, **operands(const(0))), record("MOV", d=3, **operands(const(4)))]
    records += [record("ISETP", pd=0, mod=uops.C_NE, p=7, p_neg=0, **operands(reg(0)))]
    loop = len(records) + 1
    records += [
        record("BRA", guard=0, target=loop + 3),
        load(4, 2),
        record("ISETP", pd=1, mod=uops.C_EQ, p=7, p_neg=0, **operands(reg(4))),
        record("BRA", guard=1, target=loop),
        store(2, 0),
        record("EXIT"),
    ]
    result, out = outputs(run, records, 1, 32, budget=100000)
    assert result.fault is None and out[0] in (0, 31)


def test_a_block_barrier_orders_shared_memory(run):
    """Thread t stores t to shared word t and, behind the barrier, reads the word of the thread across the block."""
    records = [*lane_index(96), record("MAD", d=2, **operands(reg(1), imm(4)))]
    records += [store(2, 0, space=uops.S_SHARED, flags=0), record("BAR")]
    records += [record("MAD", d=2, **operands(reg(1), imm(-4), imm(95 * 4)))]
    records += [load(4, 2, space=uops.S_SHARED, flags=0), address(6, 0), store(6, 4), record("EXIT")]
    result, out = outputs(run, records, 192, 96, 2, shared_bytes=384)
    assert result.fault is None
    assert out.tolist() == [*range(95, -1, -1), *range(191, 95, -1)]
    result, _ = outputs(run, records, 192, 96, 2, shared_bytes=256)
    assert (result.fault.kind, result.fault.thread, result.fault.address) == ("shared", (64, 0, 0), 256)


def test_a_barrier_that_a_warp_waits_for_in_vain_is_a_deadlock(run):
    records = [*lane_index(64), record("BAR", **operands(imm(1), imm(96))), record("EXIT")]
    result, _ = outputs(run, records, 1, 64)
    assert (result.fault.kind, result.fault.pc, result.fault.thread) == ("deadlock", 0x1030, (0, 0, 0))


def test_shuffles_votes_and_reductions(run):
    records = [
        *lane_index(32),
        record("SHFL", d=2, pd=0, mod=uops.SHFL_DOWN, **operands(reg(0), imm(1), imm(0x1F))),
        record("SEL", d=3, p=0, p_neg=0, **operands(reg(2), imm(-1))),
        record("REDUX", d=265, flags=FULL | SIGNED, mod=uops.RED_SUM, **operands(reg(0))),
        record("ADD3", d=3, **operands(reg(3), reg(265))),
        address(6, 0),
        store(6, 3),
        record("EXIT"),
    ]
    result, out = outputs(run, records, 32)
    assert result.fault is None
    total = sum(range(32))
    assert out.tolist() == [(n + 1 if n < 31 else -1) + total & 0xFFFFFFFF for n in range(32)]


def test_atomics_run_lane_after_lane(run):
    records = [*lane_index(32), record("MOV", d=2, **operands(const(0))), record("MOV", d=3, **operands(const(4)))]
    records += [record("ATOM", d=4, flags=A64, mod=uops.AT_ADD, **operands(reg(2), None, imm(3)))]
    records += [address(6, 0), store(6, 4, imm=4), record("EXIT")]
    result, out = outputs(run, records, 65, 32, 2)
    assert result.fault is None and out[0] == 192
    assert out[1:].tolist() == [3 * n for n in range(64)]


def test_local_memory_is_private_and_has_two_ends(run):
    records = [*lane_index(32)]
    for offset in (8, (1 << 24) - 16):
        records += [
            store(8, 0, space=uops.S_LOCAL, flags=0, imm=offset),
            load(4, 8, space=uops.S_LOCAL, flags=0, imm=offset),
        ]
        records += [record("ADD3", d=5, **operands(reg(5), reg(4)))]
    records += [address(6, 0), store(6, 5), record("EXIT")]
    sizes = {"local_low_bytes": 16, "local_high_bytes": 32}
    result, out = outputs(run, records, 128, 32, 4, **sizes)
    assert result.fault is None and out.tolist() == [2 * n for n in range(128)]
    result, _ = outputs(run, records, 128, 32, 4, **{**sizes, "local_high_bytes": 8})
    assert (result.fault.kind, result.fault.address) == ("local", (1 << 24) - 16)


def test_generic_addresses_fall_into_their_windows(run):
    windows = {"shared_window_va": 0xFE000000, "local_window_va": 0xFF000000}
    records = [
        *lane_index(32),
        record("MAD", d=2, **operands(reg(1), imm(4), imm(0xFE000000))),
        store(2, 0, space=uops.S_GENERIC, flags=0),
        record("MOV", d=4, **operands(imm(0xFF000000))),
        store(4, 1, space=uops.S_GENERIC, flags=0),
        load(5, 8, space=uops.S_LOCAL, flags=0),
        record("MAD", d=9, **operands(reg(1), imm(4))),
        load(7, 9, space=uops.S_SHARED, flags=0),
        record("ADD3", d=5, **operands(reg(5), reg(7))),
        address(2, 0),
        store(2, 5, space=uops.S_GENERIC),
        record("EXIT"),
    ]
    result, out = outputs(run, records, 64, 32, 2, shared_bytes=128, local_low_bytes=16, **windows)
    assert result.fault is None
    assert out.tolist() == [n + n % 32 for n in range(64)]


def test_wide_and_narrow_values_of_many_widths(run):
    draw = np.random.default_rng(5)
    source, out = draw.integers(0, 256, 16 * 64, np.uint8), np.zeros(16 * 64, np.uint8)
    buffers = Buffers(source, out)
    records = [*lane_index(32), address(2, 0, scale=16), address(4, 8, scale=16)]
    plan = ((uops.W_128, 0), (uops.W_64, 8), (uops.W_S8, 3), (uops.W_S16, 6), (uops.W_U16, 10), (uops.W_U8, 13))
    for width, offset in plan:
        records += [load(8, 2, width=width, imm=offset), store(4, 8, width=width, imm=offset)]
    result = run(program(*records, record("EXIT")), launch(buffers, struct.pack("<QQ", *buffers.va), (2,), (32,)))
    assert result.fault is None and out.tobytes() == source.tobytes()


def test_rounding_mode_reaches_the_kernel(run):
    down = RM << uops.ROUND_SHIFT
    records = [*lane_index(32), record("FADD", d=4, flags=down, **operands(imm(0x3F800000), imm(0xB0000000)))]
    result, out = outputs(run, [*records, address(6, 0), store(6, 4), record("EXIT")], 32)
    assert result.fault is None and set(out) == {0x3F7FFFFF}


@pytest.mark.parametrize("lanes", SEEDS)
def test_random_programs_leave_the_same_wide_and_narrow(monkeypatch, lanes):
    wide = grid.Grid._wide
    kept = []
    monkeypatch.setattr(grid.Grid, "_wide", lambda *arguments: kept.append(wide(*arguments)) or kept[-1])
    may = grid.can_go_wide
    for seed in range(SEEDS[lanes]):
        code, make = random_case(seed, lanes)
        outcomes = []
        for choice in (may, lambda records: False):
            monkeypatch.setattr(grid, "can_go_wide", choice)
            described, buffers = make()
            outcomes.append((core_numpy.run(code, described), *(array.tobytes() for array in buffers.arrays)))
        assert outcomes[0] == outcomes[1], f"seed {seed}"
    assert kept.count(True) > SEEDS[lanes] // 10


def test_a_wide_run_is_far_faster_than_a_narrow_one(monkeypatch):
    """No limit on a busy machine: a narrow run takes some 300 ns, a wide one about 4."""
    wide = engine_ns(core_numpy.run, 1 << 18, 3)
    monkeypatch.setattr(grid, "can_go_wide", lambda records: False)
    assert wide * 5 < engine_ns(core_numpy.run, 1 << 12, 1)
