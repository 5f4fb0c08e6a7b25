"""/dev/kgsl-3d0: an open file is a process of the driver, with its own GPU addresses, objects and contexts."""

from __future__ import annotations

import errno as errno_codes
import mmap as mmap_flags
from typing import TYPE_CHECKING

from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.emu.files import EmulatedFile, os_error
from hcqrt.emu.qcom.kgsl import (  # noqa: F401  # each registers the ioctls that it answers
    context_calls,
    fault_report,
    imports,
    memory_calls,
    perfcounters,
    properties,
    submit,
    timelines,
)
from hcqrt.emu.qcom.kgsl.calls import KgslCall, read_call, run_call
from hcqrt.emu.qcom.kgsl.contexts import KgslContext
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.memory import GpuObject, ProcessMemory
from hcqrt.emu.qcom.kgsl.properties import MEMSTORE_COOKIE
from hcqrt.emu.qcom.kgsl.ranges import SVM
from hcqrt.emu.trace import Call, Record
from hcqrt.fileio import MAP_FIXED_NOREPLACE, MAP_NORESERVE, PROT_NONE
from hcqrt.mmio import MMIOInterface

if TYPE_CHECKING:
    from hcqrt.emu.qcom.driver import QcomDriver

KGSL_NODE = "/dev/kgsl-3d0"
GREETING = b"emulated kgsl\n\0"
# Calls that have done their work when they report one of these
COMMAND, WAIT = k.GPU_COMMAND.request & 0xFF, k.DEVICE_WAITTIMESTAMP_CTXTID.request & 0xFF
SVM_STEP = 1 << 20  # how far the search for common addresses goes past one that is taken on the CPU


def nothing(token: int) -> None:
    return None


