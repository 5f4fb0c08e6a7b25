"""A program: runs tinygrad's own Qualcomm driver on the emulated KGSL and Adreno, and prints what came of it as JSON.

Usage: tinygrad_driver_worker.py numbers|threads|profile|queues|strict. It never touches a real device.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

os.environ.update(DEV="QCOM:IR3", PARALLEL="0", CCACHE="0", DEBUG="0", BEAM="0", JIT="1", IMAGE="0")
os.environ["PROFILE"] = "1" if sys.argv[1] == "profile" else "0"

import numpy as np
import tinygrad_machine
from tinygrad import Tensor, UOp, dtypes
from tinygrad import device as tinygrad_device
from tinygrad.device import Device
from tinygrad.helpers import Context
from tinygrad.runtime.autogen import kgsl, mesa
from tinygrad.runtime.support import hcq as tinygrad_hcq
from tinygrad_workloads import GROUPS, Case

from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.emu.system import EmulatedSystem

RELATIVE = {"float32": 1e-4, "float16": 4e-3}
ABSOLUTE = {"float32": 1e-5, "float16": 4e-3}
SP_FLOAT_CNTL = 0xAE04  # has another name in the newer tables of Mesa
CONTEXT_FLAGS = kgsl.KGSL_CONTEXT_PREAMBLE | kgsl.KGSL_CONTEXT_NO_GMEM_ALLOC | kgsl.KGSL_CONTEXT_NO_FAULT_TOLERANCE


def verdict(case: Case) -> str:
    """Empty when the device was right."""
    _, got, right = case
    right = np.asarray(right)
    kind = right.dtype.name
    if got.dtype != right.dtype or got.shape != right.shape:
        return f"{got.dtype} {got.shape}, expected {right.dtype} {right.shape}"
    wrong = ~np.isclose(got, right, RELATIVE.get(kind, 0), ABSOLUTE.get(kind, 0))
    if not wrong.any():
        return ""
    return f"{wrong.sum()} of {wrong.size} wrong, as {got[wrong].flat[0]} instead of {right[wrong].flat[0]}"


def count_kinds(driver: Any, seen: Counter[str]) -> None:
    """Count what its programs need, and its bound queues, so that the tests know what they reached."""

    class Program(driver.QCOMProgram):  # type: ignore[misc]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            seen.update(
                programs=1, textures=self.tex_cnt > 0, images=self.ibo_cnt > 0, private=self.pvtmem > 0,
                long=self.image_size > 64 * 128, shared=self.shmem > 0, constants=len(self.consts_info) > 0,
            )  # fmt: skip

    class Queue(driver.QCOMComputeQueue):  # type: ignore[misc]
        def bind(self, device: Any) -> None:
            super().bind(device)
            seen["bound"] += 1

    driver.QCOMProgram, driver.QCOMComputeQueue = Program, Queue


def emulated(*, strict: bool = False, threads: int = 1) -> EmulatedSystem:
    """The same machine whatever the environment says; it checks that what caches may hold was invalidated."""
    return EmulatedSystem(qcom="a630", strict=strict, threads=threads, seed=threads, check=("caches",))


def verdicts_of(*names: str) -> dict[str, str]:
    return {f"{name} {case[0]}": verdict(case) for name in names for case in GROUPS[name]()}


def report(machine: EmulatedSystem, **more: Any) -> dict[str, Any]:
    return {"refusals": machine.refusals, "gpu_log": machine.drivers[0].gpu.log, "stats": machine.stats(), **more}


def numbers() -> dict[str, Any]:
    machine, cleaned, seen = emulated(), [], Counter[str]()
    count_kinds(tinygrad_machine.install(machine, cleaned), seen)
    with Context(IMAGE=1):  # asked when the device opens; the kernels ask again
        device: Any = Device["QCOM"]
    groups = {name: {case[0]: verdict(case) for case in group()} for name, group in GROUPS.items()}
    device.synchronize()
    return report(
        machine,
        groups=groups,
        seen=seen,
        ioctls=sorted({name for _, _, name, *_ in machine.ioctl_log}),
        failed=sorted({(name, number) for _, _, name, _, _, _, number, _ in machine.ioctl_log if number}),
        cleaned=len(cleaned),
    )


def threads() -> dict[str, Any]:
    """The GPU in a thread of its own, which is what the driver expects of a device."""
    machine = emulated(threads=2)
    tinygrad_machine.install(machine, [])
    verdicts = verdicts_of("sequences", "jit", "external", "many")
    Device["QCOM"].synchronize()
    return report(machine, verdicts=verdicts)


def profile() -> dict[str, Any]:
    """PROFILE=1: two stamps around each kernel, in graphs too, all of which must lie in the order of the queue."""
    atexit.unregister(tinygrad_device.finalize_profile)  # writes a file and starts a viewer
    machine = emulated()
    tinygrad_machine.install(machine, [])
    device: Any = Device["QCOM"]
    timer = machine.read_text(f"{tinygrad_machine.SYSFS}kgsl-3d0/idle_timer")
    began = machine.clock_ns() / 1000
    verdicts = verdicts_of("sequences", "jit")
    device.synchronize()
    ended = machine.clock_ns() / 1000
    events = tinygrad_device.Compiled.profile_events
    ranges = [
        (float(e.st), float(e.en)) for e in events if type(e).__name__ == "ProfileRangeEvent" and e.device == "QCOM"
    ]
    graphs = [
        [(float(e.sigs[entry.st_id]), float(e.sigs[entry.en_id])) for entry in e.ents]
        for e in events
        if type(e).__name__ == "ProfileGraphEvent"
    ]
    device._at_profile_finalize()
    (clock,) = [e for e in events if type(e).__name__ == "ProfileDeviceEvent" and e.device == "QCOM"]
    left = machine.read_text(f"{tinygrad_machine.SYSFS}kgsl-3d0/idle_timer")
    return report(
        machine, verdicts=verdicts, began=began, ended=ended, ranges=ranges, graphs=graphs, timers=[timer, left],
        clock_us=float(clock.tdiff),
    )  # fmt: skip


def later(seconds: float, signal: Any, value: int) -> None:
    """A store to a signal by the CPU, while the main thread sleeps in the driver."""
    threading.Timer(seconds, lambda: setattr(signal, "value", value)).start()


def wait_late(device: Any) -> dict[str, Any]:
    """A queue that waits for the CPU: nothing behind the wait is done before, all of it after."""
    gate, mark = device.new_signal(value=0), device.new_signal(value=0)
    queue = device.hw_compute_queue_t().signal(mark, 1).wait(gate, 7).signal(mark, 2)
    queue.signal(device.timeline_signal, device.next_timeline()).submit(device)
    reached = [mark.value]
    gate.value = 6
    device._gpu_free(device._gpu_alloc(4096))  # any call to the driver lets its GPU go on
    reached.append(mark.value)
    later(0.05, gate, 8)
    device.synchronize()
    return {"reached": [*reached, mark.value]}


def full_queue(device: Any) -> dict[str, Any]:
    """More submissions than the kernel keeps: the call sleeps until the first ones are done."""
    gate, order = device.new_signal(value=0), device.new_signal(value=0)
    later(0.2, gate, 1)
    started = time.monotonic()
    for number in range(80):
        queue = device.hw_compute_queue_t().wait(gate if number == 0 else order, 1 if number == 0 else number)
        queue.signal(order, number + 1).signal(device.timeline_signal, device.next_timeline()).submit(device)
    submitted_s = time.monotonic() - started
    device.synchronize()
    return {"order": order.value, "submitted_s": submitted_s}


def patched(device: Any) -> dict[str, Any]:
    """A bound queue whose words are patched between submissions: where it signals, and what."""
    address, value = UOp.variable("at", 0, (1 << 64) - 1, dtype=dtypes.uint64), UOp.variable("v", 0, 0xFFFFFFFF)
    virtual = device.signal_t(base_buf=tinygrad_hcq.HCQBuffer(address, 16), owner=device)
    queue = device.hw_compute_queue_t().signal(virtual, value)
    queue.bind(device)
    seen = []
    for number in (3, 0xFFFFFFFF, 0, 0x12345678):
        target = device.new_signal(value=99)
        queue.submit(device, {"at": target.base_buf.va_addr, "v": number})
        device.hw_compute_queue_t().signal(device.timeline_signal, device.next_timeline()).submit(device)
        device.synchronize()
        seen.append(target.value)
    return {"patched": seen}


def stamps(device: Any) -> dict[str, Any]:
    """Two stamps around a sleep of the queue, in units of the driver: microseconds."""
    gate, first, second = (device.new_signal(value=0) for _ in range(3))
    queue = device.hw_compute_queue_t().timestamp(first).wait(gate, 1).timestamp(second)
    queue.signal(device.timeline_signal, device.next_timeline()).submit(device)
    later(0.1, gate, 1)
    device.synchronize()
    return {"slept_us": float(second.timestamp - first.timestamp)}


def page_fault(device: Any) -> dict[str, Any]:
    """A kernel reads what was freed behind tinygrad's back: (errno, address); then a new context, and what that gives.

    Its contexts tolerate no fault, so the first one is their end.
    """
    gone, kept = Tensor([1.0] * 64).realize(), Tensor([2.0] * 64).realize()
    freed = gone.uop.buffer._buf
    kgsl.IOCTL_KGSL_GPUOBJ_FREE(device.fd, id=freed.meta[0].id)
    freed.meta = (None, False)  # which tinygrad frees no more
    number = 0
    try:
        (gone + 1).realize()
        device.synchronize()
    except OSError as error:
        number = error.errno or 0
    renew(device)
    return {"fault": (number, hex(freed.va_addr)), "after": (kept + 1).tolist()}


def opening(machine: EmulatedSystem) -> list[tuple[Any, ...]]:
    """The calls of the device's constructor, with the flags and sizes of what it makes."""
    found = []
    for _, _, name, _, given, *_ in machine.ioctl_log:
        made = (given["flags"], given.get("size", 0)) if "flags" in given else ()
        found.append((name.removeprefix("IOCTL_KGSL_"), *made))
    return found


