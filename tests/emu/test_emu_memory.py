"""Sparse physical memory and GPU address spaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.intervals import IntervalMap
from hcqrt.emu.memory import ATOMIC, WRITE, Mapping, MmuFault, OutOfPhysical, PhysicalMemory
from hcqrt.fileio import Libc

GIB = 1 << 30


@pytest.fixture
def memory() -> Iterator[PhysicalMemory]:
    vidmem = PhysicalMemory(Libc(), "vidmem", 16 * GIB)
    yield vidmem
    vidmem.close()


def test_full_memory_says_so_and_freed_memory_comes_back_zeroed(memory: PhysicalMemory) -> None:
    block = memory.allocate(12 * GIB)
    with pytest.raises(OutOfPhysical, match="4294967296 of 17179869184 free"):
        memory.allocate(5 * GIB)
    space = GpuAddressSpace()
    space.map(Mapping(0x1000, 0x1000, block, 0))
    space.write(0x1000, b"secret")
    space.close()
    block.drop()
    assert memory.used_bytes == 0 and memory.resident_bytes() == 0
    again = memory.allocate(16 * GIB)
    space.map(Mapping(0x1000, 0x1000, again, 0))
    assert space.read(0x1000, 6) == bytes(6)
    space.close()
    again.drop()


def test_small_blocks_take_64_kib_units_and_alignment_is_kept(memory: PhysicalMemory) -> None:
    small, large = memory.allocate(4096), memory.allocate(1 << 21, 1 << 21)
    assert memory.used_bytes == (1 << 16) + (1 << 21) and large.offset % (1 << 21) == 0
    small.drop()
    large.drop()
    assert memory._free == [(0, memory.file_bytes)]


def test_an_access_outside_a_mapping_is_a_fault_with_its_address(memory: PhysicalMemory) -> None:
    block, space = memory.allocate(1 << 16), GpuAddressSpace()
    space.map(Mapping(0x200000, 0x2000, block, 0, writable=False))
    for address, nbytes, access, kind, at in (
        (0x1FFFFF, 2, "read", "PDE", 0x1FFFFF),
        (0x201FFF, 2, "read", "PTE", 0x202000),
        (0x200000, 4, WRITE, "RO", 0x200000),
        (1 << 49, 4, "read", "VA_LIMIT", 1 << 49),
    ):
        with pytest.raises(MmuFault) as fault:
            space.pieces(address, nbytes, access)
        assert (fault.value.address, fault.value.kind, fault.value.access) == (at, kind, access)
    space.map(Mapping(0x200000, 0x1000, block, 0, atomic=False))
    with pytest.raises(MmuFault, match="ATOMIC"):
        space.pointer(0x200000, 4, ATOMIC)
    space.close()
    block.drop()


def test_a_mapping_keeps_its_block_until_the_last_piece_is_gone(memory: PhysicalMemory) -> None:
    block, space = memory.allocate(1 << 16), GpuAddressSpace()
    space.map(Mapping(0x10000, 0x10000, block, 0))
    block.drop()
    space.unmap(0x14000, 0x1000)
    assert [(start, nbytes) for start, nbytes, *_ in space.ranges()] == [(0x10000, 0x4000), (0x15000, 0xB000)]
    space.write_u32(0x15000, 7)
    space.unmap(0x10000, 0x4000)
    assert memory.used_bytes == 1 << 16 and space.read_u32(0x15000) == 7
    version = space.version
    space.unmap(0, 1 << 49)
    assert memory.used_bytes == 0 and space.version > version


def test_copies_of_sparse_memory_stay_sparse(memory: PhysicalMemory) -> None:
    size = 4 * GIB + 65536
    a, b, space = memory.allocate(size), memory.allocate(size), GpuAddressSpace()
    src, dest = 1 << 36, 2 << 36
    space.map(Mapping(src, size, a, 0))
    space.map(Mapping(dest, size, b, 0))
    space.write(src + 4 * GIB - 2, b"over 4 GiB")
    space.write(dest + 77, b"stale")
    space.copy(dest + 3, src + 1, 4 * GIB + 9)
    assert space.read(dest + 4 * GIB, 10) == b"over 4 GiB" and space.read(dest + 77, 5) == bytes(5)
    assert memory.resident_bytes() < 1 << 20
    space.close()
    a.drop()
    b.drop()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(1, 12)), max_size=30))
def test_interval_map_agrees_with_a_plain_dict(steps: list[tuple[bool, int, int]]) -> None:
    ranges: IntervalMap[int] = IntervalMap()
    model: dict[int, int] = {}
    for index, (put, start, length) in enumerate(steps):
        removed = ranges.put(start, start + length, index) if put else ranges.cut(start, start + length)
        gone = {address: item.value for item in removed for address in range(item.start, item.end)}
        assert gone == {a: v for a, v in model.items() if start <= a < start + length}
        for address in range(start, start + length):
            model.pop(address, None)
            if put:
                model[address] = index
    assert {a: item.value for item in ranges for a in range(item.start, item.end)} == model
    assert all((found := ranges.find(a)) is not None and found.value == v for a, v in model.items())
