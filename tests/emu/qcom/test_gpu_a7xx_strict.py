"""Every rule of a dispatch on a7xx (qcom.md §3 and §3.2): broken alone, it is refused with the register's offset."""

from __future__ import annotations

import pytest
from adreno_a7xx import DISPATCH, dispatch7
from adreno_bench import SIGNAL_VA, Bench, type4, type7

from hcqrt.emu.refusal import EmulatorRefusal

PER_SP = 512 * 4096
PRIVATE = {0xA9B6: 1, 0xA9B7: 0x0400_0000, 0xA9B8: 0x10, 0xA9B9: PER_SP >> 12, 0xA9BD: PER_SP >> 11}
TILED = 0x444008FC  # HLSQ_CS_CNTL_1 of the example: 4 x 17 groups a tile, z first, no linear id
ROWS_2 = {0xA9D4: 3 | 31 << 2 | 1 << 12, 0xA9D5: 64, 0xA9D7: 2, 0xA9DF: 31 << 2 | 1 << 12}  # groups of 32 x 2
# What is changed -> what the refusal must say
RULES: dict[str, tuple[dict[int, int], str]] = {
    "isam modes differ": ({0xB309: 1}, "SP_TP_MODE_CNTL (0xb309) = 0x1: ISAMMODE 1, but 2"),
    "shared constants": ({0xAB00: 0xD}, "SHARED_CONSTS_ENABLE"),
    "shared constants of registers": ({0xA9CD: 0x301}, "HLSQ_CS_CNTL (0xa9cd) = 0x301: READ_IMM_SHARED_CONSTS"),
    "another chip's magic": ({0xB600: 0x01000000}, "TPL1_DBG_ECO_CNTL (0xb600) = 0x1000000: an a750 takes 0 or"),
    "constants not enabled": ({0xA9CD: 1}, "HLSQ_CS_CNTL (0xa9cd) = 0x1: ENABLED"),
    "constlen over the file": ({0xA9CD: 0x100 | 129, 0xA9B1: 0x61}, "CONSTLEN 516 vec4, the file has 512"),
    "constlen over the RAM mode": ({0xA9CD: 0x100 | 65, 0xA9B1: 0x41}, "mode 2 holds 256 vec4, CONSTLEN is 260"),
    "constlen zero": ({0xA9CD: 0x100}, "HLSQ_CS_CNTL (0xa9cd) = 0x100: constants up to c0 were loaded, CONSTLEN is 0"),
    "config not enabled": ({0xA9BB: 0}, "SP_CS_CONFIG (0xa9bb) = 0x0: ENABLED"),
    "bindless images": ({0xA9BB: 0x104}, "BINDLESS_IBO"),
    "texture count": ({0xA9BA: 1}, "SP_CS_TEX_COUNT (0xa9ba) = 0x1: SP_CS_CONFIG says 0"),
    "image count": ({0xAA00: 1}, "SP_CS_IBO_COUNT (0xaa00) = 0x1: SP_CS_CONFIG says 0"),
    "code off its alignment": ({0xA9B4: 0x10020}, "SP_CS_OBJ_START (0xa9b4) = 0x1000010020"),
    "branch condition": ({0xA9B2: 1}, "SP_CS_BRANCH_COND (0xa9b2) = 0x1"),
    "early preamble": ({0xA9B0: 0x180 | 1 << 23}, "EARLYPREAMBLE"),
    "vector registers": ({0xA9C5: 1}, "SP_CS_VGPR_CONFIG (0xa9c5) = 0x1: only 0x0"),
    "unknown A9BE": ({0xA9BE: 0x08000000}, "SP_CS_UNKNOWN_A9BE (0xa9be) = 0x8000000: only 0x0"),
    "fragment ids": ({0xA9C8: 0}, "HLSQ_CONTROL_2_REG (0xa9c8) = 0x0: only 0xfcfcfcfc"),
    "fragment ids, last": ({0xA9CB: 0xFCFC}, "HLSQ_CONTROL_5_REG (0xa9cb) = 0xfcfc: only 0xfc00"),
    "thread size in the footprint only": (
        {0xA9B0: 0x180 | 1 << 20}, "HLSQ_CS_CNTL_1 (0xa9db) = 0x444008fc: THREADSIZE 0, but 1 in SP_CS_CTRL_REG0",
    ),
    "thread size without the SP's": (
        {0xA9B0: 0x180 | 1 << 20, 0xA9DB: TILED | 1 << 9}, "SP_CS_CNTL_1 (0xa9c3) = 0xfc: THREADSIZE 0, but 1",
    ),
    "thread size at its old place": (
        {0xA9B0: 0x180 | 1 << 20, 0xA9DB: TILED | 1 << 9, 0xA9C3: 0xFC | 1 << 9},
        "SP_CS_CNTL_1 (0xa9c3) = 0x2fc: THREADSIZE_SCALAR",
    ),
    "scalar threads": ({0xA9C3: 0xFC | 1 << 9}, "SP_CS_CNTL_1 (0xa9c3) = 0x2fc: THREADSIZE_SCALAR"),
    "tiled fibers": ({0xA9C3: 0xFC | 1 << 15}, "SP_CS_CNTL_1 (0xa9c3) = 0x80fc: WORKITEMRASTORDER = 0x1"),
    "linear ids differ": ({0xA9C3: 4}, "SP_CS_CNTL_1 (0xa9c3) = 0x4: LINEARLOCALIDREGID 4, but 252 in HLSQ_CS_CNTL_1"),
    "tile width": ({0xA9DB: TILED ^ 12 << 20}, "HLSQ_CS_CNTL_1 (0xa9db) = 0x448008fc: tiles of (8, 17) groups"),
    "tile height": ({0xA9DB: 0x0C4008FC}, "tiles of (4, 3) groups, local size (64, 1, 1) takes (4, 17)"),
    "tile height of two rows": (ROWS_2, "tiles of (4, 17) groups, local size (32, 2, 1) takes (4, 9)"),
    "tile without width": ({0xA9DB: 0x440008FC}, "tiles of (0, 17) groups"),
    "register file": (
        {0xA9B0: 48 << 7, 0xA9D4: 3 | 319 << 2, 0xA9D5: 640, 0xA9DF: 319 << 2},
        "SP_CS_CTRL_REG0 (0xa9b0) = 0x1800: 5 waves of 48 full and 0 half vec4, 4 fit on an a750",
    ),
    "local size": ({0xA9D4: 3 | 1023 << 2 | 1 << 12}, "HLSQ_CS_NDRANGE_0 (0xa9d4) = 0x1fff: local size (1024, 2, 1)"),
    "last group larger": ({0xA9DF: 64 << 2}, "HLSQ_CS_LAST_LOCAL_SIZE (0xa9df) = 0x100: a last group of (65, 1, 1)"),
    "last group larger in z": ({0xA9DF: 63 << 2 | 1 << 22}, "a last group of (64, 1, 2), groups have (64, 1, 1)"),
    "global size": ({0xA9D5: 100}, "HLSQ_CS_NDRANGE_1 (0xa9d5) = 0x64: 2 groups of 64 in X are 0x80"),
    "global size with a short group": (
        {0xA9D5: 128, 0xA9DF: 35 << 2},
        "HLSQ_CS_NDRANGE_1 (0xa9d5) = 0x80: 2 groups of 64 in X, the last of 36, are 0x64",
    ),
    "global size y": ({0xA9D7: 2}, "HLSQ_CS_NDRANGE_3 (0xa9d7) = 0x2: 1 groups of 1 in Y"),
    "global offset z": ({0xA9DA: 1}, "HLSQ_CS_NDRANGE_6 (0xa9da) = 0x1: offsets"),
    "group id in a low register": ({0xA9C2: 0x00FCFC10}, "SP_CS_CNTL_0 (0xa9c2) = 0xfcfc10: group id in register"),
    "local id past the footprint": ({0xA9C2: 0x0AFCFCC0}, "local id in register 0xa: three leave the footprint of 3"),
    "linear id past the footprint": (
        {0xA9DB: 0x4440080C, 0xA9C3: 0x0C}, "HLSQ_CS_CNTL_1 (0xa9db) = 0x4440080c: linear id in register 0xc",
    ),
    "private memory per SP": (
        PRIVATE | {0xA9B9: 0x100},
        "SP_CS_PVT_MEM_SIZE (0xa9b9) = 0x100: 0x100000 bytes for an SP, 4096 fibers of 0x200 need 0x200000",
    ),
}  # fmt: skip


