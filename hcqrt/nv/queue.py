"""NVIDIA command queues: host semaphores, compute launches through QMDs, copy engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import clc7b5 as ce
from hcqrt.autogen.nv import clc7c0 as compute
from hcqrt.autogen.nv import clc56f as host
from hcqrt.core.buffer import HCQBuffer
from hcqrt.core.patch import MemoryPatch
from hcqrt.core.program import HCQArgsState, Size
from hcqrt.core.queue import HWQueue
from hcqrt.core.sints import Sint, as_sint, hi_lo, is_symbolic, lo_hi
from hcqrt.errors import HCQError, LaunchError
from hcqrt.nv.methods import ACQUIRE_GEQ, COMPUTE, COPY, HOST, RELEASE_TIMESTAMP, header

if TYPE_CHECKING:
    from typing_extensions import Self

    from hcqrt.core.device import HCQDevice
    from hcqrt.core.signal import HCQSignal
    from hcqrt.nv.gpfifo import GpFifo
    from hcqrt.nv.qmd import QmdTemplate

SEMAPHORE = header(HOST, host.NVC56F_SEM_ADDR_LO, 5)
# NVC7C0_INVALIDATE_SHADER_CACHES_NO_WFI: instruction 0, global data 4, constant 12
INVALIDATE_ALL = 0x1011
# NVC7C0_INVALIDATE_SHADER_CACHES, which waits for the engine: instruction 0, flush data 2, data 4, constant 12
WAIT_AND_INVALIDATE_ALL = 0x1015
SEND_PCAS = header(COMPUTE, compute.NVC7C0_SEND_PCAS_A, 1)
# NVC7B5_LAUNCH_DMA: NON_PIPELINED 2, FLUSH_ENABLE bit 2, SRC and DST PITCH bits 7 and 8, MULTI_LINE bit 9, REMAP bit 10
COPY_LINEAR, COPY_MULTI_LINE, COPY_REMAP = 0x186, 0x200, 0x400
COPY_BYTES_MAX = 1 << 31  # LINE_LENGTH_IN has 32 bits; a power of two keeps every piece aligned
# NVC7B5_SET_REMAP_COMPONENTS: X takes constant B; component size 1 or 4 bytes at 17:16
REMAP_FILL = {1: 0x0000_0005, 4: 0x0003_0005}


class NVQueue(HWQueue):
    """What compute and copy queues share: methods and host semaphores."""

    dev: Any

    def method(self, subchannel: int, offset: int, *data: Any) -> Self:
        """Words to consecutive methods from byte `offset`."""
        return self.q(header(subchannel, offset, len(data)), *data)

    def wait(self, signal: HCQSignal, value: Sint) -> Self:
        self.dev.check_signal(signal)
        return self.q(SEMAPHORE, *lo_hi(signal.value_va), *lo_hi(as_sint(value)), ACQUIRE_GEQ)

    def signal(self, signal: HCQSignal, value: Sint) -> Self:
        self.dev.check_signal(signal)
        return self.q(SEMAPHORE, *lo_hi(signal.value_va), *lo_hi(as_sint(value)), RELEASE_TIMESTAMP)

    def timestamp(self, signal: HCQSignal) -> Self:
        return self.signal(signal, 0)


class NVComputeQueue(NVQueue):
    """Kernel launches. Those that follow each other directly are chained: each QMD starts the next one."""

    def __init__(self, dev: HCQDevice) -> None:
        super().__init__(dev)
        self._active: tuple[QmdTemplate, memoryview, int] | None = None  # last QMD, when nothing came after it
        self._releases = 0  # release slots of the active QMD in use
        self._running = False  # a launch of this queue may still run at this point

    def _channel(self, dev: Any) -> GpFifo:
        fifo: GpFifo = dev.compute_fifo
        return fifo

    def setup(self, *, shared_window_va: int, local_window_va: int) -> Self:
        """Once per channel: the class, and the windows, which must be set even when unused (nv-engine facts 3)."""
        self.method(COMPUTE, compute.NVC7C0_SET_OBJECT, self.dev.compute_class)
        self.method(COMPUTE, compute.NVC7C0_SET_SHADER_SHARED_MEMORY_WINDOW_A, *hi_lo(shared_window_va))
        return self.method(COMPUTE, compute.NVC7C0_SET_SHADER_LOCAL_MEMORY_WINDOW_A, *hi_lo(local_window_va))

    def local_memory(self, va: int, bytes_per_tpc: int, max_sm_count: int) -> Self:
        """Where kernels spill. The engine must be idle: nothing before may still run."""
        self.method(COMPUTE, compute.NVC7C0_SET_SHADER_LOCAL_MEMORY_A, *hi_lo(va))
        return self.method(
            COMPUTE,
            compute.NVC7C0_SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
            *hi_lo(bytes_per_tpc),
            max_sm_count,
        )

    def wait(self, signal: HCQSignal, value: Sint) -> Self:
        self._active = None
        return super().wait(signal, value)

    def memory_barrier(self) -> Self:
        self._active = None
        if self._running:
            self._running = False
            return self.method(COMPUTE, compute.NVC7C0_INVALIDATE_SHADER_CACHES, WAIT_AND_INVALIDATE_ALL)
        return self.method(COMPUTE, compute.NVC7C0_INVALIDATE_SHADER_CACHES_NO_WFI, INVALIDATE_ALL)

    def signal(self, signal: HCQSignal, value: Sint) -> Self:
        """Through a release slot of the QMD when a launch came last, else by the host after the engine is idle."""
        active, slot = self._active, self._releases
        if active is None or slot == active[0].release_count or self._in_flight:  # a QMD in flight is the GPU's
            self._active, self._running = None, False
            return super().signal(signal, value)
        self.dev.check_signal(signal)
        self.dev.check_usable()  # a closed device has no memory to write the release to
        template, mv, start = active
        if is_symbolic(signal.value_va):
            raise ValueError("a signal's address cannot be a symbol")
        # the payload first: it refuses what is too wide
        self._patch(MemoryPatch(mv, start + template.payload_offset(slot), "Q", as_sint(value), None))
        template.store_release(mv, start, slot, signal.value_va)
        self._releases += 1
        return self

    def _exec(self, prg: Any, args_state: HCQArgsState, groups: Size, local: Size, dynamic_shared: int) -> None:
        try:
            template = prg.templates[groups, local, dynamic_shared]
        except KeyError:
            template = prg.template(groups, local, dynamic_shared)
        if prg.uploaded is not None:
            self._await_code(prg)
        if args_state.used:  # the slot's QMD and dimensions belong to an earlier launch with the same arguments
            with self.dev.lock:
                args_state = args_state.copy_of(self.dev.kernargs, prg.slot_bytes)
        args_state.used = True
        self.bind_args_state(args_state)
        mv, bank0, start = args_state.mv, args_state.offset, args_state.offset + prg.qmd_offset
        va = args_state.va + prg.qmd_offset
        mv[bank0 : bank0 + prg.param_base] = template.bank0_prefix
        mv[start : start + template.nbytes] = template.data
        template.store_bank0(mv, start, args_state.va)
        if template.symbols:
            self._patch_symbols(template, mv, bank0, start)
        if self._active is not None and not self._in_flight:
            previous, previous_mv, previous_start = self._active
            previous.store_dependent(previous_mv, previous_start, va)
        else:
            if self._running:
                self.method(COMPUTE, compute.NVC7C0_WAIT_FOR_IDLE, 0)
            self.launch(va)
        self._active, self._releases, self._running = (template, mv, start), 0, True

    def _await_code(self, prg: Any) -> None:
        """The copy engine may still be writing the code: hold the launch back until it has."""
        timeline = self.dev.timeline_signal
        if timeline.reached(prg.uploaded):
            prg.uploaded = None
        else:
            self.wait(timeline, prg.uploaded)

    def _patch_symbols(self, template: QmdTemplate, mv: memoryview, bank0: int, qmd: int) -> None:
        for base, symbols in ((qmd, template.symbols), (bank0, template.bank0_symbols)):
            for offset, fmt, value in symbols:
                self._patch(MemoryPatch(mv, base + offset, fmt, value, None))

    def launch(self, qmd_va: Any) -> Self:
        """Start the QMD at `qmd_va`, 256-byte aligned and below 2**40."""
        return self.q(SEND_PCAS, qmd_va >> 8, self.dev.schedule_word)


class NVCopyQueue(NVQueue):
    """Copies and fills on a copy engine of its own, so that they overlap kernels."""

    def _channel(self, dev: Any) -> GpFifo:
        fifo: GpFifo = dev.copy_fifo
        return fifo

    def setup(self) -> Self:
        return self.method(COPY, host.NVC56F_SET_OBJECT, self.dev.copy_class)

    def copy(self, dest: Any, src: Any, nbytes: Sint) -> Self:
        """Copy `nbytes`, in pieces the engine can take; a symbolic size must be below 2**32."""
        total = as_sint(nbytes)
        dest_va, src_va = self._place(dest, total), self._place(src, total)
        if is_symbolic(total):
            return self._copy_piece(dest_va, src_va, total)
        for done in range(0, total, COPY_BYTES_MAX):
            self._copy_piece(dest_va + done, src_va + done, min(COPY_BYTES_MAX, total - done))
        return self

    def _copy_piece(self, dest_va: Sint, src_va: Sint, nbytes: Any) -> Self:
        self.method(COPY, ce.NVC7B5_OFFSET_IN_UPPER, *hi_lo(src_va), *hi_lo(dest_va))
        self.method(COPY, ce.NVC7B5_LINE_LENGTH_IN, nbytes)
        return self.method(COPY, ce.NVC7B5_LAUNCH_DMA, COPY_LINEAR)

    def copy_2d(self, dest: Any, src: Any, row_bytes: Sint, rows: Sint, dest_pitch: Sint, src_pitch: Sint) -> Self:
        """Copy `rows` rows of `row_bytes`, which start `dest_pitch` and `src_pitch` bytes apart."""
        width, count = as_sint(row_bytes), as_sint(rows)
        places = []
        for place, pitch in ((src, as_sint(src_pitch)), (dest, as_sint(dest_pitch))):
            if not is_symbolic(pitch) and not is_symbolic(width) and pitch < width:
                raise ValueError(f"rows of {width} bytes overlap at a pitch of {pitch}")
            known = not any(map(is_symbolic, (pitch, width, count)))
            if known and (width < 0 or count < 1):
                raise ValueError(f"{count} rows of {width} bytes: there must be one row at least")
            places.append(self._place(place, (count - 1) * pitch + width if known else width))
        self.method(COPY, ce.NVC7B5_OFFSET_IN_UPPER, *hi_lo(places[0]), *hi_lo(places[1]))
        self.method(COPY, ce.NVC7B5_PITCH_IN, as_sint(src_pitch), as_sint(dest_pitch), width, count)
        return self.method(COPY, ce.NVC7B5_LAUNCH_DMA, COPY_LINEAR | COPY_MULTI_LINE)

    def fill(self, dest: Any, nbytes: Sint, byte: int) -> Self:
        """Set `nbytes` bytes to `byte`, four at a time where address and size allow."""
        if not 0 <= byte <= 0xFF:
            raise ValueError(f"fill value {byte} is not a byte")
        size = as_sint(nbytes)
        va = self._place(dest, size)
        wide = isinstance(va, int) and isinstance(size, int) and va % 4 == size % 4 == 0
        unit = 4 if wide else 1
        self.method(COPY, ce.NVC7B5_SET_REMAP_CONST_B, byte * 0x0101_0101 if wide else byte, REMAP_FILL[unit])
        pieces = range(0, size, COPY_BYTES_MAX) if isinstance(size, int) else (0,)
        for done in pieces:
            piece = min(COPY_BYTES_MAX, size - done) // unit if isinstance(size, int) else size
            self.method(COPY, ce.NVC7B5_OFFSET_OUT_UPPER, *hi_lo(va + done))
            self.method(COPY, ce.NVC7B5_LINE_LENGTH_IN, piece)
            self.method(COPY, ce.NVC7B5_LAUNCH_DMA, COPY_LINEAR | COPY_REMAP)
        return self

    def _place(self, place: Any, nbytes: Any) -> Any:
        """The GPU address of `nbytes` at the start of a buffer, or the address given."""
        if not is_symbolic(nbytes) and nbytes < 0:
            raise ValueError(f"{nbytes} bytes to copy or fill")
        if not isinstance(place, HCQBuffer):
            return as_sint(place)
        if place.dev is None and not is_symbolic(place.va_addr):
            raise HCQError(f"{place!r} was closed; allocate another")
        if place.dev is not None and place.dev is not self.dev:
            raise LaunchError(f"{place!r} is of {place.dev.name}, the queue is of {self.dev.name}")
        if not is_symbolic(nbytes) and not is_symbolic(place.size) and nbytes > place.size:
            raise ValueError(f"{nbytes} bytes at {place!r} leave the buffer")
        return place.va_addr
