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
}


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
    assert (chip.const_vec4, chip.shared_bytes, chip.max_waves, chip.wave_pair) == (256, 32 * KIB, 16, 2)
