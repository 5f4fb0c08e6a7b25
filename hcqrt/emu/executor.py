"""The seam between the GPU and the executor of machine code."""

from __future__ import annotations

from collections.abc import Callable

from hcqrt.emu.engine.launch import Dim3, Launch, Result
from hcqrt.emu.interrupts import interruptible

Launcher = Callable[[Launch], Result]

# Thread-instructions after which a kernel counts as endless: so many for each thread, a floor for the smallest grids,
# and never more than some ten seconds of the C core, because blocks run in order and the first may be the endless one
BUDGET_PER_THREAD = 1 << 20
MIN_BUDGET, MAX_BUDGET = 1 << 22, 1 << 33


def default_budget(grid: Dim3, block: Dim3) -> int:
    threads = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2]
    return min(max(threads * BUDGET_PER_THREAD, MIN_BUDGET), MAX_BUDGET)


def run_kernel(launch: Launch) -> Result:
    """Execute machine code for real. Raises MmuFault when code that is not mapped is fetched."""
    from hcqrt.emu.engine import run  # loads NumPy, so only when the first kernel runs

    with interruptible():
        return run.launch(launch)
