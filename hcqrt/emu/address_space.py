"""The address space of an emulated GPU: its own range map, in which any miss is an MMU fault."""

from __future__ import annotations

import ctypes

from hcqrt.emu.intervals import Interval, IntervalMap
from hcqrt.emu.memory import ATOMIC, READ, WRITE, Block, Mapping, MmuFault, copy_block

PAGE_TABLE_SPAN = 1 << 21  # one last-level page table covers this much: a miss in a used one is PTE, elsewhere PDE
READ_ONLY_ACCESSES = (READ, "fetch")


class GpuAddressSpace:
    """VA -> memory. `version` changes with every map and unmap, so that users may keep tables made from it."""

    def __init__(self, va_bits: int = 49) -> None:
        self.va_bits = va_bits
        self.version = 0
        self._map: IntervalMap[Mapping] = IntervalMap()
        self._ranges: list[tuple[int, int, int, bool, bool]] | None = None
        self._last: Interval | None = None

    def map(self, mapping: Mapping) -> None:
        """Make `mapping` visible, replacing what it covers; takes a hold on its block."""
        if mapping.va <= 0 or mapping.va + mapping.nbytes > 1 << self.va_bits:
            raise ValueError(
                f"mapping at {mapping.va:#x}, {mapping.nbytes:#x} bytes leaves {self.va_bits} address bits"
            )
        if mapping.block_offset < 0 or mapping.block_offset + mapping.nbytes > mapping.block.nbytes:
            raise ValueError(f"mapping at {mapping.va:#x}: leaves its block of {mapping.block.nbytes:#x} bytes")
        mapping.block.hold()
        self._changed(self._map.put(mapping.va, mapping.va + mapping.nbytes, mapping))

    def unmap(self, va: int, nbytes: int) -> None:
        """Remove whatever is mapped in [va, va + nbytes)."""
        self._changed(self._map.cut(va, va + nbytes))

    def _changed(self, removed: list[Interval]) -> None:
        self.version += 1
        self._ranges = self._last = None
        for mapping in {item.value for item in removed}:
            left = sum(item.value is mapping for item in self._map.overlapping(mapping.va, mapping.va + mapping.nbytes))
            if not left:
                mapping.block.drop()

    def find(self, va: int) -> Interval | None:
        """The mapped range that holds `va`."""
        return self._map.find(va)

    def mappings(self) -> list[Interval]:
        """What is mapped now, in address order; ranges may be parts of their mapping."""
        return list(self._map)

    def ranges(self) -> list[tuple[int, int, int, bool, bool]]:
        """The table an executor works with: (va, nbytes, host pointer, writable, atomic). Do not change the list."""
        if self._ranges is None:
            self._ranges = [
                (start, end - start, m.host_ptr(start), m.writable, m.atomic and m.writable)
                for start, end, m in self._map
            ]
        return self._ranges

    def fault(self, va: int, access: str, nbytes: int) -> MmuFault:
        """The fault of an access that found no mapping at `va`."""
        if not 0 <= va < 1 << self.va_bits:
            return MmuFault(va, access, "VA_LIMIT", nbytes)
        table = va // PAGE_TABLE_SPAN * PAGE_TABLE_SPAN
        used = self._map.overlapping(table, table + PAGE_TABLE_SPAN)
        return MmuFault(va, access, "PTE" if used else "PDE", nbytes)

    def _at(self, va: int, access: str, nbytes: int) -> Interval:
        item = self._last
        if item is None or not item.start <= va < item.end:
            item = self._map.find(va)
            if item is None:
                raise self.fault(va, access, nbytes)
            self._last = item
        if access not in READ_ONLY_ACCESSES:
            if not item.value.writable:
                raise MmuFault(va, access, "RO", nbytes)
            if access == ATOMIC and not item.value.atomic:
                raise MmuFault(va, access, "ATOMIC", nbytes)
        return item

    def pieces(self, va: int, nbytes: int, access: str) -> list[tuple[Block, int, int]]:
        """[va, va + nbytes) as (block, offset in block, length). Raises MmuFault at the first bad address."""
        found: list[tuple[Block, int, int]] = []
        position, end = va, va + nbytes
        while position < end:
            item = self._at(position, access, nbytes)
            length = min(item.end, end) - position
            found.append((item.value.block, item.value.block_offset + position - item.value.va, length))
            position += length
        return found

    def pointer(self, va: int, nbytes: int, access: str = READ) -> int:
        """Host pointer of a piece that must lie in one mapping. Raises MmuFault."""
        item = self._at(va, access, nbytes)
        if va + nbytes > item.end:
            raise self.fault(item.end, access, nbytes)
        mapping: Mapping = item.value
        return mapping.host_ptr(va)

    def read(self, va: int, nbytes: int, access: str = READ) -> bytes:
        return b"".join(
            ctypes.string_at(block.host_ptr + offset, length)
            for block, offset, length in self.pieces(va, nbytes, access)
        )

    def write(self, va: int, data: bytes | bytearray | memoryview) -> None:
        """Store `data`; nothing is written when any byte of the destination faults."""
        raw, done = bytes(data), 0
        for block, offset, length in self.pieces(va, len(raw), WRITE):
            ctypes.memmove(block.host_ptr + offset, raw[done : done + length], length)
            done += length

    def read_u32(self, va: int) -> int:
        """One aligned 32-bit load."""
        return ctypes.c_uint32.from_address(self.pointer(va, 4)).value

    def write_u32(self, va: int, value: int) -> None:
        ctypes.c_uint32.from_address(self.pointer(va, 4, WRITE)).value = value

    def read_u64(self, va: int) -> int:
        """One aligned 64-bit load."""
        return ctypes.c_uint64.from_address(self.pointer(va, 8)).value

    def write_u64(self, va: int, value: int) -> None:
        ctypes.c_uint64.from_address(self.pointer(va, 8, WRITE)).value = value

    def copy(self, dest_va: int, src_va: int, nbytes: int) -> None:
        """Copy inside this space, holes as holes. Both sides are checked before the first byte moves."""
        dests, srcs = self.pieces(dest_va, nbytes, WRITE), self.pieces(src_va, nbytes, READ)
        dest_index = src_index = dest_done = src_done = 0
        while src_index < len(srcs):
            dest, dest_offset, dest_left = dests[dest_index]
            src, src_offset, src_left = srcs[src_index]
            step = min(dest_left - dest_done, src_left - src_done)
            copy_block(dest, dest_offset + dest_done, src, src_offset + src_done, step)
            dest_done, src_done = dest_done + step, src_done + step
            if dest_done == dest_left:
                dest_index, dest_done = dest_index + 1, 0
            if src_done == src_left:
                src_index, src_done = src_index + 1, 0

    def close(self) -> None:
        """Drop every mapping."""
        self.unmap(0, 1 << 64)
