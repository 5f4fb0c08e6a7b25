"""The chips against the tables of nv-engine facts 0, 3, 6 and 7, written out by hand."""

from __future__ import annotations

import pytest

from hcqrt.autogen.nv import ioctls
from hcqrt.errors import DriverError
from hcqrt.nv.arch import CHIPS, chip_for
from hcqrt.nv.methods import COMPUTE, IMMD, header

NUMBERS = {name: number for name, (number, _) in ioctls.CLASSES.items()}
CLASSES = {  # chip -> channel, compute, copy class, best first
    "sm_75": ((0xC46F,), (0xC5C0,), (0xC5B5,)),
    "sm_80": ((0xC56F,), (0xC7C0, 0xC6C0), (0xC7B5, 0xC6B5)),
    "sm_86": ((0xC56F,), (0xC7C0, 0xC6C0), (0xC7B5, 0xC6B5)),
    "sm_87": ((0xC56F,), (0xC7C0, 0xC6C0), (0xC7B5, 0xC6B5)),
    "sm_89": ((0xC56F,), (0xC9C0,), (0xC7B5,)),
    "sm_90": ((0xC86F,), (0xCBC0,), (0xC8B5,)),
    "sm_100": ((0xC96F,), (0xCDC0,), (0xC9B5,)),
    "sm_103": ((0xC96F,), (0xCDC0,), (0xC9B5,)),
    "sm_120": ((0xCA6F, 0xC96F), (0xCEC0,), (0xCAB5,)),
    "sm_121": ((0xCA6F, 0xC96F), (0xCEC0,), (0xCAB5,)),
}
FIRST_PARAMETER = {75: 0x160, 80: 0x160, 86: 0x160, 87: 0x160, 89: 0x160, 90: 0x210}  # later: 0x380
SMS = {  # chip -> carve-outs in KiB, warps (as the driver says) and blocks per SM, SASS version
    "sm_75": ((32, 64), 32, 16, 0x75),
    "sm_80": ((0, 8, 16, 32, 64, 100, 132, 164), 64, 32, 0x80),
    "sm_86": ((0, 8, 16, 32, 64, 100), 48, 16, 0x86),
    "sm_87": ((0, 8, 16, 32, 64, 100, 132, 164), 48, 16, 0x87),
    "sm_89": ((0, 8, 16, 32, 64, 100), 48, 24, 0x89),
    "sm_90": ((0, 8, 16, 32, 64, 100, 132, 164, 196, 228), 64, 32, 0x90),
    "sm_100": ((0, 8, 16, 32, 64, 100, 132, 164, 196, 228), 64, 32, 0xA0),
    "sm_103": ((0, 8, 16, 32, 64, 100, 132, 164, 196, 228), 64, 32, 0xA3),
    "sm_120": ((0, 8, 16, 32, 64, 100), 48, 24, 0xA4),
    "sm_121": ((0, 8, 16, 32, 64, 100), 48, 24, 0xC1),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_best_first(name):
    arch = CHIPS[name].arch
    found = (arch.channel_classes, arch.compute_classes, arch.copy_classes)
    assert tuple(tuple(NUMBERS[one] for one in names) for names in found) == CLASSES[name]
    usermode = [NUMBERS[one] for one in arch.usermode_classes]
    assert usermode[-1] == 0xC461
    assert usermode == sorted(usermode, reverse=True)
    assert (0xC661 in usermode) == (CHIPS[name].sm >= 90)
    assert (0xC761 in usermode) == (CHIPS[name].sm >= 100)


def test_every_chip_has_its_row():
    assert list(CHIPS) == list(CLASSES) == list(SMS)


@pytest.mark.parametrize("name", SMS)
def test_what_an_sm_holds(name):
    chip = CHIPS[name]
    carve_outs, _, blocks, sass_version = SMS[name]
    assert (chip.smem_kib, chip.blocks_per_sm, chip.sass_version) == (carve_outs, blocks, sass_version)
    assert chip.arch.shared_unit == (256 if name == "sm_75" else 128)
    assert all(kib // 4 + 1 < 1 << 6 for kib in chip.smem_kib)  # the field has 6 bits, 7 up to Turing


@pytest.mark.parametrize("name", SMS)
def test_the_method_that_starts_a_launch(name):
    word = header(COMPUTE, *CHIPS[name].arch.schedule, IMMD)
    assert word == (0x8003_20AF if name == "sm_75" else 0x8003_20B0)


@pytest.mark.parametrize("name", SMS)
def test_windows_are_4_gib_apart_and_aligned(name):
    arch = CHIPS[name].arch
    for window in (arch.shared_window_va, arch.local_window_va):
        assert window % (1 << 32) == 0
        assert 1 << 40 <= window < 1 << 47  # above all that hcqrt maps, within the registers' 49 bits
    assert arch.shared_window_va != arch.local_window_va
    assert arch.stack_top == 0xFFFDC0


@pytest.mark.parametrize("name", SMS)
def test_what_the_toolkits_code_finds_in_bank_0(name):
    chip = CHIPS[name]
    if chip.sm >= 100:
        wanted = {
            "block_dim": [0x360], "grid_dim": [0x370], "shared_window": [0x2F0], "local_window": [0x2F8],
            "stack_top": [0x37C], "dynamic_shared": [0x2AC, 0x20C], "shared_reserve": [0x16C],
            "shared_reserve_end": [0x278, 0x1D8], "shared_total": [0x2BC, 0x21C], "cluster_dim": [0x2A0, 0x200],
            "cluster_inverse": [0x2B0, 0x210], "cluster_count": [0x2C0, 0x220], "cluster_size": [0x2CC, 0x22C],
        }  # fmt: skip
    else:
        wanted = {
            "block_dim": [0x00], "grid_dim": [0x0C], "shared_window": [0x18], "local_window": [0x20],
            "stack_top": [0x28], "dynamic_shared": [0x2C],
        }  # fmt: skip
        if chip.sm >= 80:
            wanted |= {"shared_reserve": [0x114], "shared_reserve_end": [0x68 if chip.sm == 90 else 0x120]}
        if chip.sm == 90:
            wanted |= {
                "shared_total": [0x13C], "cluster_dim": [0x144], "cluster_inverse": [0x150], "cluster_count": [0x15C],
                "cluster_size": [0x188],
            }  # fmt: skip
    assert {key: list(places) for key, places in chip.arch.bank0.items()} == wanted
    assert chip.driver_area_bytes <= FIRST_PARAMETER.get(chip.sm, 0x380)


def test_field_report_7_an_unknown_chip_is_an_error_with_its_number_and_what_is_supported():
    with pytest.raises(DriverError, match=r"not supported: SM_VERSION 0x3f; supported are sm_75, .*sm_90, .*sm_121$"):
        chip_for(0x3F)
    for sm_version in (0x700, 0x808, 0xA01, 0xB00):
        with pytest.raises(DriverError, match=f"SM_VERSION {sm_version:#x};"):
            chip_for(sm_version)


def test_no_two_chips_answer_to_one_number():
    numbers = [number for chip in CHIPS.values() for number in chip.sm_versions]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", SMS)
def test_carve_outs_hold_as_many_blocks_as_the_warps_allow(name):
    chip = CHIPS[name]
    largest, warps = chip.smem_kib[-1] // 4 + 1, SMS[name][1]
    for kib, threads in ((0, 32), (1, 1024), (9, 256), (33, 128), (chip.smem_kib[-1], 32)):
        least, target, most = chip.carve_out(kib * 1024, threads, warps)
        assert most == largest
        assert (least - 1) * 4 >= kib
        assert least in [size // 4 + 1 for size in chip.smem_kib]
        assert least <= target <= most
        room = (target - 1) * 4
        blocks = min(chip.blocks_per_sm, warps // -(-threads // 32))
        assert room >= kib * blocks or room + kib > chip.smem_kib[-1] or target == largest
