"""Memory of others that the GPU uses in place: host memory and dma-bufs, and who owns their cache lines when."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.bits import align_down, align_up
from hcqrt.core.sints import lo_hi
from hcqrt.fileio import FileIOInterface
from hcqrt.ioctl import ioctl_error
from hcqrt.mmio import MMIOInterface
from hcqrt.qcom import pm4
from hcqrt.qcom.kgsl import KgslClient
from hcqrt.qcom.memory import CLEAN, INVALIDATE, LINE_BYTES, CachedRange, lines

if TYPE_CHECKING:
    from hcqrt.qcom.device import QCOMDevice

WORD_BYTES = 4  # what CP_MEM_TO_MEM moves
EDGES_AT_ONCE = 32  # lines fetched by one submission


class Import(CachedRange, ABC):
    """Memory of somebody else's, mapped for the GPU at `va`. `cpu` is what the host sees of it, where it may write."""

    def __init__(self, client: KgslClient, number: int, nbytes: int, first: int, read_only: bool = False) -> None:
        try:
            info = client.info(number)
            if info.size < first + nbytes:
                raise ValueError(f"{nbytes} bytes asked of a buffer that has {info.size - first}")
        except BaseException:
            client.free(number)
            raise
        super().__init__(client, number, info.flags, first)
        self.va, self.nbytes = int(info.gpuaddr) + first, nbytes
        self.cpu: MMIOInterface | None = None
        self.read_only = read_only

    def edges(self) -> Iterator[tuple[int, int]]:
        """(offset, bytes) of what shares its cache line with memory that is not ours."""
        return iter(())

    def interior(self) -> tuple[int, int]:
        """Offset and bytes of what has its cache lines to itself."""
        return 0, self.nbytes

    @abstractmethod
    def host(self) -> memoryview:
        """Its bytes as the host sees them."""

    def before_read(self, offset: int, nbytes: int) -> None:
        """Nothing: what the GPU wrote is fetched when the memory is taken back."""

    def before_write(self, offset: int, nbytes: int) -> None:
        """Nothing: the memory is the host's until it is handed over, with its cache lines cleaned."""

    def after_write(self, offset: int, nbytes: int) -> None:
        """Nothing, as before writing."""

    def close(self) -> None:
        self.client.free(self.number)


class HostImport(Import):
    """Host memory at any address, pinned in whole pages. Its first and last line may hold bytes of others."""

    def __init__(self, client: KgslClient, view: memoryview) -> None:
        if not view.nbytes:
            raise ValueError("no bytes to import")
        ffi = client.system.libc.ffi
        self._owner: Any = ffi.from_buffer(view)  # keeps the memory where it is, and alive
        address = int(ffi.cast("uintptr_t", self._owner))
        page = client.system.page_size
        start = align_down(address, page)
        whole = align_up(address + view.nbytes, page) - start
        number = client.import_user(start, whole, readonly=view.readonly)
        super().__init__(client, number, view.nbytes, address - start, view.readonly)
        self._view = view
        if not view.readonly:
            self.cpu = MMIOInterface(address, view.nbytes, owner=self._owner)

    def edges(self) -> Iterator[tuple[int, int]]:
        start, length = lines(self.first, self.nbytes)
        head, tail = self.first - start, start + length - self.first - self.nbytes
        if head:
            yield 0, min(LINE_BYTES - head, self.nbytes)
        if tail and not (head and length == LINE_BYTES):
            count = LINE_BYTES - tail
            yield self.nbytes - count, count

    def interior(self) -> tuple[int, int]:
        begin, end = 0, self.nbytes
        for offset, count in self.edges():
            if offset == 0:
                begin = count
            else:
                end = offset
        return (begin, end - begin) if begin < end else (0, 0)

    def host(self) -> memoryview:
        return self._view

    def close(self) -> None:
        super().close()
        self.cpu = None
        self._owner = None

    def __repr__(self) -> str:
        return f"<imported host memory of {self.nbytes} bytes at {self.va:#x}>"


