"""The emulated KGSL driver as a whole: its node, sysfs texts, the GPU, and what processes share."""

from __future__ import annotations

import ctypes
import errno as errno_codes
import os
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom.kgsl_structs import kgsl_devmemstore, kgsl_timestamp_event_fence
from hcqrt.emu.files import EmulatedFile, LiveObject
from hcqrt.emu.memory import PhysicalMemory
from hcqrt.emu.qcom.gpu import Gpu
from hcqrt.emu.qcom.kgsl.contexts import KgslContext
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.fences import Fence, Fences
from hcqrt.emu.qcom.kgsl.node import KGSL_NODE, KgslFile
from hcqrt.emu.qcom.kgsl.options import KgslOptions, parse_options
from hcqrt.emu.qcom.kgsl.timelines import Timelines
from hcqrt.emu.qcom.kgsl.user import UserMemory
from hcqrt.emu.qcom.kgsl.waiting import Sleeper
from hcqrt.emu.qcom.texts import MAX_LEVEL, MIN_LEVEL, SYSFS, driver_texts, gpu_clock

if TYPE_CHECKING:
    from hcqrt.emu.system import EmulatedSystem

NODE_MODE = 0o666
MEMSTORE_PAGES = 8
SHADOW_BYTES = 64 << 30  # second copies of imported memory: they are the emulator's, not the machine's


class QcomDriver:
    """State of the kernel driver and its one GPU."""

    def __init__(self, system: EmulatedSystem, entry: str | Mapping[str, Any]) -> None:
        self.system = system
        self.options: KgslOptions = parse_options(entry)
        self.refusals: list[str] = []
        self.last_refusal = ""
        self.log: list[str] = []  # what the kernel log would say
        page = system.page_size
        self.dram = PhysicalMemory(system.libc, "hcqrt-kgsl", self.options.memory_bytes, page)
        self.cpu_caches = PhysicalMemory(system.libc, "hcqrt-cpu-caches", self.options.memory_bytes, page)
        self.shadows = PhysicalMemory(system.libc, "hcqrt-shadows", SHADOW_BYTES, page)  # DRAM of imported memory
        self.memstore = PhysicalMemory(system.libc, "hcqrt-memstore", MEMSTORE_PAGES * page, page).allocate(
            MEMSTORE_PAGES * page
        )
        self.user, self.sleeper = UserMemory(), Sleeper(system)
        self.fences, self.timelines = Fences(), Timelines(self)
        self.files: list[KgslFile] = []
        self._last_number = 0
        self._current: KgslContext | None = None  # whose work ran last
        self._constrained: KgslContext | None = None
        shuffled = system.seed or system.threads > 1
        self.gpu = Gpu(
            self.options.chip, system.clock_ns, system.strict, self.refusals.append,
            order=random.Random(system.seed) if shuffled else None, check_caches="caches" in system.check,
        )  # fmt: skip
        self.gpu.injected_fault = self.injected_fault

    def injected_fault(self, name: str) -> bool:
        return self.system.rules.hit("fault", lambda: (name,)) is not None

    # contexts

    def contexts(self) -> Iterator[KgslContext]:
        for file in self.files:
            yield from file.contexts.values()

    def context_by_number(self, number: int) -> KgslContext | None:
        return next((context for context in self.contexts() if context.id == number), None)

    def context_number(self) -> int:
        """A free context id; they count on before they are used again. Raises OSError ENOSPC."""
        limit = self.memstore.nbytes // ctypes.sizeof(kgsl_devmemstore)
        used = {context.id for context in self.contexts()}
        for step in range(limit):
            number = (self._last_number + step) % (limit - 1) + 1
            if number not in used:
                self._last_number = number
                return number
        refuse(errno_codes.ENOSPC, f"the device has {limit - 1} contexts already")

    def switch_to(self, context: KgslContext) -> bool:
        """The GPU starts work of `context`; True when it did another one's before."""
        switched = self._current is not context
        self._current = context
        return switched

    def forget(self, context: KgslContext) -> None:
        """It was destroyed."""
        if self._current is context:
            self._current = None
        self.release_constraint(context)

    # power

    def apply_constraint(self, context: KgslContext) -> None:
        """A submission that carries its context's constraint runs."""
        if context.constraint is not None and self._constrained is not context:
            self._constrained = context
            self.show_clock(MAX_LEVEL if context.constraint else MIN_LEVEL)

    def release_constraint(self, context: KgslContext) -> None:
        if self._constrained is context:
            self._constrained = None
            self.show_clock(MIN_LEVEL)

    def show_clock(self, level: int) -> None:
        self.system.files[f"{SYSFS}/gpuclk"] = gpu_clock(level)

    # fences

    def hand_over_fd(self, fence: Fence, fd: int, address: int) -> None:
        """Store a new descriptor in the caller's record, or close it. Raises OSError EFAULT."""
        try:
            self.user.write(address, kgsl_timestamp_event_fence(fd))
        except OSError:
            os.close(fd)
            self.fences.forget_closed()
            raise

    # what the machine asks

    def nodes(self) -> dict[str, tuple[int, int | None]]:
        return {KGSL_NODE: (NODE_MODE, None)}

    def texts(self) -> dict[str, str]:
        return driver_texts(self.options)

    def open(self, path: str) -> EmulatedFile | None:
        if path != KGSL_NODE:
            return None
        file = KgslFile(self, path)
        self.files.append(file)
        return file

    @property
    def busy(self) -> bool:
        """Whether any context has something queued."""
        return any(context.pending for context in self.gpu.contexts)

    def run(self) -> bool:
        moved = self.gpu.run()
        if not moved and not self.gpu.stalled:
            now = self.system.clock_ns()
            for context in list(self.contexts()):
                context.watch(now)
        return moved

    def live(self) -> Iterator[LiveObject]:
        for file in self.files:
            yield from file.memory.live()
            for context in file.contexts.values():
                yield LiveObject("context", f"{context.id} flags {context.flags:#x}", context.where)
        yield from self.timelines.live()
        yield from self.fences.live()

    def stats(self) -> dict[str, int]:
        return dict(self.gpu.stats)

    def stall(self, stalled: bool) -> None:
        self.gpu.stalled = stalled
        with self.system.lock:
            for context in self.contexts():
                context.restart_watch()

    def close(self) -> None:
        for file in list(self.files):
            file.released()
        self.fences.close()
        memstore = self.memstore.memory
        for memory in (self.dram, self.cpu_caches, self.shadows, memstore):
            if memory is not None:
                memory.close()
