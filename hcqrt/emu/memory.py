"""Memory of emulated machines: sparse physical memory in memfds, and GPU address spaces whose misses are MMU faults."""

from __future__ import annotations

import ctypes
import errno as errno_codes
import mmap as mmap_flags
import os
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from hcqrt.bits import align_up, is_pow2
from hcqrt.fileio import MAP_NORESERVE, PROT_RW, Libc

MADV_REMOVE = 9  # asm-generic/mman-common.h: punch a hole, also in the file behind the mapping
OFFSET_SPACE = 4  # file offsets per byte of capacity: offsets cost nothing, so a block stays one piece of the file
SPARSE_COPY_BYTES = 1 << 20  # shorter copies are not worth the system calls that look for holes
HOST_PAGE = 4096  # what a hole is made of on the machine the emulator runs on; larger pages only waste some
NO_FD = -1

READ, WRITE, ATOMIC, FETCH = "read", "write", "atomic", "fetch"


class MmuFault(Exception):
    """A GPU access outside every mapping, or one that its mapping forbids. Never leaves the emulator.

    `kind` is one of "PDE", "PTE", "VA_LIMIT", "RO", "ATOMIC": names of the fault types that the hardware reports.
    """

    def __init__(self, address: int, access: str, kind: str, nbytes: int = 0) -> None:
        super().__init__(f"{access} of {nbytes} bytes at {address:#x}: MMU fault {kind}")
        self.address, self.access, self.kind, self.nbytes = address, access, kind, nbytes


class OutOfPhysical(Exception):
    """Physical memory cannot hold a block of this size. Drivers turn it into their own status."""


@dataclass(eq=False)
class Block:
    """A piece of memory that both sides reach: `host_ptr` on the CPU, and a place in a file if it has one.

    Counted: `hold` for every further user (a GPU mapping, a CPU mapping), `drop` when one is done.
    """

    host_ptr: int
    nbytes: int
    fd: int = NO_FD
    offset: int = 0
    memory: PhysicalMemory | None = None
    parent: Block | None = None  # the block that this one is a part of
    on_free: Callable[[], None] | None = None
    users: int = field(default=1, init=False)

    def hold(self) -> Block:
        assert self.users > 0, "a freed block was taken into use again"
        self.users += 1
        return self

    def drop(self) -> None:
        assert self.users > 0, "a block was dropped more often than held"
        self.users -= 1
        if self.users == 0:
            if self.parent is not None:
                self.parent.drop()
            elif self.memory is not None:
                self.memory.release(self)
            if self.on_free is not None:
                self.on_free()

    def part(self, offset: int, nbytes: int) -> Block:
        """A piece of this block as a block of its own; it holds this one."""
        assert offset >= 0 and offset + nbytes <= self.nbytes, "a part leaves its block"
        self.hold()
        return Block(self.host_ptr + offset, nbytes, self.fd, self.offset + offset, self.memory, self)


def _close_memory(libc: Libc, address: int, nbytes: int, fd: int) -> None:
    libc.munmap(address, nbytes)
    os.close(fd)


