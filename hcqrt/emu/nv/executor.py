"""The seam between the GPU and the executor of machine code."""

from __future__ import annotations

from collections.abc import Callable

from hcqrt.bits import align_up
from hcqrt.emu.engine.launch import Dim3, Launch, Result
from hcqrt.emu.nv.limits import WARP_THREADS

Launcher = Callable[[Launch], Result]

# Thread-instructions after which a kernel counts as endless: so many for each thread of its warps, and never more
# than some ten seconds of the C core, because blocks run in order and the first one may be the endless one
BUDGET_PER_THREAD = 1 << 20
MAX_BUDGET = 1 << 33


def default_budget(grid: Dim3, block: Dim3) -> int:
    threads = align_up(block[0] * block[1] * block[2], WARP_THREADS)
    return min(grid[0] * grid[1] * grid[2] * threads * BUDGET_PER_THREAD, MAX_BUDGET)


def run_kernel(launch: Launch) -> Result:
    """Execute machine code for real. Raises MmuFault when code that is not mapped is fetched."""
    from hcqrt.emu.engine import run  # loads NumPy, so only when the first kernel runs

    return run.launch(launch)