def queues() -> dict[str, Any]:
    machine = emulated()
    tinygrad_machine.install(machine, [])
    device: Any = Device["QCOM"]
    opened = opening(machine)
    by_hand = wait_late(device) | full_queue(device) | patched(device) | stamps(device) | page_fault(device)
    return report(machine, opened=opened, **by_hand)


class Mender:
    """The driver's command words with some of its mistakes mended, so that a strict GPU comes to the next one."""

    def __init__(self, driver: ModuleType) -> None:
        self.mended: set[str] = set()
        mender = self

        class Queue(driver.QCOMComputeQueue):  # type: ignore[misc]
            def exec(self, program: Any, *arguments: Any) -> Any:
                mender.program = program
                if "float" in mender.mended:
                    super().reg(SP_FLOAT_CNTL, 0)
                return super().exec(program, *arguments)

            def reg(self, register: int, *values: int) -> None:
                super().reg(register, *mender.mend(register, values))

        driver.QCOMComputeQueue = Queue

    def mend(self, register: int, values: tuple[int, ...]) -> tuple[int, ...]:
        program, wanted = self.program, self.mended
        if register == mesa.REG_A6XX_SP_CS_PVT_MEM_STACK_OFFSET and "stack" in wanted:
            return (program.pvtmem_size_total << 12 >> 11,)
        if register == mesa.REG_A6XX_SP_REG_PROG_ID_0 and "constlen" in wanted:
            return (*values[:-1], 1 << 8 | 256 >> 2)
        if register == mesa.REG_A6XX_SP_CS_TSIZE and "textures" in wanted:
            return (program.tex_cnt,)
        if register == mesa.REG_A6XX_SP_CS_USIZE and "images" in wanted:
            return (program.ibo_cnt,)
        return values


