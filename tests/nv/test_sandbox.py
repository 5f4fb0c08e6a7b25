"""The runtime behind a container sandbox: it starts, runs smoke, and reports faults with what it may ask."""

from __future__ import annotations

import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.tools.check_frame import Context, shipped_kernel
from hcqrt.tools.checks import CHECKS


@pytest.mark.parametrize("driver", ["535.261.03", "580.95.05", "590.48.01"])
def test_smoke_passes_in_a_sandbox(machine: Machine, driver: str) -> None:
    system = machine(nv_driver=driver, restricted=True)
    context = Context(system, "NV", True)
    try:
        for check in CHECKS.values():
            check(context)
    finally:
        context.close()
    assert system.refusals == []


def test_nothing_but_details_of_faults_is_refused(machine: Machine) -> None:
    system = machine(restricted=True)
    with hcqrt.open_device("NV", system) as dev:
        prg = dev.program(shipped_kernel("sm_86", "fill"))
        buffer = dev.alloc(4096)
        prg(buffer, vals=(1, 32), global_size=(1, 1, 1), local_size=(32, 1, 1), wait=True)
        assert [entry[2:4] for entry in system.ioctl_log if entry[6]] == []
        system.inject("fault")
        with pytest.raises(hcqrt.DeviceFault) as failure:
            prg(buffer, vals=(1, 32), global_size=(1, 1, 1), local_size=(32, 1, 1), wait=True)
        failed = {entry[3] for entry in system.ioctl_log if entry[6]}
    assert failed == {"NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO"}
    text = str(failure.value)
    assert "Xid" in text and "no details: " in text and "a sandbox refuses the call" in text and "SM " in text
