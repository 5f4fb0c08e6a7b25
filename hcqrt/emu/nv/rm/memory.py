"""RM memory: video memory, system memory, and pinned memory of the calling process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.status import (
    NV_ERR_INSUFFICIENT_RESOURCES,
    NV_ERR_INVALID_ADDRESS,
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_CLASS,
    NV_ERR_INVALID_FLAGS,
    NV_ERR_INVALID_OBJECT_PARENT,
    NV_ERR_INVALID_OWNER,
    NV_ERR_NO_MEMORY,
    NV_ERR_NOT_SUPPORTED,
)
from hcqrt.bits import align_up, is_pow2
from hcqrt.emu.host import Unpinnable
from hcqrt.emu.memory import Block, OutOfPhysical
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import Board
from hcqrt.emu.nv.rm.resources import Device, board_of, need_parent
from hcqrt.emu.nv.rm.tree import Client, Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.rm.alloc import Request
    from hcqrt.emu.nv.rm.mapping import MapContext
    from hcqrt.emu.nv.rm.node import GpuFile

BIG_PAGE, HUGE_PAGE = 64 << 10, 2 << 20
NO_OWNER = (0, 0xFFFFFFFF)
VIDMEM, SYSMEM, PINNED = "vidmem", "sysmem", "pinned"
KNOWN_FLAGS = (
    c.NVOS32_ALLOC_FLAGS_IGNORE_BANK_PLACEMENT
    | c.NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE
    | c.NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED
    | c.NVOS32_ALLOC_FLAGS_MAP_NOT_REQUIRED
    | c.NVOS32_ALLOC_FLAGS_PERSISTENT_VIDMEM
)
# NVOS02 flags that pinned memory may carry (nv-driver.md §5)
PIN_FIELDS = (
    c.NVOS02_FLAGS_PHYSICALITY, c.NVOS02_FLAGS_LOCATION, c.NVOS02_FLAGS_COHERENCY, c.NVOS02_FLAGS_MAPPING,
    c.NVOS02_FLAGS_GPU_CACHEABLE, c.NVOS02_FLAGS_ALLOC_USER_READ_ONLY, c.NVOS02_FLAGS_ALLOC_DEVICE_READ_ONLY,
)  # fmt: skip
PIN_COHERENCIES = (
    c.NVOS02_FLAGS_COHERENCY_UNCACHED, c.NVOS02_FLAGS_COHERENCY_CACHED, c.NVOS02_FLAGS_COHERENCY_WRITE_BACK
)  # fmt: skip


def take(word: int, field: tuple[int, int]) -> int:
    """A field of a flag word, given as the header gives it: (msb, lsb)."""
    msb, lsb = field
    return word >> lsb & ((1 << (msb - lsb + 1)) - 1)


def mask(*fields: tuple[int, int]) -> int:
    return sum(((1 << (msb - lsb + 1)) - 1) << lsb for msb, lsb in fields)


ATTR_FIELDS = mask(
    c.NVOS32_ATTR_PAGE_SIZE, c.NVOS32_ATTR_LOCATION, c.NVOS32_ATTR_PHYSICALITY, c.NVOS32_ATTR_COHERENCY
)  # fmt: skip
ATTR2_FIELDS = mask(
    c.NVOS32_ATTR2_ZBC, c.NVOS32_ATTR2_GPU_CACHEABLE, c.NVOS32_ATTR2_PAGE_SIZE_HUGE,
    c.NVOS32_ATTR2_PROTECTION_USER, c.NVOS32_ATTR2_PROTECTION_DEVICE,
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What a piece of memory is."""

    kind: str  # VIDMEM, SYSMEM, PINNED
    board: Board
    nbytes: int
    page_bytes: int
    device_read_only: bool = False


class Memory(Resource):
    """A memory object. Its block lives until the last mapping of it is gone."""

    def __init__(self, client: Client, parent: Resource, handle: int, number: int, shape: Shape, block: Block) -> None:
        super().__init__(client, parent, handle, number)
        self.shape, self.block = shape, block
        self.contexts: dict[int, MapContext] = {}  # by pLinearAddress

    def free(self) -> None:
        for context in list(self.contexts.values()):
            context.revoke()
        self.block.drop()


def page_bytes_of(p: Any, kind: str, host_page: int) -> int:
    """The page size that RM settles on for a request."""
    size = take(p.attr, c.NVOS32_ATTR_PAGE_SIZE)
    if size == c.NVOS32_ATTR_PAGE_SIZE_HUGE:
        if take(p.attr2, c.NVOS32_ATTR2_PAGE_SIZE_HUGE) > c.NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB:
            raise Refused(NV_ERR_NOT_SUPPORTED, "pages above 2 MiB are not on this chip")
        return HUGE_PAGE
    if kind == SYSMEM:
        return BIG_PAGE if size == c.NVOS32_ATTR_PAGE_SIZE_BIG else host_page
    if size == c.NVOS32_ATTR_PAGE_SIZE_DEFAULT:
        return HUGE_PAGE if p.size >= HUGE_PAGE else BIG_PAGE
    return BIG_PAGE if size == c.NVOS32_ATTR_PAGE_SIZE_BIG else 4096


