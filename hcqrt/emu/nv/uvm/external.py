"""UVM calls on external ranges: addresses that map RM memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.status import (
    NV_ERR_INVALID_ADDRESS,
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_DEVICE,
    NV_ERR_INVALID_OFFSET,
    NV_ERR_OBJECT_NOT_FOUND,
    NV_ERR_OUT_OF_RANGE,
    NV_ERR_UVM_ADDRESS_IN_USE,
)
from hcqrt.emu.memory import Mapping
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.rm.memory import VIDMEM, Memory
from hcqrt.emu.nv.uvm.space import PAGE, Range, UvmGpu, UvmSpace

Run = Callable[[UvmSpace, Any], None]
TABLE: dict[str, Run] = {}


def uvm_call(name: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        TABLE[name] = run
        return run

    return register


@uvm_call("UVM_CREATE_EXTERNAL_RANGE")
def create_external_range(space: UvmSpace, a: Any) -> None:
    base, nbytes = a.base, a.length
    if not base or not nbytes or base % PAGE or nbytes % PAGE or base + nbytes > 1 << 64:
        raise Refused(NV_ERR_INVALID_ADDRESS, f"[{base:#x}, +{nbytes:#x}) is empty or not page aligned")
    if space.ranges.overlapping(base, base + nbytes):
        raise Refused(NV_ERR_UVM_ADDRESS_IN_USE, f"[{base:#x}, +{nbytes:#x}) overlaps a range")
    space.ranges.put(base, base + nbytes, Range(base, nbytes, "external"))


@dataclass(frozen=True)
class Access:
    writable: bool
    atomic: bool


ACCESS = {
    c.UvmGpuMappingTypeDefault: Access(True, True),
    c.UvmGpuMappingTypeReadWriteAtomic: Access(True, True),
    c.UvmGpuMappingTypeReadWrite: Access(True, False),
    c.UvmGpuMappingTypeReadOnly: Access(False, False),
}
CACHING = (c.UvmGpuCachingTypeDefault, c.UvmGpuCachingTypeForceUncached, c.UvmGpuCachingTypeForceCached)


def check_attributes(entry: Any) -> Access:
    access = ACCESS.get(entry.gpuMappingType)
    kind = (entry.gpuFormatType, entry.gpuElementBits, entry.gpuCompressionType)
    if access is None or entry.gpuCachingType not in CACHING or any(kind):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"mapping type {entry.gpuMappingType}, kind {kind}")
    return access


def find_memory(space: UvmSpace, a: Any) -> Memory:
    memory = space.client(a.hClient).objects.get(a.hMemory)
    if not isinstance(memory, Memory):
        raise Refused(NV_ERR_OBJECT_NOT_FOUND, f"memory {a.hMemory:#x} does not exist")
    if a.offset % PAGE:
        raise Refused(NV_ERR_INVALID_ADDRESS, f"offset {a.offset:#x} is not page aligned")
    if a.offset + a.length > memory.shape.nbytes:
        raise Refused(NV_ERR_INVALID_OFFSET, f"[{a.offset:#x}, +{a.length:#x}) of {memory.shape.nbytes:#x} bytes")
    return memory


def check_owner(space: UvmSpace, gpu: UvmGpu, memory: Memory) -> None:
    """The card that the memory was allocated on must be registered, and a peer if it is another one's vidmem."""
    owner = memory.shape.board
    if owner.uuid not in space.gpus:
        raise Refused(NV_ERR_INVALID_DEVICE, "the memory's GPU is not registered here")
    foreign = owner is not gpu.board and memory.shape.kind == VIDMEM
    pair = frozenset((owner.uuid, gpu.board.uuid))
    if foreign and pair not in space.peers and not space.linked(pair):
        raise Refused(NV_ERR_INVALID_DEVICE, "the memory's GPU is no peer of the mapping one")


def check_window(gpu: UvmGpu, a: Any) -> None:
    assert gpu.va_space is not None, "looked up with its address space"
    if a.base < gpu.va_space.base or a.base + a.length > gpu.va_space.limit:
        raise Refused(NV_ERR_OUT_OF_RANGE, f"[{a.base:#x}, +{a.length:#x}) leaves the GPU's address space")


@uvm_call("UVM_MAP_EXTERNAL_ALLOCATION")
def map_external_allocation(space: UvmSpace, a: Any) -> None:
    space.check_alive()
    if not a.base or not a.length or a.base % PAGE or a.length % PAGE:
        raise Refused(NV_ERR_INVALID_ADDRESS, f"[{a.base:#x}, +{a.length:#x}) is empty or not page aligned")
    if not 0 < a.gpuAttributesCount <= len(a.perGpuAttributes):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"{a.gpuAttributesCount} GPUs")
    space.external_range(a.base, a.length)
    for entry in a.perGpuAttributes[: a.gpuAttributesCount]:
        access = check_attributes(entry)
        gpu = space.gpu(entry.gpuUuid, with_va_space=True)
        memory = find_memory(space, a)
        check_owner(space, gpu, memory)
        check_window(gpu, a)
        assert gpu.va_space is not None, "looked up with its address space"
        writable = access.writable and not memory.shape.device_read_only
        mapping = Mapping(a.base, a.length, memory.block, a.offset, writable, access.atomic and writable, memory.shape)
        gpu.va_space.space.map(mapping)


@uvm_call("UVM_UNMAP_EXTERNAL")
def unmap_external(space: UvmSpace, a: Any) -> None:
    space.external_range(a.base, a.length)
    gpu = space.gpu(a.gpuUuid, with_va_space=True)
    assert gpu.va_space is not None, "looked up with its address space"
    gpu.va_space.space.unmap(a.base, a.length)


@uvm_call("UVM_FREE")
def free_range(space: UvmSpace, a: Any) -> None:
    """The whole range, on every GPU. Layouts before 590 also give the length, which must match."""
    item = space.ranges.find(a.base)
    length = getattr(a, "length", None)
    if item is None or item.value.kind != "external" or item.start != a.base or length not in (None, item.value.nbytes):
        raise Refused(NV_ERR_INVALID_ADDRESS, f"[{a.base:#x}, +{length or 0:#x}) is not an external range")
    for gpu in space.gpus.values():
        if gpu.va_space is not None:
            gpu.va_space.space.unmap(item.start, item.end - item.start)
    space.ranges.cut(item.start, item.end)


@uvm_call("UVM_VALIDATE_VA_RANGE")
def validate_va_range(space: UvmSpace, a: Any) -> None:
    space.external_range(a.base, a.length)
