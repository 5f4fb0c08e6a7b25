"""At each boundary of the ABI, the other side's layouts: the driver refuses or goes wrong, and the text says so.

The boundaries are those of structs that the runtime uses (nv-driver facts 11); HCQRT_NV_ABI forces the wrong side.
"""

from __future__ import annotations

import numpy as np
import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.config import Config
from hcqrt.nv.rm import RmClient
from hcqrt.opening import open_device
from hcqrt.tools.check_frame import shipped_kernel

NO_STATUS = r"{}: the driver wrote no status where it was expected; driver {} with the layouts of {} does not fit"
SIZE = r"RM_CONTROL {} .* on .*: {}; driver {} with the layouts of {}; maybe an ABI mismatch: {} bytes sent"
ARGUMENT, PARAM_STRUCT = r"NV_ERR_INVALID_ARGUMENT \(0x1f\)", r"NV_ERR_INVALID_PARAM_STRUCT \(0x3a\)"
CONTROLS = {
    "FB": "NV2080_CTRL_CMD_FB_GET_INFO_V2",
    "NAME": "NV2080_CTRL_CMD_GPU_GET_NAME_STRING",
    "SCHEDULE": "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE",
}


def opened_with(machine: Machine, driver: str, abi: str):
    return open_device("NV", machine(nv_driver=driver), config=Config(nv_abi=abi, wait_timeout_ms=20_000))


def sides(before: str, after: str) -> list[tuple[str, str]]:
    return [(before, after), (after, before)]


@pytest.mark.parametrize(
    ("driver", "abi"),
    [*sides("535.54.03", "535.86.05"), *sides("565.77", "570.86.15"), *sides("535.146.02", "535.161.07")],
)
def test_a_longer_tail_of_channel_parameters_is_padded_on_both_sides(machine: Machine, driver: str, abi: str) -> None:
    """304, 360 and 368 bytes: RM reads and writes its own size, and the buffer is larger than any."""
    with opened_with(machine, driver, abi) as dev:
        out = dev.alloc(128)
        prg = dev.program(shipped_kernel("sm_86", "fill"))
        prg(out, vals=(7, 32), global_size=(1, 1, 1), local_size=(32, 1, 1), wait=True)
        assert np.array_equal(np.frombuffer(out.copyout(), np.uint32), np.full(32, 7))
        out.close()


@pytest.mark.parametrize(
    ("driver", "abi", "control", "sent", "status"),
    [
        ("535.146.02", "545.23.06", "FB", 444, PARAM_STRUCT),
        ("535.288.01", "545.23.06", "FB", 444, ARGUMENT),
        ("545.23.06", "535.288.01", "FB", 436, PARAM_STRUCT),
        ("555.58.02", "560.28.03", "FB", 460, ARGUMENT),
        ("560.28.03", "555.58.02", "FB", 444, ARGUMENT),
        ("575.64.05", "580.65.06", "FB", 1028, ARGUMENT),
        ("580.65.06", "575.64.05", "FB", 460, ARGUMENT),
        ("570.211.01", "575.51.02", "SCHEDULE", 3, ARGUMENT),
        ("575.51.02", "570.211.01", "SCHEDULE", 2, ARGUMENT),
        ("590.48.01", "595.44.02", "NAME", 68, ARGUMENT),
        ("595.44.02", "590.48.01", "NAME", 132, ARGUMENT),
    ],
)
def test_a_control_of_the_other_sides_size_is_refused(
    machine: Machine, driver: str, abi: str, control: str, sent: int, status: str
) -> None:
    with pytest.raises(hcqrt.RMError, match=SIZE.format(CONTROLS[control], status, driver, abi, sent)):
        opened_with(machine, driver, abi)


@pytest.mark.parametrize(("driver", "abi"), sides("550.40.07", "550.54.14"))
def test_the_other_sides_external_mapping_gets_no_status(machine: Machine, driver: str, abi: str) -> None:
    """32 attributes before 550.54.14 and 256 after: the driver finds no GPU, and says so where nobody looks."""
    system = machine(nv_driver=driver)
    with pytest.raises(hcqrt.UVMError, match=NO_STATUS.format("UVM_MAP_EXTERNAL_ALLOCATION", driver, abi)):
        open_device("NV", system, config=Config(nv_abi=abi))
    assert [r[7] for r in system.ioctl_log if r[2] == "UVM_MAP_EXTERNAL_ALLOCATION"] == [0x1F]


@pytest.mark.parametrize(("driver", "abi"), sides("595.45.04", "610.43.02"))
def test_the_handle_in_the_middle_of_610s_channel_parameters(machine: Machine, driver: str, abi: str) -> None:
    """USERD's memory lies four bytes later: RM finds no object, or one where none is expected."""
    with pytest.raises(hcqrt.RMError, match=rf"AMPERE_CHANNEL_GPFIFO_A .*; driver {driver} with the layouts of {abi}"):
        opened_with(machine, driver, abi)


def test_a_build_version_query_fails_at_560_and_is_not_how_the_version_is_asked(machine: Machine) -> None:
    """SYSTEM_GET_BUILD_VERSION_V2 grew: the version must be known before its layout is."""
    name = "NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2"
    for driver, abi, sent in (("555.58.02", "560.28.03", 1032), ("560.28.03", "555.58.02", 776)):
        system = machine(nv_driver=driver)
        client = RmClient(system, abi)
        assert client.abi.driver == driver
        with pytest.raises(hcqrt.RMError, match=SIZE.format(name, ARGUMENT, driver, abi, sent)):
            client.control(client.root, name)
        client.close()
        system.ioctl_log.clear()
        with open_device("NV", system) as dev:
            assert name not in {record[3] for record in system.ioctl_log} and dev.arch == "sm_86"


@pytest.mark.parametrize(("driver", "abi"), sides("580.142", "590.44.01"))
def test_the_other_sides_uvm_free_shows_when_a_buffer_goes(machine: Machine, driver: str, abi: str) -> None:
    """590.44.01 dropped UVM_FREE's length and UVM_UNREGISTER_CHANNEL's uuid; neither error is visible in errno."""
    system = machine(nv_driver=driver)
    config = Config(nv_abi=abi, cache=False)
    dev = open_device("NV", system, config=config)
    buffer = dev.alloc(1 << 20)
    text = NO_STATUS.format("UVM_FREE", driver, abi)
    with pytest.raises(hcqrt.UVMError, match=text):
        buffer.close()
    kept = [item for item in system.live_objects() if f"UVM external {buffer.va_addr:#x}" in item.name]
    assert bool(kept) == (
        driver < abi
    )  # the older driver reads a length that is none; the newer one frees all the same
    with pytest.raises(hcqrt.UVMError, match="wrote no status"):
        dev.close()
