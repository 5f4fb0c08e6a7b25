"""The one place where the tests of lowering start a launch, on each core that this machine has."""

from __future__ import annotations

from collections.abc import Callable

from hcqrt.emu.engine import core_numpy, run
from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.engine.uops import Program

CORES = run.available_cores()


def execute(launch: Launch, core: str) -> Result:
    return run.launch(launch, core)


def direct(core: str) -> Callable[[Program, Launch], Result]:
    """A core without lowering in front of it: runs micro-op programs."""
    found: Callable[[Program, Launch], Result] = core_numpy.run if core == "numpy" else run.c_core().run
    return found