def refused(bench: Bench, words: list[int]) -> str:
    with pytest.raises(EmulatorRefusal) as failure:
        bench.submit(*words)
    assert bench.launches == []
    assert bench.u32(SIGNAL_VA) == 0
    return str(failure.value)


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_refused_with_offset_and_value(bench7: Bench, rule: str) -> None:
    change, text = RULES[rule]
    assert text in refused(bench7, dispatch7(change))


@pytest.mark.parametrize("packet", [3, 4, 6, 9, 10, 11, 12, 13, 14, 16, 17])
def test_state_that_was_never_written_is_refused(bench7: Bench, packet: int) -> None:
    assert "never written" in refused(bench7, dispatch7(drop=(packet,)))


@pytest.mark.parametrize("packet", [5, 7, 15])
def test_magic_and_the_fragment_thread_size_may_be_left_out(bench7: Bench, packet: int) -> None:
    bench7.submit(*dispatch7(drop=(packet,)))
    assert len(bench7.launches) == 1


def test_every_register_of_the_example_is_one_of_the_sheet(bench7: Bench) -> None:
    bench7.submit(*dispatch7())
    assert (len(bench7.launches), bench7.u32(SIGNAL_VA), bench7.retired) == (1, 1, [1])
    assert len(dispatch7()) == sum(len(text.split()) for text in DISPATCH) == 76


