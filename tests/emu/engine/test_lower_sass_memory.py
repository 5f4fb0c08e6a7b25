"""Loads, stores, atomic operations, barriers and exchanges between lanes, executed and compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cores import CORES
from sass_warp import LOCAL_WINDOW, SHARED_WINDOW, UR, P, R, Warp, ins, run, run_code

from hcqrt.isa.sass import Barrier, Const, Imm, Instruction, Mem, Pred, SpecialReg, Target, UReg

RNG = np.random.default_rng(3)
LANES = np.arange(32)
DATA = RNG.integers(0, 1 << 32, 256, np.uint64).astype(np.uint32)


def data() -> Any:
    return DATA.copy()


def at_lane(step: int, d: int = 10) -> Instruction:
    """R[d]:R[d+1] = the address of this lane's element of the data."""
    return ins("IMAD.WIDE", 0x825, d=R[d], a=R[2], b=Imm(step), c=R[20], sign="U32")


@pytest.mark.parametrize(
    ("name", "kind"), [("U8", np.uint8), ("S8", np.int8), ("U16", np.uint16), ("S16", np.int16), ("", np.uint32)]
)
def test_narrow_loads_extend(name: str, kind: Any) -> None:
    size = np.dtype(kind).itemsize
    code = [at_lane(size), ins("LDG", 0x381, d=R[8], addr=Mem(R[10], 3 * size), E=True, type=name)]
    (got,) = run(Warp({2: LANES}, data=data()), code, [R[8]])
    assert np.array_equal(got, DATA.view(kind)[3 : 3 + 32].astype(np.int64).astype(np.uint32))


@pytest.mark.parametrize("name", ["U8", "U16", "", "64", "128"])
def test_what_is_stored_is_loaded_and_nothing_beside_it(name: str) -> None:
    size = {"U8": 1, "U16": 2, "": 4, "64": 8, "128": 16}[name]
    values = {12 + k: RNG.integers(0, 1 << 32, 32) for k in range(4)}
    memory = data()
    code = [at_lane(2 * size), ins("STG", 0x386, addr=Mem(R[10], size), data=R[12], E=True, type=name)]
    run(Warp({2: LANES, **values}, data=memory), code, [])
    wanted = DATA.view(np.uint8).copy()
    words = np.stack([np.asarray(values[12 + k]).astype(np.uint32) for k in range(4)], axis=1)
    for lane in range(32):
        wanted[(2 * lane + 1) * size : (2 * lane + 2) * size] = words[lane].view(np.uint8)[:size]
    assert np.array_equal(memory.view(np.uint8), wanted)


def test_a_uniform_register_joins_the_address_unless_it_is_a_descriptor() -> None:
    code = [
        ins("IMAD", 0x824, d=R[10], a=R[2], b=Imm(4)),
        ins("LDG", 0x981, d=R[8], addr=Mem(R[10], 8, UReg(20))),
        at_lane(4, 12),
        ins("LDG", 0x981, d=R[9], addr=Mem(R[12], 8, UReg(4), wide=True, descriptor=True)),
    ]
    got = run(Warp({2: LANES}, uniforms={4: 0xDEAD, 5: 0xBEEF}, data=data()), code, [R[8], R[9]])
    assert np.array_equal(got[0], DATA[2:34])
    assert np.array_equal(got[1], DATA[2:34])


@pytest.mark.parametrize(("load", "store", "opcodes"), [("LDS", "STS", (0x984, 0x388)), ("LDL", "STL", (0x983, 0x387))])
def test_shared_is_of_the_block_and_local_of_the_thread(load: str, store: str, opcodes: tuple[int, int]) -> None:
    code = [
        ins("IMAD", 0x824, d=R[10], a=R[2], b=Imm(4)),
        ins(store, opcodes[1], addr=Mem(R[10], 16), data=R[3]),
        ins("LOP3", 0x812, d=R[11], a=R[10], b=Imm(0x7C), lut=0x3C, ps=Pred(7, True)),  # lane 31 - n
        ins(load, opcodes[0], d=R[8], addr=Mem(R[11], 16)),
        ins(load, opcodes[0], d=R[9], addr=Mem(R[10], 16)),
    ]
    values = RNG.integers(0, 1 << 32, 32)
    got = run(Warp({2: LANES, 3: values}), code, [R[8], R[9]])
    assert np.array_equal(got[1], values.astype(np.uint32))
    assert np.array_equal(got[0], values[::-1].astype(np.uint32) if load == "LDS" else np.zeros(32, np.uint32))


