"""Speed of the emulator's engine: a shipped vector add of 1 M elements on the emulated GPU."""

from __future__ import annotations

import time

import hcqrt
from hcqrt.emu.engine import run
from hcqrt.emu.system import EmulatedSystem
from hcqrt.tools.check_frame import shipped_kernel

N = 1 << 20


def vector_add_ns(core: str, runs: int = 5) -> float | None:
    """Least nanoseconds per executed thread-instruction; None when the core is not built."""
    if core not in run.available_cores():
        return None
    system = EmulatedSystem(nv=["sm_86"])
    for board in system.drivers[0].boards:
        board.gpu.engines.launch = lambda job: run.launch(job, core)
    best = None
    with hcqrt.open_device("NV", system) as dev:
        bufs = [dev.alloc(4 * N) for _ in range(3)]
        for buf in bufs:
            buf.fill(0)
        prg = dev.program(shipped_kernel("sm_86", "vector_add"))
        for _ in range(runs + 1):
            dev.synchronize()
            before = system.stats()["instructions"]
            start = time.thread_time_ns()
            prg(*bufs, vals=(N,), global_size=(N // 256, 1, 1), local_size=(256, 1, 1))
            dev.synchronize()
            spent = (time.thread_time_ns() - start) / (system.stats()["instructions"] - before)
            best = spent if best is None else min(best, spent)
    return best
