"""Every QMD version against words worked out by hand from the table of nv-engine facts 5 (which is nv-qmd.json's)."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from hcqrt.decode.qmd import unknown_bits
from hcqrt.errors import LaunchError
from hcqrt.nv.arch import CHIPS
from hcqrt.nv.qmd import QmdSpec, QmdTemplate
from hcqrt.nv.qmd_layout import QMD_V02_03, QMD_V03_00, QMD_V04_00, QMD_V05_00

LAYOUTS = {"V02_03": QMD_V02_03, "V03_00": QMD_V03_00, "V04_00": QMD_V04_00, "V05_00": QMD_V05_00}
FACTS = json.loads((Path(__file__).resolve().parents[1] / "facts" / "nv-qmd.json").read_text())
SPEC = QmdSpec(
    grid=(0x12345, 0x678, 0x9A),
    block=(64, 2, 3),
    program_va=0x12_3456_7880,
    registers=40,
    barriers=2,
    shared_bytes=0x2400,
    sm_configs=(5, 9, 26),
    local_low=0,
    local_high=0x450,
    bank0_bytes=0x1A0,
    banks=((2, 0x50_2000_4000, 0x48), (3, 0x1_0000_0100, 65536)),
    sass_version=0x86,
)
GRID_OF_V3 = {12: 0x12345, 13: 0x678, 14: 0x9A}
BANKS_OF_V3 = {33: 0x00D4_0000, 36: 0x2000_4000, 37: 0x002C_0050, 38: 0x100, 39: 0x8004_0001}
FIXED_OF_V3 = {4: 0x7F, 5: 0x3C00_0000, 11: 0x0401_0000}
PROGRAM_OF_V3 = {48: 0x3456_7880, 49: 0x12}
WORDS = {  # version -> word of the QMD -> value; all others are 0
    "V02_03": {
        **FIXED_OF_V3, **GRID_OF_V3, 17: 0x3414_2400, 18: 0x0040_0023, 19: 0x0003_0002, 20: 0x0012_280D,
        29: 0x1000_0000, 30: 0x450, 31: 0x8600_0000, **BANKS_OF_V3, **PROGRAM_OF_V3,
    },
    "V03_00": {
        **FIXED_OF_V3, **GRID_OF_V3, 17: 0x3414_2400, 18: 0x0040_0030, 19: 0x0003_0002, 20: 0x0012_280D,
        23: 0x1000_0000, **BANKS_OF_V3, **PROGRAM_OF_V3, 50: 0x450, 51: 0x8600_0000,
    },
    "V04_00": {
        0: 0x013F_0000, 13: 0x9909, 16: 0x8600_0000, 17: 0x0100_0450, 18: 0x3C24_0040, 19: 0x9685, 32: 0x12345,
        33: 0x678, 34: 0x9A, 35: 0x0001_0000, 36: 0x0002_0040, 37: 0x1028_0003, 38: 0x3456_7880, 39: 0x12,
        49: 0x00D0_0000, 52: 0x4080_0100, 53: 0x0028_0001, 54: 0x0400_0004, 55: 0x8000_0000,
    },
    "V05_00": {
        4: 0x013F_0000, 14: 0x0F50_0186, 19: 0x0001_0000, 32: 0x2345_6788, 33: 1, 34: 0x0002_0040, 35: 0x0004_2803,
        36: 0x04B4_2848, 37: 0x0045_0000, 39: 0x12345, 40: 0x678, 41: 0x9A, 43: 0x00D0_0000, 46: 0x4080_0100,
        47: 0x0028_0001, 48: 0x0400_0004, 49: 0x8000_0000, 58: 0x9909,
    },
}  # fmt: skip
NEXT_VA = 0xAB_CDEF_0100
SUCCESSORS = {  # version -> the words that a successor sets
    "V02_03": {15: 0xABCD_EF01, 4: 0x607F},
    "V03_00": {15: 0xABCD_EF01, 16: 0x13},
    "V04_00": {14: 0xABCD_EF01, 11: 0x0013_0000},
    "V05_00": {12: 0xABCD_EF01, 10: 0x0013_0000},
}
SIGNAL_VA = 0x9_8765_4320
RELEASES = {  # version -> per slot: the words that a release sets when those before are set, the payload's place
    "V03_00": (({24: 0x8765_4320, 25: 0x2088_0009}, 26), ({28: 0x8765_4320, 29: 0x2088_0009}, 30)),
    "V04_00": (({20: 0x8765_4320, 21: 9, 10: 0x1009}, 22), ({24: 0x8765_4320, 25: 9, 10: 0x1009_1009}, 26)),
    "V05_00": (({15: 0x8765_4320, 16: 9, 9: 0x1009}, 17), ({24: 0x8765_4320, 25: 9, 9: 0x1009_1009}, 26)),
}


def words_of(data: bytes | bytearray) -> dict[int, int]:
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return {place: word for place, word in enumerate(words) if word}


def changed(before: bytes, after: bytearray) -> dict[int, int]:
    old, new = words_of(before), words_of(after)
    return {place: word for place, word in new.items() if old.get(place) != word}


@pytest.mark.parametrize("version", LAYOUTS)
def test_words_of_a_launch(version):
    template = QmdTemplate(LAYOUTS[version], SPEC)
    assert template.nbytes == len(template.data) == (384 if version >= "V04" else 256)
    assert words_of(template.data) == WORDS[version]
    assert not unknown_bits(template.data, version)


@pytest.mark.parametrize("version", LAYOUTS)
def test_words_of_bank_0_and_of_a_successor(version):
    template = QmdTemplate(LAYOUTS[version], SPEC)
    data = bytearray(template.data)
    template.store_bank0(memoryview(data), 0, 0x50_2000_4000)
    place, words = (42, (0x4080_0100, 0x00D0_0001)) if version == "V05_00" else (32, (0x2000_4000, 0x00D4_0050))
    if version == "V04_00":
        place, words = 48, (0x4080_0100, 0x00D0_0001)
    assert changed(template.data, data) == {place: words[0], place + 1: words[1]}
    assert template.bank0_words(0x50_2000_4000) == words
    assert template.bank0_offset == 4 * place
    data = bytearray(template.data)
    template.store_dependent(memoryview(data), 0, NEXT_VA)
    assert changed(template.data, data) == SUCCESSORS[version]


@pytest.mark.parametrize("version", RELEASES)
def test_words_of_releases(version):
    template = QmdTemplate(LAYOUTS[version], SPEC)
    assert template.release_count == 2
    data, wanted = bytearray(template.data), {}
    for slot, (words, payload) in enumerate(RELEASES[version]):
        template.store_release(data, 0, slot, SIGNAL_VA)
        wanted |= words
        assert changed(template.data, data) == wanted
        assert template.payload_offset(slot) == 4 * payload
    whole, payload = template.with_release(SIGNAL_VA)
    assert (changed(template.data, bytearray(whole)), payload // 4) == RELEASES[version][0]


@pytest.mark.parametrize("version", RELEASES)
def test_releases_and_the_successor_leave_each_others_words_alone(version):
    """They are stored one by one, in any order."""
    template = QmdTemplate(LAYOUTS[version], SPEC)
    one, other = bytearray(template.data), bytearray(template.data)
    for data, order in ((one, "01n"), (other, "n01")):
        for step in order:
            if step == "n":
                template.store_dependent(memoryview(data), 0, NEXT_VA)
            else:
                template.store_release(data, 0, int(step), SIGNAL_VA)
    assert one == other
    assert changed(template.data, one).keys() >= SUCCESSORS[version].keys() | RELEASES[version][1][0].keys()


def test_a_version_whose_releases_have_32_bits_has_no_slot():
    template = QmdTemplate(QMD_V02_03, SPEC)
    assert template.release_count == 0
    assert "RELEASE0_PAYLOAD_UPPER" not in FACTS["V02_03"]


@pytest.mark.parametrize(("version", "limit"), [("V03_00", 1 << 40), ("V04_00", 1 << 57), ("V05_00", 1 << 57)])
def test_how_high_a_release_reaches(version, limit):
    template = QmdTemplate(LAYOUTS[version], SPEC)
    whole, payload = template.with_release(limit - 16)
    assert struct.unpack_from("<I", whole, payload - 8) == (0xFFFF_FFF0,)
    with pytest.raises(LaunchError, match=f"signals lie below {limit:#x}"):
        template.with_release(limit)


@pytest.mark.parametrize("version", LAYOUTS)
def test_every_field_that_a_layout_names_is_in_the_facts(version):
    layout, facts = LAYOUTS[version], FACTS[version]
    names = [*layout.grid, *layout.block, *layout.program_va, *layout.bank_va, layout.registers, layout.shared_size]
    names += [layout.local_low, layout.local_high, layout.minor_version, layout.successor.pointer]
    names += [name for name, *_ in layout.successor.enable] + [name for name, _ in layout.fixed]
    for release in layout.releases:
        names += [*release.address, release.payload, *(name for name, *_ in release.enable)]
    assert set(names) <= facts.keys()
    for release in layout.releases:
        lower, upper, payload = (facts[name][1] for name in (*release.address, release.payload))
        assert (upper - lower, payload - upper) == (32, 32)


@pytest.mark.parametrize("version", LAYOUTS)
@pytest.mark.parametrize(
    ("field", "value"),
    [("registers", 512), ("barriers", 32), ("sass_version", 256), ("local_high", 1 << 24), ("program_va", 1 << 57),
     ("grid", (1 << 32, 1, 1)), ("grid", (1, 1 << 16, 1)), ("sm_configs", (128, 9, 26))],
)  # fmt: skip
def test_what_is_too_wide_is_refused(version, field, value):
    with pytest.raises(ValueError, match=r"QMD [A-Z]"):
        QmdTemplate(LAYOUTS[version], replace(SPEC, **{field: value}))


def test_what_the_last_version_stores_in_units_must_be_a_multiple():
    for field, value, unit in (("shared_bytes", 0x2440, 128), ("local_high", 0x458, 16), ("program_va", 0x1008, 16)):
        with pytest.raises(ValueError, match=f"no multiple of {unit}"):
            QmdTemplate(QMD_V05_00, replace(SPEC, **{field: value}))
    with pytest.raises(ValueError, match="no multiple of 64"):
        QmdTemplate(QMD_V04_00, replace(SPEC, banks=((2, 0x1020, 16),)))


def test_which_version_each_chip_uses():
    used = {name: "V{:02}_{:02}".format(*chip.arch.qmd.version) for name, chip in CHIPS.items()}
    assert used == {
        "sm_75": "V02_03", "sm_80": "V03_00", "sm_86": "V03_00", "sm_87": "V03_00", "sm_89": "V03_00",
        "sm_90": "V04_00", "sm_100": "V05_00", "sm_103": "V05_00", "sm_120": "V05_00", "sm_121": "V05_00",
    }  # fmt: skip
