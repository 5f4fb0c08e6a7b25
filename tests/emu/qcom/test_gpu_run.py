"""Shaders that run for real, from command words alone: the worked dispatch, and what registers hand to a shader."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from adreno_bench import (
    CODE_VA,
    CONST_VA,
    DATA_VA,
    IN_VA,
    OUT_VA,
    SIGNAL_VA,
    UNMAPPED_VA,
    Bench,
    dispatch,
    lo_hi,
    type7,
)

from hcqrt.emu.engine import run
from hcqrt.emu.qcom.trouble import BAD_SHADER, HANG, PAGE_FAULT
from hcqrt.isa.ir3 import assemble

GROUP_ID, GROUP_SIZE, GROUP_OFFSET = 0xC0, 0xC4, 0xC8  # r48.x, r49.x, r50.x
END = "end\n" + "nop\n" * 4


@pytest.fixture(params=run.available_cores())
def core(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(launch=lambda job: run.launch(job, request.param), budget=1 << 20)
    made.space.write(IN_VA, struct.pack("<1024I", *range(1000, 2024)))
    yield made
    made.close()


def put(bench: Bench, text: str) -> int:
    """Write a program; its length in units of 128 bytes."""
    words = assemble(text + END)
    words += [0] * (-len(words) % 16)  # nop
    bench.space.write(CODE_VA, struct.pack(f"<{len(words)}Q", *words))
    return len(words) // 16


def out(bench: Bench, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}I", bench.space.read(OUT_VA, 4 * count))


def test_the_worked_dispatch_runs(core: Bench) -> None:
    """qcom.md §3.3: out[i] = in[i] + 5 for 128 items, then the signal."""
    core.submit(*dispatch())
    assert core.faults == []
    assert out(core, 130) == (*range(1005, 1133), 0, 0)
    assert core.u32(SIGNAL_VA) == 1
    assert core.gpu.stats["instructions"] == 128 * 13


def test_the_worked_dispatch_runs_through_an_indirect_buffer(core: Bench) -> None:
    """The packet as the facts spell it: 0x41 dwords at 0x1000000000."""
    assert core.store(*dispatch()) == 0x10_0000_0000
    core.submit(0x70BF8003, 0x00000000, 0x00000010, 0x00000041)
    assert core.faults == []
    assert out(core, 128) == tuple(range(1005, 1133))
    assert core.u32(SIGNAL_VA) == 1


def test_the_worked_dispatch_runs_by_the_other_launch_packet(core: Bench) -> None:
    """CP_RUN_OPENCL takes 2, 1, 1 from the registers that CP_EXEC_CS overwrites."""
    core.submit(*dispatch({0xB999: 2}, launch=(0x70310001, 0)))
    assert core.faults == []
    assert out(core, 128) == tuple(range(1005, 1133))


STORE_IDS = """
shl.b r2.x, r48.y, 1
add.u r2.x, r2.x, r48.x
shl.b r2.x, r2.x, 6
add.u r2.x, r2.x, r1.x
shl.b r2.x, r2.x, 4
add.u r3.x, r2.x, c0.x
mov.u32u32 r3.y, c0.y
shl.b r4.x, r0.y, 8
or.b r4.x, r4.x, r0.x
shl.b r4.w, r0.z, 16
or.b r4.x, r4.x, r4.w
shl.b r4.y, r49.y, 8
or.b r4.y, r4.y, r49.x
shl.b r4.z, r50.y, 8
or.b r4.z, r4.z, r50.x
mov.u32u32 r4.w, r1.x
stg.u32 g[r3.x], r4.x, 4
"""


def test_ids_land_in_the_registers_that_the_state_names(core: Bench) -> None:
    """Groups of 4 x 4 x 4 in a grid of 2 x 3: local id, group size, group offset and linear id of every fiber."""
    units = put(core, STORE_IDS)
    change = {
        0xA9BC: units, 0xA9B0: 5 << 7, 0xB990: 3 | 3 << 2 | 3 << 12 | 3 << 22, 0xB991: 8, 0xB993: 12, 0xB995: 4,
        0xB997: GROUP_ID | GROUP_SIZE << 8 | GROUP_OFFSET << 16, 0xB998: 4,
    }  # fmt: skip
    core.submit(*dispatch(change, launch=(0x70B30004, 0, 2, 3, 1)))
    assert core.faults == []
    found = list(struct.iter_unpack("<4I", core.space.read(OUT_VA, 6 * 64 * 16)))
    for group in range(6):
        for linear in range(64):
            x, y, z = linear % 4, linear // 4 % 4, linear // 16
            offset = 4 * (group % 2) | 4 * (group // 2) << 8
            assert found[group * 64 + linear] == (x | y << 8 | z << 16, 4 | 4 << 8, offset, linear)


def fault_of(bench: Bench, text: str, change: dict[int, int] | None = None, **more: list[int]) -> None:
    units = put(bench, text)
    bench.submit(*dispatch({0xA9BC: units, 0xA9B0: 8 << 7} | (change or {}), **more))


def test_a_store_outside_memory_is_a_page_fault_with_the_fiber(core: Bench) -> None:
    """Only fiber 33 of group 1 stores there."""
    fault_of(
        core,
        f"""
