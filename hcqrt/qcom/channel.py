"""Submitting to a KGSL context: one ioctl each, our own progress dword, the kernel's timestamps to sleep by."""

from __future__ import annotations

import ctypes
import errno as errno_codes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as consts
from hcqrt.autogen.qcom import kgsl_structs as structs
from hcqrt.autogen.qcom.kgsl_ioctls import GPU_COMMAND
from hcqrt.bits import U32_MAX, lo32
from hcqrt.core.channel import BoundSegment, RingChannel
from hcqrt.core.signal import HCQSignal
from hcqrt.core.sints import Sint
from hcqrt.errors import SignalTimeout
from hcqrt.ioctl import errno_name, ioctl_error
from hcqrt.qcom import pm4
from hcqrt.qcom.events import RELEASE_WORDS
from hcqrt.qcom.kgsl import NODE

if TYPE_CHECKING:
    from hcqrt.qcom.device import QCOMDevice

IB_WORDS_MAX = 0xFFFFF  # what the driver takes of one indirect buffer
OUTSTANDING_MAX = 48  # the driver's queue of a context has 49 entries where it is smallest; full, it sleeps for 10 s
GPUADDR_OFFSET = structs.kgsl_command_object.gpuaddr.offset  # gpuaddr and size follow each other
OBJECT_BYTES = ctypes.sizeof(structs.kgsl_command_object)
HALF_U32 = 1 << 31
CLAIMS = 64  # more than can be outstanding


