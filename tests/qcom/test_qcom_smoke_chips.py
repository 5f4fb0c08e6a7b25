"""Every check of smoke, counts reduced, on every Adreno chip, and on kernels that keep caches coherent or not."""

from __future__ import annotations

import pytest

from hcqrt.emu.qcom.chips import CHIPS
from hcqrt.tools.check_frame import Context
from hcqrt.tools.checks import CHECKS


def passes(system) -> None:
    context = Context(system, "QCOM", True)
    try:
        for check in CHECKS.values():
            check(context)
    finally:
        context.close()
    assert system.refusals == []


@pytest.mark.filterwarnings("ignore:.*never tried")
@pytest.mark.parametrize("chip", CHIPS)
def test_smoke_passes_on_every_chip(machine, chip):
    passes(machine((), qcom=chip))


@pytest.mark.parametrize("kept", [True, False, "always"])
def test_smoke_passes_whatever_the_kernel_makes_of_coherent_memory(machine, kept):
    passes(machine((), qcom=dict(chip="a630", iocoherent=kept)))


def test_smoke_passes_beside_an_nvidia_gpu_and_with_a_gpu_thread(machine):
    passes(machine(("sm_86",), qcom="a630", threads=2))