@pytest.mark.parametrize(
    ("rows", "height"), [(1, 17), (2, 9), (3, 17), (4, 5), (6, 9), (8, 3), (12, 5), (16, 3)],
)  # fmt: skip
def test_tiles_suit_the_rows_of_a_group(bench7: Bench, rows: int, height: int) -> None:
    size = 3 | 3 << 2 | rows - 1 << 12
    change = {0xA9D4: size, 0xA9D5: 8, 0xA9D7: rows, 0xA9DF: size & ~3, 0xA9DB: 0x004008FC | height << 26}
    bench7.submit(*dispatch7(change))
    assert bench7.launches[0].block == (4, rows, 1)


@pytest.mark.parametrize("value", [0x000000FC, 0x000008FC, 0x444000FC])
def test_groups_need_no_tiles_and_no_z_order(bench7: Bench, value: int) -> None:
    bench7.submit(*dispatch7({0xA9DB: value}))
    assert len(bench7.launches) == 1


def test_the_render_thread_must_be_chosen(bench7: Bench) -> None:
    assert "the thread is 3, compute needs CP_THREAD_CONTROL 1" in refused(bench7, dispatch7(drop=(0,)))


def test_the_render_thread_must_be_chosen_in_every_submission(bench7: Bench) -> None:
    """A submission starts on both threads, also where the one before it chose one; its parts share the choice."""
    bench7.submit(*dispatch7(), *dispatch7(drop=(0,)))
    assert len(bench7.launches) == 2
    with pytest.raises(EmulatorRefusal, match="the thread is 3"):
        bench7.submit(*dispatch7(drop=(0,)))


@pytest.mark.parametrize("thread", [2, 3])
def test_compute_runs_on_the_render_thread_only(bench7: Bench, thread: int) -> None:
    text = refused(bench7, [*dispatch7()[:2], *type7(0x17, thread), *dispatch7(drop=(0,))])
    assert f"the thread is {thread}" in text


def test_code_is_not_loaded_ahead(bench7: Bench) -> None:
    text = refused(bench7, dispatch7(before=(0x70348003, 0x00760000, 0x00010000, 0x00000010)))
    assert "CP_LOAD_STATE6_FRAG = 0x00760000: an a750 fetches its code itself" in text


def test_constants_end_with_the_file(bench7: Bench) -> None:
    load = type7(0x34, 1 << 22 | 0x00364000 | 512, 0x20000, 0x10)
    assert "constants 512 to 512, the file has 512" in refused(bench7, dispatch7(before=load))


@pytest.mark.parametrize(
    "offset", [0xB987, 0xB990, 0xB997, 0xB998, 0xB999, 0xB980, 0xB983, 0xBB08, 0xB9D0, 0xBB11, 0xBE04]
)
def test_registers_of_a6xx_that_moved_or_are_gone_are_refused(bench7: Bench, offset: int) -> None:
    assert f"write of 0xfc to unknown register {offset:#x}" in refused(bench7, type4(offset, 0xFC))


@pytest.mark.parametrize("offset", [0xA9BE, 0xA9C5, 0xA9C6, 0xA9C8, 0xA9CD, 0xA9D4, 0xA9DB, 0xA9DC, 0xA9DF, 0xAB1F])
def test_registers_of_a7xx_are_unknown_to_a6xx(bench: Bench, offset: int) -> None:
    assert f"write of 0xfc to unknown register {offset:#x}" in refused(bench, type4(offset, 0xFC))


@pytest.mark.parametrize(
    ("offset", "value", "unknown"),
    [
        (0xA9CD, 0x400, 0x400), (0xA9DB, 0x500, 0x500), (0xA9C3, 0x400, 0x400), (0xA9DF, 3, 3),
        (0xAB1F, 1 << 25, 0x2000000), (0xAB1F, 1 << 8, 0x100), (0xA9C7, 8, 8), (0xA9CB, 1 << 16, 0x10000),
        (0xA9BD, 1 << 19, 0x80000),
    ],
)  # fmt: skip
def test_bits_outside_every_field_are_refused(bench7: Bench, offset: int, value: int, unknown: int) -> None:
    text = refused(bench7, type4(offset, value))
    assert f"({offset:#x})" in text
    assert f"bits {unknown:#x}" in text


def test_eight_bindless_bases_can_be_set_and_shared_constants_cannot(bench7: Bench) -> None:
    bench7.submit(*type4(0xA9E8, *range(16)), *type4(0xAB0A, *range(16)), *type4(0xAB1F, 0x1FFFE00))
    assert bench7.faults == []
    assert "register HLSQ_SHARED_CONSTS_IMM[0] (0xab40)" in refused(bench7, type4(0xAB40, 1))


def test_state_in_use_is_left_alone_until_idle(bench7: Bench) -> None:
    with pytest.raises(EmulatorRefusal, match=r"HLSQ_CS_NDRANGE_0 \(0xa9d4\) while a shader may still use it"):
        bench7.submit(*dispatch7()[:-6], *type4(0xA9D4, 0xFF))
