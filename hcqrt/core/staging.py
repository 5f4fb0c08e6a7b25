"""Host copies through pinned staging memory: chunks that overlap the GPU's copies, any 64-bit size."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from hcqrt.core.alloc import FencedRing
from hcqrt.core.queue import PackedQueue
from hcqrt.core.signal import MASK64
from hcqrt.core.sints import Variable
from hcqrt.errors import HCQError

if TYPE_CHECKING:
    from hcqrt.core.alloc import Segment
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.core.device import HCQDevice
    from hcqrt.core.queue import Channel, HWQueue

SEGMENTS = 8
STAGING_BYTES = 16 << 20  # each way; a segment is one chunk


class Staging:
    """The copy calls of a device that has a copy channel."""

    def __init__(self, dev: HCQDevice, channel: Channel) -> None:
        self._dev, self._channel = dev, channel
        self._in = self._ring()
        self._out = self._ring()
        self._packed = self._pack()

    def _ring(self) -> FencedRing:
        dev = self._dev
        return FencedRing(
            lambda: dev.take_memory(STAGING_BYTES, (True, True, False)), SEGMENTS, self._channel.wait_progress
        )

    def _queue(self) -> Any:
        queue = self._dev.copy_queue()
        if queue is None:
            raise HCQError(f"{self._dev.name} has no copy queue")
        return queue

    def _pack(self) -> PackedQueue:
        dest, src, nbytes = Variable("dest"), Variable("src"), Variable("nbytes")
        before, value, progress = Variable("before"), Variable("value"), Variable("progress")
        timeline = self._dev.timeline_signal
        queue: HWQueue = self._queue()
        queue.wait(timeline, before).copy(dest, src, nbytes).signal(timeline, value)
        return PackedQueue(queue, self._channel, (dest, src, nbytes, before, value), progress)

    def _copy(self, dest_va: int, src_va: int, nbytes: int, segment: Segment) -> int:
        """One chunk on the timeline through a slot of `segment`; returns the channel's progress value."""
        dev, channel = self._dev, self._channel
        value, submitted = dev.timeline_value, channel.submitted
        try:
            dev.timeline_value = value + 1 & MASK64
            progress = channel.submit_packed(self._packed, dest_va, src_va, nbytes, value - 1 & MASK64, value)
            segment.fence = progress
        except BaseException:  # also Ctrl-C: what was submitted stays counted, what was not must not be waited for
            if channel.submitted == submitted:
                dev.timeline_value = value
            else:
                segment.fence = channel.submitted
            raise
        return progress

    def copyin(self, dest: HCQBuffer, data: memoryview) -> None:
        if len(data) > dest.size:
            raise ValueError(f"{len(data)} bytes do not fit the buffer of {dest.size}")
        self.copyin_va(dest.va_addr, data)

    def copyin_va(self, dest_va: int, data: memoryview) -> None:
        """Copy `data` to a GPU address; returns when all of it is in staging memory."""
        total, ring = len(data), self._in
        with self._dev.lock:
            if self._dev.broken is not None:
                self._dev.check_usable()
            done = 0
            while done < total:
                nbytes = min(total - done, ring.segment_bytes)
                offset = ring.alloc(nbytes)
                ring.mv[offset : offset + nbytes] = data[done : done + nbytes]
                self._copy(dest_va + done, ring.va + offset, nbytes, ring.segment)
                done += nbytes

    def copyout(self, into: memoryview, src: HCQBuffer) -> None:
        """Fill `into` from the start of `src`: the GPU copies later chunks while the host empties earlier ones."""
        total = len(into)
        if total > src.size:
            raise ValueError(f"{total} bytes asked of a buffer of {src.size}")
        ring = self._out
        flights: deque[tuple[int, Any, int, int, int]] = deque()  # progress, segment, offset, nbytes, place in `into`
        with self._dev.lock:
            self._dev.check_usable()
            try:
                asked = 0
                while asked < total or flights:
                    if asked < total and len(flights) < SEGMENTS - 1:
                        nbytes = min(total - asked, ring.segment_bytes)
                        offset = ring.alloc(nbytes)
                        segment = ring.segment
                        progress = self._copy(ring.va + offset, src.va_addr + asked, nbytes, segment)
                        segment.holds += 1
                        flights.append((progress, segment, offset, nbytes, asked))
                        asked += nbytes
                        continue
                    progress, segment, offset, nbytes, place = flights[0]
                    self._channel.wait_progress(progress)
                    self._dev.check_health()
                    into[place : place + nbytes] = segment.mv[offset : offset + nbytes]
                    flights.popleft()
                    segment.holds -= 1
            finally:
                for _, segment, _, _, _ in flights:
                    segment.holds -= 1

    def copy(self, dest: HCQBuffer, src: HCQBuffer) -> None:
        dev = self._dev
        with dev.lock:
            dev.check_usable()
            value = dev.upcoming()
            queue = self._queue().wait(dev.timeline_signal, value - 1 & MASK64)
            queue.copy(dest, src, src.size).signal(dev.timeline_signal, value)
            dev.submit_to(queue, value)

    def fill(self, dest: HCQBuffer, byte: int) -> None:
        dev = self._dev
        with dev.lock:
            value = dev.upcoming()
            queue = self._queue().wait(dev.timeline_signal, value - 1 & MASK64)
            dev.submit_to(queue.fill(dest, dest.size, byte).signal(dev.timeline_signal, value), value)

    @property
    def memories(self) -> list[Any]:
        return [*self._in.memories, *self._out.memories]
