"""QCOMDevice: one Adreno GPU through KGSL: context, channel, memory, private memory, imports and faults."""

from __future__ import annotations

import operator
from contextlib import ExitStack, suppress
from decimal import Decimal
from typing import Any

from hcqrt.autogen.qcom import kgsl_consts as consts
from hcqrt.bits import U32_MAX
from hcqrt.config import Config
from hcqrt.core.alloc import FencedRing
from hcqrt.core.buffer import HCQBuffer
from hcqrt.core.device import HCQDevice, MemoryKind
from hcqrt.core.hostcopy import HostCopies
from hcqrt.core.interop import byte_view
from hcqrt.core.program import HCQProgram
from hcqrt.core.signal import HCQSignal
from hcqrt.core.sints import Sint
from hcqrt.errors import DriverError, HCQError
from hcqrt.fileio import System
from hcqrt.qcom.arch import chip_for
from hcqrt.qcom.channel import QCOMChannel
from hcqrt.qcom.discover import identify, machine_bytes, open_visible
from hcqrt.qcom.faults import FaultWatch
from hcqrt.qcom.image import layout_for
from hcqrt.qcom.imports import HostImport, Import, ImportTable, import_dmabuf
from hcqrt.qcom.kgsl import NODE
from hcqrt.qcom.memory import CODE, PLAIN, SHARED, KgslAllocation
from hcqrt.qcom.program import QCOMProgram
from hcqrt.qcom.queue import QCOMComputeQueue

KERNARGS_BYTES, KERNARGS_SEGMENTS = 4 << 20, 16
PRIORITY = 8  # of 1 (highest) to 15: what the driver picks by itself
LEAST_FLAGS = consts.KGSL_CONTEXT_PREAMBLE | consts.KGSL_CONTEXT_NO_GMEM_ALLOC  # without these no context is made
CONTEXT_FLAGS = (
    LEAST_FLAGS
    | consts.KGSL_CONTEXT_PER_CONTEXT_TS
    # With it the driver ends no command that takes longer than 2 s, be it a long kernel or a wait for the host: our own
    # waits have deadlines. The price: the first fault is final, but then the driver says where it was.
    | consts.KGSL_CONTEXT_NO_FAULT_TOLERANCE
    | consts.KGSL_CONTEXT_PWR_CONSTRAINT
    | consts.KGSL_CONTEXT_FAULT_INFO
    | consts.KGSL_CONTEXT_TYPE_CL << consts.KGSL_CONTEXT_TYPE_SHIFT
    | PRIORITY << consts.KGSL_CONTEXT_PRIORITY_SHIFT
)
DRIVER_WAIT_MS = 5  # of one sleep in the driver: also how late a long wait may see Ctrl-C
BORDER_COLORS, BORDER_COLOR_BYTES = 32, 128  # one for each sampler that a shader may have
HW_STACK_BYTES = 64 << 10  # calls and branches spill behind the private memory; no source says how far
EDGE_BYTES = 2048  # where bytes of shared cache lines land
TICKS_PER_US = Decimal("19.2")  # CP_ALWAYS_ON_COUNTER


