"""CPU time of tinygrad's Qualcomm queue on a fake device: no driver, no GPU; the fake ioctl retires what it is given.

For an environment with tinygrad 0.11.0. Prints one JSON object: microseconds of thread CPU time per operation, named as
bench/hot_paths.py names ours.

usage: tinygrad_qcom.py [--runs N]
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import mmap
import os
import statistics
import struct
import sys
import time

os.environ["DEV"] = "PYTHON"
os.environ.pop("MOCKGPU", None)

from tinygrad.dtype import dtypes
from tinygrad.runtime import ops_qcom
from tinygrad.runtime.support.hcq import BumpAllocator, HCQBuffer, HCQCompiled, MMIOInterface
from tinygrad.uop.ops import UOp

GRID, BLOCK = (64, 1, 1), (256, 1, 1)
CODE_BYTES = 0x180
KERNEL_NAME = "k"


class FakeFile:
    """The device node: every submission gets the next timestamp, and has retired when the call returns."""

    def __init__(self) -> None:
        self.last, self.retire = 0, None

    def ioctl(self, request: int, argument: ctypes.Structure) -> int:
        self.last += 1
        argument.timestamp = self.last
        if self.retire is not None:
            self.retire()
        return 0


def anonymous(dev, size: int) -> HCQBuffer:
    """Memory that lives as long as the process."""
    pages = mmap.mmap(-1, size + mmap.PAGESIZE)
    va = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    dev.kept.append(pages)
    return HCQBuffer(va, size, view=MMIOInterface(va, size, fmt="B"), owner=dev)


class FakeDevice(ops_qcom.QCOMDevice):
    """A device whose driver calls are answered here. What the queues and programs use is the framework's own."""

    def __init__(self) -> None:
        self.kept = []
        self.fd, self.ctx, self.last_cmd = FakeFile(), 1, 0
        ops_qcom.QCOMDevice.dummy_addr, ops_qcom.QCOMDevice.gpu_id = self._gpu_alloc(0x1000).va_addr, 630
        self.cmd_buf = self._gpu_alloc(16 << 20)
        self.cmd_buf_allocator = BumpAllocator(size=self.cmd_buf.size, base=self.cmd_buf.va_addr, wrap=True)
        self.border_color_buf = self._gpu_alloc(0x1000)
        allocator = ops_qcom.QCOMAllocator(self)
        HCQCompiled.__init__(self, "QCOM", allocator, None, None, None, ops_qcom.QCOMSignal, ops_qcom.QCOMComputeQueue)

    def _gpu_alloc(self, size: int, flags: int = 0, uncached: bool = False, fill_zeroes: bool = False) -> HCQBuffer:
        return anonymous(self, size)

    def _gpu_free(self, mem: HCQBuffer) -> None:
        pass

    def retire(self) -> None:
        self.timeline_signal.value = self.timeline_value - 1


def kernel_binary(pointers: int) -> bytes:
    """The tables that the framework reads of an OpenCL binary, for a kernel with so many buffers."""
    code, descriptor, registers = 0x400, 0x600, 0x200
    arguments = -(-(descriptor + 0x158 + len(KERNEL_NAME)) // 4) * 4
    whole = bytearray(arguments + 32 * (pointers + 1))
    words = {0x34: registers, 0xC0: code, 0x100: CODE_BYTES, 0x110: descriptor, registers + 0x14: 8}
    for offset, value in words.items():
        struct.pack_into("<I", whole, offset, value)
    for number in range(pointers):
        struct.pack_into("<8I", whole, arguments + 32 * number, 32, 0, 0, 2 * number, 0, 0, 0, 0)
    return bytes(whole)


def timed(work, count: int, runs: int) -> float:
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


def launches(dev, prg, bufs, runs: int) -> float:
    def work(count: int) -> None:
        for _ in range(count):
            prg(*bufs, global_size=GRID, local_size=BLOCK)

    return timed(work, 500, runs)


def resubmissions(dev, prg, runs: int) -> dict[str, float]:
    """A bound queue of 16 launches with 64 symbolic buffer addresses, some of them changed for each submission."""
    symbols = [UOp.variable(f"in_{i}", 0, (1 << 64) - 1, dtype=dtypes.uint64) for i in range(64)]
    timeline = UOp.variable("tl", 0, 0xFFFFFFFF, dtype=dtypes.uint32)
    queue = ops_qcom.QCOMComputeQueue().memory_barrier().wait(dev.timeline_signal, timeline)
    for first in range(0, 64, 4):
        bufs = tuple(HCQBuffer(symbol, 0x1000) for symbol in symbols[first : first + 4])
        queue.exec(prg, prg.fill_kernargs(bufs), GRID, BLOCK)
    queue.signal(dev.timeline_signal, timeline + 1).bind(dev)
    base = {symbol: 0x10_0000_0000 + i * 0x1000 for i, symbol in enumerate(symbols)}
    result = {}
    for changed in (0, 8, 64):

        def values(i: int, moving=tuple(symbols[:changed])):
            new = {**base, timeline: i}
            for symbol in moving:
                new[symbol] = 0x10_0000_0000 + (i & 0xFFFF) * 0x1000
            return new

        def submit(count: int) -> None:
            for i in range(count):
                queue.submit(dev, values(i))  # run before the next turn

        def dict_only(count: int) -> None:
            for i in range(count):
                values(i)

        result[f"resubmit_{changed}"] = timed(submit, 200, runs) - timed(dict_only, 200, runs)
    return result


def builds(dev, prg, bufs, runs: int) -> float:
    """Per launch of a queue of 200, build only."""
    args = [prg.fill_kernargs(bufs) for _ in range(200)]

    def work(count: int) -> None:
        for _ in range(count):
            queue = ops_qcom.QCOMComputeQueue().wait(dev.timeline_signal, 0).memory_barrier()
            for state in args:
                queue.exec(prg, state, GRID, BLOCK)
            queue.signal(dev.timeline_signal, 1)

    return timed(work, 1, runs) / 200


def copies(dev, bufs, runs: int) -> float:
    """Per copy of 64 bytes to the device."""
    data = memoryview(bytearray(64))

    def work(count: int) -> None:
        for _ in range(count):
            dev.allocator._copyin(bufs[0], data)

    return timed(work, 2000, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    dev = FakeDevice()
    dev.fd.retire = dev.retire
    prg = ops_qcom.QCOMProgram(dev, KERNEL_NAME, kernel_binary(4))
    bufs = [dev._gpu_alloc(0x1000) for _ in range(4)]
    result = {"launch": launches(dev, prg, bufs, runs), "exec": builds(dev, prg, bufs, runs)}
    dev.fd.retire = None  # the resubmissions count their own timeline
    result |= resubmissions(dev, prg, runs)
    result["copyin_control"] = copies(dev, bufs, runs)
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # the fake device must not be finalised


if __name__ == "__main__":
    main()
