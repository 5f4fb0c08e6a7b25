"""The submitting side of one hardware queue: words to a fenced command ring, its own progress, bound words."""

from __future__ import annotations

import itertools
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hcqrt.core.alloc import FencedRing
from hcqrt.core.signal import HCQSignal

if TYPE_CHECKING:
    from hcqrt.core.device import HCQDevice
    from hcqrt.core.queue import PackedQueue
    from hcqrt.core.sints import Sint

SEGMENTS = 16


class BoundSegment:
    """Words of a bound queue in memory of their own, progress words at the end."""

    def __init__(self, channel: RingChannel, words: Sequence[int]) -> None:
        self.nwords, self.body_words = len(words), len(words) - channel.PROGRESS_WORDS
        packed = struct.pack(f"<{self.nwords}I", *words)
        self._dev = channel.dev
        self.memory: Any = channel.dev.take_memory(len(packed), channel.COMMAND_MEMORY)
        self.mv: memoryview = self.memory.cpu.view(fmt="B").mv
        self.mv[: len(packed)] = packed
        self.va: int = self.memory.va
        self.progress_offset = 4 * (self.nwords - channel.PAYLOAD_FROM_END)

    def close(self) -> None:
        memory, self.memory = self.memory, None
        if memory is not None:
            self._dev.free(memory)

    def __del__(self) -> None:
        memory = getattr(self, "memory", None)
        if memory is not None:
            self._dev.drop(memory)  # the queue was dropped: its words may still be in flight


class RingChannel(ABC):
    """What the channels of every backend share; theirs add how words are handed to the hardware.

    Every submission ends with words that set the channel's progress signal, whose value counts submissions: a value
    that is there says that this submission and all before it have finished, whatever the hardware's own counters say.

    Args:
        room: submissions that may be outstanding.
    """

    COMMAND_MEMORY: tuple[bool, ...] = (False, True, False)  # on the device, mapped for the host
    WORDS_MAX: ClassVar[int]  # that one submission may have
    PROGRESS_WORDS: ClassVar[int]  # of `progress_words`
    PAYLOAD_FROM_END: ClassVar[int]  # the value's first word, counted from the end of `progress_words`
    begin_words: tuple[int, ...] = ()  # in front of each piece of a queue

    def __init__(self, dev: HCQDevice, *, progress: HCQSignal, cmd_bytes: int, room: int) -> None:
        self.dev, self.progress, self._room = dev, progress, room
        self._fence: Callable[[], None] = dev.system.fence
        self._progress_mv, self._progress_index = progress.place
        self._pack_progress = self.progress_packer()
        self.submitted = 0  # submissions made, equals the progress value that retires the last of them
        self._full_at = room  # `submitted` at which `progress` has to be read again
        self._cmd = FencedRing(lambda: dev.take_memory(cmd_bytes, self.COMMAND_MEMORY), SEGMENTS, self.wait_progress)

    # what vendor channels provide

    @abstractmethod
    def progress_words(self, progress: Sint) -> list[Any]:
        """Set the progress signal once the engine is idle and its writes are visible everywhere."""

    @abstractmethod
    def progress_packer(self) -> Callable[[memoryview, int, int], None]:
        """What stores a progress value where packed `progress_words` hold it."""

    @abstractmethod
    def command_words(self, word: int) -> int:
        """Words of the command that starts with this one. Raises ValueError for what starts none."""

    @abstractmethod
    def check_place(self, va: int, nwords: int) -> None:
        """Raise ValueError when the hardware cannot run so many words there."""

    @abstractmethod
    def _kick(self, va: int, nwords: int) -> None:
        """Hand words over. Counts the submission in `submitted`, unless it raises with nothing handed over."""

    # progress

    @property
    def retired(self) -> int:
        return self.progress.value

    def wait_progress(self, value: int) -> None:
        """Block until the submission with this progress value, and all before it, has retired."""
        if self._progress_mv[self._progress_index] < value:
            self.progress.wait(value)

    # submitting

    def submit_words(self, words: Sequence[int]) -> int:
        """Copy words to command memory and run them; long queues go in several pieces. struct.error: not a u32."""
        self.dev.check_usable()
        limit = min(self._cmd.segment_bytes // 4, self.WORDS_MAX) - self.PROGRESS_WORDS - len(self.begin_words)
        if len(words) > limit:
            return self._submit_pieces(words, limit)
        return self._submit_piece(words)

    def _submit_piece(self, words: Sequence[int]) -> int:
        self._kick(*self._fill_piece(words))
        return self.submitted

    def _fill_piece(self, words: Sequence[int]) -> tuple[int, int]:
        """Put words and those of the next progress value into the ring; their address and number."""
        self._make_room()
        progress = self.submitted + 1
        whole = [*self.begin_words, *words, *self.progress_words(progress)]
        ring = self._cmd
        offset = ring.alloc(4 * len(whole))
        struct.pack_into(f"<{len(whole)}I", ring.mv, offset, *whole)
        ring.segment.fence = progress
        self.check_place(ring.va + offset, len(whole))
        return ring.va + offset, len(whole)

    def _submit_pieces(self, words: Sequence[int], limit: int) -> int:
        """Split between commands. All words and sizes are checked before the first piece runs."""
        struct.pack(f"<{len(words)}I", *words)
        cuts, start, position = [0], 0, 0
        while position < len(words):
            size = self.command_words(words[position])
            if size > limit:
                raise ValueError(
                    f"a command with {size - 1} words does not fit a part of the command memory ({4 * limit} bytes); "
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
        """The launch path: one pack, one submission."""
        if self.dev.broken is not None:
            self.dev.check_usable()
        progress = self.submitted + 1
        if progress > self._full_at:
            self._make_room()
            progress = self.submitted + 1
        ring = self._cmd
        offset = ring.cursor
        if offset + packed.slot_bytes > ring.limit:
            ring.turn(packed.slot_bytes)
            offset = ring.cursor
        packed.pack_into(ring.mv, offset, *packed.words(*values, progress))
        ring.cursor = offset + packed.slot_bytes
        ring.segment.fence = progress
        self._kick(ring.va + offset, packed.nwords)
        return progress

    def bind_words(self, words: Sequence[int]) -> BoundSegment:
        most = self.WORDS_MAX - self.PROGRESS_WORDS
        if len(words) > most:
            raise ValueError(f"a bound queue has at most {most} words, this one has {len(words)}")
        bound = BoundSegment(self, [*words, *self.progress_words(0)])
        self.check_place(bound.va, bound.nwords)
        return bound

    def submit_bound(self, bound: BoundSegment) -> int:
        progress = self.submitted + 1
        if progress > self._full_at:
            self._make_room()
            progress = self.submitted + 1
        self._pack_progress(bound.mv, bound.progress_offset, progress)
        self._kick(bound.va, bound.nwords)
        return progress

    def submit_bound_again(self, bound: BoundSegment, last: int) -> int:
        if self._progress_mv[self._progress_index] >= last:
            return self.submit_bound(bound)
        # The GPU has yet to read the bound progress words, which hold `last`: this run gets its own behind it.
        if bound.body_words:
            self._make_room()
            self._kick(bound.va, bound.body_words)
        return self._submit_piece(())

    def _make_room(self) -> None:
        """Return once another submission may be outstanding."""
        self._full_at = self.progress.value + self._room
        if self.submitted >= self._full_at:
            self.wait_progress(self.submitted - self._room + 1)
            self._full_at = self.progress.value + self._room
