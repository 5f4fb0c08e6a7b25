"""A device's memory: counted, kept for reuse once freed and retired, given back before it runs out and on close."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from hcqrt.core.alloc import AllocationCache, nearest
from hcqrt.errors import OutOfMemory

if TYPE_CHECKING:
    from hcqrt.core.device import HCQDevice, MemoryKind

CACHE_SHARE = 4  # the cache keeps at most this part of the device's memory: a quarter


class MemoryPool:
    """What a device has taken from its driver. All but `drop` and `find` is called with the device's lock."""

    def __init__(self, dev: HCQDevice) -> None:
        self._dev = dev
        # id(memory) -> kind, bytes, memory; kind None is memory that others own, and never kept for reuse
        self._live: dict[int, tuple[MemoryKind | None, int, Any]] = {}
        self._pending: deque[tuple[Any, Any]] = deque()  # freed, but work may still use it
        self._dropped: deque[Any] = deque()  # left by finalisers, which may run anywhere
        self._in_use = self._peak = 0
        self._cache: AllocationCache[Any] | None = None

    def take(self, nbytes: int, kind: MemoryKind) -> Any:
        """Memory from the cache or the driver. Raises OutOfMemory with what is in use, cached and there in all."""
        self.sweep()
        size = self._dev.round_size(nbytes, kind)
        memory = self._cache.take((kind, size)) if self._cache else None
        if memory is None:
            try:
                memory = self._dev._allocate(size, kind)
            except OutOfMemory:
                memory = self._allocate_after_clean(size, kind)
        self.count(kind, size, memory)
        return memory

    def count(self, kind: MemoryKind | None, size: int, memory: Any) -> None:
        """Free `memory` on close, and count it until then."""
        self._live[id(memory)] = (kind, size, memory)
        self._in_use += size
        self._peak = max(self._peak, self._in_use)

    def _allocate_after_clean(self, size: int, kind: MemoryKind) -> Any:
        for marks, _ in list(self._pending):
            self._dev._wait_marks(marks)
        self.sweep()
        if self._cache is not None:
            self._cache.clear()
        try:
            return self._dev._allocate(size, kind)
        except OutOfMemory as error:
            stats = self.stats()
            raise OutOfMemory(
                f"{self._dev.name}: {size} bytes asked, {stats['in_use']} in use, {stats['cached']} cached, "
                f"{stats['total']} in all; close buffers you no longer need ({error})"
            ) from error

    def free(self, memory: Any) -> None:
        """Take memory back; it is reused or released once what was submitted so far has retired."""
        if id(memory) in self._live:
            self._retire(memory)
            self.sweep()

    def drop(self, memory: Any) -> None:
        """As `free`, from a finaliser: only noted, since it may run in the middle of anything."""
        self._dropped.append(memory)

    def _retire(self, memory: Any) -> None:
        self._in_use -= self._live[id(memory)][1]
        self._pending.append((self._dev._marks(), memory))

    def sweep(self) -> None:
        """Keep or release what was freed and has retired."""
        dev = self._dev
        while self._dropped:
            memory = self._dropped.popleft()
            if id(memory) in self._live:
                self._retire(memory)
        while self._pending and (dev.broken is not None or dev._retired(self._pending[0][0])):
            memory = self._pending.popleft()[1]
            kind, size, _ = self._live.pop(id(memory))
            if self._cache is None and dev.config.cache:
                self._cache = AllocationCache(dev._release, dev._total_bytes() // CACHE_SHARE)
            if self._cache is not None and dev.broken is None and kind is not None:
                self._cache.put((kind, size), size, memory)
            else:
                dev._release(memory)

    def stats(self) -> dict[str, int]:
        cached = self._cache.cached_bytes if self._cache else 0
        pending = sum(self._live[id(memory)][1] for _, memory in self._pending)
        return {
            "in_use": self._in_use,
            "cached": cached + pending,
            "total": self._dev._total_bytes(),
            "peak": self._peak,
        }

    def find(self, address: int) -> str:
        """The memory that contains a GPU address, or the nearest below it: for the text of a fault.

        Called without the lock: other threads may allocate meanwhile.
        """
        return nearest([memory for _, _, memory in list(self._live.values())], address)

    def release_all(self) -> None:
        """Give everything back to the driver; a failure to release one does not keep the others."""
        with ExitStack() as undo:
            for _, _, memory in self._live.values():
                undo.callback(self._dev._release, memory)
            self._live.clear()
            self._in_use = 0
            self._pending.clear()
            if self._cache is not None:
                undo.callback(self._cache.clear)
