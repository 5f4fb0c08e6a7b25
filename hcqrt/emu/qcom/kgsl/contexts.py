"""A KGSL context: its timestamps, what waits for them, and how it recovers from faults or is invalidated."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom.kgsl_structs import kgsl_devmemstore
from hcqrt.emu.qcom.gpu import GpuContext, Submission
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.trouble import HANG, PAGE_FAULT, GpuFault
from hcqrt.emu.where import caller

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

U32 = 0xFFFFFFFF
NS_PER_MS = 1_000_000
PERMISSION_REASONS = ("RO", "ATOMIC")  # the address is mapped, but not for this
WRITES = ("write", "atomic")
MAX_FAULTS = 128  # reports that a context keeps


def reached(current: int, timestamp: int) -> bool:
    """Whether `current` is at or past `timestamp`; both wrap at 32 bits."""
    return (current - timestamp) & U32 < 1 << 31


@dataclass(frozen=True)
class PageFault:
    """One entry of GET_FAULT_REPORT."""

    address: int
    kind: int  # KGSL_PAGEFAULT_TYPE_* bits


def page_fault(fault: GpuFault) -> PageFault:
    kind = c.KGSL_PAGEFAULT_TYPE_WRITE if fault.access in WRITES else c.KGSL_PAGEFAULT_TYPE_READ
    denied = fault.reason in PERMISSION_REASONS
    kind |= c.KGSL_PAGEFAULT_TYPE_PERMISSION if denied else c.KGSL_PAGEFAULT_TYPE_TRANSLATION
    return PageFault(fault.address, kind)


class KgslContext:
    """One context of an open file."""

    def __init__(self, file: KgslFile, number: int, flags: int, gpu: GpuContext) -> None:
        self.file, self.driver, self.id, self.flags, self.gpu = file, file.driver, number, flags, gpu
        self.assigned = self.consumed = self.retired = 0  # timestamps: handed out, started, finished
        self.invalid = self.detached = False
        self.lost_to = ""  # the fault that invalidated it, in words
        self.faulted = False  # the one-shot mark of EPROTO
        self.reset_status = c.KGSL_CTX_STAT_NO_ERROR
        self.constraint: int | None = None  # power level asked for
        self.faults: deque[PageFault] = deque(maxlen=MAX_FAULTS)
        self.fault_count = self.last_fault_timestamp = 0
        self.where = caller()
        self._fault_times: deque[int] = deque()
        self._parked: Submission | None = None  # the command that the GPU was seen waiting in, and since when
        self._parked_ns = 0
        self._events: list[tuple[int, Callable[[], None]]] = []
        gpu.on_fault = self.on_fault
        self._show()

    @property
    def user_timestamps(self) -> bool:
        return bool(self.flags & c.KGSL_CONTEXT_USER_GENERATED_TS)

    def check_alive(self) -> None:
        """Raises OSError ENOENT or EDEADLK; a strict machine says first if it was words that it does not know."""
        if self.detached:
            refuse(errno_codes.ENOENT, f"context {self.id} was destroyed")
        if self.invalid:
            self.driver.system.raise_late_refusal()
            refuse(errno_codes.EDEADLK, f"context {self.id} was invalidated: {self.lost_to}")

    def take_fault_mark(self) -> None:
        """EPROTO, once after a recovered fault. The call itself has done its work."""
        if self.faulted:
            self.faulted = False
            refuse(errno_codes.EPROTO, f"context {self.id} faulted and was recovered since the last check")

    # timestamps

    def next_timestamp(self, wanted: int) -> int:
        """Hand out the timestamp of a submission. Raises OSError ERANGE for a caller's own that does not increase."""
        if not self.user_timestamps:
            self.assigned = self.assigned + 1 & U32
        elif reached(self.assigned, wanted):
            refuse(errno_codes.ERANGE, f"timestamp {wanted} is not past {self.assigned}")
        else:
            self.assigned = wanted
        return self.assigned

    def started(self, timestamp: int) -> None:
        self.consumed = timestamp
        self._show()

    def finished(self, timestamp: int) -> None:
        self.retired = timestamp
        self._show()
        self._fire()

    def add_event(self, timestamp: int, action: Callable[[], None]) -> None:
        """Run `action` once `timestamp` retires. Raises OSError EINVAL for one that was not handed out yet."""
        if not self.user_timestamps and not reached(self.assigned, timestamp):
            refuse(errno_codes.EINVAL, f"timestamp {timestamp} of context {self.id}: {self.assigned} is the last one")
        if reached(self.retired, timestamp):
            action()
        else:
            self._events.append((timestamp, action))

    def drop_event(self, action: Callable[[], None]) -> None:
        self._events = [event for event in self._events if event[1] is not action]

    def _fire(self, *, everything: bool = False) -> None:
        due = [event for event in self._events if everything or reached(self.retired, event[0])]
        self._events = [event for event in self._events if event not in due]
        for _, action in due:
            action()

    def _show(self) -> None:
        """The context's record in the memory that processes map to poll timestamps."""
        record = kgsl_devmemstore.from_address(
            self.driver.memstore.host_ptr + self.id * ctypes.sizeof(kgsl_devmemstore)
        )  # fmt: skip
        record.soptimestamp, record.eoptimestamp = self.consumed, self.retired

    # faults

    def on_fault(self, fault: GpuFault) -> None:
        """A page fault skips the submission and marks the context; a hang, or too many faults, ends the context."""
        self.fault_count += 1
        self.last_fault_timestamp = fault.timestamp
        self.driver.log.append(f"context {self.id} timestamp {fault.timestamp}: {fault.text}")
        if fault.kind == PAGE_FAULT:
            self.faults.append(page_fault(fault))
        if fault.kind != PAGE_FAULT or not self._recoverable():
            self.invalidate(fault.text)
            return
        self.faulted = True
        self.gpu.resume_after_fault()
        self.finished(fault.timestamp)  # a skipped submission retires

    def watch(self, now_ns: int) -> None:
        """The GPU has stopped: is this context's command waiting for too long? Emulated work itself takes no time."""
        head = self.gpu.pending[0] if self.gpu.pending else None
        if head is None or not head.running:
            self._parked = None
        elif self._parked is not head:
            self._parked, self._parked_ns = head, now_ns
        elif now_ns - self._parked_ns > self.driver.options.ib_timeout_ms * NS_PER_MS and self.tolerant:
            self.driver.gpu.stats["faults"] += 1
            text = f"a command took longer than {self.driver.options.ib_timeout_ms} ms"
            self.on_fault(GpuFault(HANG, text, timestamp=head.timestamp))

    def restart_watch(self) -> None:
        """What the GPU could not do until now is nobody's fault."""
        self._parked = None

    @property
    def tolerant(self) -> bool:
        """With fault tolerance come recovery, and a limit to how long a command may take."""
        return not self.flags & c.KGSL_CONTEXT_NO_FAULT_TOLERANCE

    def _recoverable(self) -> bool:
        if not self.tolerant or self.flags & c.KGSL_CONTEXT_INVALIDATE_ON_FAULT:
            return False
        options, now = self.driver.options, self.driver.system.clock_ns()
        self._fault_times.append(now)
        while now - self._fault_times[0] > options.fault_window_ms * NS_PER_MS:
            self._fault_times.popleft()
        return len(self._fault_times) <= options.fault_burst

    def invalidate(self, why: str) -> None:
        """The context is lost: whatever was handed out counts as retired, although it never ran."""
        self.invalid, self.lost_to = True, why
        self.reset_status = c.KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT
        self._end()

    def detach(self) -> None:
        """DRAWCTXT_DESTROY, or the file was closed."""
        self.detached = True
        self._end()
        self.gpu.close()
        self.driver.forget(self)

    def _end(self) -> None:
        self.gpu.kill()
        self.consumed = self.retired = self.assigned
        self._show()
        self._fire(everything=True)
