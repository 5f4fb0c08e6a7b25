"""tinygrad's own Qualcomm driver, compiler and scheduler, with the emulated KGSL and Adreno in the place of a device.

An independent client: nothing of it knows of this project, and what it computes is compared with NumPy.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("tinygrad_driver_worker.py")
VERSIONS = {"tinygrad": "0.14.0", "tinymesa": "25.2.7.2"}
INSTALLED = all(
    importlib.util.find_spec(name) is not None and importlib.metadata.version(name) == version
    for name, version in VERSIONS.items()
)
TIMEOUT_S = 240
GROUPS = ("elementwise", "casts", "reduce", "matmul", "networks", "images", "sequences", "jit", "copies", "external",
          "grids", "many", "shapes")  # fmt: skip
# What it calls (tinygrad-backend.md §7), and the only call that may fail: memory that the GPU has already is no user's
CALLS = ("DEVICE_GETPROPERTY", "DEVICE_WAITTIMESTAMP_CTXTID", "DRAWCTXT_CREATE", "GPUOBJ_ALLOC", "GPUOBJ_FREE",
         "GPU_COMMAND", "MAP_USER_MEM", "SETPROPERTY", "SHAREDMEM_FREE")  # fmt: skip
EFAULT = 14

pytestmark = pytest.mark.skipif(not INSTALLED, reason=f"not installed: {VERSIONS}")


def run(mode: str) -> dict[str, Any]:
    command = [sys.executable, str(WORKER), mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def numbers() -> dict[str, Any]:
    return run("numbers")


class TestNumbers:
    """One process, one open device, a lenient machine; the groups run in this order."""

    @pytest.mark.parametrize("group", GROUPS)
    def test_they_are_what_numpy_says(self, numbers: dict[str, Any], group: str) -> None:
        cases = numbers["groups"][group]
        assert len(cases) >= 3
        assert {name: verdict for name, verdict in cases.items() if verdict} == {}

    def test_every_group_ran(self, numbers: dict[str, Any]) -> None:
        assert tuple(numbers["groups"]) == GROUPS
        assert numbers["stats"]["launches"] > 500

    def test_nothing_was_refused_and_nothing_faulted(self, numbers: dict[str, Any]) -> None:
        assert numbers["refusals"] == numbers["gpu_log"] == []
        assert numbers["stats"]["faults"] == 0

    def test_it_called_what_the_facts_say(self, numbers: dict[str, Any]) -> None:
        assert numbers["ioctls"] == [f"IOCTL_KGSL_{name}" for name in CALLS]
        assert numbers["failed"] == [["IOCTL_KGSL_MAP_USER_MEM", EFAULT]]

    def test_it_cleaned_the_caches_for_each_external_pointer(self, numbers: dict[str, Any]) -> None:
        assert numbers["cleaned"] == 4
