"""Profiling records of a submission: wall clock and counter values that the driver stores in a memory object."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom.kgsl_structs import kgsl_cmdbatch_profiling_buffer
from hcqrt.emu.qcom.kgsl.memory import GpuObject

if TYPE_CHECKING:
    from hcqrt.emu.qcom.driver import QcomDriver
    from hcqrt.emu.qcom.kgsl.node import KgslFile

NS_PER_S = 1_000_000_000


@dataclass
class Profile:
    """Where the 40 bytes go. The object is looked at again each time: it may be gone by then."""

    driver: QcomDriver
    file: KgslFile
    item: GpuObject
    offset: int

    def _record(self) -> Any:
        """The record in DRAM, or None when the object was freed."""
        if self.item.id not in self.file.memory.objects:
            return None
        return kgsl_cmdbatch_profiling_buffer.from_address(self.item.views.dram.host_ptr + self.offset)

    def _ticks(self) -> int:
        return self.driver.gpu.ticks(self.driver.system.clock_ns())

    def queued(self) -> None:
        record = self._record()
        now = time.time_ns()
        record.wall_clock_s, record.wall_clock_ns = divmod(now, NS_PER_S)
        record.gpu_ticks_queued = self._ticks()

    def submitted(self) -> None:
        record = self._record()
        if record is not None:
            record.gpu_ticks_submitted = self._ticks()

    def retired(self) -> None:
        record = self._record()
        if record is not None:
            record.gpu_ticks_retired = self._ticks()


def find_profile(file: KgslFile, entry: Any) -> Profile | None:
    """The record that an object-list entry names; one that does not fit its object is ignored, as the kernel does."""
    nbytes = ctypes.sizeof(kgsl_cmdbatch_profiling_buffer)
    item = file.memory.objects.get(entry.id) if entry.id else file.memory.at(entry.gpuaddr)
    if item is None:
        file.driver.log.append(f"profiling object {entry.id} at {entry.gpuaddr:#x} does not exist: ignored")
        return None
    start = item.va + entry.offset if entry.id else entry.gpuaddr
    if not item.covers(entry.gpuaddr, entry.size) or not item.covers(start, nbytes):
        file.driver.log.append(f"profiling record at {start:#x} leaves object {item.id}: ignored")
        return None
    return Profile(file.driver, file, item, start - item.va)