class QCOMChannel(RingChannel):
    """The submitting side of one context.

    The GPU stores 32 bits of the progress value; the host keeps the upper half of it in the same slot, and goes on to
    the next one with nothing in flight. A kernel timestamp that has retired is no proof of work done: the driver
    retires those of a context that it gave up, and of work that it dropped. Only our own progress is.
    """

    dev: QCOMDevice
    WORDS_MAX = IB_WORDS_MAX
    PROGRESS_WORDS = RELEASE_WORDS
    PAYLOAD_FROM_END = 1

    def __init__(self, dev: QCOMDevice, context: int, *, progress: HCQSignal, cmd_bytes: int, entries: int) -> None:
        super().__init__(dev, progress=progress, cmd_bytes=cmd_bytes, room=min(entries - 1, OUTSTANDING_MAX))
        self.context = context
        self.begin_words = dev.chip.arch.begin
        self._objects = (structs.kgsl_command_object * 2)()  # nearly always only the first is used
        for item in self._objects:
            item.flags = consts.KGSL_CMDLIST_IB
        self._command = structs.kgsl_gpu_command(
            cmdlist=ctypes.addressof(self._objects),
            cmdsize=OBJECT_BYTES,
            numcmds=1,
            context_id=context,
        )
        self._bytes = memoryview((ctypes.c_char * (2 * OBJECT_BYTES)).from_buffer(self._objects)).cast("B")
        self._place: Callable[..., None] = struct.Struct("<2Q").pack_into
        self._argument = ctypes.addressof(self._command)
        self._ioctl: Callable[[int, int], int] = dev.kgsl.fd.ioctl
        self._imports = dev.imports
        self._claimed = [1] * CLAIMS  # by progress value: the device's `timeline_value` when it was submitted

    # words

    def progress_words(self, progress: Sint) -> list[Any]:
        value: Any = progress
        return self.dev.chip.arch.events.release(self.progress.value_va, value & U32_MAX)

    def progress_packer(self) -> Callable[[memoryview, int, int], None]:
        pack = struct.Struct("<I").pack_into

        def store(mv: memoryview, offset: int, progress: int) -> None:
            pack(mv, offset, progress & U32_MAX)

        return store

    def command_words(self, word: int) -> int:
        return pm4.packet_words(word)

    def check_place(self, va: int, nwords: int) -> None:
        if va % 4 or not 1 <= nwords <= IB_WORDS_MAX:
            raise ValueError(f"{nwords} command words at {va:#x}: 1 to {IB_WORDS_MAX}, at a multiple of 4")

    # submitting

    def _make_room(self) -> None:
        super()._make_room()
        if lo32(self.submitted) == U32_MAX:
            self._start_over()
        self._full_at = min(self._full_at, self.submitted | U32_MAX)

    def _start_over(self) -> None:
        """Go to the next upper half, whose low one is 0, with nothing in flight that could mistake one for another."""
        self.wait_progress(self.submitted)
        self.submitted = (self.submitted | U32_MAX) + 1
        self.progress.value = self.submitted
        self._full_at = self.submitted + self._room

    def submit_bound_again(self, bound: BoundSegment, last: int) -> int:
        """As the base class, but always one submission, of two buffers where the bound words store an old progress.

        The driver retires each submission: one that stores no progress would look like work that was dropped.
        """
        if self.retired >= last or not bound.body_words:
            return super().submit_bound_again(bound, last)
        va, nwords = self._fill_piece(())
        self._place(self._bytes, OBJECT_BYTES + GPUADDR_OFFSET, va, 4 * nwords)
        self._command.numcmds = 2
        try:
            self._kick(bound.va, bound.body_words)
        finally:
            self._command.numcmds = 1
        return self.submitted

    def _kick(self, va: int, nwords: int) -> None:
        """Order: words, cleaned imports, fence, ioctl."""
        self._place(self._bytes, GPUADDR_OFFSET, va, 4 * nwords)
        if self._imports.here:
            self._imports.hand_over()
        progress, before = self.submitted + 1, self._command.timestamp
        self._claimed[progress % CLAIMS] = self.dev.timeline_value
        self._fence()
        try:
            self._ioctl(GPU_COMMAND.request, self._argument)
            self.submitted = progress
        except OSError as error:
            self._refused(error, progress)
        except KeyboardInterrupt:  # a new timestamp says that the driver has taken it
            if self._command.timestamp != before:
                self.submitted = progress
            raise

    def _refused(self, error: OSError, progress: int) -> None:
        """Try again while the driver's queue is full; raise for everything else, with what was accepted counted."""
        system, dev = self.dev.system, self.dev
        start = progress_at = system.clock_ns()
        last, spins = self.progress.value, 0
        while error.errno in (errno_codes.EINTR, errno_codes.EAGAIN, errno_codes.ETIMEDOUT):
            dev.check_health()
            system.back_off(spins)
            spins += 1
            now_ns, value = system.clock_ns(), self.progress.value
            if value != last:
                last, progress_at = value, now_ns
            elif now_ns - progress_at > dev.wait_timeout_ms * 1_000_000:
                dev.timed_out = True
                raise SignalTimeout(
                    f"{dev.name}: the driver takes no more work [{errno_name(error.errno)}], waited "
                    f"{(now_ns - start) / 1e9:.1f} s with {self.submitted - value} submissions in flight; last launch: "
                    f"{dev.last_launch}. See the kernel log ({dev.kernel_log}), or raise HCQRT_WAIT_TIMEOUT_MS"
                ) from error
            before = self._command.timestamp
            try:
                self._ioctl(GPU_COMMAND.request, self._argument)
                self.submitted = progress
                return
            except OSError as again:
                error = again
            except KeyboardInterrupt:
                if self._command.timestamp != before:
                    self.submitted = progress
                raise
        if error.errno == errno_codes.EPROTO:  # taken all the same, but the answer with its timestamp was not copied
            self._command.timestamp = dev.kgsl.read_timestamp(self.context, consts.KGSL_TIMESTAMP_QUEUED)
            self.submitted = progress
        raise dev.watch.refused(ioctl_error(GPU_COMMAND.name, NODE, error, f"context {self.context}")) from error

    # the kernel's timestamps

    @property
    def last_timestamp(self) -> int:
        """Of the last submission; 0 when there was none."""
        return int(self._command.timestamp)

    def timestamp_of(self, progress: int) -> int:
        """The driver counts submissions too, one by one, from a start of its own."""
        return lo32(self.last_timestamp - (self.submitted - progress))

    def retired_by_kernel(self) -> int:
        """The progress value up to which the driver says that work has ended, done or not."""
        if not self.submitted:
            return 0
        retired = self.dev.kgsl.read_timestamp(self.context, consts.KGSL_TIMESTAMP_RETIRED)
        behind = lo32(self.last_timestamp - retired)
        return self.submitted - (behind if behind < HALF_U32 else 0)

    def skip_to(self, progress: int) -> None:
        """Store what dropped work up to `progress` would have stored: its progress and its value of the timeline.

        No more than what the submission behind it waits for: that may run, and its own value is yet to come.
        """
        if self.progress.value < progress:
            self.progress.value = progress
        following = progress < self.submitted
        reached = self._claimed[(progress + following) % CLAIMS] - 1 - following
        timeline = self.dev.timeline_signal
        if timeline.value < reached:
            timeline.value = reached
