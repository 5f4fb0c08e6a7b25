"""Tables of nv-engine.md §6 and §5.1 typed by hand: carve-outs, units, code versions and scratch memory per chip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gpu_bench import CODE_VA, LOCAL_VA, LOCAL_WINDOW, QMD_VA, SHARED_WINDOW, Bench
from qmd_words import put, qmd
from qmd_words_long import long_qmd

from hcqrt.emu.nv.qmd import decode_qmd
from hcqrt.emu.nv.qmd_check import check_qmd
from hcqrt.emu.nv.trouble import Refused
from hcqrt.emu.refusal import EmulatorRefusal

SMALL = {1: 0, 3: 8, 5: 16, 9: 32, 0x11: 64, 0x1A: 100}
LARGE = {**SMALL, 0x22: 132, 0x2A: 164}
LARGEST = {**LARGE, 0x32: 196, 0x3A: 228}
# chip -> compute class, carve-outs in KiB by encoding, shared unit, version of its code, warps per SM, SMs
CHIPS: dict[str, tuple[int, dict[int, int], int, int, int, int]] = {
    "sm_75": (0xC5C0, {9: 32, 0x11: 64}, 256, 0x75, 32, 68),
    "sm_80": (0xC6C0, LARGE, 128, 0x80, 64, 108),
    "sm_86": (0xC7C0, SMALL, 128, 0x86, 48, 68),
    "sm_87": (0xC7C0, LARGE, 128, 0x87, 48, 16),
    "sm_89": (0xC9C0, SMALL, 128, 0x89, 48, 128),
    "sm_90": (0xCBC0, LARGEST, 128, 0x90, 64, 132),
    "sm_100": (0xCDC0, LARGEST, 128, 0xA0, 64, 148),
    "sm_103": (0xCDC0, LARGEST, 128, 0xA3, 64, 148),
    "sm_120": (0xCEC0, SMALL, 128, 0xA4, 48, 170),
    "sm_121": (0xCEC0, SMALL, 128, 0xC1, 48, 48),
}
# what each chip's descriptor may say its code is for, besides 0
OTHER_CODE = {
    "sm_86": {0x80},
    "sm_87": {0x80, 0x86},
    "sm_89": {0x80, 0x86, 0x87},
    "sm_103": {0xA0},
    "sm_121": {0xA4},
}
CODES = (0x70, 0x75, 0x80, 0x86, 0x87, 0x89, 0x90, 0xA0, 0xA3, 0xA4, 0xC0, 0xC1, 0xC2)


def v02_03(config: tuple[int, int, int], shared: int = 0, sass: int = 0, local_low: int = 0) -> bytes:
    """nv-engine.md §5, first column."""
    whole = 0
    for msb, lsb, value in (
        (583, 580, 2), (579, 576, 3), (415, 384, 1), (431, 416, 1), (463, 448, 1), (607, 592, 32), (623, 608, 1),
        (639, 624, 1), (656, 648, 16), (1567, 1536, CODE_VA), (561, 544, shared), (568, 562, config[0]),
        (663, 657, config[1]), (575, 569, config[2]), (369, 368, 1), (378, 378, 1), (1023, 1016, sass),
        (951, 928, local_low),
    ):  # fmt: skip
        whole = put(whole, msb, lsb, value)
    return whole.to_bytes(256, "little")


def words(chip: str, config: tuple[int, int, int], **fields: int) -> bytes:
    number = CHIPS[chip][0]
    if number == 0xC5C0:
        return v02_03(config, **fields)
    if number < 0xCBC0:
        return qmd(config=config, **fields)
    return long_qmd(4 if number == 0xCBC0 else 5, config=config, **fields)


@pytest.fixture(params=CHIPS)
def chip(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(chip: str) -> Iterator[Bench]:
    made = Bench(chip)
    yield made
    made.close()


def accepts(bench: Bench, raw: bytes) -> bool:
    try:
        check_qmd(decode_qmd(raw, CHIPS[bench.gpu.chip.name][0], QMD_VA), bench.gpu.chip, QMD_VA)
    except Refused:
        return False
    return True


def test_carve_outs(chip: str, bench: Bench) -> None:
    known = CHIPS[chip][1]
    largest = max(known)
    bits = 7 if chip in ("sm_75",) else 6
    found = {value for value in range(1 << bits) if accepts(bench, words(chip, (value, largest, largest)))}
    assert found == set(known)
    for value, kib in known.items():
        config = (value, value, largest)
        assert accepts(bench, words(chip, config, shared=kib << 10))
        if value != largest:
            assert not accepts(bench, words(chip, config, shared=(kib << 10) + 256))


def test_unit_of_shared_memory(chip: str, bench: Bench) -> None:
    largest, unit = max(CHIPS[chip][1]), CHIPS[chip][2]
    config = (largest, largest, largest)
    assert accepts(bench, words(chip, config, shared=256)) and accepts(bench, words(chip, config, shared=512))
    assert accepts(bench, words(chip, config, shared=128)) == (unit == 128)
    if CHIPS[chip][0] < 0xCDC0:  # later versions count in 128 bytes
        assert not accepts(bench, words(chip, config, shared=64))


def test_versions_of_code(chip: str, bench: Bench) -> None:
    largest, own = max(CHIPS[chip][1]), CHIPS[chip][3]
    config = (largest, largest, largest)
    assert accepts(bench, words(chip, config))  # 0: not said
    found = {code for code in CODES if accepts(bench, words(chip, config, sass=code))}
    assert found == {own} | OTHER_CODE.get(chip, set())


def launch(bench: Bench, raw: bytes, per_tpc: int, max_sms: int) -> None:
    number = CHIPS[bench.gpu.chip.name][0]
    bench.space.write(QMD_VA, raw)
    channel = bench.channel(classes=(number,), channel_class=bench.gpu.chip.channel_classes[-1])
    bench.submit(
        channel, 0x20012000, number, 0x200220A8, SHARED_WINDOW >> 32, 0, 0x200221EC, LOCAL_WINDOW >> 32, 0,
        0x200221E4, LOCAL_VA >> 32, LOCAL_VA & 0xFFFFFFFF, 0x200320B9, per_tpc >> 32, per_tpc & 0xFFFFFFFF, max_sms,
        0x200120AD, QMD_VA >> 8, 0x200120AF, 3,
    )  # fmt: skip


def test_scratch_memory_for_every_warp_of_every_sm(chip: str, bench: Bench) -> None:
    """`bytes` a thread x 32 lanes x warps x 2 SMs, rounded up to 32 KiB, for each TPC."""
    _, known, _, _, warps, sms = CHIPS[chip]
    largest = max(known)
    per_tpc = -(-0x400 * 32 * warps * 2 // 0x8000) * 0x8000
    raw = words(chip, (largest, largest, largest), local_low=0x400)
    block = bench.memory.allocate(per_tpc * sms // 2)
    bench.space.map(_mapping(LOCAL_VA, per_tpc * sms // 2, block))
    block.drop()
    with pytest.raises(EmulatorRefusal, match=f"need {per_tpc:#x} per TPC, programmed are {per_tpc - 0x8000:#x}"):
        launch(bench, raw, per_tpc - 0x8000, sms)
    with pytest.raises(EmulatorRefusal, match=f"programmed for {sms - 1} SMs, this chip has {sms}"):
        launch(bench, raw, per_tpc, sms - 1)
    launch(bench, raw, per_tpc, sms)
    assert len(bench.launches) == 1
    bench.space.unmap(LOCAL_VA + per_tpc * sms // 2 - 0x10000, 0x10000)
    launch(bench, raw, per_tpc, sms)  # the last TPC's part is not there: an MMU fault, as on hardware
    assert len(bench.launches) == 1
    assert "MMU fault" in bench.gpu.log[-1]


def _mapping(va: int, nbytes: int, block: Any) -> Any:
    from hcqrt.emu.memory import Mapping

    return Mapping(va, nbytes, block, 0)
