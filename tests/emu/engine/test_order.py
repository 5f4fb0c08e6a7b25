"""Divergence, reconvergence, barriers and the budget, on every core: what waits for what, and what must not wait."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from cores import CORES, direct
from random_programs import random_case
from uop_programs import Buffers, const, imm, launch, operands, program, reg

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.launch import Result
from hcqrt.emu.engine.uops import A64, record

TRUE = {"p": uops.PT, "p_neg": 0}
BUDGET = 1_000_000


@pytest.fixture(params=CORES)
def core(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=uops.WAVES)
def lanes(request: pytest.FixtureRequest) -> int:
    """Of a warp, for what needs no mask of it in a register."""
    found: int = request.param
    return found


def head() -> list[Any]:
    """R1 = thread, R2 = va of word 0, R4 = va of the thread's word, P0 = odd thread."""
    return [
        record("S2R", d=1, imm=uops.SR_TID_X),
        record("MOV", d=2, flags=uops.WIDE, **operands(const(0))),
        record("MADW", d=4, **operands(reg(1), imm(4), const(0))),
        record("LOP3", d=8, pd=0, mod=0xC0, **operands(reg(1), imm(1))),
    ]


def load(d: int, base: int, **more: Any) -> Any:
    return record("LD", **{"d": d, "flags": A64, "width": uops.W_32, **operands(reg(base)), **more})


def store(base: int, value: tuple[int, int], **more: Any) -> Any:
    return record("ST", **{"flags": A64, "width": uops.W_32, **operands(reg(base), None, value), **more})


def atomic(operation: int, value: tuple[int, int], swap: tuple[int, int] | None = None, d: int = uops.NO_REG) -> Any:
    return record("ATOM", d=d, flags=A64, mod=operation, **operands(reg(2), None, value, swap))


def go(
    core: str, records: list[Any], words: int, threads: int = 32, blocks: int = 1, **more: Any
) -> tuple[Result, Any]:
    out = np.zeros(words, np.uint32)
    buffers = Buffers(out)
    described = launch(buffers, struct.pack("<Q", buffers.va[0]), (blocks,), (threads,), **{"budget": BUDGET, **more})
    return direct(core)(program(*records), described), out


def test_a_lock_passes_from_lane_to_lane(core: str, lanes: int) -> None:
    """Each lane takes the lock in word 0, adds 1 to word 1 without any atomic, gives the lock back."""
    loop = len(head())
    records = [
        *head(),
        atomic(uops.AT_CAS, imm(0), imm(1), d=9),
        record("ISETP", pd=1, mod=uops.C_NE, **TRUE, **operands(reg(9))),
        record("BRA", guard=1, target=loop),
        load(10, 2, imm=4),
        record("ADD3", d=10, **operands(reg(10), imm(1))),
        store(2, reg(10), imm=4),
        atomic(uops.AT_EXCH, imm(0)),
        record("EXIT"),
    ]
    result, out = go(core, records, 2, 80, 2, lanes=lanes)
    assert result.fault is None and out.tolist() == [0, 160]


def branch(even: list[Any], odd: list[Any], joined: list[Any]) -> list[Any]:
    """BSSY B0, odd lanes to `odd` (which ends where it likes), even lanes through `even` to BSYNC, then `joined`."""
    start = len(head()) + 2
    records = [*head(), record("BSSY", imm=0), record("BRA", guard=0, target=start + len(even) + 1 + len(joined))]
    return [*records, *even, record("BSYNC", imm=0), *joined, *odd]


def test_lanes_that_exit_are_not_waited_for(core: str) -> None:
    joined = [record("VOTE", d=9, mod=uops.VOTE_ALL, **TRUE), store(4, reg(9)), record("EXIT")]
    result, out = go(core, branch([record("NOP")], [record("EXIT")], joined), 32)
    assert result.fault is None and out.tolist() == [0x55555555, 0] * 16


def test_lanes_that_break_out_are_not_waited_for(core: str) -> None:
    """Odd lanes leave B0 and spin until the even ones, behind their BSYNC, have stored."""
    joined = [store(2, imm(7)), record("EXIT")]
    position = len(branch([], [], joined))
    spin = [
        record("BREAK", imm=0),
        load(9, 2),
        record("ISETP", pd=1, mod=uops.C_EQ, **TRUE, **operands(reg(9))),
        record("BRA", guard=1, target=position + 1),
        store(4, imm(9)),
        record("EXIT"),
    ]
    result, out = go(core, branch([], spin, joined), 32)
    assert result.fault is None and out.tolist() == [7, 9] + [0, 9] * 15
    result, _ = go(core, branch([], [record("NOP"), *spin[1:]], joined), 32, budget=100_000)
    assert result.fault is not None and result.fault.kind == "budget"  # without BREAK they wait for ever


