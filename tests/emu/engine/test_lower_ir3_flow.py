"""Branches, predication, votes, repeats, chosen registers, shared registers, barriers and what a dispatch sets up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cores import CORES
from ir3 import Banks
from ir3_wave import launch, run

from hcqrt.isa.ir3 import assemble, pack

RNG = np.random.default_rng(3)
FIBRE = np.arange(64)
A, B = (RNG.integers(0, 1 << 32, 64) for _ in range(2))
X, Y = (RNG.integers(0, 2, 64).astype(bool) for _ in range(2))


@pytest.mark.parametrize(
    ("branch", "taken"),
    [
        ("br p0.x", X), ("br !p0.x", ~X), ("br p0.w", Y), ("brao p0.x, p0.w", X | Y), ("brao !p0.x, p0.w", ~X | Y),
        ("braa p0.x, !p0.w", X & ~Y), ("braa p0.x, p0.w", X & Y), ("jump", np.ones(64, bool)),
    ],
)  # fmt: skip
def test_branches(branch: str, taken: Any) -> None:
    target = "#there" if branch == "jump" else ", #there"
    text = f"mov.u32u32 r8.x, 1\n{branch}{' ' if branch == 'jump' else ''}{target}\nmov.u32u32 r8.x, 2\nthere:\n"
    (got,) = run(text, {"p0.x": X, "p0.w": Y}, ["r8.x"])
    assert np.array_equal(got, np.where(taken, 1, 2))


def test_a_divergent_loop_runs_as_often_as_each_fibre_wants() -> None:
    text = """
    mov.u32u32 r8.x, 0
    loop:
    cmps.u.ge p0.x, r8.x, r1.x
    br p0.x, #done
    add.u r8.x, r8.x, 1
    jump #loop
    done:
    """
    (got,) = run(text, {"r1.x": FIBRE % 13}, ["r8.x"])
    assert np.array_equal(got, FIBRE % 13)


def test_fibres_meet_behind_a_divergent_loop() -> None:
    """Also when one after the other leaves it: behind it all are active."""
    text = """
    mov.u32u32 r8.x, 0
    loop:
    add.u r8.x, r8.x, 1
    cmps.u.lt p0.x, r8.x, r1.x
    br p0.x, #loop
    movmsk.w64 r8.x
    """
    got = run(text, {"r1.x": FIBRE}, ["r8.x", "r8.y"])
    assert (got[0] == 0xFFFFFFFF).all() and (got[1] == 0xFFFFFFFF).all()


@pytest.mark.parametrize("core", CORES)
def test_a_fibre_may_spin_until_a_later_one_writes(core: str) -> None:
    text = """
    mov.u32u32 r1.x, c0.x
    mov.u32u32 r1.y, c0.y
    cmps.u.eq p0.x, r0.x, 63
    br p0.x, #write
    spin:
    ldg.u32 r2.x, g[r1.x], 1
    cmps.u.eq p0.x, r2.x, 0
    br p0.x, #spin
    end
    write:
    mov.u32u32 r2.x, 5
    stg.u32 g[r1.x], r2.x, 1
    end
    """
    out = np.zeros(4, np.uint32)
    result = launch(pack(assemble(text)), [out], core, Banks(), budget=10_000_000)
    assert result.fault is None and out[0] == 5


def test_predication_restricts_writes_and_stores() -> None:
    text = """
    mov.u32u32 r8.x, 0
    mov.u32u32 r8.y, 0
    predt p0.x
    mov.u32u32 r8.x, r1.x
    add.u r8.y, r8.y, 1
    predf p0.x
    mov.u32u32 r8.x, r2.x
    add.u r8.y, r8.y, 2
    prede
    add.u r8.x, r8.x, 1
    """.replace(" p0.x\n    mov", "\n    mov")
    got = run(text, {"p0.x": X, "r1.x": A, "r2.x": B}, ["r8.x", "r8.y"])
    assert np.array_equal(got[0], (np.where(X, A, B) + 1) & 0xFFFFFFFF)
    assert np.array_equal(got[1], np.where(X, 1, 2))


def test_predication_covers_memory_predicates_and_half_registers() -> None:
    text = """
    shl.b r3.x, r0.x, 2
    add.u r4.x, r3.x, c1.x
    mov.u32u32 r4.y, c1.y
    mov.u16u16 hr8.x, 7
    predt
    stg.u32 g[r4.x], r1.x, 1
    cmps.u.ge p0.y, r0.x, 0
    mov.u16u16 hr8.x, hr1.x
    swz.u32u32 r5.x, r5.y, r1.x, r1.x
    prede
    """
    data = np.zeros(64, np.uint32)
    inputs = {"p0.x": X, "p0.y": 0, "r1.x": A, "hr1.x": B & 0xFFFF, "r5.x": 5, "r5.y": 6}
    got = run(text, inputs, ["p0.y", "hr8.x", "r5.x", "r5.y"], data=data)
    assert np.array_equal(data, np.where(X, A, 0))
    assert np.array_equal(got[0], X)
    assert np.array_equal(got[1], np.where(X, B & 0xFFFF, 7))
    assert np.array_equal(got[2], np.where(X, A, 5)) and np.array_equal(got[3], np.where(X, A, 6))


def test_predf_samples_anew() -> None:
    text = "mov.u32u32 r8.x, 0\npredt\nnot.b hr2.x, hr1.x\nand.b p0.x, hr2.x, h(1)\npredf\nadd.u r8.x, r8.x, 1\nprede\n"
    (got,) = run(text, {"p0.x": X, "hr1.x": X}, ["r8.x"])
    # Fibres with p0.x cleared it inside; those without were kept from writing it: all run what follows predf.
    assert (got == 1).all()


def test_a_branch_inside_predication_keeps_it() -> None:
    text = """
    mov.u32u32 r8.x, 0
    predt
    br p0.w, #over
    add.u r8.x, r8.x, 1
    over:
    add.u r8.x, r8.x, 2
    prede
    add.u r8.x, r8.x, 4
    """
    (got,) = run(text, {"p0.x": X, "p0.w": Y}, ["r8.x"])
    assert np.array_equal(got, 4 + np.where(X, 2 + ~Y, 0))


def test_votes_are_over_the_active_fibres() -> None:
    text = """
    mov.u32u32 r8.x, 0
    mov.u32u32 r8.y, 0
    br p0.x, #join
    bany p0.w, #some
    jump #next
    some:
    mov.u32u32 r8.x, 1
    next:
    ball p0.w, #every
    jump #join
    every:
    mov.u32u32 r8.y, 1
    join:
    """
    few, none = FIBRE == 40, FIBRE == 7
    for inactive, vote in ((few, ~few), (none, few), (few, few), (few, FIBRE % 2 == 0)):
        got = run(text, {"p0.x": inactive, "p0.w": vote}, ["r8.x", "r8.y"])
        active = ~inactive
        assert np.array_equal(got[0], active & vote[active].any())
        assert np.array_equal(got[1], active & vote[active].all())


def test_getone_keeps_one_active_fibre() -> None:
    text = """
    mov.u32u32 r8.x, 0
    br p0.x, #join
    getone #join
    mov.u32u32 r8.x, 1
    join:
    """
    (got,) = run(text, {"p0.x": FIBRE < 37}, ["r8.x"])
    assert got.nonzero()[0].tolist() == [37]


def test_movmsk_gives_the_active_fibres() -> None:
    text = "mov.u32u32 r8.x, 0\nmov.u32u32 r8.y, 0\nbr p0.x, #join\nmovmsk.w64 r8.x\njoin:\n"
    got = run(text, {"p0.x": X}, ["r8.x", "r8.y"])
    mask = sum(1 << int(n) for n in (~X).nonzero()[0])
    assert np.array_equal(got[0], np.where(X, 0, mask & 0xFFFFFFFF))
    assert np.array_equal(got[1], np.where(X, 0, mask >> 32))


def test_repeats_advance_the_destination_and_marked_sources() -> None:
    text = """
    (rpt2)add.u r8.x, (r)r1.x, r2.x
    (rpt1)mov.u32u32 r9.x, (r)c8.y
    (rpt2)mad.f16 hr8.x, (r)hr1.x, hr2.x, (r)hr3.x
    """
    ones = {
        "hr1.x": 0x3C00,
        "hr1.y": 0x4000,
        "hr1.z": 0x4200,
        "hr2.x": 0x4000,
        "hr3.x": 0,
        "hr3.y": 0x3C00,
        "hr3.z": 0x4000,
    }
    inputs = {"r1.x": A, "r1.y": B, "r1.z": 3, "r2.x": 5, **ones}
    results = ["r8.x", "r8.y", "r8.z", "r9.x", "r9.y", "hr8.x", "hr8.y", "hr8.z"]
    got = run(text, inputs, results, constants=[1, 22, 33])
    for row, wanted in zip(got[:3], (A + 5, B + 5, 8), strict=True):
        assert np.array_equal(row, np.broadcast_to(wanted, 64) & 0xFFFFFFFF)
    assert [int(row[0]) for row in got[3:]] == [22, 33, 0x4000, 0x4500, 0x4800]  # 1*2+0, 2*2+1, 3*2+2


def test_multi_moves_read_before_they_write() -> None:
    text = """
    swz.u32u32 r1.x, r1.y, r1.y, r1.x
    gat.u32u32 r2.x, r2.w, r2.z, r2.y, r2.x
    sct.u32u32 r3.w, r3.z, r3.y, r3.x, r3.x
    swz.u16u32 r4.x, r4.y, hr1.y, hr1.x
    """
    names = [f"r{n}.{c}" for n in (2, 3) for c in "xyzw"]
    inputs = {"r1.x": 11, "r1.y": 12, "hr1.x": 7, "hr1.y": 8, **{name: k for k, name in enumerate(names)}}
    got = run(text, inputs, ["r1.x", "r1.y", *names, "r4.x", "r4.y"])
    assert [int(row[0]) for row in got] == [12, 11, 3, 2, 1, 0, 7, 6, 5, 4, 8, 7]


def test_registers_and_constants_chosen_by_a0() -> None:
    text = """
    mova a0.x, hr1.x
    mov.u32u32 r8.x, r<a0.x + 8>
    mov.u32u32 r8.y, c<a0.x + 34>
    add.u r8.z, r1.x, r<a0.x + 6>
    mov.u16u16 hr8.x, hr<a0.x + 8>
    mov.u32u32 r<a0.x + 40>, r1.x
    """
    index = FIBRE % 4 - 2
    vectors = {"r1.z": 10, "r1.w": 20, "r2.x": 30, "r2.y": 40, "hr1.z": 1, "hr1.w": 2, "hr2.x": 3, "hr2.y": 4}
    results = ["r8.x", "r8.y", "r8.z", "hr8.x", "r9.z", "r9.w", "r10.x", "r10.y"]
    inputs = {"hr1.x": index, "r1.x": A, **vectors}
    got = run(text, inputs, results, constants=[100, 200, 300, 400])
    pick = index + 2
    assert np.array_equal(got[0], np.array([10, 20, 30, 40])[pick])
    assert np.array_equal(got[1], np.array([100, 200, 300, 400])[pick])
    fourth = np.select([pick == 2, pick == 3], [10 + A * 0, 20 + A * 0], A * 0)  # r1.x is the fibre's own, r1.y is zero
    fourth = np.where(pick == 0, A, fourth)
    assert np.array_equal(got[2], (A + fourth) & 0xFFFFFFFF)
    assert np.array_equal(got[3], np.array([1, 2, 3, 4])[pick])
    for k, row in enumerate(got[4:]):
        assert np.array_equal(row, np.where(pick == k, A, 0))


def test_a_chosen_register_outside_the_program_faults() -> None:
    code = pack(assemble("mova a0.x, 200\nmov.u32u32 r1.x, r<a0.x + 8>\nend\n"))
    for core in CORES:
        result = launch(code, [np.zeros(64, np.uint32)], core, Banks())
        assert result.fault is not None
        assert (result.fault.kind, result.fault.address) == ("register", 208)


def test_a_shared_register_gets_the_lowest_active_fibres_value() -> None:
    text = "mov.u32u32 r48.y, 9\nbr p0.x, #join\nadd.u r48.y, r1.x, 1\njoin:\nmov.u32u32 r8.x, r48.y\n"
    (got,) = run(text, {"p0.x": FIBRE < 21, "r1.x": A}, ["r8.x"])
    # Fibres below 21 wait at `join` for the others: by then the register is written for the whole wave.
    assert (got == (A[21] + 1) & 0xFFFFFFFF).all()


def test_merged_registers_are_halves_of_full_ones() -> None:
    text = """
    add.u hr9.x, hr2.y, hr2.x
    mov.u16u16 hr9.y, 0x1234
    add.f hr10.x, hr3.x, h(1.0)
    cov.u16u32 r6.x, hr2.y
    """
    inputs = {"r1.x": A, "r4.z": 0xABCD0000, "r5.x": 0x55550000, "r1.z": 0x3C00}
    got = run(text, inputs, ["r4.z", "r5.x", "r6.x"], merged=True, half_regs=0)
    low, high = A & 0xFFFF, A >> 16
    assert np.array_equal(got[0], ((low + high) & 0xFFFF) | 0x1234 << 16)
    assert (got[1] == 0x55554000).all()  # hr3.x is the low half of r1.z: 1 + 1; its own upper half stays
    assert np.array_equal(got[2], high)


@pytest.mark.parametrize("core", CORES)
def test_a_dispatch_fills_the_registers_that_it_names(core: str) -> None:
    text = """
    mad.u24 r2.x, c8.x, r0.z, r0.y
    mad.u24 r2.x, c8.y, r2.x, r0.x
    mov.u32u32 r5.x, r48.y
    mov.u32u32 r5.y, r48.z
    mad.u24 r2.y, c8.z, r5.y, r5.x
    mov.u32u32 r5.x, r48.x
    mad.u24 r2.y, c8.w, r2.y, r5.x
    mad.u24 r2.z, c9.x, r2.y, r2.x
    mul.u24 r2.z, r2.z, 48
    add.u r3.x, r2.z, c0.x
    mov.u32u32 r3.y, c0.y
    stg.u32 g[r3.x], r48.x, 1
    (rpt2)mov.u32u32 r4.x, (r)r49.x
    stg.u32 g[r3.x+4], r4.x, 3
    (rpt2)mov.u32u32 r4.x, (r)r50.x
    stg.u32 g[r3.x+16], r4.x, 3
    stg.u32 g[r3.x+28], r1.x, 1
    stg.u32 g[r3.x+32], r0.x, 3
    end
    """
    block, grid = (5, 3, 6), (2, 3, 2)
    threads, groups = 90, 12
    out, banks = np.zeros((groups, threads, 12), np.uint32), Banks()
    banks.constants[128:148] = np.array([block[1], block[0], grid[1], grid[0], threads], np.uint32).tobytes()
    ids = {"group_id": 0xC0, "group_size": 0xC4, "group_offset": 0xC8, "linear_id": 4}
    result = launch(pack(assemble(text)), [out], core, banks, block=block, grid=grid, **ids)
    assert result.fault is None
    assert result.instructions == groups * threads * 19
    for group in range(groups):
        place = group % 2, group // 2 % 3, group // 6
        for thread in range(threads):
            own = thread % 5, thread // 5 % 3, thread // 15
            offset = [size * at for size, at in zip(block, place, strict=True)]
            assert out[group, thread].tolist() == [place[0], *block, *offset, thread, *own, 0]


@pytest.mark.parametrize("core", CORES)
def test_group_numbers_below_the_shared_registers_are_ignored(core: str) -> None:
    text = "shl.b r1.x, r0.x, 2\nadd.u r1.x, r1.x, c0.x\nmov.u32u32 r1.y, c0.y\nstg.u32 g[r1.x], r6.x, 1\nend\n"
    out = np.full(64, 7, np.uint32)
    launch(pack(assemble(text)), [out], core, Banks(), group_size=0x18, group_offset=0x18, group_id=0x18)
    assert not out.any()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("lanes", [64, 128])
def test_barriers_order_workgroup_memory(core: str, lanes: int) -> None:
    """Each fibre reads what another wave wrote before the barrier."""
    text = """
    shl.b r1.x, r0.x, 2
    add.u r2.x, r0.x, 1000
    stl.u32 l[r1.x], r2.x, 1
    bar.g
    sub.u r3.x, c8.x, r1.x
    ldl.u32 r4.x, l[r3.x], 1
    add.u r5.x, r1.x, c0.x
    mov.u32u32 r5.y, c0.y
    stg.u32 g[r5.x], r4.x, 1
    end
    """
    out, banks = np.zeros(300, np.uint32), Banks()
    banks.constants[128:132] = (299 * 4).to_bytes(4, "little")
    result = launch(pack(assemble(text)), [out], core, banks, block=(300, 1, 1), lanes=lanes)
    assert result.fault is None
    assert np.array_equal(out, 1299 - np.arange(300))


@pytest.mark.parametrize("core", CORES)
def test_an_endless_loop_meets_the_budget_and_a_repeat_counts_once(core: str) -> None:
    endless = launch(pack(assemble("here:\nnop\njump #here\n")), [np.zeros(4, np.uint32)], core, Banks(), budget=5000)
    assert endless.fault is not None and endless.fault.kind == "budget"
    short = launch(
        pack(assemble("(rpt3)mov.u32u32 r1.x, (r)c8.x\n(rpt5)nop\nend\n")), [np.zeros(4, np.uint32)], core, Banks()
    )
    assert short.fault is None and short.instructions == 3 * 64


@pytest.mark.parametrize("core", CORES)
def test_the_first_instruction_may_be_a_loops_head(core: str) -> None:
    """What the dispatch sets up happens once."""
    text = """
    head:
    add.u r0.x, r0.x, 1
    cmps.u.lt p0.x, r0.x, 100
    br p0.x, #head
    mov.u32u32 r1.x, c0.x
    mov.u32u32 r1.y, c0.y
    stg.u32 g[r1.x], r0.x, 1
    end
    """
    out = np.zeros(4, np.uint32)
    result = launch(pack(assemble(text)), [out], core, Banks(), block=(1, 1, 1))
    assert result.fault is None and out[0] == 100 and result.instructions == 3 * 100 + 4
