"""A generation that does not exist: everything that is new about it stands in this file, on both sides.

It has channel, compute and copy classes of its own and a launch descriptor whose fields lie elsewhere; its code is
sm_86's, so that the shipped kernels run on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import hcqrt
from hcqrt.autogen.nv import ioctls
from hcqrt.autogen.nv.qmd import QMD, QMD_VALUES, SIZES
from hcqrt.emu.nv import abi, chip_classes, chips, classes, host_classes, qmd_layout
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.emu.system import EmulatedSystem
from hcqrt.errors import DriverError
from hcqrt.nv import arch
from hcqrt.nv.arch.ampere import AMPERE
from hcqrt.nv.qmd_layout import QMD_V03_00
from hcqrt.tools.check_frame import shipped_kernel
from hcqrt.tools.smoke import run_smoke

SM_VERSION = 0xE06
CHANNEL, COMPUTE, COPY = 0xE16F, 0xE1C0, 0xE1B5
MOVED_BITS = 96  # how far each field lies from where version 03_00 has it
FIELDS = {name: (msb + MOVED_BITS, lsb + MOVED_BITS, *stride) for name, (msb, lsb, *stride) in QMD["V03_00"].items()}

# our side: an Arch value and a Chip value
NEBULA = replace(
    AMPERE,
    name="nebula",
    channel_classes=("NEBULA_CHANNEL_GPFIFO_A",),
    compute_classes=("NEBULA_COMPUTE_A",),
    copy_classes=("NEBULA_DMA_COPY_A",),
    qmd=replace(QMD_V03_00, version=(9, 1), size_bytes=384, fields=FIELDS),
    shared_window_va=0x7100_0000_0000,
    local_window_va=0x7000_0000_0000,
    own_classes={
        "NEBULA_CHANNEL_GPFIFO_A": (CHANNEL, "NV_CHANNEL_ALLOC_PARAMS"),
        "NEBULA_COMPUTE_A": (COMPUTE, "NV_GR_ALLOCATION_PARAMETERS"),
        "NEBULA_DMA_COPY_A": (COPY, "NVB0B5_ALLOCATION_PARAMETERS"),
    },
)
CHIP = replace(arch.CHIPS["sm_86"], sm_versions=(SM_VERSION,), arch=NEBULA)


def teach_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side: a chip, its class list, its classes, its launch descriptor."""
    like = chips.CHIPS["sm_86"]
    chip = replace(like, name="nebula", codename="NB102", sm_version=SM_VERSION, model="Nebula")
    listed = [number for number in like.engine_classes if number & 0xFF not in (0x6F, 0xC0, 0xB5)]
    entries = (
        (chips.CHIPS, "nebula", chip),
        (chip_classes.ENGINES, "NB102", (*listed, CHANNEL, COMPUTE, COPY)),
        (chip_classes.OTHERS, "NB102", like.other_classes),
        (ioctls.CLASSES, "NB102_CHANNEL", (CHANNEL, "NV_CHANNEL_ALLOC_PARAMS")),  # the driver's names are not ours
        (ioctls.CLASSES, "NB102_COMPUTE", (COMPUTE, "NV_GR_ALLOCATION_PARAMETERS")),
        (ioctls.CLASSES, "NB102_COPY", (COPY, "NVB0B5_ALLOCATION_PARAMETERS")),
        (classes.SAME_METHODS, CHANNEL, 0xC56F),
        (classes.SAME_METHODS, COMPUTE, 0xC7C0),
        (classes.SAME_METHODS, COPY, 0xC7B5),
        (host_classes.HOST_CLASSES, CHANNEL, host_classes.HostClass(CHANNEL, gp_get=False)),
        (qmd_layout.VERSIONS, COMPUTE, ((9, 1),)),
        (QMD, "V09_01", FIELDS),
        (QMD_VALUES, "V09_01", QMD_VALUES["V03_00"]),
        (SIZES, "V09_01", 384),
    )
    for table, key, value in entries:
        monkeypatch.setitem(table, key, value)
    abi.class_names.cache_clear()


@pytest.fixture
def system(monkeypatch, machine) -> Iterator[EmulatedSystem]:
    teach_the_emulator(monkeypatch)
    monkeypatch.setitem(arch.CHIPS, "nebula", CHIP)
    yield machine(("nebula",))
    for cached in (abi.class_names, qmd_layout.layout, classes.class_table):
        cached.cache_clear()


def test_it_opens_launches_and_passes_smoke(system, capsys):
    with hcqrt.open_device("NV:0", system) as dev:
        chosen = (dev.channel_class_name, dev.compute_class_name, dev.copy_class_name)
        assert (dev.compute_class, dev.copy_class) == (COMPUTE, COPY)
    assert chosen == ("NEBULA_CHANNEL_GPFIFO_A", "NEBULA_COMPUTE_A", "NEBULA_DMA_COPY_A")
    status = run_smoke([(system, "NV:0")], as_json=False, quick=True)
    assert status == 0, capsys.readouterr().out


def test_without_its_values_it_is_an_unknown_chip(system, monkeypatch):
    monkeypatch.delitem(arch.CHIPS, "nebula")
    with pytest.raises(DriverError, match=f"SM_VERSION {SM_VERSION:#x}; supported are sm_75"):
        hcqrt.open_device("NV:0", system)
    (info,) = hcqrt.devices(system)
    assert not info.usable
    assert f"{SM_VERSION:#x}" in info.reason


def test_another_generations_descriptor_is_refused(system, monkeypatch):
    """So that the one before shows something."""
    monkeypatch.setitem(arch.CHIPS, "nebula", replace(CHIP, arch=replace(NEBULA, qmd=QMD_V03_00)))
    with hcqrt.open_device("NV:0", system) as dev:
        prg, out = dev.program(shipped_kernel("sm_86", "fill")), dev.alloc(64)
        with pytest.raises(EmulatorRefusal, match=f"version 0.0 is not one of class {COMPUTE:#x}"):
            prg(out, vals=(1, 16), local_size=(16, 1, 1), wait=True)
