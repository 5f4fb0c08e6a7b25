"""Speed of the emulator's engine: a shipped vector add of 1 M elements on the emulated GPU."""

from __future__ import annotations

import time
from typing import Any

import hcqrt
from hcqrt.emu.engine import run
from hcqrt.emu.system import EmulatedSystem
from hcqrt.tools.check_frame import shipped_kernel

N = 1 << 20
CHIPS = {"NV": "sm_86", "QCOM": "a630"}


def machine(kind: str, core: str) -> EmulatedSystem:
    """A machine with one GPU whose launches run on `core`."""
    system = EmulatedSystem(nv=[CHIPS[kind]]) if kind == "NV" else EmulatedSystem(qcom=CHIPS[kind])

    def launch(job: Any) -> Any:
        return run.launch(job, core)

    if kind == "NV":
        system.drivers[0].boards[0].gpu.engines.launch = launch
    else:
        system.drivers[0].gpu.launch = launch
    return system


def vector_add_ns(kind: str, core: str, runs: int = 5) -> float | None:
    """Least nanoseconds per executed thread-instruction; None when the core is not built."""
    if core not in run.available_cores():
        return None
    system = machine(kind, core)
    best = None
    with hcqrt.open_device(kind, system) as dev:
        bufs = [dev.alloc(4 * N) for _ in range(3)]
        for buf in bufs:
            buf.fill(0)
        prg = dev.program(shipped_kernel(CHIPS[kind], "vector_add"))
        for _ in range(runs + 1):
            dev.synchronize()
            before = system.stats()["instructions"]
            start = time.thread_time_ns()
            prg(*bufs, vals=(N,), global_size=(N // 256, 1, 1), local_size=(256, 1, 1))
            dev.synchronize()
            spent = (time.thread_time_ns() - start) / (system.stats()["instructions"] - before)
            best = spent if best is None else min(best, spent)
    return best
