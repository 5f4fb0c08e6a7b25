"""The bodies of the hardware tests, on emulated devices: what is to run on hardware must itself be right."""

from __future__ import annotations

import hardware_bodies as bodies
import pytest

MACHINES = {"NV": dict(nv=("sm_86",)), "QCOM": dict(nv=(), qcom="a630")}


@pytest.mark.parametrize("kind", MACHINES)
def test_the_bodies_pass_and_make_a_report(machine, kind, capsys):
    system, name = machine(**MACHINES[kind]), f"{kind}:0"
    record = bodies.smoke(system, name, quick=True)
    bodies.a_wait_that_nobody_ends_times_out(system, name)
    rows = bodies.bandwidth(system, name, largest=1 << 20, seconds=0.01)
    fault = bodies.a_store_to_nowhere_is_a_fault(system, name)
    text = bodies.report(record, fault, rows)
    assert [size for size, *_ in rows] == [4 << 10, 64 << 10, 1 << 20]
    assert text.startswith(f"{name}: ") and "0xdead0000" in text and "| 1024 KiB |" in text
