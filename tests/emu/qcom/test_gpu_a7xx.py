"""Dispatches of a7xx from their registers, run for real: the worked example, 512 constants, short groups."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from adreno_a7xx import dispatch7
from adreno_bench import CODE_VA, CONST_VA, DATA_VA, IN_VA, OUT_VA, SIGNAL_VA, Bench, lo_hi

from hcqrt.emu.engine import run
from hcqrt.emu.engine.launch import Ir3Setup
from hcqrt.emu.qcom.trouble import BAD_SHADER, PAGE_FAULT
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.isa.ir3 import assemble

ECO_CNTL = {"a730": 0x01000000, "a740": 0x11100000, "a750": 0x11100000}
END = "end\n" + "nop\n" * 4


def make(core: str, chip: str = "a750") -> Bench:
    made = Bench(chip, launch=lambda job: run.launch(job, core), budget=1 << 20)
    made.space.write(IN_VA, struct.pack("<1024I", *range(1000, 2024)))
    return made


@pytest.fixture(params=run.available_cores())
def core(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = make(request.param)
    yield made
    made.close()


def put(bench: Bench, text: str, gen: int = 7) -> int:
    """Write a program; its length in units of 128 bytes."""
    words = assemble(text + END, gen)
    words += [0] * (-len(words) % 16)  # nop
    bench.space.write(CODE_VA, struct.pack(f"<{len(words)}Q", *words))
    return len(words) // 16


def out(bench: Bench, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}I", bench.space.read(OUT_VA, 4 * count))


def ndrange(local: tuple[int, int, int], size: tuple[int, int, int], last: tuple[int, int, int]) -> dict[int, int]:
    """Local size, global size and size of the last group as their registers hold them."""
    shorter = last[0] - 1 << 2 | last[1] - 1 << 12 | last[2] - 1 << 22
    full = 3 | local[0] - 1 << 2 | local[1] - 1 << 12 | local[2] - 1 << 22
    return {0xA9D4: full, 0xA9D5: size[0], 0xA9D7: size[1], 0xA9D9: size[2], 0xA9DF: shorter}


@pytest.mark.parametrize("chip", ECO_CNTL)
def test_the_worked_dispatch_runs_on_every_chip(chip: str) -> None:
    """qcom.md §3.3: out[i] = in[i] + 5 for 128 items, then the signal."""
    bench = make(run.available_cores()[0], chip)
    bench.submit(*dispatch7({0xB600: ECO_CNTL[chip]}))
    assert bench.faults == []
    assert out(bench, 130) == (*range(1005, 1133), 0, 0)
    assert bench.u32(SIGNAL_VA) == 1
    assert bench.gpu.stats["instructions"] == 128 * 13
    bench.close()


def test_the_worked_dispatch_runs_on_every_core(core: Bench) -> None:
    core.submit(*dispatch7())
    assert (core.faults, core.u32(SIGNAL_VA)) == ([], 1)
    assert out(core, 130) == (*range(1005, 1133), 0, 0)


def test_run_opencl_takes_the_group_counts_from_their_new_place(core: Bench) -> None:
    core.submit(*dispatch7({0xA9DC: 2}, launch=(0x70310001, 0)))
    assert core.faults == []
    assert out(core, 128) == tuple(range(1005, 1133))


def test_the_registers_become_this_launch(bench7: Bench) -> None:
    change = {0xA9B0: 2 << 1 | 5 << 7 | 1 << 20, 0xA9C2: 0x00CCC0CF, 0xA9C3: 0x113, 0xA9DB: 0x44400813 | 1 << 9}
    bench7.submit(*dispatch7(change))
    (launch,) = bench7.launches
    assert (launch.lanes, launch.grid, launch.block) == (128, (2, 1, 1), (64, 1, 1))
    assert launch.setup == Ir3Setup(
        merged=False, constant_demotion=True, isam_gl=True, full_regs=5, half_regs=2, group_id=0xCF, group_size=0xC0,
        group_offset=0xCC, local_id=0, linear_id=0x13, generation=7,
    )  # fmt: skip


def test_the_constant_file_has_512_vectors(core: Bench) -> None:
    """c511.w, the last one: RAM mode 3, and a CONSTLEN of 512."""
    core.space.write(DATA_VA, struct.pack("<2048I", *range(2048)))
    core.space.write(DATA_VA, struct.pack("<4I", OUT_VA & 0xFFFFFFFF, OUT_VA >> 32, 0, 0))
    code = """
    shl.b r1.x, r0.x, 2
    add.u r1.x, r1.x, c0.x
    mov.u32u32 r1.y, c0.y
    mov.u32u32 r1.z, c511.w
    stg.u32 g[r1.x], r1.z, 1
    """
    change = {0xA9BC: put(core, code), 0xA9CD: 0x180, 0xA9B1: 0x61, 0xA9D5: 64}
    load = (0x70348003, 512 << 22 | 0x00364000, *lo_hi(DATA_VA))
    core.submit(*dispatch7(change, drop=(18,), before=load, launch=(0x70B30004, 0, 1, 1, 1)))
    assert core.faults == []
    assert out(core, 65) == (*[2047] * 64, 0)


STORE_PLACE = """
shl.b r2.x, r48.x, 2
add.u r2.x, r2.x, r0.x
shl.b r2.y, r48.y, 1
add.u r2.y, r2.y, r0.y
shl.b r2.z, r2.y, 4
add.u r2.x, r2.x, r2.z
shl.b r2.x, r2.x, 2
add.u r2.x, r2.x, c0.x
mov.u32u32 r2.y, c0.y
shl.b r2.z, r48.x, 8
shl.b r2.w, r48.y, 16
or.b r2.z, r2.z, r2.w
shl.b r2.w, r0.y, 4
or.b r2.z, r2.z, r2.w
or.b r2.z, r2.z, r0.x
add.u r2.z, r2.z, 1
stg.u32 g[r2.x], r2.z, 1
"""  # out[16 * y + x] = group y << 16 | group x << 8 | local y << 4 | local x, and 1


def test_the_last_groups_of_an_unaligned_dispatch_are_shorter(core: Bench) -> None:
    """11 x 5 fibers in groups of 4 x 2: 3 x 3 groups, the last ones 3 wide or 1 high."""
    change = {0xA9BC: put(core, STORE_PLACE), 0xA9DB: 0x24400800 | 0xFC}
    change |= ndrange((4, 2, 1), (11, 5, 1), (3, 1, 1))
    core.submit(*dispatch7(change, launch=(0x70B30004, 0, 3, 3, 1)))
    assert core.faults == []
    found = out(core, 16 * 6)
    for y in range(6):
        for x in range(16):
            inside = x < 11 and y < 5
            assert found[16 * y + x] == ((y // 2 << 16 | x // 4 << 8 | y % 2 << 4 | x % 4) + 1 if inside else 0)
    assert core.gpu.stats["launches"] == 1


def test_a_single_group_may_be_short(core: Bench) -> None:
    core.submit(*dispatch7(ndrange((64, 1, 1), (5, 1, 1), (5, 1, 1)), launch=(0x70B30004, 0, 1, 1, 1)))
    assert core.faults == []
    assert out(core, 6) == (*range(1005, 1010), 0)


def test_a_fault_in_a_short_group_names_it(core: Bench) -> None:
    """Fiber 3 of the second group reads item 67, the first one behind the buffer."""
    end = DATA_VA + 0x100000
    core.space.write(CONST_VA, struct.pack("<4I", *lo_hi(OUT_VA), *lo_hi(end - 4 * 67)))
    core.submit(*dispatch7(ndrange((64, 1, 1), (68, 1, 1), (4, 1, 1))))
    (fault,) = core.faults
    assert (fault.kind, fault.access, fault.address) == (PAGE_FAULT, "read", end)
    assert fault.place is not None and (fault.place.group, fault.place.fiber) == ((1, 0, 0), (3, 0, 0))
    assert "group (1, 0, 0), fiber (3, 0, 0)" in fault.text


@pytest.mark.parametrize(
    ("ids", "what"),
    [({0xA9C2: 0x00FCC4C0}, "group size"), ({0xA9C2: 0x00C8FCC0}, "group offset"), ({}, "linear id")],
)
def test_sizes_and_linear_ids_in_short_groups_are_refused(bench7: Bench, ids: dict[int, int], what: str) -> None:
    change = ids or {0xA9DB: 0x44400804, 0xA9C3: 4}
    change = change | ndrange((64, 1, 1), (100, 1, 1), (36, 1, 1))
    with pytest.raises(EmulatorRefusal, match=rf"HLSQ_CS_LAST_LOCAL_SIZE \(0xa9df\) = 0x8c: {what} in a last group"):
        bench7.submit(*dispatch7(change))


def test_a_shader_may_end_as_mesas_do(core: Bench) -> None:
    """Locks last: Mesa's compiler ends every compute shader of a7xx so."""
    code = "shl.b r1.x, r0.x, 2\nadd.u r1.x, r1.x, c0.x\nmov.u32u32 r1.y, c0.y\nstg.u32 g[r1.x], r0.x, 1\n"
    core.submit(*dispatch7({0xA9BC: put(core, code + "(sy)(ss)(jp)lock\nunlock\n")}))
    assert core.faults == []
    assert out(core, 64) == tuple(range(64))


def test_instructions_that_a7xx_lays_out_in_another_way_are_refused_by_name(core: Bench) -> None:
    """ldg.a with the bits of a6xx: not what an a750 would do."""
    core.submit(*dispatch7({0xA9BC: put(core, "ldg.a.u32 r0.x, g[r2.x+(((r1.y<<2)+1)<<2)], 2\n", 6)}))
    (fault,) = core.faults
    assert fault.kind == BAD_SHADER
    assert "ldg.a" in fault.text and "a7xx" in fault.text
