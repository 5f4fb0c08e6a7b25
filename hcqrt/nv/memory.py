"""GPU-mapped memory of every kind, each with its whole free path. Source: nv-driver facts 5-7."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from hcqrt.autogen.nv import consts
from hcqrt.bits import align_up, place
from hcqrt.core.alloc import AddressSpace
from hcqrt.errors import OutOfMemory
from hcqrt.fileio import FileIOInterface, System
from hcqrt.mmio import MMIOInterface
from hcqrt.nv.rm import CTL, RmClient
from hcqrt.nv.uvm import UvmClient

# Semaphores, command words and QMDs lie below 2**40: their addresses have 40 bits on these chips. That is too little
# for the memory of all GPUs of a large machine, so all else lies above: kernels and copies reach 49 bits and more.
VA_LIMIT = 1 << 40
LOW_BYTES = (1 << 35, 1 << 33, 1 << 31)  # the first that the process may reserve; 30 devices have room for theirs
HIGH_LIMIT = 1 << 46  # below the windows that kernels see shared and local memory through
HIGH_BYTES = (1 << 39, 1 << 37, 1 << 35, 1 << 33, 1 << 31)
SMALL_PAGE, HUGE_PAGE = 64 << 10, 2 << 20  # even a 4 KiB request takes 64 KiB of vidmem

VIDMEM_ATTR2 = place(consts.NVOS32_ATTR2_GPU_CACHEABLE, consts.NVOS32_ATTR2_GPU_CACHEABLE_YES) | place(
    consts.NVOS32_ATTR2_ZBC, consts.NVOS32_ATTR2_ZBC_PREFER_NO_ZBC
)
SYSMEM_ATTR2 = place(consts.NVOS32_ATTR2_GPU_CACHEABLE, consts.NVOS32_ATTR2_GPU_CACHEABLE_NO) | place(
    consts.NVOS32_ATTR2_ZBC, consts.NVOS32_ATTR2_ZBC_PREFER_NO_ZBC
)
COMMON_FLAGS = (
    consts.NVOS32_ALLOC_FLAGS_IGNORE_BANK_PLACEMENT
    | consts.NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE
    | consts.NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED
    | consts.NVOS32_ALLOC_FLAGS_MAP_NOT_REQUIRED
)
VIDMEM_FLAGS = COMMON_FLAGS | consts.NVOS32_ALLOC_FLAGS_PERSISTENT_VIDMEM


class Reservation:
    """One range of addresses, used by CPU and GPU alike, that nothing else in the process is mapped into.

    `high`: above 2**40, for what is named by whole addresses only.
    """

    def __init__(self, system: System, *, high: bool = False) -> None:
        self.system = system
        error: OSError | None = None
        for nbytes in HIGH_BYTES if high else LOW_BYTES:
            try:
                if high:
                    self.base = system.reserve(nbytes, HUGE_PAGE, HIGH_LIMIT, start=VA_LIMIT)
                else:
                    self.base = system.reserve(nbytes, HUGE_PAGE, VA_LIMIT)
            except OSError as failure:
                error = failure
                continue
            self.nbytes = nbytes
            self.space = AddressSpace(self.base, nbytes)
            return
        where = "above" if high else "below"
        raise OutOfMemory(
            f"no address space {where} 2**40 can be reserved ({error}); see ulimit -v, or close devices that this "
            "process has open"
        )

    def close(self) -> None:
        if self.nbytes:
            nbytes, self.nbytes = self.nbytes, 0
            self.system.unmap(self.base, nbytes)


@dataclass
class Owner:
    """Whose memory it is: the clients, the RM handles and the node of one GPU.

    `reservation` lies below 2**40, `high` above; without `high` all memory is low.
    """

    rm: RmClient
    uvm: UvmClient
    reservation: Reservation
    device: int
    uuid: bytes
    node: str
    fd: FileIOInterface
    high: Reservation | None = None

    def space(self, *, low: bool) -> AddressSpace:
        """Where to take addresses from."""
        return (self.reservation if low or self.high is None else self.high).space


class NVAllocation:
    """Memory mapped at the same address for GPU and, where `cpu` is set, CPU. `handle` is the RM object."""

    def __init__(
        self, owner: Owner, nbytes: int, va: int, undo: ExitStack, kind: str, space: AddressSpace
    ) -> None:  # fmt: skip
        self.owner, self.nbytes, self.va, self.kind = owner, nbytes, va, kind
        self._space = space
        self.cpu: MMIOInterface | None = None
        self.handle = 0
        self._undo, self._stuck = undo, False

    def close(self) -> None:
        """UVM range, CPU mapping, RM object, addresses: in this order. Twice is fine. The GPU no longer uses it."""
        self.cpu = None
        self._undo.close()

    def _unmap_gpu(self) -> None:
        self._stuck = True
        self.owner.uvm.unmap(self.va, self.nbytes)
        self._stuck = False

    def _free_addresses(self) -> None:
        if not self._stuck:  # addresses that the GPU may still have mapped are never given out again
            self._space.free(self.va)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.nbytes} bytes at {self.va:#x}>"


def huge_or_small(nbytes: int) -> int:
    return HUGE_PAGE if nbytes >= HUGE_PAGE else SMALL_PAGE


def rounded(system: System, nbytes: int, vidmem: bool) -> int:
    """The size that an allocation of `nbytes` really takes: whole pages of GPU and host."""
    page = huge_or_small(nbytes) if vidmem else system.page_size
    return align_up(nbytes, max(page, system.page_size))


def _start(owner: Owner, nbytes: int, align: int, kind: str, *, low: bool) -> NVAllocation:
    undo, space = ExitStack(), owner.space(low=low)
    memory = NVAllocation(owner, nbytes, space.alloc(nbytes, align), undo, kind, space)
    undo.callback(memory._free_addresses)
    return memory


def _map_gpu(memory: NVAllocation) -> None:
    owner = memory.owner
    owner.uvm.map(owner.uuid, memory.va, memory.nbytes, memory.handle)
    memory._undo.callback(memory._unmap_gpu)


def _map_cpu(memory: NVAllocation, node: str) -> None:
    owner, undo = memory.owner, memory._undo
    view, cookie = owner.rm.map_memory(node, owner.device, memory.handle, memory.nbytes, memory.va)
    undo.callback(owner.reservation.system.back_to_reserved, memory.va, memory.nbytes)
    undo.callback(owner.rm.unmap_memory, owner.device, memory.handle, cookie)
    memory.cpu = view


def alloc_vidmem(owner: Owner, nbytes: int, *, cpu: bool, contiguous: bool = False, low: bool = True) -> NVAllocation:
    """Memory of the GPU, below 2**40 when `low`.

    With `cpu` mapped through its BAR too (write-combined: writing is fast, reading is not).
    """
    size = rounded(owner.rm.system, nbytes, vidmem=True)
    page = huge_or_small(size)
    huge = page == HUGE_PAGE
    physicality = (
        consts.NVOS32_ATTR_PHYSICALITY_CONTIGUOUS if contiguous else consts.NVOS32_ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS
    )
    attr = place(consts.NVOS32_ATTR_PHYSICALITY, physicality)
    attr2 = VIDMEM_ATTR2
    if huge:
        attr |= place(consts.NVOS32_ATTR_PAGE_SIZE, consts.NVOS32_ATTR_PAGE_SIZE_HUGE)
        attr2 |= place(consts.NVOS32_ATTR2_PAGE_SIZE_HUGE, consts.NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB)
    memory = _start(owner, size, max(page, owner.rm.system.page_size), "vidmem", low=low)
    with memory._undo as undo:
        fields = dict(owner=owner.rm.root, type=consts.NVOS32_TYPE_IMAGE, flags=VIDMEM_FLAGS, attr=attr, attr2=attr2)
        memory.handle = owner.rm.alloc_memory("NV01_MEMORY_LOCAL_USER", owner.device, size, alignment=page, **fields)
        undo.callback(owner.rm.free, memory.handle, owner.device)
        if cpu:
            _map_cpu(memory, owner.node)
        _map_gpu(memory)
        memory._undo = undo.pop_all()
    return memory


def alloc_sysmem(owner: Owner, nbytes: int, *, cached: bool) -> NVAllocation:
    """System memory from the driver, mapped for both: snooped when `cached`, else uncached for the CPU."""
    size = rounded(owner.rm.system, nbytes, vidmem=False)
    coherency = consts.NVOS32_ATTR_COHERENCY_WRITE_BACK if cached else consts.NVOS32_ATTR_COHERENCY_UNCACHED
    attr = (
        place(consts.NVOS32_ATTR_PHYSICALITY, consts.NVOS32_ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS)
        | place(consts.NVOS32_ATTR_LOCATION, consts.NVOS32_ATTR_LOCATION_PCI)
        | place(consts.NVOS32_ATTR_COHERENCY, coherency)
    )
    memory = _start(owner, size, owner.rm.system.page_size, "system memory", low=True)
    with memory._undo as undo:
        fields: dict[str, Any] = dict(owner=owner.rm.root, type=consts.NVOS32_TYPE_NOTIFIER, flags=COMMON_FLAGS)
        fields.update(attr=attr, attr2=SYSMEM_ATTR2, alignment=owner.rm.system.page_size)
        memory.handle = owner.rm.alloc_memory("NV01_MEMORY_SYSTEM", owner.device, size, **fields)
        undo.callback(owner.rm.free, memory.handle, owner.device)
        _map_cpu(memory, CTL)
        _map_gpu(memory)
        memory._undo = undo.pop_all()
    return memory


def alloc_pinned(owner: Owner, nbytes: int) -> NVAllocation:
    """Host memory of this process, pinned and mapped for the GPU: cached, shared over a fork."""
    system = owner.rm.system
    size = rounded(system, nbytes, vidmem=False)
    memory = _start(owner, size, system.page_size, "host memory", low=False)
    with memory._undo as undo:
        try:
            memory.cpu = system.anonymous(size, memory.va)
        except OSError as error:
            raise OutOfMemory(f"{size} bytes of host memory at {memory.va:#x}: {error}; see ulimit -v") from error
        undo.callback(system.back_to_reserved, memory.va, size)
        memory.handle = owner.rm.pin_host_memory(owner.fd, owner.device, memory.va, size)
        undo.callback(owner.rm.free, memory.handle, owner.device)
        _map_gpu(memory)
        memory._undo = undo.pop_all()
    return memory
