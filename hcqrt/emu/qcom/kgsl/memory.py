"""KGSL memory objects of one process: flags, addresses, and the two views of cached ones."""

from __future__ import annotations

import errno as errno_codes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.bits import align_up
from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.files import LiveObject
from hcqrt.emu.memory import Block, Mapping, OutOfPhysical, PhysicalMemory
from hcqrt.emu.qcom.caches import Views
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.ranges import LOW, ORDINARY, SVM, VA_BITS, AddressRanges
from hcqrt.emu.where import Where, caller

if TYPE_CHECKING:
    from hcqrt.emu.qcom.driver import QcomDriver

MAX_BYTES = 0xFFFFFFFF
MAX_ALIGN_LOG2 = 21  # larger MEMALIGN values are capped: no page of the GPU's MMU is larger than 2 MiB
VA_ALIGN_LOG2 = (21, 20, 16)  # what MEMALIGN may ask for beyond a page
ALLOC_FLAGS = (
    c.KGSL_MEMFLAGS_GPUREADONLY
    | c.KGSL_CACHEMODE_MASK
    | c.KGSL_MEMTYPE_MASK
    | c.KGSL_MEMALIGN_MASK
    | c.KGSL_MEMFLAGS_USE_CPU_MAP
    | c.KGSL_MEMFLAGS_FORCE_32BIT
    | c.KGSL_MEMFLAGS_IOCOHERENT
    | c.KGSL_MEMFLAGS_GUARD_PAGE
)
CACHED = (c.KGSL_CACHEMODE_WRITETHROUGH, c.KGSL_CACHEMODE_WRITEBACK)


def cache_mode(flags: int) -> int:
    return (flags & c.KGSL_CACHEMODE_MASK) >> c.KGSL_CACHEMODE_SHIFT


def is_coherent(flags: int) -> bool:
    """Whether CPU and GPU see the same without cache maintenance."""
    return cache_mode(flags) not in CACHED or bool(flags & c.KGSL_MEMFLAGS_IOCOHERENT)


def align_log2(flags: int) -> int:
    return (flags & c.KGSL_MEMALIGN_MASK) >> c.KGSL_MEMALIGN_SHIFT


def with_cache_mode(flags: int, mode: int) -> int:
    return flags & ~c.KGSL_CACHEMODE_MASK | mode << c.KGSL_CACHEMODE_SHIFT


@dataclass(eq=False)
class GpuObject:
    """One memory object. `size` is whole pages; `va` is 0 while a USE_CPU_MAP object has no CPU mapping yet."""

    id: int
    kind: str  # "allocated", "user pointer" or "dma-buf"
    size: int
    flags: int
    views: Views
    page_bytes: int
    va: int = 0
    pending: bool = False  # its deferred free was asked for
    metadata: bytes = b""
    where: Where = field(default_factory=caller)

    @property
    def footprint(self) -> int:
        """Size of its addresses: with the guard page, which nothing is mapped to on the GPU."""
        return self.size + (self.page_bytes if self.flags & c.KGSL_MEMFLAGS_GUARD_PAGE else 0)

    @property
    def svm(self) -> bool:
        return bool(self.flags & c.KGSL_MEMFLAGS_USE_CPU_MAP)

    def covers(self, va: int, nbytes: int) -> bool:
        return self.va <= va and va + nbytes <= self.va + self.size