shl.b r2.x, r48.x, 6
add.u r2.x, r2.x, r0.x
mov.u32u32 r3.x, {UNMAPPED_VA & 0xFFFFFFFF:#x}
mov.u32u32 r3.y, {UNMAPPED_VA >> 32:#x}
cmps.u.eq p0.x, r2.x, 97
br p0.x, #2
end
stg.u32 g[r3.x], r2.x, 1
""",
    )
    (fault,) = core.faults
    assert (fault.kind, fault.address, fault.access) == (PAGE_FAULT, UNMAPPED_VA, "write")
    assert fault.place is not None
    assert (fault.place.pc, fault.place.group, fault.place.fiber) == (CODE_VA + 7 * 8, (1, 0, 0), (33, 0, 0))
    assert core.u32(SIGNAL_VA) == 0


def test_an_endless_shader_hangs(core: Bench) -> None:
    fault_of(core, "jump #0\n")
    assert core.faults[0].kind == HANG


def test_code_that_runs_past_its_length_is_a_bad_shader(core: Bench) -> None:
    put(core, "nop\n" * 20)
    core.submit(*dispatch({0xA9BC: 1}, drop=(14,)))
    assert core.faults[0].kind == BAD_SHADER
    assert "outside the 1 units of code" in core.faults[0].text


def test_registers_beyond_the_footprint_are_a_bad_shader(core: Bench) -> None:
    fault_of(core, "mov.u32u32 r8.x, 1\n")
    assert core.faults[0].kind == BAD_SHADER


def test_shared_memory_beyond_its_size_is_a_bad_shader(core: Bench) -> None:
    fault_of(core, "mov.u32u32 r2.x, 2048\nstl.u32 l[r2.x], r0.x, 1\n")
    assert core.faults[0].kind == BAD_SHADER


def test_constants_beyond_constlen_are_a_bad_shader(core: Bench) -> None:
    fault_of(core, "mov.u32u32 r2.x, c4.x\n")
    assert core.faults[0].kind == BAD_SHADER


STORE_R2 = """
shl.b r3.z, r0.x, 2
add.u r3.x, r3.z, c0.x
mov.u32u32 r3.y, c0.y
stg.u32 g[r3.x], r2.x, 1
"""


@pytest.mark.parametrize("demotion", [False, True])
def test_constant_demotion_decides_what_a_half_constant_is(core: Bench, demotion: bool) -> None:
    """Set: hc5 is the low half of slot 5; clear: the high half of slot 2."""
    core.space.write(CONST_VA + 16, struct.pack("<4I", 0x11112222, 0x33334444, 0x55556666, 0x77778888))
    core.space.write(CONST_VA + 8, struct.pack("<2I", 0x9999AAAA, 0xBBBBCCCC))
    loads = type7(0x34, 1 << 14 | 2 << 16 | 13 << 18 | 2 << 22, *lo_hi(CONST_VA))
    fault_of(core, "cov.u16u32 r2.x, hc1.y\n" + STORE_R2, {0xAB00: 4 | int(demotion)}, before=loads)
    assert core.faults == []
    assert out(core, 1) == (0x4444 if demotion else 0x9999,)


@pytest.mark.parametrize("merged", [False, True])
def test_merged_registers_overlap(core: Bench, merged: bool) -> None:
    """hr4.z and hr4.w are the halves of r2.y in a merged file, and of their own in a split one."""
    text = "mov.u32u32 r2.y, 0x55667788\nmov.u16u16 hr4.w, 0x1234\nmov.u32u32 r2.x, r2.y\n" + STORE_R2
    fault_of(core, text, {0xA9B0: 8 << 7 | 8 << 1 | int(merged) << 31})
    assert core.faults == []
    assert out(core, 1) == (0x12347788 if merged else 0x55667788,)


def test_a_double_wave_votes_over_128_fibers(core: Bench) -> None:
    """One fiber in the upper half of a wave of 128 makes `bany` true for all."""
    text = (
        """
cmps.u.eq p0.x, r0.x, 100
mov.u32u32 r2.x, 1
bany p0.x, #2
mov.u32u32 r2.x, 0
"""
        + STORE_R2
    )
    change = {0xA9B0: 8 << 7, 0xB990: 3 | 127 << 2}
    fault_of(core, text, change, launch=[0x70B30004, 0, 1, 1, 1])
    assert out(core, 128) == (0,) * 64 + (1,) * 64
    wide = {0xA9B0: 8 << 7 | 1 << 20, 0xB990: 3 | 127 << 2, 0xB998: 0xFC | 1 << 9}
    fault_of(core, text, wide, launch=[0x70B30004, 0, 1, 1, 1])
    assert core.faults == []
    assert out(core, 128) == (1,) * 128


def test_private_memory_is_each_fibers_own(core: Bench) -> None:
    per_sp = 512 * 2048
    core.map(0x10_0400_0000, 2 * per_sp)
    private = {0xA9B6: 1, 0xA9B7: 0x0400_0000, 0xA9B8: 0x10, 0xA9B9: per_sp >> 12 | 1 << 31, 0xA9BD: per_sp >> 11}
    text = "mov.u32u32 r2.z, 508\nstp.u32 p[r2.z], r0.x, 1\nldp.u32 r2.x, p[r2.z], 1\n" + STORE_R2
    fault_of(core, text, private)
    assert core.faults == []
    assert out(core, 64) == tuple(range(64))
    core.context.kill()
    fault_of(core, text.replace("508", "512"), private)
    assert core.faults[0].kind == BAD_SHADER


IMAGE_IN, IMAGE_OUT = DATA_VA + 0x10000, DATA_VA + 0x20000
TEXTURES_VA, SAMPLERS_VA, IBOS_VA, BORDER_VA = DATA_VA, DATA_VA + 0x1000, DATA_VA + 0x2000, DATA_VA + 0x4000


@pytest.mark.parametrize(("fmt", "pack", "texel"), [(0x82, "4f", 16), (0x62, "4e", 8)])
def test_an_image_is_copied_texel_by_texel(core: Bench, fmt: int, pack: str, texel: int) -> None:
    """64 x 2 texels through isam and stib, with rows of different pitch on both sides."""
    xyzw = 1 << 7 | 2 << 10 | 3 << 13
    pitches = (64 * texel + 64, 64 * texel)
    shape = 60 | 2 << 15
    words = [
        (d0 | fmt << 22, shape, pitch << 7 | 1 << 29, 0, *lo_hi(va), *[0] * 10)
        for d0, pitch, va in ((xyzw, pitches[0], IMAGE_IN), (0, pitches[1], IMAGE_OUT))
    ]
    core.space.write(TEXTURES_VA, struct.pack("<16I", *words[0]))
    core.space.write(IBOS_VA, struct.pack("<16I", *words[1]))
    core.space.write(SAMPLERS_VA, struct.pack("<4I", 0x1B60, 0x30, 0, 0))
    rows = [[float(x + 100 * y + c / 4) for x in range(60) for c in range(4)] for y in range(2)]
    for y, row in enumerate(rows):
        core.space.write(IMAGE_IN + y * pitches[0], struct.pack(f"<240{pack[1]}", *row))
    text = """
mov.u32u32 r1.x, r0.x
mov.u32u32 r1.y, r48.x
isam (f32)(xyzw)r2.x, r1.x, s#0, t#0
(sy)stib.b.typed.2d.f32.4.imm r2.x, r1.x, 0
"""
    state = {
        0xA9BB: 0x100 | 1 << 9 | 1 << 17 | 1 << 22, 0xA9BA: 1, 0xAA00: 1,
        0xA9E2: SAMPLERS_VA & 0xFFFFFFFF, 0xA9E3: SAMPLERS_VA >> 32, 0xA9E6: TEXTURES_VA & 0xFFFFFFFF,
        0xA9E7: TEXTURES_VA >> 32, 0xA9F2: IBOS_VA & 0xFFFFFFFF, 0xA9F3: IBOS_VA >> 32,
        0xB180: BORDER_VA & 0xFFFFFFFF, 0xB181: BORDER_VA >> 32,
    }  # fmt: skip
    fault_of(core, text, state)
    assert core.faults == []
    for y, row in enumerate(rows):
        assert list(struct.unpack(f"<240{pack[1]}", core.space.read(IMAGE_OUT + y * pitches[1], 60 * texel))) == row
        assert core.space.read(IMAGE_OUT + y * pitches[1] + 60 * texel, 4 * texel) == bytes(4 * texel)


def test_a_raw_buffer_is_read_and_written_by_element(core: Bench) -> None:
    """128 words in two halves: what ldib reads of the first goes to the second; stores past the end are dropped."""
    count, va = 100, DATA_VA + 0x10000
    core.space.write(IBOS_VA, struct.pack("<16I", 0x4B << 22, count, 4 << 29 | 1 << 4, 0, *lo_hi(va), *[0] * 10))
    core.space.write(va, struct.pack("<64I", *range(7, 71)))
    text = """
ldib.b.untyped.1d.u32.1.imm r2.x, r0.x, 0
add.u r1.x, r0.x, 64
(sy)add.u r2.x, r2.x, 1
stib.b.untyped.1d.u32.1.imm r2.x, r1.x, 0
"""
    fault_of(core, text, {
        0xA9BB: 0x100 | 1 << 22, 0xAA00: 1, 0xA9F2: IBOS_VA & 0xFFFFFFFF, 0xA9F3: IBOS_VA >> 32, 0xB991: 64,
    }, launch=[0x70B30004, 0, 1, 1, 1])  # fmt: skip
    assert core.faults == []
    words = struct.unpack("<128I", core.space.read(va, 512))
    assert words == (*range(7, 71), *range(8, 44), *[0] * 28)


def test_a_ubo_is_read_through_its_descriptor(core: Bench) -> None:
    core.space.write(DATA_VA, struct.pack("<8I", *range(50, 58)))
    load = type7(0x34, 2 << 14 | 13 << 18 | 1 << 22, 0, 0, DATA_VA & 0xFFFFFFFF, DATA_VA >> 32 | 2 << 17, 0, 0)
    text = "mov.u32u32 r1.x, 1\nldc.offset1.1.imm r2.x, r1.x, 0\n(sy)nop\n" + STORE_R2
    fault_of(core, text, before=load)
    assert core.faults == []
    assert out(core, 1) == (55,)