class QCOMDevice(HCQDevice):
    """One Adreno GPU. There is one context, whose work runs in the order of its submission."""

    signal_bits = 32
    has_images = True
    kernel_log = "kgsl"

    def __init__(self, name: str, system: System, config: Config, index: int) -> None:
        super().__init__(name, system, config)
        with ExitStack() as undo:
            self._open_driver(undo, index)
            self._undo = undo.pop_all()
        self._start(self._start_queues)

    # bring-up

    def _open_driver(self, undo: ExitStack, index: int) -> None:
        kgsl = self.kgsl = open_visible(self.system, self.config, self.name, index)
        undo.callback(kgsl.close)
        who = identify(kgsl)
        self.model, self.driver = who.model, who.driver
        self.chip = chip_for(who.chip_id)  # before anything of the driver's is held
        self.arch = self.chip.name
        self.place = f"{who.model}, {NODE}"
        self._context: int | None
        self._context, self.context_flags = kgsl.create_context(CONTEXT_FLAGS, LEAST_FLAGS)
        undo.callback(self._destroy_context)
        self._constrain_power(undo, self._context)

    def _constrain_power(self, undo: ExitStack, context: int) -> None:
        """Ask for full clocks while we work. A driver that refuses runs kernels all the same."""

        def constrain(level: int | None) -> None:
            with suppress(DriverError):
                self.kgsl.constrain_power(context, level)

        constrain(consts.KGSL_CONSTRAINT_PWR_MAX)
        undo.callback(constrain, None)

    def _destroy_context(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            with suppress(DriverError):  # one that the driver gave up may be gone already; the file ends the rest
                self.kgsl.destroy_context(context)

    def _start_queues(self) -> None:
        assert self._context is not None
        self._scratch: list[KgslAllocation] = []
        self.imports = ImportTable(self)
        self.watch = FaultWatch(self)
        self.channel = QCOMChannel(
            self,
            self._context,
            progress=self._wide_signal("progress"),
            cmd_bytes=self.config.cmd_bytes,
            entries=self.config.ring_entries,
        )
        self.timeline_signal = self._wide_signal("timeline")
        ring = lambda: self.take_memory(KERNARGS_BYTES, SHARED)  # noqa: E731  # a callback
        self.kernargs = FencedRing(ring, KERNARGS_SEGMENTS, self.channel.wait_progress)
        border_bytes = BORDER_COLORS * BORDER_COLOR_BYTES
        zeros: KgslAllocation = self.take_memory(border_bytes + BORDER_COLOR_BYTES, SHARED)
        zeros.host()[: border_bytes + BORDER_COLOR_BYTES] = bytes(border_bytes + BORDER_COLOR_BYTES)
        self.border_color_va = zeros.va  # transparent black, all of them
        self.flush_va = zeros.va + border_bytes  # what cache events store there, nobody reads
        self.edge_memory: KgslAllocation = self.take_memory(EDGE_BYTES, SHARED)
        self.staging = HostCopies(self)
        QCOMComputeQueue(self).setup().submit(self)

    def _wide_signal(self, name: str) -> HCQSignal:
        """A signal whose upper half the host keeps; see `upcoming` and `QCOMChannel`."""
        signal = self._signals.new(self, name=name)
        signal.bits = 64
        return signal

    # the timeline

    def upcoming(self) -> int:
        """As the base class. Where the GPU's 32 bits start over, it waits for all work and skips that value."""
        value = self.timeline_value
        if value & U32_MAX == 0:
            with self.lock:
                self.timeline_signal.wait(value - 1)
                self.check_health()
                self.timeline_signal.value = value
                value = self.timeline_value = value + 1
        return value

    def low_word(self, signal: HCQSignal, value: Sint) -> Any:
        """What the GPU stores and compares of a signal's value: the low half of the timeline, others whole."""
        self.check_signal(signal)
        known: Any = value
        return known & U32_MAX if signal.bits == 64 else known

    def synchronize(self, timeout_ms: int | None = None) -> None:
        """As the base class; what was submitted by hand counts too while there are imports that need it."""
        super().synchronize(timeout_ms)
        if self.imports.away:
            with self.lock:
                self.imports.take_back()
            self.check_health()

    def fence_fd(self) -> int:
        """A sync file that becomes readable when all that was submitted so far has ended; close it with os.close.

        It says nothing of success: look at `synchronize()` for that.
        """
        with self.lock:
            self.check_usable()
            return self.kgsl.timestamp_event(self.channel.context, self.channel.last_timestamp)

    # queues and programs

    def compute_queue(self) -> QCOMComputeQueue:
        return QCOMComputeQueue(self)

    def copy_queue(self) -> None:
        """There is none: the host copies."""

    def program(self, binary: bytes, name: str | None = None) -> HCQProgram:
        with self.lock:
            self.check_usable()
            return QCOMProgram(self, binary, name)

    def load_code(self, data: bytes) -> KgslAllocation:
        """Place code where the GPU only reads; what is launched from now on sees it."""
        memory: KgslAllocation = self.take_memory(len(data), CODE)
        memory.host()[: len(data)] = data
        memory.after_write(0, len(data))
        return memory

    def scratch_va(self, nbytes: int) -> int:
        """Private memory of at least that size. It stays where it is until the device closes: words name it."""
        with self.lock:
            needed = nbytes + HW_STACK_BYTES
            fitting = next((memory for memory in self._scratch if memory.nbytes >= needed), None)
            if fitting is None:
                fitting = self.take_memory(needed, PLAIN)
                self._scratch.append(fitting)
            return fitting.va

    def ticks_to_us(self, ticks: int) -> Decimal:
        return ticks / TICKS_PER_US

    # memory

    def alloc(
        self,
        nbytes: int = 0,
        *,
        host: bool = False,
        cpu_access: bool = False,
        uncached: bool = False,
        image: tuple[int, int, Any] | None = None,
    ) -> HCQBuffer:
        """As the base class. With `image` = (width, height, format) a 2D image; `nbytes` is 0 or its texels' bytes."""
        if image is None:
            return super().alloc(nbytes, host=host, cpu_access=cpu_access, uncached=uncached)
        layout = layout_for(image)
        tight = layout.row_bytes * layout.height
        if operator.index(nbytes) not in (0, tight):
            raise ValueError(f"{nbytes} bytes asked for an image {image}, whose texels have {tight}")
        with self.lock:
            self.check_usable()
            memory = self.take_memory(layout.nbytes, (host, cpu_access, uncached))
            return HCQBuffer(memory.va, tight, self, memory, image=layout)

    def import_host(self, data: Any) -> HCQBuffer:
        """Let the GPU use host memory in place: any object with the buffer protocol, at any address.

        The host may read and write the memory until something is submitted, and again once `synchronize()`, or a copy
        call of any buffer, has returned: then it sees what kernels wrote, and the next submission sees what the host
        writes. Closing the buffer waits for earlier work and unpins the memory; the object is kept alive until then.

        Bytes outside `data` are never changed, and may be changed by others at any time, with one limit: where the
        driver does not keep caches coherent and `data` starts or ends inside a cache line of 64 bytes, the rest of that
        line must not be written while the GPU works, or what a kernel wrote to that line of `data` may be lost.
        The GPU cannot write to read-only objects: that is a fault.
        """
        with self.lock:
            self.check_usable()
            return self._adopt(HostImport(self.kgsl, byte_view(data)))

    def import_dmabuf(self, fd: int, nbytes: int, *, cpu_access: bool = False) -> HCQBuffer:
        """Let the GPU use the first `nbytes` of a dma-buf in place; the caller may close `fd`.

        Host caches are maintained as for `import_host`. `cpu_access` maps it for the host at once.
        """
        with self.lock:
            self.check_usable()
            return self._adopt(import_dmabuf(self.kgsl, fd, operator.index(nbytes), mapped=cpu_access))

    def _adopt(self, item: Import) -> HCQBuffer:
        self.imports.add(item)
        self.pool.count(None, 0, item)
        return HCQBuffer(item.va, item.nbytes, self, item)

    def free(self, memory: Any) -> None:
        """As the base class. An import's owner may take its memory away right after: that waits."""
        if isinstance(memory, Import) and self.broken is None:
            with self.lock:
                self.imports.take_back()
        super().free(memory)

    def _allocate(self, nbytes: int, kind: MemoryKind) -> KgslAllocation:
        return KgslAllocation(self.kgsl, nbytes, kind)

    def _release(self, memory: Any) -> None:
        if isinstance(memory, Import):
            self.imports.remove(memory)
        memory.close()

    def _signal_page(self) -> KgslAllocation:
        page: KgslAllocation = self.take_memory(self.system.page_size, SHARED)
        return page

    def _total_bytes(self) -> int:
        return machine_bytes(self.system)

    # progress and faults

    def sleep_in_driver(self) -> None:
        self.watch.sleep(DRIVER_WAIT_MS)

    def _marks(self) -> int:
        return self.channel.submitted

    def _retired(self, marks: int) -> bool:
        return self.channel.retired >= marks

    def _wait_marks(self, marks: int) -> None:
        self.channel.wait_progress(marks)

    def _poll_fault(self) -> HCQError | None:
        return self.watch.poll()

    def close(self) -> None:
        """As the base class; imports that the GPU wrote to show it to the host first."""
        if self._opened and self.broken is None and not (self.closed or self.timed_out) and self.imports.away:
            with self.lock, suppress(HCQError):
                self.imports.take_back()
        super().close()

    def _stop_work(self) -> None:
        """Destroying the context takes its work off the GPU."""
        self._destroy_context()

    def _close_driver(self) -> None:
        self._undo.close()
