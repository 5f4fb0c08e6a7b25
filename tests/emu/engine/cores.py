"""The one place where the tests of lowering start a launch, on each core that this machine has."""

from __future__ import annotations

from hcqrt.emu.engine import run
from hcqrt.emu.engine.launch import Launch, Result

CORES = run.available_cores()


def execute(launch: Launch, core: str) -> Result:
    return run.launch(launch, core)