def test_shared_addresses_scale_and_take_a_uniform_register() -> None:
    code = [
        ins("IMAD", 0x824, d=R[10], a=R[2], b=Imm(4)),
        ins("STS", 0x388, addr=Mem(R[10], 0x40), data=R[3]),
        ins("LDS", 0x984, d=R[8], addr=Mem(R[2], 0x40, scale=4)),
        ins("LDS", 0x984, d=R[9], addr=Mem(R[10], 0, UReg(4))),
        ins("STS", 0x988, addr=Mem(R[10], 0x200, UReg(4)), data=R[3]),
        ins("LDS", 0x984, d=R[12], addr=Mem(R[10], 0x240)),
    ]
    values = RNG.integers(0, 1 << 32, 32)
    got = run(Warp({2: LANES, 3: values}, uniforms={4: 0x40}), code, [R[8], R[9], R[12]])
    assert all(np.array_equal(row, values.astype(np.uint32)) for row in got)


def test_generic_addresses_reach_every_window() -> None:
    def move(d: int, value: int) -> list[Instruction]:
        low, high = value & 0xFFFFFFFF, value >> 32
        return [ins("MOV", 0x802, d=R[d], b=Imm(low)), ins("MOV", 0x802, d=R[d + 1], b=Imm(high))]

    code = [
        *move(10, SHARED_WINDOW + 0x20),
        *move(12, LOCAL_WINDOW + 0x30),
        ins("ST", 0x385, addr=Mem(R[10]), data=R[3], E=True),
        ins("ST", 0x385, addr=Mem(R[12]), data=R[2], E=True),
        ins("LDS", 0x984, d=R[8], addr=Mem(R[255], 0x20)),
        ins("LDL", 0x983, d=R[9], addr=Mem(R[255], 0x30)),
        ins("LD", 0x980, d=R[14], addr=Mem(R[20], 12), E=True),
    ]
    got = run(Warp({2: LANES, 3: 77}, data=data()), code, [R[8], R[9], R[14]])
    assert [set(map(int, got[0])), list(map(int, got[1])), set(map(int, got[2]))] == [
        {77},
        list(range(32)),
        {int(DATA[3])},
    ]


def test_constants_by_register_and_by_width() -> None:
    constants = bytes(RNG.integers(0, 256, 256, np.uint8))
    code = [
        ins("IMAD", 0x824, d=R[10], a=R[2], b=Imm(4)),
        ins("LDC", 0xB82, d=R[8], b=Const(0, 0x104, index=R[10])),
        ins("LDC", 0xB82, d=R[9], b=Const(0, 0x101, index=R[2]), type="S8"),
        ins("ULDC", 0xAB9, d=UR[8], b=Const(0, 0x108), type="64"),
        ins("ULDC", 0xAB9, d=UR[10], b=Const(0, 0x103), type="U8"),
    ]
    got = run(Warp({2: LANES}, constants=constants), code, [R[8], R[9], UR[8], UR[9], UR[10]])
    words = np.frombuffer(constants, np.uint32)
    assert np.array_equal(got[0], words[1:33])
    assert np.array_equal(got[1], np.frombuffer(constants, np.int8)[1:33].astype(np.int64).astype(np.uint32))
    assert [int(row[0]) for row in got[2:]] == [int(words[2]), int(words[3]), constants[3]]


ATOMIC = {
    "ADD": lambda old, x: old + x, "MIN": min, "MAX": max, "AND": lambda old, x: old & x, "OR": lambda old, x: old | x,
    "XOR": lambda old, x: old ^ x, "EXCH": lambda old, x: x, "INC": lambda old, x: 0 if old >= x else old + 1,
    "DEC": lambda old, x: x if old == 0 or old > x else old - 1,
}  # fmt: skip


@pytest.mark.parametrize("op", ATOMIC)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_run_lane_by_lane(op: str, space: str) -> None:
    values = RNG.integers(0, 1 << 32, 32)
    memory = np.array([100], np.uint32)
    if space == "global":
        code = [ins("ATOMG", 0x3A8, d=R[8], addr=Mem(R[20]), data=R[3], E=True, op=op)]
        results = run(Warp({3: values}, data=memory), code, [R[8]])[0]
        final = int(memory[0])
    else:
        code = [
            ins("STS", 0x388, addr=Mem(R[255], 8), data=R[4]),
            ins("ATOMS", 0x38C, d=R[8], addr=Mem(R[255], 8), data=R[3], op=op),
            ins("LDS", 0x984, d=R[9], addr=Mem(R[255], 8)),
        ]
        got = run(Warp({3: values, 4: 100}), code, [R[8], R[9]])
        results, final = got[0], int(got[1][0])
    old = 100
    for lane in range(32):
        assert int(results[lane]) == old
        old = ATOMIC[op](old, int(values[lane])) & 0xFFFFFFFF
    assert final == old


