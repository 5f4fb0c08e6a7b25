"""GPUs in confidential computing mode: refused with the reason, at opening and in the list of devices."""

from __future__ import annotations

import errno

import pytest

import hcqrt
from hcqrt.errors import DriverError
from hcqrt.nv.arch import CHIPS

CONFIDENTIAL = [name for name, chip in CHIPS.items() if chip.sm >= 90]
CALLS = {"NV_CONFIDENTIAL_COMPUTE", "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES"}


def inner_names(system) -> set[str]:
    return {entry[3] for entry in system.ioctl_log}


def refused(system, text: str) -> None:
    objects = system.live_objects()
    with pytest.raises(DriverError, match=text):
        hcqrt.open_device("NV:0", system)
    assert system.live_objects() == objects
    (info,) = hcqrt.devices(system)
    assert not info.usable
    assert info.reason


def test_which_generations_have_the_mode():
    assert [name for name, chip in CHIPS.items() if chip.arch.confidential] == CONFIDENTIAL


@pytest.mark.parametrize("chip", ["sm_75", "sm_86", "sm_89"])
def test_others_are_not_asked(machine, chip):
    system = machine((chip,))
    with hcqrt.open_device("NV:0", system):
        assert not CALLS & inner_names(system)


@pytest.mark.parametrize("chip", CONFIDENTIAL)
@pytest.mark.parametrize("mode", ["", "apm"])
def test_a_gpu_that_the_host_may_use_opens(machine, chip, mode):
    system = machine([dict(chip=chip, confidential=mode)])
    with hcqrt.open_device("NV:0", system) as dev:
        assert inner_names(system) >= CALLS
        assert dev.arch == chip


@pytest.mark.parametrize("chip", CONFIDENTIAL)
def test_a_confidential_gpu_is_refused(machine, chip):
    system = machine([dict(chip=chip, confidential="hcc")])
    refused(system, r"confidential computing mode \(ccFeature 2\).*driver 580\.95\.05.*nvidia-smi conf-compute")


@pytest.mark.parametrize("chip", CONFIDENTIAL)
def test_a_gpu_that_is_not_ready_is_refused(machine, chip):
    refused(machine([dict(chip=chip, confidential="not ready")]), r"NV_ERR_NOT_READY \(0x55\).*conf-compute -srs 1")


@pytest.mark.parametrize("status", [0x22, 0x56])
def test_a_driver_that_does_not_know_of_it(machine, status):
    system = machine(("sm_90",))
    system.inject("ioctl", match="NV_CONFIDENTIAL_COMPUTE", status=status)
    with hcqrt.open_device("NV:0", system) as dev:
        assert dev.arch == "sm_90"


@pytest.mark.parametrize("call", sorted(CALLS))
def test_a_sandbox_that_does_not_pass_it_on(machine, call):
    system = machine(("sm_90",))
    system.inject("ioctl", match=call, errno=errno.EINVAL)
    with hcqrt.open_device("NV:0", system) as dev:
        assert dev.arch == "sm_90"


def test_another_failure_is_one(machine):
    system = machine(("sm_90",))
    system.inject("ioctl", match="NV_CONFIDENTIAL_COMPUTE", status=0x62)
    with pytest.raises(DriverError, match=r"NV_CONFIDENTIAL_COMPUTE .*NV_ERR_RESET_REQUIRED \(0x62\)"):
        hcqrt.open_device("NV:0", system)


@pytest.mark.parametrize("failure", [dict(errno=errno.EINVAL), dict(status=0x1F)])
def test_each_of_its_calls_may_fail_and_nothing_is_left(machine, failure):
    system = machine(("sm_90",))
    with hcqrt.open_device("NV:0", system):
        names = [entry[3] or entry[2] for entry in system.ioctl_log]
    first = names.index("NV_CONFIDENTIAL_COMPUTE")
    for nth in range(first, first + 3):  # allocate, ask, free
        system.inject("ioctl", nth=nth + 1, **failure)
        try:
            hcqrt.open_device("NV:0", system).close()
        except DriverError as error:
            text = str(error)
        else:
            text = ""
        system.rules.drop("ioctl")
        assert system.live_objects() == [], names[nth]
        assert (text == "") == ("errno" in failure), (names[nth], text)  # a sandbox refuses by errno
