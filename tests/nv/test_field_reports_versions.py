"""Field reports 4 to 6: unknown patches and branches, structs that grew, libraries that are not the module's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.emu import EmulatedSystem
from hcqrt.nv.versions import library_version
from hcqrt.tools.check_frame import shipped_kernel
from hcqrt.tools.cli import main
from hcqrt.tools.info import versions, versions_text

FACTS = json.loads((Path(__file__).parent.parent / "facts" / "nv-abi.json").read_text())
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so."


def vector_add(dev: Any) -> None:
    """1000 sums on the device, compared with the host's."""
    a, b = (np.arange(1000, dtype=np.float32) * scale for scale in (1, 0.5))
    buffers = [dev.alloc(4000) for _ in range(3)]
    for buffer, values in zip(buffers[1:], (a, b), strict=True):
        buffer.copyin(values)
    prg = dev.program(shipped_kernel("sm_86", "vector_add"))
    prg(*buffers, vals=(1000,), global_size=(32, 1, 1), local_size=(32, 1, 1), wait=True)
    assert np.array_equal(np.frombuffer(buffers[0].copyout(), np.float32), a + b)
    for buffer in buffers:
        buffer.close()


# 4. The version is off by one patch number


def test_4_an_unknown_patch_works_with_exactly_one_warning(machine: Machine) -> None:
    system = machine(nv_driver="570.999.99")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        with hcqrt.open_device("NV", system) as dev:
            vector_add(dev)
    texts = [str(one.message) for one in caught if one.category is RuntimeWarning]
    assert len(texts) == 1 and "570.999.99" in texts[0] and "layouts of 570.211.01" in texts[0]


def test_4_a_newer_branch_is_refused_and_the_override_goes_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = machine(nv_driver="999.10")
    with pytest.raises(hcqrt.DriverError) as failure:
        hcqrt.open_device("NV", system)
    text = str(failure.value)
    assert all(branch in text for branch in ("999.10", "newer", "535", "550", "575", "610", "HCQRT_NV_ABI=610"))
    monkeypatch.setenv("HCQRT_NV_ABI", "610")
    with hcqrt.open_device("NV", system) as dev:
        vector_add(dev)
    (info,) = hcqrt.devices(system)
    assert info.usable and versions(system, info) == {"abi": "610.43.02"}


def test_4_a_driver_that_is_too_old_says_so(machine: Machine) -> None:
    system = machine(nv_driver="470.223.02")
    with pytest.raises(hcqrt.DriverError, match=r"470\.223\.02 is too old; known are 535 to 610 .*HCQRT_NV_ABI"):
        hcqrt.open_device("NV", system)
    assert [info.usable for info in hcqrt.devices(system)] == [False]


def test_4_where_the_ioctl_is_refused_the_module_tells_its_version_in_sysfs(machine: Machine) -> None:
    system = machine(nv_driver="560.35.03")
    system.inject("ioctl", "NV_ESC_CHECK_VERSION_STR", errno=22)
    with hcqrt.open_device("NV", system) as dev:
        assert dev.rm.abi.release == (560, 35, 3)  # type: ignore[attr-defined]  # an NVDevice


# 5. A new branch changes struct sizes


def size_in_facts(name: str, driver: tuple[int, ...]) -> int:
    entries = [e for e in FACTS["structs"][name] if tuple(map(int, e["from"].split("."))) <= driver]
    return int(entries[-1]["size"])


def parameters_sent(system: EmulatedSystem) -> Iterator[tuple[str, int]]:
    for record in system.ioctl_log:
        if record[2] in ("NV_ESC_RM_ALLOC", "NV_ESC_RM_CONTROL"):
            yield record[3], record[4]["paramsSize"]


