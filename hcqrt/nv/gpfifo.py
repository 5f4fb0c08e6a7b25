"""Submitting command words: command memory, ring entry, GP_PUT, doorbell; and the channel's own progress."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import clc56f as host
from hcqrt.bits import is_pow2
from hcqrt.core.alloc import FencedRing
from hcqrt.core.signal import HCQSignal
from hcqrt.core.sints import Sint, lo_hi
from hcqrt.nv.methods import RELEASE, header, method_count

if TYPE_CHECKING:
    from hcqrt.core.queue import PackedQueue
    from hcqrt.nv.device import NVDevice

VA_LIMIT = 1 << 40  # clc56f.h NVC56F_GP_ENTRY1_GET_HI 7:0: command words lie below this
WORDS_MAX = (1 << 21) - 1  # NVC56F_GP_ENTRY1_LENGTH 30:10
LENGTH_SHIFT = 42
DOORBELL_WORD = 0x90 // 4  # clc461.h: NOTIFY_CHANNEL_PENDING
SEGMENTS = 16
PROGRESS = struct.Struct("<Q")
PROGRESS_WORDS = 6  # of `progress_words`
PROGRESS_HEADER = header(0, host.NVC56F_SEM_ADDR_LO, 5)


def pushbuffer_entry(va: int, words: int) -> int:
    """Encode one 64-bit GPFIFO entry that runs `words` 32-bit words at `va`.

    Args:
        va: GPU address, 4-byte aligned, below 2**40.
        words: length, 1 to 2**21 - 1.
    Raises:
        ValueError: an argument is out of range or misaligned; nothing was written.
    Source: clc56f.h, NVC56F_GP_ENTRY0_GET, NVC56F_GP_ENTRY1_GET_HI and NVC56F_GP_ENTRY1_LENGTH.
    """
    if va % 4 or not 0 <= va < VA_LIMIT:
        raise ValueError(f"pushbuffer at {va:#x}: needs 4-byte alignment below 2**40")
    if not 1 <= words <= WORDS_MAX:
        raise ValueError(f"pushbuffer at {va:#x}: {words} words, allowed are 1 to {WORDS_MAX}")
    return va | words << LENGTH_SHIFT


class BoundSegment:
    """Words of a bound queue in memory of their own, progress words at the end."""

    def __init__(self, fifo: GpFifo, words: Sequence[int]) -> None:
        nwords, body_words = len(words), len(words) - PROGRESS_WORDS
        packed = struct.pack(f"<{nwords}I", *words)
        self._dev = fifo.dev
        self.memory: Any = fifo.dev.take_memory(len(packed), fifo.COMMAND_MEMORY)
        self.mv: memoryview = self.memory.cpu.view(fmt="B").mv
        self.mv[: len(packed)] = packed
        self.entry = pushbuffer_entry(self.memory.va, nwords)
        self.body_entry = pushbuffer_entry(self.memory.va, body_words) if body_words else None
        self.progress_offset = 4 * (nwords - 3)  # payload low and high are the last words but the execute word

    def close(self) -> None:
        memory, self.memory = self.memory, None
        if memory is not None:
            self._dev.free(memory)

    def __del__(self) -> None:
        memory = getattr(self, "memory", None)
        if memory is not None:
            self._dev.drop(memory)  # the queue was dropped: its words may still be in flight


class GpFifo:
    """The submitting side of one channel.

    Every submission ends with a release of the channel's progress signal, whose value counts ring entries. So the
    entry index known to be retired is the progress value itself, whatever GP_GET says (it may be stale, and is gone
    on Blackwell), and a ring of n entries holds at most n - 1.
    """

    COMMAND_MEMORY = (False, True, False)  # on the device, mapped for the host
    SEGMENT_WORDS_LEAST = 256

    def __init__(
        self,
        dev: NVDevice,
        *,
        ring: Any,
        gp_put: Any,
        entries: int,
        token: int,
        doorbell: Any,
        progress: HCQSignal,
        cmd_bytes: int,
    ) -> None:
        if not is_pow2(entries):
            raise ValueError(f"a ring of {entries} entries is no power of two")
        self.dev, self.progress = dev, progress
        self._ring, self._gp_put, self._doorbell, self._token = ring, gp_put, doorbell, token
        self._mask, self._room = entries - 1, entries - 1
        self._fence: Callable[[], None] = dev.system.fence
        self._progress_mv, self._progress_index = progress.place
        self.submitted = 0  # ring entries written, equals the progress value that retires the last of them
        self._full_at = self._room  # `submitted` at which `progress` has to be read again
        self._cmd = FencedRing(lambda: dev.take_memory(cmd_bytes, self.COMMAND_MEMORY), SEGMENTS, self.wait_progress)

    # progress

    @property
    def retired(self) -> int:
        return self.progress.value

    def wait_progress(self, value: int) -> None:
        """Block until the submission with this progress value, and all before it, has retired."""
        if self._progress_mv[self._progress_index] < value:
            self.progress.wait(value)

    def progress_words(self, progress: Sint) -> list[Any]:
        """Release of the progress signal once the engine is idle and its writes are visible everywhere."""
        return [PROGRESS_HEADER, *lo_hi(self.progress.value_va), *lo_hi(progress), RELEASE]

    # submitting

    def submit_words(self, words: Sequence[int]) -> int:
        """Copy words to command memory and run them; long queues go in several entries. struct.error: not a u32."""
        self.dev.check_usable()
        limit = self._cmd.segment_bytes // 4 - PROGRESS_WORDS
        if len(words) > limit:
            return self._submit_pieces(words, limit)
        return self._submit_piece(words)

    def _submit_piece(self, words: Sequence[int]) -> int:
        progress = self.submitted + 1
        whole = [*words, *self.progress_words(progress)]
        self._make_room()
        ring = self._cmd
        offset = ring.alloc(4 * len(whole))
        struct.pack_into(f"<{len(whole)}I", ring.mv, offset, *whole)
        ring.segment.fence = progress
        self._kick(pushbuffer_entry(ring.va + offset, len(whole)))
        return progress

    def _submit_pieces(self, words: Sequence[int], limit: int) -> int:
        """Split between methods. All words and sizes are checked before the first piece runs."""
        struct.pack(f"<{len(words)}I", *words)
        cuts, start, position = [0], 0, 0
        while position < len(words):
            size = 1 + method_count(words[position])
            if size > limit:
                raise ValueError(
                    f"a method with {size - 1} words does not fit a part of the command memory ({4 * limit} bytes); "
                    "bind the queue, or raise HCQRT_CMD_BYTES"
                )
            if position + size - start > limit:
                start = position
                cuts.append(start)
            position += size
        for first, last in itertools.pairwise(cuts):
            self._submit_piece(words[first:last])
        return self._submit_piece(words[cuts[-1] :])

    def submit_packed(self, packed: PackedQueue, *values: int) -> int:
        """The launch path: one pack, one ring entry, two fences, two stores."""
        if self.dev.broken is not None:
            self.dev.check_usable()
        progress = self.submitted + 1
        if progress > self._full_at:
            self._make_room()
        ring = self._cmd
        offset = ring.cursor
        if offset + packed.slot_bytes > ring.limit:
            ring.turn(packed.slot_bytes)
            offset = ring.cursor
        packed.pack_into(ring.mv, offset, *packed.words(*values, progress))
        ring.cursor = offset + packed.slot_bytes
        ring.segment.fence = progress
        self._kick(ring.va + offset | packed.nwords << LENGTH_SHIFT)
        return progress

    def bind_words(self, words: Sequence[int]) -> BoundSegment:
        most = WORDS_MAX - PROGRESS_WORDS
        if len(words) > most:
            raise ValueError(f"a bound queue has at most {most} words, this one has {len(words)}")
        return BoundSegment(self, [*words, *self.progress_words(0)])

    def submit_bound(self, bound: BoundSegment) -> int:
        progress = self.submitted + 1
        if progress > self._full_at:
            self._make_room()
        PROGRESS.pack_into(bound.mv, bound.progress_offset, progress)
        self._kick(bound.entry)
        return progress

    def submit_bound_again(self, bound: BoundSegment, last: int) -> int:
        if self._progress_mv[self._progress_index] >= last:
            return self.submit_bound(bound)
        # The GPU has yet to read the bound progress words, which hold `last`: this run gets its own behind it.
        if bound.body_entry is not None:
            self._make_room()
            self._kick(bound.body_entry)
        return self._submit_piece(())

    def _make_room(self) -> None:
        """Return once the ring has a free entry: at most `entries - 1` may be outstanding."""
        self._full_at = self.progress.value + self._room
        if self.submitted >= self._full_at:
            self.wait_progress(self.submitted - self._room + 1)
            self._full_at = self.progress.value + self._room

    def _kick(self, entry: int) -> None:
        """Order: words and entry, fence, GP_PUT, fence, doorbell. Source: nv-engine facts 1.5, dev_pbdma.ref.txt."""
        submitted = self.submitted
        put = (submitted + 1) & self._mask
        self._ring[submitted & self._mask] = entry
        self.submitted = submitted + 1
        try:
            self._fence()
            self._gp_put[0] = put
            self._fence()
            self._doorbell[DOORBELL_WORD] = self._token
        except KeyboardInterrupt:  # half done would be neither submitted nor not: finish, then let it through
            self._fence()
            self._gp_put[0] = put
            self._fence()
            self._doorbell[DOORBELL_WORD] = self._token
            raise