def renew(device: Any) -> None:
    """A context in the place of the one that a refusal has ended, and a timeline without what it still had to do."""
    device.ctx = kgsl.IOCTL_KGSL_DRAWCTXT_CREATE(device.fd, flags=CONTEXT_FLAGS).drawctxt_id
    device.last_cmd, device.error_state, device.timeline_value = 0, None, 1
    device.timeline_signal.value = 0


def strict() -> dict[str, Any]:
    """What a strict machine says to each mistake when the ones before it are mended; then numbers with none left."""
    machine, texts = emulated(strict=True), {}
    mender = Mender(tinygrad_machine.install(machine, []))
    with Context(IMAGE=1):
        device: Any = Device["QCOM"]
    one = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    for mistake in ("float", "stack", "textures", "images", "constlen"):
        try:
            (one + len(texts)).realize()
            device.synchronize()
        except EmulatorRefusal as refusal:
            texts[mistake] = str(refusal)
            renew(device)
        mender.mended.add(mistake)
    verdicts = verdicts_of("matmul", "networks", "sequences", "images", "jit")
    return report(machine, texts=texts, verdicts=verdicts)


MODES: dict[str, Callable[[], dict[str, Any]]] = {
    "numbers": numbers, "threads": threads, "profile": profile, "queues": queues, "strict": strict,
}  # fmt: skip
print(json.dumps(MODES[sys.argv[1]](), default=str))
