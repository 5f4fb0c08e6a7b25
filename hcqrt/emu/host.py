"""CPU mappings of an emulated machine: which addresses hold what, and memory of this process as pinned blocks."""

from __future__ import annotations

import ctypes
import mmap as mmap_flags
from dataclasses import dataclass

from hcqrt.bits import align_up
from hcqrt.emu.intervals import Interval, IntervalMap
from hcqrt.emu.memory import Block, PhysicalMemory
from hcqrt.emu.where import Where, caller
from hcqrt.fileio import MAP_FIXED, MAP_NORESERVE, PROT_NONE, PROT_RW, Libc

MREMAP_MAYMOVE = 1  # linux/mman.h
MAPS = "/proc/self/maps"


@dataclass(eq=False)
class HostMapping:
    """One mmap call. Later calls may have replaced parts of it."""

    kind: str  # "device", "memory" or "reservation"
    path: str
    address: int
    nbytes: int
    block: Block | None
    block_offset: int
    where: Where


class Unpinnable(Exception):
    """A range of this process that a driver cannot pin: a hole, read-only pages, a private file mapping."""


class HostMap:
    """What the emulated machine mapped into this process."""

    def __init__(self, libc: Libc, memory: PhysicalMemory) -> None:
        self.libc, self.memory = libc, memory
        self.map: IntervalMap[HostMapping] = IntervalMap()

    def place(self, nbytes: int, page_bytes: int) -> int:
        """Free addresses aligned to the emulated page size, claimed."""
        flags = mmap_flags.MAP_PRIVATE | mmap_flags.MAP_ANONYMOUS | MAP_NORESERVE
        total = nbytes + page_bytes
        got = self.libc.mmap(0, total, PROT_NONE, flags, -1, 0)
        address = align_up(got, page_bytes)
        if address > got:
            self.libc.munmap(got, address - got)
        rest = got + total - address - nbytes
        if rest:
            self.libc.munmap(address + nbytes, rest)
        return address

    def map_block(
        self, block: Block, offset: int, nbytes: int, address: int, kind: str, path: str, *, writable: bool = True
    ) -> None:
        """Map a part of a block at `address`; takes a hold on it."""
        prot = PROT_RW if writable else mmap_flags.PROT_READ
        self.libc.mmap(address, nbytes, prot, mmap_flags.MAP_SHARED | MAP_FIXED, block.fd, block.offset + offset)
        self.track(HostMapping(kind, path, address, nbytes, block.hold(), offset, caller()))

    def track(self, mapping: HostMapping) -> None:
        end = mapping.address + mapping.nbytes
        self._dropped(self.map.put(mapping.address, end, mapping))

    def forget(self, address: int, nbytes: int) -> None:
        """The caller unmapped this range."""
        self._dropped(self.map.cut(address, address + nbytes))

    def _dropped(self, removed: list[Interval]) -> None:
        for mapping in {item.value for item in removed}:
            pieces = self.map.overlapping(mapping.address, mapping.address + mapping.nbytes)
            if mapping.block is not None and not any(piece.value is mapping for piece in pieces):
                mapping.block.drop()

    def pin(self, address: int, nbytes: int, *, writable: bool = True) -> Block:
        """The memory at [address, address + nbytes) of this process, for a device that may write it or not.

        Raises Unpinnable.
        """
        item = self.map.find(address)
        if item is not None and item.value.block is not None:
            if address + nbytes > item.end or item.value.kind != "memory":
                raise Unpinnable(f"[{address:#x}, +{nbytes:#x}) is not one piece of anonymous memory")
            block: Block = item.value.block
            return block.part(item.value.block_offset + address - item.value.address, nbytes)
        shared = check_pinnable(address, nbytes, writable=writable)
        if not shared:  # private pages stay reachable only where they are
            return Block(address, nbytes)
        alias = duplicate(address, nbytes)
        return Block(alias, nbytes, on_free=lambda: self.libc.munmap(alias, nbytes))


def duplicate(address: int, nbytes: int) -> int:
    """A second mapping of the same shared pages: it stays when the owner unmaps his, as pinned pages do."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mremap.restype = ctypes.c_void_p
    libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    got = libc.mremap(address, 0, nbytes, MREMAP_MAYMOVE)  # old size 0 duplicates a shared mapping (mremap(2))
    if got is None or got == ctypes.c_void_p(-1).value:
        raise Unpinnable(f"[{address:#x}, +{nbytes:#x}): mremap failed, errno {ctypes.get_errno()}")
    return int(got)


def check_pinnable(address: int, nbytes: int, *, writable: bool = True) -> bool:
    """Whether the pages are shared ones of a single mapping. Raises Unpinnable as a driver would refuse them.

    Pages that the device only reads may be read-only ones, and those of a file.
    """
    position, end, pieces, shared = address, address + nbytes, 0, True
    with open(MAPS, encoding="ascii", errors="replace") as lines:
        for line in lines:
            span, perms, _offset, _device, inode = line.split(maxsplit=5)[:5]
            start, stop = (int(part, 16) for part in span.split("-"))
            if stop <= position:
                continue
            if start > position:
                break
            private = perms[3] == "p"
            readable = not writable and perms[0] == "r"
            if not readable and (perms[:2] != "rw" or (private and inode != "0")):
                raise Unpinnable(f"{position:#x} is {perms} of inode {inode}: not writable anonymous memory")
            pieces, shared, position = pieces + 1, shared and not private, stop
            if position >= end:
                return shared and pieces == 1
    raise Unpinnable(f"nothing is mapped at {position:#x}")