def check_request(request: Request, kind: str) -> None:
    """The rules of NV_MEMORY_ALLOCATION_PARAMS (nv-driver.md §5)."""
    p = request.params
    if p.owner in NO_OWNER:
        raise Refused(NV_ERR_INVALID_OWNER, f"owner {p.owner:#x}")
    if not p.size or p.internalflags or p.rangeLo or p.rangeHi or p.hVASpace:
        raise Refused(NV_ERR_INVALID_ARGUMENT, "size 0, internalflags, a range or an address space")
    location = take(p.attr, c.NVOS32_ATTR_LOCATION)
    wrong = location != c.NVOS32_ATTR_LOCATION_VIDMEM if kind == VIDMEM else location == c.NVOS32_ATTR_LOCATION_VIDMEM
    if wrong:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"LOCATION {location} for {kind}")
    if p.flags & c.NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE and p.alignment and not is_pow2(p.alignment):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"alignment {p.alignment:#x}")
    unknown = {
        "flags": p.flags & ~KNOWN_FLAGS, "attr": p.attr & ~ATTR_FIELDS, "attr2": p.attr2 & ~ATTR2_FIELDS,
    }  # fmt: skip
    for name, bits in unknown.items():
        if bits:
            request.driver.refusals.append(f"memory allocation {name} bits {bits:#x}")
            raise Refused(NV_ERR_NOT_SUPPORTED, f"{name} bits {bits:#x} are not emulated")


def make_memory(request: Request, kind: str) -> Memory:
    need_parent(request, Device)
    check_request(request, kind)
    p: Any = request.params
    board, system = board_of(request.parent), request.driver.system
    page = page_bytes_of(p, kind, system.page_size)
    nbytes = align_up(p.size, page)
    source = board.gpu.vidmem if kind == VIDMEM else system.memory
    forced = p.alignment if p.flags & c.NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE else 0
    try:
        block = source.allocate(nbytes, max(page, forced))
    except OutOfPhysical as error:
        raise Refused(NV_ERR_NO_MEMORY, str(error)) from error
    read_only = bool(take(p.attr2, c.NVOS32_ATTR2_PROTECTION_DEVICE))
    p.size, p.offset, p.limit = nbytes, block.offset if kind == VIDMEM else 0, nbytes - 1
    shape = Shape(kind, board, nbytes, page, read_only)
    return Memory(request.client, request.parent, request.handle, request.number, shape, block)


def make_vidmem(request: Request) -> Memory:
    return make_memory(request, VIDMEM)


def make_sysmem(request: Request) -> Memory:
    return make_memory(request, SYSMEM)


def check_pin_flags(file: GpuFile, flags: int) -> None:
    if (
        take(flags, c.NVOS02_FLAGS_LOCATION) != c.NVOS02_FLAGS_LOCATION_PCI
        or take(flags, c.NVOS02_FLAGS_MAPPING) != c.NVOS02_FLAGS_MAPPING_NO_MAP
        or take(flags, c.NVOS02_FLAGS_COHERENCY) not in PIN_COHERENCIES
        or take(flags, c.NVOS02_FLAGS_PHYSICALITY) != c.NVOS02_FLAGS_PHYSICALITY_NONCONTIGUOUS
    ):
        raise Refused(NV_ERR_INVALID_FLAGS, f"os descriptor flags {flags:#x}")
    unknown = flags & ~mask(*PIN_FIELDS)
    if unknown:
        file.driver.refusals.append(f"os descriptor flag bits {unknown:#x}")
        raise Refused(NV_ERR_INVALID_FLAGS, f"flag bits {unknown:#x} are not emulated")


def alloc_os_descriptor(file: GpuFile, client: Client, a: Any) -> None:
    """NV_ESC_RM_ALLOC_MEMORY: pin pages of the calling process."""
    p, system = a.params, file.system
    if p.hClass != c.NV01_MEMORY_SYSTEM_OS_DESCRIPTOR:
        file.driver.refusals.append(f"NV_ESC_RM_ALLOC_MEMORY class {p.hClass:#x}")
        raise Refused(NV_ERR_INVALID_CLASS, f"class {p.hClass:#x} through this escape")
    parent = client.find(p.hObjectParent, Device, "parent")
    if parent.board is not file.board:
        raise Refused(NV_ERR_INVALID_OBJECT_PARENT, f"device of another GPU than {file.path}")
    check_pin_flags(file, p.flags)
    nbytes = p.limit + 1
    if p.pMemory % system.page_size or not p.pMemory:
        raise Refused(NV_ERR_NOT_SUPPORTED, f"address {p.pMemory:#x} is not page aligned")
    if nbytes > system.memory.capacity_bytes:
        raise Refused(NV_ERR_INSUFFICIENT_RESOURCES, f"{nbytes} bytes")
    handle = client.new_handle(p.hObjectNew)
    try:
        block = system.host.pin(p.pMemory, align_up(nbytes, system.page_size))
    except Unpinnable as error:
        raise Refused(NV_ERR_INVALID_ADDRESS, str(error)) from error
    read_only = bool(take(p.flags, c.NVOS02_FLAGS_ALLOC_DEVICE_READ_ONLY))
    shape = Shape(PINNED, parent.board, block.nbytes, system.page_size, read_only)
    client.add(Memory(client, parent, handle, p.hClass, shape, block))
    p.hObjectNew = handle
