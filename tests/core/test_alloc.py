"""Allocators: nothing overlaps, what is freed comes back, a ring never hands out what work still reads."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.core.alloc import AddressSpace, AllocationCache, BumpAllocator, FencedRing
from hcqrt.errors import OutOfMemory
from hcqrt.mmio import MMIOInterface


class Memory:
    def __init__(self, nbytes: int, va: int) -> None:
        self._store = (ctypes.c_char * nbytes)()
        self.va, self.cpu = va, MMIOInterface(ctypes.addressof(self._store), nbytes, "B", self._store)


class Gpu:
    """Retires submissions only when told, or when the ring waits for one."""

    def __init__(self, nbytes: int, segments: int) -> None:
        self.retired = 0
        self.made = 0
        self.waits: list[int] = []
        self.nbytes = nbytes
        self.ring = FencedRing(self.memory, segments, self.wait)

    def memory(self) -> Memory:
        self.made += 1
        return Memory(self.nbytes, 0x1_0000_0000 * self.made)

    def wait(self, value: int) -> None:
        if value > self.retired:
            self.waits.append(value)
            self.retired = value


def test_bump_allocator_aligns_and_refuses_what_does_not_fit():
    bump = BumpAllocator(100, base=1000)
    assert bump.alloc(10) == 1000
    assert bump.alloc(8, align=16) == 1024
    with pytest.raises(OutOfMemory, match="69 bytes asked, 68 of 100 are left"):
        bump.alloc(69)
    bump.reset()
    assert bump.alloc(100) == 1000


@given(st.lists(st.tuples(st.integers(1, 700), st.sampled_from([1, 2, 64, 256])), max_size=60), st.randoms())
def test_address_space_ranges_never_overlap_and_all_come_back(requests, random):
    space, live = AddressSpace(0x1000, 0x4000), {}
    for nbytes, align in requests:
        if live and random.random() < 0.4:
            space.free(random.choice(list(live)))
            live = {a: n for a, n in live.items() if a in space._used}
        try:
            address = space.alloc(nbytes, align)
        except OutOfMemory:
            continue
        assert address % align == 0 and address >= 0x1000 and address + nbytes <= 0x5000
        assert all(address + nbytes <= a or a + n <= address for a, n in live.items())
        live[address] = nbytes
    assert space.in_use == sum(live.values())
    for address in list(live):
        space.free(address)
    assert space.alloc(0x4000) == 0x1000


def test_freeing_an_address_twice_is_refused():
    space = AddressSpace(0, 100)
    address = space.alloc(10)
    space.free(address)
    with pytest.raises(ValueError, match="not the start"):
        space.free(address)


def test_ring_waits_for_the_work_that_reads_a_segment():
    gpu = Gpu(4096, 4)
    ring = gpu.ring
    for value in range(1, 5):
        assert ring.alloc(1024) == (value - 1) * 1024
        ring.segment.fence = value
    assert gpu.waits == []
    assert ring.alloc(256) == 0
    assert gpu.waits == [1]


def test_ring_skips_held_segments_and_grows_when_all_are_held():
    gpu = Gpu(2048, 2)
    ring = gpu.ring
    for _ in range(2):
        ring.alloc(1024)
        ring.segment.holds += 1
    ring.alloc(256)
    assert gpu.made == 2 and ring.va == 0x2_0000_0000
    assert gpu.waits == []


def test_a_slot_larger_than_a_segment_is_refused():
    with pytest.raises(ValueError, match="2048 bytes does not fit a ring segment of 1024"):
        Gpu(4096, 4).ring.alloc(2048)


@given(st.lists(st.tuples(st.integers(1, 1024), st.integers(0, 3)), min_size=1, max_size=300))
def test_ring_never_hands_out_words_in_flight(steps):
    gpu = Gpu(8192, 4)
    ring, flights = gpu.ring, []
    for value, (nbytes, retire) in enumerate(steps, 1):
        offset = ring.alloc(nbytes)
        ring.segment.fence = value
        flights = [f for f in flights if f[0] > gpu.retired]
        assert all(ring.va + offset + nbytes <= a or b <= ring.va + offset for _, a, b in flights)
        flights.append((value, ring.va + offset, ring.va + offset + nbytes))
        gpu.retired = max(gpu.retired, min(value, gpu.retired + retire))


def test_cache_returns_the_same_kind_and_size_only_and_drops_the_oldest():
    released: list[str] = []
    cache: AllocationCache[str] = AllocationCache(released.append, limit_bytes=100)
    cache.put(("vram", 60), 60, "a")
    assert cache.take(("host", 60)) is None
    cache.put(("vram", 60), 60, "b")
    assert released == ["a"] and cache.cached_bytes == 60
    assert cache.take(("vram", 60)) == "b" and cache.cached_bytes == 0
    cache.put(("vram", 10), 10, "c")
    cache.clear()
    assert released == ["a", "c"] and cache.cached_bytes == 0
