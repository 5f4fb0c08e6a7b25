"""A made-up generation: a table whose registers and events moved, one Arch value, and the emulator's own value for it.

Nothing else is touched, and it opens, launches and passes smoke.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_qcom_smoke_chips import passes

import hcqrt
from hcqrt.autogen.qcom import a7xx as table
from hcqrt.emu.qcom import chips
from hcqrt.emu.qcom import generation as emulated
from hcqrt.qcom.arch import a7xx
from hcqrt.qcom.pm4 import RegisterSet
from hcqrt.tools import check_frame

CHIP_ID = 0x44052001
AWAY = 0x4000  # how far the registers of compute moved
MOVED = ("SP_", "HLSQ_", "TPL1_")
EVENTS = {**table.EVENTS, "CACHE_CLEAN": 0x33, "CACHE_INVALIDATE7": 0x34}  # 0x33 invalidates on a7xx


def moved(name: str, offset: int) -> int:
    return offset + AWAY if name.startswith(MOVED) else offset


REGISTERS = {name: (moved(name, offset), fields) for name, (offset, fields) in table.REGISTERS.items()}
ARRAYS = {name: (moved(name, place[0]), *place[1:]) for name, place in table.ARRAYS.items()}
A8XX = replace(
    a7xx.A7XX,
    name="a8xx",
    registers=RegisterSet(REGISTERS),
    events=replace(a7xx.A7XX.events, flush=EVENTS["CACHE_CLEAN"], invalidate=EVENTS["CACHE_INVALIDATE7"]),
)
A830 = replace(a7xx.A750, name="a830", id_prefix=CHIP_ID >> 8, patch=CHIP_ID & 0xFF, arch=A8XX)
OTHER_SIDE = replace(
    emulated.A7XX,
    name="a8xx",
    registers=REGISTERS,
    arrays=ARRAYS,
    events=replace(emulated.A7XX.events, numbers=EVENTS),
)


@pytest.fixture
def with_a830(monkeypatch):
    """The chip on both sides; its code is that of a7xx."""
    monkeypatch.setattr(a7xx, "CHIPS", (*a7xx.CHIPS, A830))
    monkeypatch.setitem(check_frame.SAME_CODE, "a8", "a730")
    chip = replace(chips.CHIPS["a750"], name="a830", chip_id=CHIP_ID, generation=OTHER_SIDE)
    monkeypatch.setitem(chips.CHIPS, "a830", chip)


@pytest.mark.filterwarnings("ignore:.*never tried")
def test_a_new_generation_is_an_arch_and_a_table(with_a830, machine):
    system = machine((), qcom="a830")
    [info] = hcqrt.devices(system)
    assert (info.arch, info.usable) == ("a830", True)
    passes(system)


@pytest.mark.filterwarnings("ignore:.*never tried")
def test_the_old_words_do_not_pass_on_it(with_a830, machine, monkeypatch):
    """So the test above can fail: with the table of a7xx the emulated chip does not know the registers."""
    monkeypatch.setattr(a7xx, "CHIPS", (*a7xx.CHIPS[:-1], replace(A830, arch=a7xx.A7XX)))
    system = machine((), qcom="a830")
    with hcqrt.open_device("QCOM", system) as dev:
        program = dev.program(check_frame.shipped_kernel("a830", "ids"))
        with dev.alloc(4096) as buffer, pytest.raises(hcqrt.HCQError):
            program(buffer, global_size=(1, 1, 1), local_size=(32, 1, 1), wait=True)
    assert system.refusals