@pytest.mark.parametrize(
    ("driver", "channel", "space", "schedule"),
    [("570.195.03", 368, 48, 2), ("580.95.05", 368, 56, 3), ("535.54.03", 304, 48, 2), ("610.43.02", 376, 56, 3)],
)
def test_5_every_struct_has_the_size_of_the_running_driver(
    machine: Machine, driver: str, channel: int, space: int, schedule: int
) -> None:
    system = machine(nv_driver=driver)
    with hcqrt.open_device("NV", system) as dev:
        vector_add(dev)
    version = tuple(map(int, driver.split(".")))
    sent = dict(parameters_sent(system))
    assert sent["AMPERE_CHANNEL_GPFIFO_A"] == channel == size_in_facts("NV_CHANNEL_ALLOC_PARAMS", version)
    assert sent["FERMI_VASPACE_A"] == space == size_in_facts("NV_VASPACE_ALLOCATION_PARAMETERS", version)
    assert sent["NVA06C_CTRL_CMD_GPFIFO_SCHEDULE"] == schedule
    assert sent["NV01_MEMORY_LOCAL_USER"] == size_in_facts("NV_MEMORY_ALLOCATION_PARAMS", version)
    assert sent["NV2080_CTRL_CMD_FB_GET_INFO_V2"] == size_in_facts("NV2080_CTRL_FB_GET_INFO_V2_PARAMS", version)
    assert sent["NV2080_CTRL_CMD_GPU_GET_NAME_STRING"] == size_in_facts(
        "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS", version
    )


def guarded(driver: str, abi: str) -> subprocess.CompletedProcess[str]:
    """The vector add of guarded_worker.py in a process of its own: touching a guard ends it."""
    worker = Path(__file__).with_name("guarded_worker.py")
    return subprocess.run(
        [sys.executable, str(worker), driver, abi], capture_output=True, text=True, timeout=60, cwd=worker.parents[2],
        env={**os.environ, "PYTHONPATH": str(worker.parents[2])},
    )  # fmt: skip


@pytest.mark.parametrize("driver", ["535.54.03", "570.195.03", "575.51.02", "580.95.05", "595.45.04", "610.43.02"])
def test_5_with_each_struct_ending_at_a_guard_a_vector_add_works(driver: str) -> None:
    run = guarded(driver, "")
    assert (run.returncode, run.stdout) == (0, "added\n"), run.stderr


def test_5_a_struct_that_is_too_short_runs_into_the_guard() -> None:
    """535.86.05 takes 56 bytes more of channel parameters than 535.54.03: the one that ends at a guard is too short."""
    run = guarded("535.86.05", "535.54.03")
    assert (run.returncode, run.stdout) == (-signal.SIGSEGV, ""), run.stderr


def test_5_two_machines_with_two_drivers_work_in_one_process(machine: Machine) -> None:
    systems = [machine(nv_driver=driver) for driver in ("535.54.03", "610.43.02")]
    with hcqrt.open_device("NV", systems[0]) as old, hcqrt.open_device("NV", systems[1]) as new:
        for dev in (old, new, old):
            vector_add(dev)


# 6. Libraries and kernel module differ


def test_6_an_old_module_is_too_old_whatever_the_libraries_say(machine: Machine) -> None:
    system = machine(nv_driver="470.223.02")
    system.files[LIBRARY + "550.54.14"] = ""
    with pytest.raises(hcqrt.DriverError, match=r"driver 470\.223\.02 is too old") as failure:
        hcqrt.open_device("NV", system)
    assert "550.54" not in str(failure.value)


def test_6_a_newer_library_changes_nothing_and_is_shown(machine: Machine) -> None:
    system = machine(nv_driver="570.195.03")
    assert library_version(system) == ""
    system.files |= {LIBRARY + "1": "", LIBRARY + "580.95.05": ""}
    with hcqrt.open_device("NV", system) as dev:
        vector_add(dev)
    (info,) = hcqrt.devices(system)
    known = versions(system, info)
    assert known == {"abi": "570.195.03", "libraries": "580.95.05"}
    assert versions_text(known).startswith(" (ABI 570.195.03; libraries 580.95.05: the module counts")


def test_6_info_shows_the_layouts_in_use(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCQRT_NV_ABI", "580")
    assert main(["info", "--emulated", "sm_86@580.65.06"]) == 0
    assert "driver 580.65.06 (ABI 580.142)" in capsys.readouterr().out