class DmaBufImport(Import):
    """A dma-buf. The host reaches it through a mapping of its own."""

    def __init__(self, client: KgslClient, file: FileIOInterface, nbytes: int) -> None:
        """Owns `file`, a duplicate of the caller's descriptor; closes it also when this fails."""
        self._file = file
        try:
            super().__init__(client, client.import_dmabuf(file.fd), nbytes, 0)
        except BaseException:
            file.close()
            raise
        self._mapping: MMIOInterface | None = None

    def map(self) -> MMIOInterface:
        if self._mapping is None:
            try:
                self._mapping = self._file.mmap(self.nbytes)
            except OSError as error:  # not every exporter lets the host map its buffers
                raise ioctl_error("mmap", self._file.path, error, f"{self.nbytes} bytes; see ulimit -v") from error
        return self._mapping

    def host(self) -> memoryview:
        return self.map().mv

    def close(self) -> None:
        mapping, self._mapping, self.cpu = self._mapping, None, None
        super().close()
        if mapping is not None:
            self.client.system.libc.munmap(mapping.addr, mapping.nbytes)
        self._file.close()

    def __repr__(self) -> str:
        return f"<imported dma-buf of {self.nbytes} bytes at {self.va:#x}>"


def import_dmabuf(client: KgslClient, fd: int, nbytes: int, *, mapped: bool) -> DmaBufImport:
    """Import the first `nbytes` of a dma-buf; the caller keeps `fd`. Nothing stays open when this fails."""
    if nbytes <= 0:
        raise ValueError(f"a buffer needs at least 1 byte, got {nbytes}")
    try:
        own = os.dup(fd)
    except OSError as error:
        raise ioctl_error("dup", f"dma-buf {fd}", error, "give a file descriptor that is open") from error
    item = DmaBufImport(client, FileIOInterface(f"dma-buf {fd}", own, client.system.libc), nbytes)
    try:
        item.cpu = item.map() if mapped else None
    except BaseException:
        item.close()
        raise
    return item


class ImportTable:
    """The imports of a device whose cache lines change hands.

    The host owns an import until something is submitted, the GPU from then on until the device is synchronized.
    Handing over cleans its lines. Taking it back invalidates those that are all its own; bytes in a line that it
    shares with a neighbour are fetched by the GPU into uncached memory and stored by the host, since invalidating
    would drop what the neighbour has written, and the line may go back to memory at any time.
    """

    def __init__(self, dev: QCOMDevice) -> None:
        self._dev = dev
        self.here: list[Import] = []  # the host's
        self.away: list[Import] = []  # the GPU's

    def add(self, item: Import) -> None:
        if not item.coherent:
            self.here.append(item)

    def remove(self, item: Import) -> None:
        for side in (self.here, self.away):
            if item in side:
                side.remove(item)

    def hand_over(self) -> None:
        """Before a submission: the GPU reads what the host has written."""
        items = self.here
        self._dev.kgsl.sync((item.number, CLEAN, *lines(item.first, item.nbytes)) for item in items)
        self.here = []
        self.away += items

    def take_back(self) -> None:
        """Wait for all submissions, then let the host see what they wrote. Called with the device's lock."""
        channel = self._dev.channel
        channel.wait_progress(channel.submitted)
        written = [item for item in self.away if not item.read_only]
        edges = [(item, offset, count) for item in written for offset, count in item.edges()]
        for first in range(0, len(edges), EDGES_AT_ONCE):
            self._fetch(edges[first : first + EDGES_AT_ONCE])
        ranges = ((item, *item.interior()) for item in written)
        self._dev.kgsl.sync(
            (item.number, INVALIDATE, *lines(item.first + offset, count)) for item, offset, count in ranges if count
        )
        self.here += self.away
        self.away = []

    def _fetch(self, edges: Sequence[tuple[Import, int, int]]) -> None:
        """Copy bytes that share a line with others from what the GPU sees to what the host sees."""
        dev = self._dev
        landing, host, words = dev.edge_memory, dev.edge_memory.host(), []
        for index, (item, offset, count) in enumerate(edges):
            source, place = align_down(item.va + offset, WORD_BYTES), index * LINE_BYTES
            while source < item.va + offset + count:
                words += pm4.command("CP_MEM_TO_MEM", 0, *lo_hi(landing.va + place), *lo_hi(source))
                source, place = source + WORD_BYTES, place + WORD_BYTES
        dev.channel.wait_progress(dev.channel.submit_words([*words, *pm4.command("CP_WAIT_MEM_WRITES")]))
        for index, (item, offset, count) in enumerate(edges):
            place = index * LINE_BYTES + (item.va + offset) % WORD_BYTES
            item.host()[offset : offset + count] = host[place : place + count]
