"""Launch descriptors: what is refused before anything runs, with the number that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_bench import CODE_VA, CONST_VA, DATA_VA, QMD_VA, SETUP, UNMAPPED_VA, Bench
from hypothesis import given, settings
from hypothesis import strategies as st
from qmd_words import BITS, qmd

from hcqrt.emu.nv.qmd import decode_qmd
from hcqrt.emu.nv.qmd_layout import RELEASE_FIELDS, VERSIONS, WITHOUT_EFFECT, layout
from hcqrt.emu.nv.trouble import Refused
from hcqrt.emu.refusal import EmulatorRefusal

LAUNCH3 = [0x200120AD, QMD_VA >> 8, 0x200120B0, 3]
FACTS = Path(__file__).resolve().parents[2] / "facts" / "nv-qmd.json"


def release(**changes: int) -> dict[int, dict[str, int]]:
    return {0: {"va": DATA_VA, "payload": 1, "structure": 0, "payload64": 1, **changes}}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"major": 4}, "version 4.0 is not one of class 0xc7c0"),
        ({"minor": 1}, "version 3.1"),
        ({"grid": (0, 1, 1)}, r"grid \(0, 1, 1\)"),
        ({"grid": (1 << 31, 1, 1)}, "grid x 0x80000000"),
        ({"grid": (1, 1, 0)}, r"\(1, 1, 0\)"),
        ({"block": (1025, 1, 1)}, "block x = 1025"),
        ({"block": (1, 1, 65)}, "block z = 65"),
        ({"block": (32, 33, 1)}, "1056 threads"),
        ({"block": (0, 1, 1)}, "block x = 0"),
        ({"registers": 0}, "0 registers"),
        ({"registers": 256}, "256 registers"),
        ({"registers": 255, "block": (1024, 1, 1)}, "255 registers needs 262144"),
        ({"registers": 65, "block": (1024, 1, 1)}, "65 registers needs 73728"),
        ({"barriers": 17}, "17 barriers"),
        ({"local_low": 8}, "low size 0x8"),
        ({"local_high": 24}, "high size 0x18"),
        ({"shared": 64}, "shared memory size 0x40 is not a multiple of 128"),
        ({"shared": 0x19080, "config": (0x1A, 0x1A, 0x1A)}, "0x19080 is over 0x19000"),
        ({"shared": 0x4080}, "0x4080 is over the smallest carve-out 0x4000"),
        ({"config": (0, 5, 0x1A)}, "MIN_SM_CONFIG_SHARED_MEM_SIZE = 0x0"),
        ({"config": (5, 6, 0x1A)}, "TARGET_SM_CONFIG_SHARED_MEM_SIZE = 0x6"),
        ({"config": (5, 5, 0x2A)}, "MAX_SM_CONFIG_SHARED_MEM_SIZE = 0x2a"),
        ({"config": (9, 5, 0x1A)}, "0x8000, 0x4000, 0x19000 are not in order"),
        ({"program": CODE_VA + 64}, f"{CODE_VA + 64:#x} is not a multiple of 128"),
        ({"sass": 0x89}, "SASS_VERSION 0x89"),
        ({"sass": 0x75}, "SASS_VERSION 0x75"),
        ({"prefetch_size": 1}, "prefetch of 0x100 bytes at 0x0 misses"),
        ({"constants": {2: (CONST_VA + 32, 64)}}, f"buffer 2 at {CONST_VA + 32:#x} is not 64-byte"),
        ({"constants": {2: (CONST_VA, 0)}}, "size 0x0"),
        ({"constants": {2: (CONST_VA, 0x10010)}}, "size 0x10010"),
        ({"releases": release(va=DATA_VA + 8)}, f"RELEASE0 at {DATA_VA + 8:#x} is not 16-byte"),
        ({"releases": release(structure=1)}, "64-bit payload in a one-word"),
        ({"releases": release(structure=2, payload64=0)}, "32-bit payload in a two-word"),
        ({"releases": release(structure=2, va=DATA_VA + 4)}, "not 8-byte"),
        ({"releases": release(structure=3)}, "RELEASE0_STRUCTURE_SIZE = 0x3"),
        ({"releases": release(payload64=0, payload=1 << 32)}, "RELEASE0_PAYLOAD_UPPER = 0x1"),
        ({"releases": release(trap=2)}, "RELEASE0_TRAP_TYPE = 2"),
        ({"releases": release(reduction=0)}, "reduction 0 in a four-word"),
        ({"dependent": (QMD_VA, 0)}, "dependent action 0"),
        ({"dependent": (QMD_VA, 4)}, "dependent action 4"),
        ({"dependent": (QMD_VA, 2)}, "DEPENDENT_QMD0_ACTION = 0x2"),
        ({"membar": 2}, "CWD_MEMBAR_TYPE = 0x2"),
        ({"raw": ((136, 136, 1),)}, "IS_QUEUE = 0x1"),
        ({"raw": ((140, 140, 1),)}, "REQUIRE_SCHEDULING_PCAS = 0x1"),
        ({"raw": ((517, 517, 1),)}, "DEPENDENT_QMD1_ENABLE = 0x1"),
        ({"raw": ((703, 672, 3),)}, "SM_DISABLE_MASK_LOWER = 0x3"),
        ({"raw": ((223, 192, 5),)}, "CTA_RASTER_WIDTH_RESUME = 0x5"),
        ({"raw": ((1854, 1824, 1),)}, "HW_ONLY_INNER_GET = 0x1"),
        ({"raw": ((447, 432, 1),)}, "reserved bit 432"),
        ({"raw": ((568, 568, 1),)}, "reserved bit 568"),
        ({"raw": ((1599, 1585, 2),)}, "reserved bit 1586"),
    ],
)
def test_descriptors_that_do_not_fit_are_refused_with_the_number(
    bench: Bench, fields: dict[str, Any], text: str
) -> None:
    channel = bench.channel()
    bench.space.write(QMD_VA, qmd(**fields))
    with pytest.raises(EmulatorRefusal, match=f"QMD.*at {QMD_VA:#x}.*{text}"):
        bench.submit(channel, *SETUP, *LAUNCH3)
    assert bench.notifier(channel)[1] == 13 and bench.launches == [] and bench.gpu.stats["launches"] == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"grid": ((1 << 31) - 1, 65535, 65535)},
        {"block": (1024, 1, 1), "registers": 64},
        {"block": (1, 16, 64), "registers": 64, "barriers": 16},
        {"registers": 255, "block": (256, 1, 1)},
        {"shared": 0x19000, "config": (0x1A, 0x1A, 0x1A)},
        {"sass": 0x86},
        {"sass": 0x80},
        {"prefetch_lo": CODE_VA >> 8, "prefetch_size": 1},
        {"constants": {7: (CONST_VA, 0x10000)}},
        {"config": (1, 1, 0x1A)},
        {"group": 0x3F, "raw": ((134, 134, 1), (191, 186, 0x3F), (382, 382, 1), (383, 383, 1))},
    ],
)
def test_descriptors_at_the_limits_run(bench: Bench, fields: dict[str, Any]) -> None:
    bench.space.write(QMD_VA, qmd(**fields))
    bench.submit(bench.channel(), *SETUP, *LAUNCH3)
    assert len(bench.launches) == 1


@pytest.mark.parametrize(
    ("va", "fields", "address"),
    [
        (UNMAPPED_VA, {}, UNMAPPED_VA),
        (QMD_VA, {"program": UNMAPPED_VA}, UNMAPPED_VA),
        (QMD_VA, {"constants": {1: (UNMAPPED_VA, 64)}}, UNMAPPED_VA),
        (QMD_VA, {"dependent": (UNMAPPED_VA, 1)}, UNMAPPED_VA),
    ],
)
def test_what_is_not_mapped_is_an_mmu_fault(bench: Bench, va: int, fields: dict[str, Any], address: int) -> None:
    channel = bench.channel()
    bench.space.write(QMD_VA, qmd(**fields))
    bench.submit(channel, *SETUP, 0x200120AD, va >> 8, 0x800320B0)
    assert bench.notifier(channel)[1:] == (31, 1, 0xFFFF) and bench.gpu.faults.mmu == [(address, 0, 0)]


def put(whole: int, msb: int, lsb: int, value: int) -> int:
    return whole | value << lsb


def v02(minor: int, **fields: tuple[int, int, int]) -> bytes:
    """A V02 descriptor: its own places for barriers, local memory and releases."""
    whole = put(put(0, 583, 580, 2), 579, 576, minor)
    for msb, lsb, value in (
        (415, 384, 3), (431, 416, 1), (463, 448, 1), (607, 592, 32), (623, 608, 1), (639, 624, 1), (656, 648, 24),
        (568, 562, 5), (575, 569, 0x1A), (663, 657, 9), (1567, 1536, CODE_VA), (959, 955, 2), *fields.values(),
    ):  # fmt: skip
        whole = put(whole, msb, lsb, value)
    return whole.to_bytes(256, "little")


@pytest.mark.parametrize("minor", [3, 4])
def test_version_2_descriptors_have_their_own_layout(bench: Bench, minor: int) -> None:
    raw = v02(
        minor,
        enable=(139, 139, 1),
        low=(863, 832, DATA_VA),
        payload=(927, 896, 77),
        sixteen=(895, 895, 0),
        sass=(1023, 1016, 0x80),
    )
    bench.space.write(QMD_VA, raw)
    bench.submit(bench.channel(), *SETUP, *LAUNCH3)
    (launch,) = bench.launches
    assert (launch.grid, launch.registers, launch.barriers) == ((3, 1, 1), 24, 2)
    assert bench.u64(DATA_VA) == 77 and bench.u64(DATA_VA + 8) > 0


def test_version_2_dependents(bench: Bench) -> None:
    raw = v02(3, enable=(141, 141, 1), kind=(142, 142, 1), pointer=(511, 480, (QMD_VA + 256) >> 8))
    bench.space.write(QMD_VA, raw + v02(4))
    bench.submit(bench.channel(), *SETUP, *LAUNCH3)
    assert len(bench.launches) == 2


def test_each_class_takes_its_own_versions() -> None:
    assert decode_qmd(qmd(), 0xC6C0, QMD_VA).version == "V03_00"
    with pytest.raises(Refused, match=r"version 2.3 is not one of class 0xc9c0"):
        decode_qmd(v02(3), 0xC9C0, QMD_VA)
    assert decode_qmd(qmd(), 0xCBC0, QMD_VA).version == "V03_00"
    with pytest.raises(Refused, match=r"version 0.0 or 3.0 is not one of class 0xcdc0"):
        decode_qmd(qmd(), 0xCDC0, QMD_VA)


@settings(max_examples=200, deadline=None)
@given(
    raw=st.binary(min_size=256, max_size=256),
    version=st.sampled_from([None, (3, 0), (2, 3), (2, 4)]),
    number=st.sampled_from(sorted(VERSIONS)),
)
def test_random_descriptors_are_refused_or_understood(raw: bytes, version: tuple[int, int] | None, number: int) -> None:
    if version is not None:
        data = bytearray(raw)
        data[72] = version[0] << 4 | version[1]
        raw = bytes(data)
    try:
        decoded = decode_qmd(raw, number, QMD_VA)
    except Refused as refusal:
        assert refusal.code == 13 and "QMD" in refusal.detail
    else:
        assert decoded.version.startswith("V0")


# Fields that this descriptor leaves without a meaning: slots and a dependent that are not enabled, prefetch of nothing
IDLE = {
    *(f"RELEASE{slot}_{name}" for slot in (0, 1, 2) for name in ("MEMBAR_TYPE", "REDUCTION_OP", "REDUCTION_FORMAT")),
    *(
        f"RELEASE{slot}_{name}"
        for slot in (1, 2)
        for name in RELEASE_FIELDS - {"ENABLE", "MEMBAR_TYPE", "REDUCTION_OP", "REDUCTION_FORMAT", "PAYLOAD"}
    ),
    "DEPENDENT_QMD0_POINTER",
    "DEPENDENT_QMD0_ACTION",
    "PROGRAM_PREFETCH_TYPE",
}


def test_no_bit_is_ignored_without_a_reason() -> None:
    """Flipping any bit changes the decoded descriptor, is refused, or hits a field listed as a hint or idle."""
    whole = int.from_bytes(qmd(constants=dict.fromkeys(range(8), (CONST_VA, 64)), releases=release()), "little")
    base = decode_qmd(whole.to_bytes(256, "little"), 0xC7C0, QMD_VA)
    place = layout("V03_00", 0xC7C0)
    ignored: set[str] = set()
    for bit in range(2048):
        try:
            same = decode_qmd((whole ^ 1 << bit).to_bytes(256, "little"), 0xC7C0, QMD_VA) == base
        except Refused:
            continue
        if same:
            ignored |= {
                name
                for name, (lsb, mask, stride) in place.spans.items()
                for index in range(8 if stride else 1)
                if mask << lsb + index * stride >> bit & 1
            }
    assert ignored <= WITHOUT_EFFECT | IDLE, ignored - WITHOUT_EFFECT - IDLE


def test_positions_of_the_hand_made_descriptor_agree_with_the_facts() -> None:
    facts = json.loads(FACTS.read_text())["V03_00"]
    names = {
        "block_x": "CTA_THREAD_DIMENSION0", "registers": "REGISTER_COUNT_V",
        "local_high": "SHADER_LOCAL_MEMORY_HIGH_SIZE",
        "config_target": "TARGET_SM_CONFIG_SHARED_MEM_SIZE", "dependent_action": "DEPENDENT_QMD0_ACTION",
        "prefetch_hi": "PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED", "barriers": "BARRIER_COUNT",
        "shared": "SHARED_MEMORY_SIZE",
    }  # fmt: skip
    assert {name: list(BITS[name]) for name in names} == {name: facts[field][:2] for name, field in names.items()}