def test_lanes_of_one_mask_wait_for_each_other_and_for_no_others(core: str) -> None:
    """Even lanes meet at their WARPSYNC while the odd ones still spin; then a store of theirs frees those."""
    records = [*head(), record("BRA", guard=0, target=len(head()) + 4)]
    records += [record("WARPSYNC", **operands(imm(0x55555555))), store(2, imm(1)), record("EXIT")]
    loop = len(records)
    records += [load(9, 2), record("ISETP", pd=1, mod=uops.C_EQ, **TRUE, **operands(reg(9)))]
    records += [record("BRA", guard=1, target=loop), store(4, imm(2)), record("EXIT")]
    result, out = go(core, records, 32)
    assert result.fault is None and out.tolist() == [1, 2] + [0, 2] * 15


def test_a_mask_that_never_comes_together_is_a_deadlock(core: str) -> None:
    wait = record("WARPSYNC", **operands(imm(-1)))
    records = [*head(), record("BRA", guard=0, target=len(head()) + 3), wait, record("EXIT")]
    result, _ = go(core, [*records, record("BSSY", imm=3), record("BSYNC", imm=3), wait, record("EXIT")], 32)
    assert result.fault is None  # both halves wait, each at its own WARPSYNC
    records[-2] = record("BAR")
    result, _ = go(core, [*records, wait, record("EXIT")], 32)
    assert result.fault is not None and result.fault.kind == "deadlock"


def test_barriers_of_different_numbers_are_kept_apart(core: str, lanes: int) -> None:
    """Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2: each pair counts its own threads."""
    shift = (2 * lanes).bit_length() - 1
    records = [
        *head(),
        record("SHF", d=9, flags=uops.RIGHT | uops.HI, **operands(None, imm(shift), reg(1))),
        record("ADD3", d=9, **operands(reg(9), imm(1))),
        record("BAR", **operands(reg(9), imm(2 * lanes))),
        store(4, reg(9)),
        record("BAR"),
        record("EXIT"),
    ]
    result, out = go(core, records, 4 * lanes, 4 * lanes, lanes=lanes)
    assert result.fault is None and out.tolist() == [1] * 2 * lanes + [2] * 2 * lanes


def test_who_arrives_does_not_wait(core: str, lanes: int) -> None:
    """Warp 0 stores, arrives at barrier 3 and ends; warp 1 waits there, then reads; a third warp is not concerned."""
    first = [record("ISETP", pd=1, mod=uops.C_GE, **TRUE, **operands(reg(1), imm(lanes)))]
    first += [record("ISETP", pd=2, mod=uops.C_GE, **TRUE, **operands(reg(1), imm(2 * lanes)))]
    at = len(head()) + len(first)
    records = [*head(), *first, record("EXIT", guard=2), record("BRA", guard=1, target=at + 5)]
    records += [
        store(2, imm(5), space=uops.S_GLOBAL),
        record("BAR", mod=uops.BAR_ARRIVE, **operands(imm(3), imm(2 * lanes))),
    ]
    records += [
        record("EXIT"),
        record("BAR", **operands(imm(3), imm(2 * lanes))),
        load(9, 2),
        store(4, reg(9)),
        record("EXIT"),
    ]
    result, out = go(core, records, 3 * lanes, 3 * lanes, lanes=lanes)
    assert result.fault is None
    assert out.tolist() == [5] + [0] * (lanes - 1) + [5] * lanes + [0] * lanes


def test_the_budget_is_exact(core: str, lanes: int) -> None:
    records = [*head(), store(4, reg(1)), record("EXIT")]
    threads = 2 * lanes
    needed = len(records) * threads
    for blocks in (1, 3):
        result, _ = go(core, records, threads, threads, blocks, budget=blocks * needed, lanes=lanes)
        assert (result.fault, result.instructions) == (None, blocks * needed)
        result, _ = go(core, records, threads, threads, blocks, budget=blocks * needed - 1, lanes=lanes)
        assert result.fault is not None
        assert (result.fault.kind, result.fault.pc) == ("budget", 0x1000 + 16 * (len(records) - 1))
        assert result.fault.block == (blocks - 1, 0, 0) and result.fault.thread == (lanes, 0, 0)
        assert result.instructions == blocks * needed - lanes


def test_a_jump_through_a_register_goes_where_each_lane_says(core: str, lanes: int) -> None:
    at = len(head())
    jump = [
        record("SEL", d=10, p=0, p_neg=0, **operands(imm(0x1000 + 16 * (at + 5)), imm(0x1000 + 16 * (at + 3)))),
        record("MOV", d=11),
        record("BRX", imm=0, **operands(reg(10))),
    ]
    ends = [store(4, imm(3)), record("EXIT"), store(4, imm(4)), record("EXIT")]
    result, out = go(core, [*head(), *jump, *ends], 100, 100, lanes=lanes)
    assert result.fault is None and out.tolist() == [3, 4] * 50
    jump[2] = record("BRX", imm=8, **operands(reg(10)))
    result, _ = go(core, [*head(), *jump, *ends], 100, 100, lanes=lanes)
    assert result.fault is not None
    assert (result.fault.kind, result.fault.pc) == ("illegal_instruction", 0x1000 + 16 * (at + 3) + 8)


def test_two_runs_give_the_same(core: str) -> None:
    for seed in range(15):
        code, make = random_case(seed)
        (one, first), (two, second) = make(), make()
        assert direct(core)(code, one) == direct(core)(code, two)
        assert all((x == y).all() for x, y in zip(first.arrays, second.arrays, strict=True))
