"""The same bodies on this machine's hardware. Skipped only where the device node does not exist.

`scripts/test tests/hardware` ends with a report to paste into README's "seen working on".
"""

from __future__ import annotations

import hardware_bodies as bodies
import pytest

from hcqrt.fileio import System
from hcqrt.tools.cli import NODES


@pytest.fixture(params=NODES)
def kind(request):
    system = System.default("real")
    missing = [node for node in NODES[request.param] if not system.exists(node)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} on this machine")
    return request.param


def test_everything_on_the_real_device(kind, capsys):
    system, name = System.default("real"), f"{kind}:0"
    record = bodies.smoke(system, name, quick=False)
    bodies.a_wait_that_nobody_ends_times_out(system, name)
    rows = bodies.bandwidth(system, name)
    fault = bodies.a_store_to_nowhere_is_a_fault(system, name)  # last: it may cost the process its GPU
    with capsys.disabled():
        print("\n" + bodies.report(record, fault, rows))
