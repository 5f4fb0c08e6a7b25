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
GROUPS = ("elementwise", "casts", "reduce", "matmul", "networks", "images", "sequences", "jit", "training", "copies",
          "external", "grids", "many", "shapes")  # fmt: skip
# What it calls (tinygrad-backend.md §7), and the only call that may fail: memory that the GPU has already is no user's
CALLS = ("DEVICE_GETPROPERTY", "DEVICE_WAITTIMESTAMP_CTXTID", "DRAWCTXT_CREATE", "GPUOBJ_ALLOC", "GPUOBJ_FREE",
         "GPU_COMMAND", "MAP_USER_MEM", "SETPROPERTY", "SHAREDMEM_FREE")  # fmt: skip
EFAULT, EDEADLK = 14, 35

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


@pytest.fixture(scope="module")
def threads() -> dict[str, Any]:
    return run("threads")


@pytest.fixture(scope="module")
def profile() -> dict[str, Any]:
    return run("profile")


@pytest.fixture(scope="module")
def queues() -> dict[str, Any]:
    return run("queues")


@pytest.fixture(scope="module")
def strict() -> dict[str, Any]:
    return run("strict")


class TestNumbers:
    """One process, one open device, a lenient machine that checks caches; the groups run in this order."""

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

    def test_it_reached_what_it_was_meant_to(self, numbers: dict[str, Any]) -> None:
        """Kernels with images, local and private memory, code beyond the instruction cache; graphs in bound queues."""
        seen = numbers["seen"]
        assert seen["programs"] > 100 and seen["bound"] == 3
        assert min(seen[kind] for kind in ("textures", "images", "shared", "constants")) >= 3
        assert seen["private"] == seen["long"] == 1


def test_with_the_gpu_beside_the_driver_it_is_right_too(threads: dict[str, Any]) -> None:
    assert len(threads["verdicts"]) > 15
    assert {name: verdict for name, verdict in threads["verdicts"].items() if verdict} == {}
    assert threads["refusals"] == threads["gpu_log"] == []


class TestProfile:
    """PROFILE=1: stamps of the GPU's counter around every kernel, and the idle timer of sysfs."""

    def test_numbers_are_right_still(self, profile: dict[str, Any]) -> None:
        assert {name: verdict for name, verdict in profile["verdicts"].items() if verdict} == {}
        assert profile["refusals"] == []

    def test_kernels_are_timed_in_their_order(self, profile: dict[str, Any]) -> None:
        ranges = profile["ranges"]
        assert len(ranges) > 20
        flat = [profile["began"], *(stamp for pair in ranges for stamp in pair), profile["ended"]]
        assert flat == sorted(flat)
        assert all(start < end for start, end in ranges)

    def test_those_of_a_graph_as_well(self, profile: dict[str, Any]) -> None:
        """Three kernels a replay; each starts where the one before it ended."""
        graphs = [graph for graph in profile["graphs"] if len(graph) == 3]
        assert len(graphs) >= 3
        for graph in graphs:
            flat = [profile["began"], *(stamp for pair in graph for stamp in pair), profile["ended"]]
            assert flat == sorted(flat)

    def test_the_two_clocks_are_aligned(self, profile: dict[str, Any]) -> None:
        """The emulated counter runs on the clock that tinygrad reads: only a round trip lies between."""
        assert abs(profile["clock_us"]) < 1e6

    def test_the_idle_timer_is_set_and_put_back(self, profile: dict[str, Any]) -> None:
        assert profile["timers"] == ["4294967276\n", "10\n"]


class TestQueues:
    """Command queues made by hand, as its graphs make them."""

    def test_a_wait_holds_the_queue_until_the_cpu_stores(self, queues: dict[str, Any]) -> None:
        """7 was asked for: 6 does not do, 8 does. The store comes while the CPU sleeps in the driver."""
        assert queues["reached"] == [1, 1, 2]
        assert queues["refusals"] == []

    def test_a_full_queue_delays_the_caller_and_loses_nothing(self, queues: dict[str, Any]) -> None:
        assert queues["order"] == 80
        assert 0.1 < queues["submitted_s"] < 9

    def test_a_bound_queue_is_read_when_it_runs(self, queues: dict[str, Any]) -> None:
        """Four submissions of the same words in memory, patched before each."""
        assert queues["patched"] == [3, 0xFFFFFFFF, 0, 0x12345678]

    def test_stamps_tell_how_long_a_queue_slept(self, queues: dict[str, Any]) -> None:
        assert 0.05e6 < queues["slept_us"] < 30e6

    def test_the_device_opens_as_the_facts_say(self, queues: dict[str, Any]) -> None:
        """tinygrad-backend facts 7: objects whose GPU address is the CPU's (0x10000000), and what they are for."""
        flags, mib = 0x100C0000, 1 << 20
        commands, border = ["GPUOBJ_ALLOC", flags, 16 * mib], ["GPUOBJ_ALLOC", flags, 4096]
        assert queues["opened"] == [
            ["GPUOBJ_ALLOC", flags, 4096], ["DRAWCTXT_CREATE", 0x04008A12, 0], commands, border, ["SETPROPERTY"],
            ["DEVICE_GETPROPERTY"], *[["GPUOBJ_ALLOC", flags, 2 * mib]] * 32, ["GPUOBJ_ALLOC", flags, 4096],
            ["GPUOBJ_ALLOC", flags, 16 * mib],
        ]  # fmt: skip

    def test_a_page_fault_ends_its_context_and_no_other(self, queues: dict[str, Any]) -> None:
        """It asks for no fault tolerance, so the first fault is EDEADLK (facts 1.5); the log has the address."""
        number, address = queues["fault"]
        assert number == EDEADLK
        assert len(queues["gpu_log"]) == 1 and f"read at {address}: MMU fault PTE" in queues["gpu_log"][0]
        assert queues["after"] == [3.0] * 64


class TestStrict:
    """A strict machine names what tinygrad does wrong, and once that is mended takes everything it sends."""

    MISTAKES = (
        ("float", "SP_FLOAT_CNTL (0xae04) was never written in this context"),
        (
            "stack",
            "SP_CS_PVT_MEM_HW_STACK_OFFSET (0xa9bd) = 0x1000: offset 0x800000, an SP's private memory has 0x0 bytes",
        ),
        ("textures", "SP_CS_TEX_COUNT (0xa9ba) = 0x80: SP_CS_CONFIG says 0"),
        ("images", "SP_CS_IBO_COUNT (0xaa00) = 0x40: SP_CS_CONFIG says 0"),
        ("constlen", "HLSQ_CS_CNTL (0xb987) = 0x100: constants up to c255 were loaded, CONSTLEN is 0 vec4"),
    )

    @pytest.mark.parametrize(("mistake", "text"), MISTAKES)
    def test_each_mistake_is_named_with_register_and_value(
        self, strict: dict[str, Any], mistake: str, text: str
    ) -> None:
        """Facts 3.1: the two fields without their shift; 9.4: the counts. SP_FLOAT_CNTL it leaves to its kernel."""
        assert strict["texts"][mistake].endswith(text)

    def test_there_are_no_others(self, strict: dict[str, Any]) -> None:
        assert tuple(strict["texts"]) == tuple(mistake for mistake, _ in self.MISTAKES)
        assert strict["refusals"] == list(strict["texts"].values())

    def test_all_mended_its_numbers_are_right(self, strict: dict[str, Any]) -> None:
        assert len(strict["verdicts"]) > 30
        assert {name: verdict for name, verdict in strict["verdicts"].items() if verdict} == {}
