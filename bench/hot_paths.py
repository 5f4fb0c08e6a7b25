"""CPU time of hcqrt's hot paths on an emulated driver whose GPU retires all work at once. Every safety check is on."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from kernels_for_bench import with_pointers

import hcqrt
from hcqrt.autogen.qcom.kgsl_ioctls import GPUOBJ_SYNC
from hcqrt.core.buffer import HCQBuffer
from hcqrt.emu.system import EmulatedSystem
from hcqrt.tools.check_frame import shipped_kernel

CHIPS = {"NV": "sm_86", "QCOM": "a630"}
GRID, BLOCK = (64, 1, 1), (256, 1, 1)


class RetireAtOnce:
    """What a submission reaches last: the GPU side costs nothing, as in the bench it is compared with."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.memory, self.index = channel.progress.place

    def __setitem__(self, index: int, token: int) -> None:
        """A doorbell: the submission is counted already."""
        self.memory[self.index] = self.channel.submitted

    def __call__(self, request: int, argument: int) -> int:
        """An ioctl: the submission is counted when it returns."""
        self.memory[self.index] = self.channel.submitted + 1
        return 0


def open_nv() -> Any:
    dev = hcqrt.open_device("NV", EmulatedSystem(nv=[CHIPS["NV"]]))
    dev.synchronize()
    for fifo in (dev.compute_fifo, dev.copy_fifo):
        fifo.wait_progress(fifo.submitted)
        fifo._doorbell = RetireAtOnce(fifo)
    return dev


def open_qcom() -> Any:
    dev = hcqrt.open_device("QCOM", EmulatedSystem(qcom=CHIPS["QCOM"]))
    dev.synchronize()
    dev.channel.wait_progress(dev.channel.submitted)
    dev.channel._ioctl = RetireAtOnce(dev.channel)
    real = dev.kgsl.fd.ioctl
    # cache maintenance costs nothing either
    dev.kgsl.fd.ioctl = lambda request, place: 0 if request == GPUOBJ_SYNC.request else real(request, place)
    return dev


# An open device on the emulated driver whose submissions from now on retire at once.
OPEN = {"NV": open_nv, "QCOM": open_qcom}


def timed(work: Callable[[int], None], count: int, runs: int) -> float:
    """Median microseconds of thread CPU time per operation; `work(n)` does n of them."""
    costs = []
    work(max(1, count // 10))
    for _ in range(runs):
        gc.collect()
        gc.disable()
        start = time.thread_time()
        work(count)
        costs.append((time.thread_time() - start) / count * 1e6)
        gc.enable()
    return statistics.median(costs)


class HotPaths:
    """One device and what its loops need."""

    def __init__(self, kind: str) -> None:
        self.dev = OPEN[kind]()
        # a kernel with four pointers, as the launch it is compared with has
        self.prg = self.dev.program(with_pointers(shipped_kernel(CHIPS[kind], "vector_add"), kind, 4))
        self.bufs = [self.dev.alloc(4096) for _ in range(4)]

    def retire(self) -> None:
        self.dev.timeline_signal.value = self.dev.timeline_value - 1

    def launch(self, runs: int) -> float:
        """Arguments, wait, barrier, exec, signal, submit, through the program's call."""
        prg, bufs = self.prg, self.bufs

        def work(count: int) -> None:
            for _ in range(count):
                prg(*bufs, global_size=GRID, local_size=BLOCK)

        return timed(work, 2000, runs)

    def bound_queue(self) -> tuple[Any, list[Any], Any]:
        """16 launches whose 64 buffer addresses are symbols, and a symbolic timeline value."""
        symbols = [hcqrt.Variable(f"in_{i}") for i in range(64)]
        timeline = hcqrt.Variable("tl")
        queue = self.dev.compute_queue().memory_barrier().wait(self.dev.timeline_signal, timeline)
        for first in range(0, 64, 4):
            bufs = [HCQBuffer(symbol, 4096) for symbol in symbols[first : first + 4]]
            queue.exec(self.prg, self.prg.fill_kernargs(bufs), GRID, BLOCK)
        queue.signal(self.dev.timeline_signal, timeline + 1).bind(self.dev)
        return queue, symbols, timeline

    def resubmit(self, changed: int, runs: int) -> float:
        """Per submission of the bound queue, less the cost of making the dict of values."""
        queue, symbols, timeline = self.bound_queue()
        base = {symbol: 0x20_0000_0000 + i * 0x1000 for i, symbol in enumerate(symbols)}
        dev, moving = self.dev, symbols[:changed]

        def submit(count: int) -> None:
            for i in range(count):
                values = {**base, timeline: i}
                for symbol in moving:
                    values[symbol] = 0x20_0000_0000 + (i & 0xFFFF) * 0x1000
                queue.submit(dev, values)

        def dict_only(count: int) -> None:
            for i in range(count):
                values = {**base, timeline: i}
                for symbol in moving:
                    values[symbol] = 0x20_0000_0000 + (i & 0xFFFF) * 0x1000

        cost = timed(submit, 600, runs) - timed(dict_only, 600, runs)
        queue.close()
        return cost

    def exec(self, runs: int) -> float:
        """Per launch of a queue of 1000 chained ones, build only."""
        costs = []
        for _ in range(runs + 1):
            args = [self.prg.fill_kernargs(self.bufs) for _ in range(1000)]
            gc.collect()
            gc.disable()
            start = time.thread_time()
            queue = self.dev.compute_queue().wait(self.dev.timeline_signal, 0).memory_barrier()
            for state in args:
                queue.exec(self.prg, state, GRID, BLOCK)
            queue.signal(self.dev.timeline_signal, 1)
            costs.append((time.thread_time() - start) / 1000 * 1e6)
            gc.enable()
        return statistics.median(costs[1:])

    def copyin_control(self, runs: int) -> float:
        """Per copy of 64 bytes to the device."""
        dest, data = self.dev.alloc(4096), memoryview(bytearray(64))

        def work(count: int) -> None:
            for _ in range(count):
                dest.copyin(data)

        cost = timed(work, 320, runs)
        dest.close()
        return cost

    def measure(self, runs: int) -> dict[str, float]:
        """Microseconds of CPU time per operation."""
        result = {"launch": self.launch(runs)}
        self.retire()
        for changed in (0, 8, 64):
            result[f"resubmit_{changed}"] = self.resubmit(changed, runs)
        result["exec"] = self.exec(runs)
        result["copyin_control"] = self.copyin_control(runs)
        return result

    def close(self) -> None:
        self.retire()
        self.dev.close()
