"""The chips of qcom.md §1.10, typed by hand from its table."""

from __future__ import annotations

import pytest

from hcqrt.emu.qcom.chips import CHIPS

KIB = 1024
MIB = 1024 * KIB
# name: chip id without its last byte, SPs, fibers of an SP, units of instruction cache, LPAC, GMEM, bank bit, magic
TABLE = {
    "a630": (0x060300, 2, 2048, 64, False, MIB, 15, 0x00108000, 96),
    "a640": (0x060400, 2, 8192, 64, False, MIB, 15, 0x00008000, 96),
    "a650": (0x060500, 3, 4096, 127, False, 1152 * KIB, 16, 0x01008000, 64),
    "a660": (0x060600, 3, 4096, 127, True, 1536 * KIB, 16, 0x05008000, 64),
    "a690": (0x060900, 8, 4096, 127, True, 0, 16, 0x04C00000, 64),
    "a730": (0x070300, 4, 4096, 127, True, 2 * MIB, 16, 0x01000000, 96),
    "a740": (0x43050A, 6, 4096, 127, True, 3 * MIB, 16, 0x11100000, 96),
    "a750": (0x430514, 6, 4096, 127, True, 3 * MIB, 16, 0x11100000, 96),
}
SEVENTH = {"a730": 0x07030001, "a740": 0x43050A01, "a750": 0x43051401}


def test_there_are_no_others() -> None:
    assert set(CHIPS) == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_a_chip_is_as_the_table_says(name: str) -> None:
    chip = CHIPS[name]
    assert TABLE[name] == (
        chip.chip_id >> 8, chip.sps, chip.fibers_per_sp, chip.icache_units, chip.lpac, chip.gmem_bytes,
        chip.highest_bank_bit, chip.eco_cntl, chip.reg_vec4,
    )  # fmt: skip
    assert chip.name == name
    assert (chip.shared_bytes, chip.max_waves, chip.wave_pair) == (32 * KIB, 16, 2)


@pytest.mark.parametrize("name", TABLE)
def test_a_generation_has_its_constants_and_its_scheduler(name: str) -> None:
    """a7xx: the whole chip id is given, kernels leave gpu_id at 0 and let the GPU schedule."""
    chip = CHIPS[name]
    if name in SEVENTH:
        assert (chip.const_vec4, chip.hwsched, chip.chip_id, chip.gpu_id) == (512, True, SEVENTH[name], 0)
    else:
        assert (chip.const_vec4, chip.hwsched, chip.gpu_id) == (256, False, int(name[1:]))