def test_signed_wide_and_float_atomics() -> None:
    values = RNG.integers(-(1 << 31), 1 << 31, 32)
    memory = np.array([7, 0, 0, 0, 0x3F800000], np.uint32)
    code = [
        ins("RED", 0x98E, addr=Mem(R[255], 0, UReg(20)), data=R[3], op="MIN", type="S32"),
        ins("MOV", 0x802, d=R[5], b=Imm(1)),
        ins("RED", 0x98E, addr=Mem(R[20], 8, UReg(63), wide=True), data=R[4], op="ADD", type="64"),
        ins("MOV", 0x802, d=R[6], b=Imm(0x3F000000)),
        ins("RED", 0x98E, addr=Mem(R[255], 16, UReg(20)), data=R[6], op="ADD", type="F32.FTZ.RN"),
    ]
    run(Warp({3: values, 4: 0x80000000}, data=memory), code, [])
    assert memory.view(np.int32)[0] == min(7, int(values.min()))
    assert int(memory[2]) | int(memory[3]) << 32 == 32 * (1 << 32 | 0x80000000)
    assert memory.view(np.float32)[4] == 1.0 + 32 * 0.5


def test_compare_and_swap_gives_the_old_value() -> None:
    memory = np.arange(32, dtype=np.uint32)
    code = [
        at_lane(4),
        ins("ATOMG", 0x3A9, d=R[8], addr=Mem(R[10]), cmp=R[3], data=R[4], E=True),
        ins("STS", 0x388, addr=Mem(R[255]), data=R[5]),
        ins("ATOMS", 0x38D, d=R[9], addr=Mem(R[255]), cmp=R[2], data=R[4]),
    ]
    got = run(Warp({2: LANES, 3: LANES // 2 * 2, 4: LANES + 1, 5: 0}, data=memory), code, [R[8], R[9]])
    assert np.array_equal(got[0], LANES)
    assert np.array_equal(memory, np.where(LANES % 2 == 0, LANES + 1, LANES))
    assert list(map(int, got[1])) == list(range(32))  # each lane finds what the lane before it swapped in


def test_an_asynchronous_copy_has_arrived_after_its_wait() -> None:
    code = [
        at_lane(16),
        ins("IMAD", 0x824, d=R[12], a=R[2], b=Imm(16)),
        ins(
            "LDGSTS",
            0xFAE,
            shared=Mem(R[12], 0x100),
            addr=Mem(R[10], 0, UReg(4), wide=True, descriptor=True),
            type="128",
        ),
        ins("LDGDEPBAR", 0x9AF),
        ins("DEPBAR", 0x91A),
        ins("LDS", 0x984, d=R[8], addr=Mem(R[12], 0x10C)),
    ]
    (got,) = run(Warp({2: LANES}, data=data()), code, [R[8]])
    assert np.array_equal(got, DATA[3:131:4])


@pytest.mark.parametrize("core", CORES)
def test_a_barrier_joins_the_warps_of_a_block(core: str) -> None:
    """Each of 128 threads reads what its mirror image wrote before the barrier."""
    code = [
        ins("S2R", 0x919, d=R[0], sr=SpecialReg(0x21)),
        ins("S2R", 0x919, d=R[1], sr=SpecialReg(0x25)),
        ins("IMAD", 0x824, d=R[2], a=R[0], b=Imm(4)),
        ins("IMAD", 0x824, d=R[3], a=R[1], b=Imm(1000), c=R[0]),
        ins("STS", 0x388, addr=Mem(R[2]), data=R[3]),
        ins("BAR", 0xB1D, id=0),
        ins("LOP3", 0x812, d=R[4], a=R[2], b=Imm(0x1FC), lut=0x3C, ps=Pred(7, True)),
        ins("LDS", 0x984, d=R[5], addr=Mem(R[4])),
        ins("MOV", 0xA02, d=R[6], b=Const(0, 0)),
        ins("MOV", 0xA02, d=R[7], b=Const(0, 4)),
        ins("IMAD", 0x824, d=R[8], a=R[1], b=Imm(128), c=R[0]),
        ins("IMAD.WIDE", 0x825, d=R[6], a=R[8], b=Imm(4), c=R[6], sign="U32"),
        ins("STG", 0x386, addr=Mem(R[6]), data=R[5], E=True),
        ins("EXIT", 0x94D),
    ]
    out = np.zeros((3, 128), np.uint32)
    result = run_code(code, [out], core, block=(128, 1, 1), grid=(3, 1, 1))
    assert result.fault is None
    assert result.instructions == len(code) * 3 * 128
    assert np.array_equal(out, np.arange(3)[:, None] * 1000 + np.arange(127, -1, -1))


def test_match_and_redux_look_across_the_warp() -> None:
    values = LANES // 5
    numbers = RNG.integers(-1000, 1000, 32)
    code = [
        ins("MATCH", 0x3A1, d=R[8], a=R[2], op="ANY"),
        ins("REDUX", 0x3C4, d=UR[4], a=R[3], op="SUM"),
        ins("REDUX", 0x3C4, d=UR[5], a=R[3], op="MIN", sign="S32"),
        ins("REDUX", 0x3C4, d=UR[6], a=R[3], op="MAX"),
        ins("REDUX", 0x3C4, d=UR[7], a=R[3]),
    ]
    got = run(Warp({2: values, 3: numbers}), code, [R[8], *UR[4:8]])
    masks = [sum(1 << int(other) for other in LANES[values == values[lane]]) for lane in range(32)]
    assert list(map(int, got[0])) == masks
    words = numbers.astype(np.int64).astype(np.uint32)
    wanted = [int(numbers.sum()), int(numbers.min()), int(words.max()), int(np.bitwise_and.reduce(words))]
    assert [int(row[0]) for row in got[1:]] == [w & 0xFFFFFFFF for w in wanted]


def test_break_takes_lanes_out_of_a_barrier() -> None:
    """Lanes that leave by BREAK are not waited for at BSYNC."""
    code = [
        ins("BSSY", 0x945, barrier=Barrier(0), target=Target(64)),
        ins("BREAK", 0x942, guard=P[0], barrier=Barrier(0)),
        ins("BRA", 0x947, guard=P[0], target=Target(32)),
        ins("BSYNC", 0x941, barrier=Barrier(0)),
        ins("VOTE", 0x806, d=R[8], ps=P[7], op="ALL"),
        ins("WARPSYNC", 0x948, mask=Imm(0xFFFFFFFF)),
        ins("VOTE", 0x806, d=R[9], ps=P[7], op="ALL"),
    ]
    leaving = LANES % 3 == 0
    got = run(Warp({8: 0}, {0: leaving}), code, [R[8], R[9]])
    stayed = sum(1 << int(lane) for lane in LANES[~leaving])
    assert np.array_equal(got[0], np.where(leaving, 0, stayed).astype(np.uint32))
    assert set(map(int, got[1])) == {0xFFFFFFFF}


def test_exit_with_a_predicate_ends_those_lanes() -> None:
    code = [ins("MOV", 0x802, d=R[8], b=Imm(5)), ins("EXIT", 0x94D, guard=P[0]), ins("EXIT", 0x94D, ps=P[1])]
    gone = (LANES % 3 == 0) | (LANES % 4 == 0)
    got = run(Warp({2: LANES}, {0: LANES % 3 == 0, 1: LANES % 4 == 0}), code, [R[8]])
    assert np.array_equal(got[0], np.where(gone, 0, 5))


def test_guard_and_operand_of_a_branch_both_have_to_hold() -> None:
    code = [
        ins("MOV", 0x802, d=R[8], b=Imm(1)),
        ins("BRA", 0x947, guard=P[0], ps=Pred(1, True), target=Target(16)),
        ins("MOV", 0x802, d=R[8], b=Imm(2)),
    ]
    p, q = LANES % 3 == 0, LANES % 4 == 0
    (got,) = run(Warp({2: LANES}, {0: p, 1: q}), code, [R[8]])
    assert np.array_equal(got, np.where(p & ~q, 1, 2))


def test_packed_compare_into_a_register() -> None:
    a, b = (RNG.integers(0, 3, (2, 32)).astype(np.float16) for _ in range(2))
    pack = [x[0].view(np.uint16).astype(np.uint32) | x[1].view(np.uint16).astype(np.uint32) << 16 for x in (a, b)]
    code = [
        ins("HSET2", 0x233, d=R[8], a=R[2], b=R[3], cmp="GT"),
        ins("HSET2", 0x233, d=R[9], a=R[2], b=R[3], cmp="LE", result="BF"),
    ]
    got = run(Warp({2: pack[0], 3: pack[1]}), code, [R[8], R[9]])
    more = a > b
    assert np.array_equal(got[0], np.where(more[0], 0xFFFF, 0) | np.where(more[1], 0xFFFF0000, 0))
    assert np.array_equal(got[1], np.where(more[0], 0, 0x3C00) | np.where(more[1], 0, 0x3C000000))
