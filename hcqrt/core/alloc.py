"""Allocators of offsets and addresses: bump, fenced ring, address space that can free, cache of freed memory."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import ExitStack
from typing import Any, Generic, Protocol, TypeVar

from hcqrt.bits import align_down, align_up
from hcqrt.errors import OutOfMemory
from hcqrt.mmio import MMIOInterface

M = TypeVar("M")


class BumpAllocator:
    """Hands out addresses in [base, base + size) upwards; `reset` frees all of them at once."""

    def __init__(self, size: int, base: int = 0) -> None:
        self.size, self.base, self.used = size, base, 0

    def alloc(self, nbytes: int, align: int = 1) -> int:
        start = align_up(self.base + self.used, align)
        if start + nbytes > self.base + self.size:
            raise OutOfMemory(f"bump allocator: {nbytes} bytes asked, {self.size - self.used} of {self.size} are left")
        self.used = start + nbytes - self.base
        return start

    def reset(self) -> None:
        self.used = 0


class GpuMemory(Protocol):
    """Memory that both the host and the GPU see."""

    @property
    def va(self) -> int: ...
    @property
    def cpu(self) -> MMIOInterface | None: ...


def nearest(memories: Iterable[Any], address: int) -> str:
    """Which memory contains a GPU address, or lies nearest below it: for the text of a fault."""
    best: Any = None
    for memory in memories:
        if memory.va <= address < memory.va + memory.nbytes:
            return f"inside {memory!r}"
        if memory.va <= address and (best is None or memory.va > best.va):
            best = memory
    return f"{address - best.va - best.nbytes} bytes behind {best!r}" if best else "below every allocation"


class Segment:
    """One part of a ring. Reusable when nothing holds it and the work tagged `fence` has retired."""

    __slots__ = ("end", "fence", "holds", "memory", "mv", "start", "va")

    def __init__(self, memory: GpuMemory, mv: memoryview, start: int, end: int) -> None:
        self.memory, self.mv, self.start, self.end = memory, mv, start, end
        self.va = memory.va
        self.fence = 0  # progress value of the last submission that reads this segment
        self.holds = 0  # slots filled but not given back, whether submitted or not


class FencedRing:
    """Ring of GPU-visible memory for kernel arguments and command words.

    A submission tags the segments it reads with its progress value; a segment is handed out again only after that
    value has retired. Slots that are filled but not yet submitted hold their segment. When every segment is held the
    ring grows by another `memory()`; when the next one is still in flight, `wait` blocks until it has retired.

    The launch path reads `mv`, `va`, `cursor`, `limit` and `segment` itself: a slot of n bytes that fits is
    `cursor` … `cursor + n`, at GPU address `va + cursor`; else `turn(n)` first. Slots are multiples of `ALIGN`.
    """

    ALIGN = 256

    def __init__(self, memory: Callable[[], GpuMemory], segments: int, wait: Callable[[int], None]) -> None:
        self._memory, self._count, self._wait = memory, segments, wait
        self.segments: list[Segment] = []
        self._next = 0
        self._grow()
        self._enter(0)

    def _grow(self) -> None:
        memory = self._memory()
        view = memory.cpu
        if view is None:
            raise ValueError("a ring needs memory that the host can see")
        step = align_down(view.nbytes // self._count, self.ALIGN)
        self.segment_bytes = step
        mv = view.view(fmt="B").mv
        self.segments += [Segment(memory, mv, i * step, (i + 1) * step) for i in range(self._count)]

    def _enter(self, index: int) -> None:
        segment = self.segments[index]
        self.segment, self.mv, self.va = segment, segment.mv, segment.va
        self.cursor, self.limit = segment.start, segment.end
        self._next = (index + 1) % len(self.segments)

    def turn(self, nbytes: int) -> None:
        """Go on to a segment with `nbytes` free, waiting for the work that still reads it."""
        if nbytes > self.segment_bytes:
            raise ValueError(f"a slot of {nbytes} bytes does not fit a ring segment of {self.segment_bytes}")
        for step in range(len(self.segments)):
            index = (self._next + step) % len(self.segments)
            segment = self.segments[index]
            if segment.holds or segment is self.segment:
                continue
            self._wait(segment.fence)
            self._enter(index)
            return
        if self.segment.holds == 0 and len(self.segments) == 1:
            self._wait(self.segment.fence)
            self._enter(0)
            return
        self._grow()
        self._enter(len(self.segments) - self._count)

    def alloc(self, nbytes: int) -> int:
        """Offset of a slot of `nbytes` in `mv`, aligned to `ALIGN`. Does not hold it."""
        nbytes = align_up(nbytes, self.ALIGN)
        if self.cursor + nbytes > self.limit:
            self.turn(nbytes)
        offset = self.cursor
        self.cursor = offset + nbytes
        return offset

    @property
    def memories(self) -> list[GpuMemory]:
        return list(dict.fromkeys(segment.memory for segment in self.segments))


class AddressSpace:
    """Addresses [base, base + size): first fit by address, freed ranges merge with their neighbours."""

    def __init__(self, base: int, size: int) -> None:
        self.base, self.size = base, size
        self._starts: list[int] = [base] if size else []
        self._ends: list[int] = [base + size] if size else []
        self._used: dict[int, int] = {}

    def alloc(self, nbytes: int, align: int = 1) -> int:
        """Claim `nbytes`; raises OutOfMemory when no gap is large enough."""
        if nbytes <= 0:
            raise ValueError(f"an address range needs at least 1 byte, got {nbytes}")
        for index, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            address = align_up(start, align)
            if address + nbytes <= end:
                self._take(index, address, address + nbytes)
                self._used[address] = nbytes
                return address
        raise OutOfMemory(
            f"address space [{self.base:#x}, +{self.size:#x}): no gap of {nbytes} bytes aligned to {align:#x}; "
            f"{self.in_use} bytes are in use, close buffers you no longer need"
        )

    def _take(self, index: int, first: int, last: int) -> None:
        start, end = self._starts[index], self._ends[index]
        rest = [(a, b) for a, b in ((start, first), (last, end)) if a < b]
        self._starts[index : index + 1] = [a for a, _ in rest]
        self._ends[index : index + 1] = [b for _, b in rest]

    def free(self, address: int) -> None:
        """Give a range back; raises ValueError when `address` starts none."""
        nbytes = self._used.pop(address, None)
        if nbytes is None:
            raise ValueError(f"{address:#x} is not the start of an allocated range")
        start, end = address, address + nbytes
        index = bisect.bisect_left(self._starts, start)
        if index < len(self._starts) and self._starts[index] == end:
            end = self._ends[index]
            del self._starts[index], self._ends[index]
        if index and self._ends[index - 1] == start:
            self._ends[index - 1] = end
            return
        self._starts.insert(index, start)
        self._ends.insert(index, end)

    @property
    def in_use(self) -> int:
        return sum(self._used.values())


class AllocationCache(Generic[M]):
    """Keeps freed memory by kind and size for the next request of the same kind and size.

    Args:
        release: gives one memory back to the driver.
        limit_bytes: above it the oldest entries are released.
    """

    def __init__(self, release: Callable[[M], None], limit_bytes: int) -> None:
        self._release, self.limit_bytes, self.cached_bytes = release, limit_bytes, 0
        self._entries: OrderedDict[int, tuple[Hashable, int, M]] = OrderedDict()
        self._by_key: dict[Hashable, list[int]] = {}
        self._serial = 0

    def take(self, key: Hashable) -> M | None:
        serials = self._by_key.get(key)
        if not serials:
            return None
        _, nbytes, memory = self._entries.pop(serials.pop())
        self.cached_bytes -= nbytes
        return memory

    def put(self, key: Hashable, nbytes: int, memory: M) -> None:
        self._serial += 1
        self._entries[self._serial] = (key, nbytes, memory)
        self._by_key.setdefault(key, []).append(self._serial)
        self.cached_bytes += nbytes
        while self.cached_bytes > self.limit_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, serial: int) -> None:
        key, nbytes, memory = self._entries.pop(serial)
        self._by_key[key].remove(serial)
        if not self._by_key[key]:
            del self._by_key[key]
        self.cached_bytes -= nbytes
        self._release(memory)

    def clear(self) -> None:
        """Release everything; a failure to release one does not keep the others."""
        with ExitStack() as undo:
            for serial in self._entries:
                undo.callback(self._drop, serial)
