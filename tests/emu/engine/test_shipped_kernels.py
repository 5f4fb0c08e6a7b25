"""Every shipped kernel through the whole device on each core: the same bytes, instruction counts and results."""

from __future__ import annotations

from typing import Any

import pytest

import hcqrt
from hcqrt.emu.engine import run
from hcqrt.emu.system import EmulatedSystem
from hcqrt.tools import checks
from hcqrt.tools.check_frame import Context

KERNEL_CHECKS = [name for name in checks.CHECKS if name.startswith("kernel_")]
MACHINES = {"NV": dict(nv=["sm_86"]), "QCOM": dict(qcom="a630")}
CASES = [("NV", name) for name in KERNEL_CHECKS] + [("QCOM", name) for name in (*KERNEL_CHECKS, "image_copies")]


def watched(kind: str, core: str) -> tuple[EmulatedSystem, list[Any]]:
    """A machine whose launches run on `core`, and the list of their results."""
    system, results = EmulatedSystem(**MACHINES[kind]), []

    def launch(job):
        results.append(run.launch(job, core))
        return results[-1]

    driver = system.drivers[0]
    (driver.boards[0].gpu.engines if kind == "NV" else driver.gpu).launch = launch
    return system, results


def memory_after(kind: str, core: str, name: str) -> tuple[list[bytes], list[Any]]:
    """What every buffer of a check holds when it is closed or the device is, and the results of its launches."""
    system, results = watched(kind, core)
    context = Context(system, kind, True)
    kept: list[bytes] = []
    with context.open() as dev:
        real = dev.copyout
        dev.copyout = lambda into, src: (real(into, src), kept.append(bytes(into)))[0]
        checks.CHECKS[name](context)
        context.close()
    assert system.live_objects() == []
    return kept, results


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_both_cores_give_the_same_bits(kind, name):
    if "c" not in run.available_cores():
        pytest.skip("the C core is not built: no compiler was at hand")
    ours, theirs = memory_after(kind, "c", name), memory_after(kind, "numpy", name)
    assert ours[0] == theirs[0] and ours[0]
    assert ours[1] == theirs[1] and ours[1]


@pytest.mark.parametrize("kind", MACHINES)
def test_two_runs_give_the_same_bits(kind):
    for core in run.available_cores():
        assert memory_after(kind, core, "kernel_matmul") == memory_after(kind, core, "kernel_matmul")


def test_a_core_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="core 'cuda'"):
        run.launch(None, "cuda")  # type: ignore[arg-type]


def test_the_context_names_what_is_not_open():
    with pytest.raises(hcqrt.HCQError, match="NV is not open"):
        _ = Context(EmulatedSystem(nv=["sm_86"]), "NV", True).dev