class KgslFile(EmulatedFile):
    """One open of the node."""

    def __init__(self, driver: QcomDriver, path: str) -> None:
        super().__init__(driver.system, path)
        self.driver = driver
        self.memory = ProcessMemory(driver)
        self.contexts: dict[int, KgslContext] = {}
        self.counters = 0  # performance counters taken

    def context(self, number: int, what: str) -> KgslContext:
        """A context of this file. Raises OSError EINVAL."""
        found = self.contexts.get(number)
        if found is None:
            refuse(errno_codes.EINVAL, f"{what}: no context {number} in this process")
        return found

    def read(self, nbytes: int) -> bytes:
        """read(2) of the node: a greeting, which shows that the driver answers."""
        self._usable()
        return GREETING[:nbytes]

    # ioctl

    def describe(self, request: int, argument: int) -> Call:
        return read_call(self.driver.user, request, argument)

    def command(self, call: Call, argument: int) -> int | None:
        assert isinstance(call, KgslCall), "made by describe"
        try:
            run_call(self, call, argument)
        except OSError as error:
            self.driver.last_refusal = f"{call.name} {call.inner_name}: {error.strerror}"
            raise os_error(error.errno or errno_codes.EIO, f"{call.name}: {error.strerror}") from error
        return None

    def refuse_with(self, call: Call, argument: int, status: int) -> None:
        raise os_error(errno_codes.EINVAL, f"injected: {call.name} reports no status; give an errno")

    def let_gpus_run(self) -> None:
        """With threads the GPU goes on beside the caller; else here, before the call returns."""
        worker = self.system.worker
        if worker is not None:
            worker.ring(nothing, 0)
        elif self.driver.busy or len(self.system.drivers) > 1:
            self.system.pump()

    def _issue(self, call: Call, argument: int, record: Record) -> None:
        assert isinstance(call, KgslCall), "made by describe"
        try:
            super()._issue(call, argument, record)
        except OSError as error:
            if error.strerror is not None and error.strerror.startswith("injected"):
                self.complete_injection(call, argument, error.errno)
            self.let_gpus_run()  # a refused call does not stop the GPU, and EPROTO comes with work queued
            raise

    def complete_injection(self, call: KgslCall, argument: int, number: int | None) -> None:
        """An injected EPROTO or EDEADLK comes with what it means: the work was done, or the context is lost."""
        if number == errno_codes.EPROTO and call.nr in (COMMAND, WAIT):
            run_call(self, self.without_results(call), argument)
        elif number == errno_codes.EDEADLK and call.struct is not None and call.raw is not None:
            wanted = call.struct.from_buffer_copy(call.raw)
            context = self.contexts.get(getattr(wanted, "context_id", 0))
            if context is not None:
                context.invalidate("injected")

    @staticmethod
    def without_results(call: KgslCall) -> KgslCall:
        """The same call, of which nothing is copied back: its request says that the kernel only reads."""
        return KgslCall(call.name, call.request & ~(2 << 30), call.struct, nr=call.nr, raw=call.raw)

    # mmap

    def mmap(self, length: int, offset: int = 0, *, address: int | None = None, writable: bool = True) -> MMIOInterface:
        """An object that shares its address with the CPU is mapped where both have room."""
        self.system.after_fork()
        with self.system.lock:
            item = self.memory.objects.get(offset // self.system.page_size)
            if address is not None or item is None or not item.svm or item.va or length != item.footprint:
                return super().mmap(length, offset, address=address, writable=writable)
            self._usable()
            place = self.claim(length)
            try:
                return super().mmap(length, offset, address=place, writable=writable)
            except OSError:
                self.system.libc.munmap(place, length)
                raise

    def claim(self, nbytes: int) -> int:
        """Addresses that are free both on the CPU and on the GPU. Raises OSError ENOMEM."""
        flags = mmap_flags.MAP_PRIVATE | mmap_flags.MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE
        low, high = SVM
        while low + nbytes <= high:
            address = self.memory.ranges.place(nbytes, self.system.page_size, (low, high), self)
            self.memory.ranges.give_back(address, nbytes)
            try:
                got = self.system.libc.mmap(address, nbytes, PROT_NONE, flags, -1, 0)
            except OSError as error:
                if error.errno != errno_codes.EEXIST:
                    raise
            else:
                if got == address:
                    return address
                self.system.libc.munmap(got, nbytes)  # kernels before 4.17 take the address as a hint
            low = address + SVM_STEP
        raise os_error(errno_codes.ENOMEM, f"no {nbytes} bytes of addresses that CPU and GPU could share")

    def map(self, length: int, offset: int, address: int, *, writable: bool) -> MMIOInterface:
        host = self.system.host
        if offset == MEMSTORE_COOKIE:
            self.check_memstore(length, writable=writable)
            host.map_block(self.driver.memstore, 0, length, address, "device", self.path, writable=False)
            return MMIOInterface(address, length)
        item = self.mapped_object(length, offset)
        if item.svm:
            if item.va:
                raise os_error(errno_codes.EBUSY, f"mmap of object {item.id}: it has its addresses already")
            self.memory.place_svm(item, address)
        host.map_block(item.views.cpu, 0, length, address, "device", self.path, writable=writable)
        return MMIOInterface(address, length)

    def check_memstore(self, length: int, *, writable: bool) -> None:
        if length != self.driver.memstore.nbytes:
            raise os_error(errno_codes.EINVAL, f"mmap of the memstore: {self.driver.memstore.nbytes} bytes exactly")
        if writable:
            raise os_error(errno_codes.EPERM, "mmap of the memstore: it can only be read")

    def mapped_object(self, length: int, offset: int) -> GpuObject:
        """The object that a mmap is for: by its id in pages, else by its GPU address. Raises OSError."""
        item = self.memory.objects.get(offset // self.system.page_size) or self.memory.at(offset)
        if item is None or item.kind == "dma-buf":
            raise os_error(errno_codes.EINVAL, f"mmap at {offset:#x}: no object, or one that cannot be mapped here")
        if item.kind == "user pointer":
            raise os_error(errno_codes.EBUSY, f"mmap of object {item.id}: user memory is mapped where it came from")
        if length != item.footprint and (item.svm or length != item.size):
            raise os_error(errno_codes.ERANGE, f"mmap of object {item.id}: {length} bytes, it has {item.footprint}")
        return item

    def released(self) -> None:
        for context in list(self.contexts.values()):
            context.detach()
        self.contexts.clear()
        self.driver.timelines.close_file(self)
        self.memory.close()
        self.driver.files.remove(self)
