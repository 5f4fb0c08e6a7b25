"""What importing and opening may cost: time and resident memory, each measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROBE = """
import json, time
def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024
bare = resident()
start = time.perf_counter()
import hcqrt
seconds = time.perf_counter() - start
imported = resident()
from hcqrt.emu import EmulatedSystem
from hcqrt.tools.check_frame import shipped_kernel
with hcqrt.open_device("NV", EmulatedSystem(nv=["sm_86"])) as dev:
    opened = resident()
    buf = dev.alloc(4096)
    prg = dev.program(shipped_kernel("sm_86", "fill"))
    def launches(count):
        for _ in range(count):
            prg(buf, vals=(1, 32), global_size=(1, 1, 1), local_size=(32, 1, 1))
        dev.synchronize()
    launches(10000)  # until every ring has wrapped
    before = resident()
    launches(20000)
    after = resident()
    buf.close()
print(json.dumps(dict(seconds=seconds, bare=bare, imported=imported, opened=opened, before=before, after=after)))
"""


@pytest.fixture(scope="module")
def cost():
    run = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, cwd=ROOT, timeout=120, check=True
    )
    return json.loads(run.stdout)


def test_importing_is_quick_and_small(cost):
    assert cost["seconds"] < 0.1
    assert cost["imported"] < 40


def test_an_open_device_adds_less_than_150_mib(cost):
    assert cost["opened"] - cost["imported"] < 150


def test_launches_add_nothing(cost):
    assert cost["after"] - cost["before"] < 1