class ProcessMemory:
    """The objects and the GPU address space behind one open file."""

    def __init__(self, driver: QcomDriver) -> None:
        self.driver = driver
        self.page_bytes = driver.system.page_size
        self.space = GpuAddressSpace(VA_BITS)
        self.ranges = AddressRanges()
        self.objects: dict[int, GpuObject] = {}
        self._next_id = 1  # never used twice: a stale id is noticed

    def find(self, number: int, what: str) -> GpuObject:
        """Raises OSError EINVAL."""
        found = self.objects.get(number)
        if found is None:
            refuse(errno_codes.EINVAL, f"{what}: no memory object {number}")
        return found

    def at(self, va: int) -> GpuObject | None:
        """The object whose addresses hold `va`."""
        item = self.space.find(va)
        found: GpuObject | None = item.value.tag if item is not None else None
        return found

    def allocate(self, size: int, flags: int) -> GpuObject:
        """GPUOBJ_ALLOC without its record. Raises OSError EINVAL, EOPNOTSUPP or ENOMEM."""
        if flags & c.KGSL_MEMFLAGS_SECURE:
            refuse(errno_codes.EOPNOTSUPP, "secure memory is not set up on this machine")
        if not 0 < size <= MAX_BYTES:
            refuse(errno_codes.EINVAL, f"size {size}: an object has 1 to {MAX_BYTES} bytes")
        flags = self.kept_flags(flags & ALLOC_FLAGS)
        nbytes = align_up(size, self.page_bytes)
        guard = self.page_bytes if flags & c.KGSL_MEMFLAGS_GUARD_PAGE else 0
        dram = self.new_block(self.driver.dram, nbytes + guard)
        cpu = dram if is_coherent(flags) else self.new_block(self.driver.cpu_caches, nbytes + guard)
        return self.add("allocated", nbytes, flags, Views(cpu, dram, self.driver.user))

    def kept_flags(self, flags: int) -> int:
        """What the kernel makes of known flags: they are written back, so that callers can test for support."""
        if align_log2(flags) > MAX_ALIGN_LOG2:
            flags = flags & ~c.KGSL_MEMALIGN_MASK | MAX_ALIGN_LOG2 << c.KGSL_MEMALIGN_SHIFT
        if cache_mode(flags) == c.KGSL_CACHEMODE_WRITETHROUGH:
            flags = with_cache_mode(flags, c.KGSL_CACHEMODE_WRITEBACK)
        coherency = self.driver.options.iocoherent
        if not coherency:
            flags &= ~c.KGSL_MEMFLAGS_IOCOHERENT
        elif coherency == "always" and cache_mode(flags) in CACHED:
            flags |= c.KGSL_MEMFLAGS_IOCOHERENT
        return flags

    def new_block(self, memory: PhysicalMemory, nbytes: int) -> Block:
        """Raises OSError ENOMEM."""
        try:
            return memory.allocate(nbytes)
        except OutOfPhysical as error:
            refuse(errno_codes.ENOMEM, str(error))

    def add(self, kind: str, size: int, flags: int, views: Views) -> GpuObject:
        """Make the object and, unless the CPU is to choose, its addresses. Takes the views over, also on failure."""
        item = GpuObject(self._next_id, kind, size, flags, views, self.page_bytes)
        if not item.svm:
            bounds = LOW if flags & c.KGSL_MEMFLAGS_FORCE_32BIT else ORDINARY
            wanted = align_log2(flags)
            align = max([self.page_bytes, *(1 << log2 for log2 in VA_ALIGN_LOG2 if wanted >= log2)])
            try:
                item.va = self.ranges.place(item.footprint, align, bounds, item)
            except OSError:
                views.drop()
                raise
            self.map(item)
        self._next_id += 1
        self.objects[item.id] = item
        return item

    def map(self, item: GpuObject) -> None:
        """Show the object to the GPU at its address."""
        writable = not item.flags & c.KGSL_MEMFLAGS_GPUREADONLY
        self.space.map(Mapping(item.va, item.size, item.views.dram, 0, writable, writable, item))

    def place_svm(self, item: GpuObject, address: int) -> None:
        """The first CPU mapping of a USE_CPU_MAP object settles its GPU address. Raises OSError."""
        low, high = SVM
        if not low <= address <= high - item.footprint:
            refuse(errno_codes.EINVAL, f"{address:#x} is outside of what CPU and GPU share, [{low:#x}, {high:#x})")
        self.ranges.take(address, item.footprint, item)
        item.va = address
        self.map(item)

    def free(self, item: GpuObject) -> None:
        """The GPU loses it now; CPU mappings keep their memory."""
        if self.objects.pop(item.id, None) is None:
            return
        if item.va:
            self.space.unmap(item.va, item.size)
            self.ranges.give_back(item.va, item.footprint)
        item.views.drop()

    def live(self) -> Iterator[LiveObject]:
        for item in self.objects.values():
            text = f"{item.id} {item.kind} {item.va:#x}+{item.size:#x} flags {item.flags:#x}"
            yield LiveObject("gpuobj" if item.kind == "allocated" else "pinned", text, item.where)

    def close(self) -> None:
        for item in list(self.objects.values()):
            self.free(item)
        self.space.close()