class PhysicalMemory:
    """`capacity_bytes` of memory, allocated in `unit_bytes`. Pages nobody wrote cost nothing and read as zero.

    Real memory comes with garbage in it; zero keeps the file sparse. A freed block loses its pages.
    """

    def __init__(self, libc: Libc, name: str, capacity_bytes: int, unit_bytes: int = 1 << 16) -> None:
        if capacity_bytes <= 0 or not is_pow2(unit_bytes):
            raise ValueError(f"{name}: {capacity_bytes} bytes in units of {unit_bytes} is no memory")
        self.libc, self.name, self.capacity_bytes, self.unit_bytes = libc, name, capacity_bytes, unit_bytes
        self.used_bytes = 0
        self.file_bytes = align_up(capacity_bytes, unit_bytes) * OFFSET_SPACE
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.file_bytes)
        flags = mmap_flags.MAP_SHARED | MAP_NORESERVE
        self.host_ptr = libc.mmap(0, self.file_bytes, PROT_RW, flags, self.fd, 0)
        self._free: list[tuple[int, int]] = [(0, self.file_bytes)]  # (offset, nbytes), in order, never adjacent
        self._finalizer = weakref.finalize(self, _close_memory, libc, self.host_ptr, self.file_bytes, self.fd)

    @property
    def free_bytes(self) -> int:
        return self.capacity_bytes - self.used_bytes

    def allocate(self, nbytes: int, alignment: int = 1) -> Block:
        """A zeroed block of at least `nbytes`, aligned in the file. Raises OutOfPhysical."""
        size = align_up(max(nbytes, 1), self.unit_bytes)
        if size > self.free_bytes:
            raise OutOfPhysical(f"{self.name}: {size} bytes asked, {self.free_bytes} of {self.capacity_bytes} free")
        alignment = max(alignment, self.unit_bytes)
        for index, (offset, space) in enumerate(self._free):
            start = align_up(offset, alignment)
            if start + size <= offset + space:
                rest = [(offset, start - offset), (start + size, offset + space - start - size)]
                self._free[index : index + 1] = [piece for piece in rest if piece[1]]
                self.used_bytes += size
                return Block(self.host_ptr + start, size, self.fd, start, self)
        raise OutOfPhysical(f"{self.name}: no {size} bytes in one piece aligned to {alignment}")

    def release(self, block: Block) -> None:
        """Take a block back and drop its pages. Called by `Block.drop`."""
        self.punch(block.offset, block.nbytes)
        self.used_bytes -= block.nbytes
        insort(self._free, (block.offset, block.nbytes))
        index = bisect_left(self._free, (block.offset, block.nbytes))
        start = max(index - 1, 0)
        merged: list[tuple[int, int]] = []
        for offset, nbytes in self._free[start : index + 2]:
            if merged and sum(merged[-1]) == offset:
                merged[-1] = (merged[-1][0], merged[-1][1] + nbytes)
            else:
                merged.append((offset, nbytes))
        self._free[start : index + 2] = merged

    def punch(self, offset: int, nbytes: int) -> None:
        """Make whole pages of the file a hole: they read as zero and cost nothing."""
        pointer = self.libc.ffi.cast("void *", self.host_ptr + offset)
        if self.libc.lib.madvise(pointer, nbytes, MADV_REMOVE):
            raise OSError(self.libc.ffi.errno, f"{self.name}: cannot punch {nbytes} bytes at {offset:#x}")

    def resident_bytes(self) -> int:
        """Host memory that the file really takes."""
        return os.fstat(self.fd).st_blocks * 512

    def close(self) -> None:
        self._finalizer()


def data_extents(fd: int, offset: int, nbytes: int) -> list[tuple[int, int]]:
    """The written parts of a piece of a sparse file, as (offset, nbytes)."""
    extents: list[tuple[int, int]] = []
    position, end = offset, offset + nbytes
    while position < end:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno_codes.ENXIO:  # ENXIO: only a hole from here to the end
                raise
            break
        if start >= end:
            break
        position = min(os.lseek(fd, start, os.SEEK_HOLE), end)
        extents.append((start, position - start))
    return extents


def zero(block: Block, offset: int, nbytes: int) -> None:
    """Clear a part of a block, giving whole pages back where the block lies in a sparse file."""
    start, end = align_up(offset, HOST_PAGE), (offset + nbytes) // HOST_PAGE * HOST_PAGE
    if block.memory is None or end - start < SPARSE_COPY_BYTES:
        ctypes.memset(block.host_ptr + offset, 0, nbytes)
        return
    ctypes.memset(block.host_ptr + offset, 0, start - offset)
    block.memory.punch(block.offset + start, end - start)
    ctypes.memset(block.host_ptr + end, 0, offset + nbytes - end)


def copy_block(dest: Block, dest_offset: int, src: Block, src_offset: int, nbytes: int) -> None:
    """Copy between blocks. Holes of the source become holes of the destination, so gigabytes of nothing are cheap."""
    if nbytes < SPARSE_COPY_BYTES or src.fd == NO_FD or dest is src:
        ctypes.memmove(dest.host_ptr + dest_offset, src.host_ptr + src_offset, nbytes)
        return
    first = src.offset + src_offset
    done = 0
    for start, length in data_extents(src.fd, first, nbytes):
        relative = start - first
        if relative > done:
            zero(dest, dest_offset + done, relative - done)
        ctypes.memmove(dest.host_ptr + dest_offset + relative, src.host_ptr + src_offset + relative, length)
        done = relative + length
    if done < nbytes:
        zero(dest, dest_offset + done, nbytes - done)


@dataclass(frozen=True, eq=False)
class Mapping:
    """What one map call put at [va, va + nbytes). Later calls may have replaced parts of it."""

    va: int
    nbytes: int
    block: Block
    block_offset: int
    writable: bool = True
    atomic: bool = True
    tag: object = None  # what the driver wants to know about it

    def host_ptr(self, va: int) -> int:
        return self.block.host_ptr + self.block_offset + va - self.va
