"""Host copies of a device without a copy engine: the host moves the bytes itself, once earlier work has finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hcqrt.core.peers import through_host

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.core.device import HCQDevice

FILL_BYTES = 1 << 20  # of a pattern that is stored over and over


class Copies(Protocol):
    """What moves a device's bytes for copyin, copyout, copies from buffer to buffer, and fill."""

    def copyin(self, dest: HCQBuffer, data: memoryview) -> None: ...
    def copyout(self, into: memoryview, src: HCQBuffer) -> None: ...
    def copy(self, dest: HCQBuffer, src: HCQBuffer) -> None: ...
    def fill(self, dest: HCQBuffer, byte: int) -> None: ...


class HostMemory(Protocol):
    """Memory that the host can reach, with the maintenance that its caches need around a use."""

    @property
    def va(self) -> int: ...
    def host(self) -> memoryview:
        """Its bytes. Maps them when nothing has yet."""

    def before_read(self, offset: int, nbytes: int) -> None:
        """The host is going to read this range, which the GPU may have written."""

    def before_write(self, offset: int, nbytes: int) -> None:
        """The host is going to write to all of this range, or to all of an image that matters in it."""

    def after_write(self, offset: int, nbytes: int) -> None:
        """The host has written: what the GPU reads from now on is this."""


class HostCopies:
    """The copy calls of a device whose memory the host can reach. Each waits for the work submitted before."""

    def __init__(self, dev: HCQDevice) -> None:
        self._dev = dev

    def copyin(self, dest: HCQBuffer, data: memoryview) -> None:
        if len(data) > dest.size:
            raise ValueError(f"{len(data)} bytes do not fit the buffer of {dest.size}")
        with self._dev.lock:
            self._dev.synchronize()
            memory, start, extent = self._place(dest, len(data))
            memory.before_write(start, extent)
            host = memory.host()
            for place, done, nbytes in self._runs(dest, start, len(data)):
                host[place : place + nbytes] = data[done : done + nbytes]
            memory.after_write(start, extent)

    def copyout(self, into: memoryview, src: HCQBuffer) -> None:
        if len(into) > src.size:
            raise ValueError(f"{len(into)} bytes asked of a buffer of {src.size}")
        with self._dev.lock:
            self._dev.synchronize()
            memory, start, extent = self._place(src, len(into))
            memory.before_read(start, extent)
            host = memory.host()
            for place, done, nbytes in self._runs(src, start, len(into)):
                into[done : done + nbytes] = host[place : place + nbytes]

    def copy(self, dest: HCQBuffer, src: HCQBuffer) -> None:
        with self._dev.lock:
            through_host(dest, src)

    def fill(self, dest: HCQBuffer, byte: int) -> None:
        with self._dev.lock:
            self._dev.synchronize()
            memory, start, extent = self._place(dest, dest.size)
            memory.before_write(start, extent)
            host, pattern = memory.host(), bytes([byte]) * min(dest.size, FILL_BYTES)
            for place, _, nbytes in self._runs(dest, start, dest.size):
                for first in range(place, place + nbytes, FILL_BYTES):
                    count = min(FILL_BYTES, place + nbytes - first)
                    host[first : first + count] = pattern[:count]
            memory.after_write(start, extent)

    def _place(self, buffer: HCQBuffer, nbytes: int) -> tuple[HostMemory, int, int]:
        """The memory, where in it the buffer starts, and how far its first `nbytes` reach."""
        memory: Any = buffer.memory
        start, rows = buffer.va_addr - memory.va, buffer.image
        if rows is None or nbytes == 0:
            return memory, start, nbytes
        last = (nbytes - 1) // rows.row_bytes
        return memory, start, last * rows.pitch + nbytes - last * rows.row_bytes

    def _runs(self, buffer: HCQBuffer, start: int, nbytes: int) -> list[tuple[int, int, int]]:
        """(place in memory, place in the data, bytes) of what lies in one piece: everything, or an image's rows."""
        rows = buffer.image
        if rows is None:
            return [(start, 0, nbytes)]
        width = rows.row_bytes
        return [
            (start + done // width * rows.pitch, done, min(width, nbytes - done)) for done in range(0, nbytes, width)
        ]
