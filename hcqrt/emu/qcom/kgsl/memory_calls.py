"""The ioctls of memory objects: allocate, look up, free now or later, cache maintenance."""

from __future__ import annotations

import errno as errno_codes
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import (
    kgsl_gpu_event_fence,
    kgsl_gpu_event_timestamp,
    kgsl_gpuobj_sync_obj,
)
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.memory import CACHED, GpuObject, cache_mode
from hcqrt.emu.refusal import EmulatorRefusal

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

MAX_SYNC_OBJECTS = 128
MAX_OP_BYTES = 0xFFFFFFFF


@handles(k.GPUOBJ_ALLOC)
def gpuobj_alloc(file: KgslFile, a: Any) -> None:
    item = file.memory.allocate(a.size, a.flags)
    item.metadata = read_metadata(file, a.metadata, a.metadata_len)
    a.size, a.flags, a.mmapsize, a.id = item.size, item.flags, item.footprint, item.id


def read_metadata(file: KgslFile, address: int, nbytes: int) -> bytes:
    """A label for debuggers; what cannot be read is no error."""
    nbytes = min(nbytes, c.KGSL_GPUOBJ_ALLOC_METADATA_MAX - 1)
    if not nbytes or not address:
        return b""
    return file.driver.user.peek(address, nbytes) or b""


@handles(k.GPUMEM_ALLOC_ID)
def gpumem_alloc_id(file: KgslFile, a: Any) -> None:
    item = file.memory.allocate(a.size, a.flags)
    a.id, a.flags, a.size = item.id, item.flags & 0xFFFFFFFF, item.size
    a.mmapsize, a.gpuaddr = item.footprint, item.va


@handles(k.GPUOBJ_INFO)
def gpuobj_info(file: KgslFile, a: Any) -> None:
    item = file.memory.find(a.id, "info")
    a.gpuaddr, a.flags, a.size, a.va_len, a.va_addr = item.va, item.flags, item.size, item.footprint, 0


@handles(k.GPUMEM_GET_INFO)
def gpumem_get_info(file: KgslFile, a: Any) -> None:
    item = by_id_or_address(file, a.id, a.gpuaddr, "info")
    a.gpuaddr, a.id, a.flags, a.size = item.va, item.id, item.flags & 0xFFFFFFFF, item.size
    a.mmapsize, a.useraddr = item.footprint, 0


def by_id_or_address(file: KgslFile, number: int, va: int, what: str) -> GpuObject:
    if number:
        return file.memory.find(number, what)
    item = file.memory.at(va) if va else None
    if item is None:
        refuse(errno_codes.EINVAL, f"{what}: no memory object at {va:#x}")
    return item


@handles(k.GPUOBJ_SET_INFO)
def gpuobj_set_info(file: KgslFile, a: Any) -> None:
    item = file.memory.find(a.id, "set info")
    if a.flags & c.KGSL_GPUOBJ_SET_INFO_METADATA:
        item.metadata = read_metadata(file, a.metadata, a.metadata_len)
    if a.flags & c.KGSL_GPUOBJ_SET_INFO_TYPE:
        if a.type > c.KGSL_MEMTYPE_MASK >> c.KGSL_MEMTYPE_SHIFT:
            refuse(errno_codes.EINVAL, f"memory type {a.type:#x} does not fit")
        item.flags = item.flags & ~c.KGSL_MEMTYPE_MASK | a.type << c.KGSL_MEMTYPE_SHIFT


# free


def free_now(file: KgslFile, item: GpuObject) -> None:
    if item.pending:
        refuse(errno_codes.EBUSY, f"object {item.id} is waiting to be freed already")
    file.memory.free(item)


@handles(k.GPUMEM_FREE_ID)
def gpumem_free_id(file: KgslFile, a: Any) -> None:
    free_now(file, file.memory.find(a.id, "free"))


@handles(k.SHAREDMEM_FREE)
def sharedmem_free(file: KgslFile, a: Any) -> None:
    free_now(file, by_id_or_address(file, 0, a.gpuaddr, "free"))


@handles(k.GPUOBJ_FREE)
def gpuobj_free(file: KgslFile, a: Any) -> None:
    item = file.memory.find(a.id, "free")
    if not a.flags & c.KGSL_GPUOBJ_FREE_ON_EVENT:
        free_now(file, item)
    elif item.pending:
        refuse(errno_codes.EBUSY, f"object {item.id} is waiting to be freed already")
    elif a.type == c.KGSL_GPU_EVENT_TIMESTAMP:
        free_on_timestamp(file, item, a)
    elif a.type == c.KGSL_GPU_EVENT_FENCE:
        free_on_fence(file, item, a)
    else:
        refuse(errno_codes.EINVAL, f"free: event type {a.type}")


def free_on_timestamp(file: KgslFile, item: GpuObject, a: Any) -> None:
    event = file.driver.user.record(kgsl_gpu_event_timestamp, a.priv, a.len)
    context = file.context(event.context_id, "free")
    context.add_event(event.timestamp, lambda: file.memory.free(item))
    item.pending = True


def free_on_fence(file: KgslFile, item: GpuObject, a: Any) -> None:
    event = file.driver.user.record(kgsl_gpu_event_fence, a.priv, a.len)
    fence = file.driver.fences.find(event.fd)
    item.pending = True
    fence.when_done(lambda: file.memory.free(item))


# cache maintenance


def sync_object(item: GpuObject, op: int, offset: int, length: int) -> None:
    """What one entry of a sync list does. Raises OSError as the kernel does, range checks for cached objects only."""
    if not op & c.KGSL_GPUMEM_CACHE_FLUSH:
        refuse(errno_codes.EINVAL, f"cache operation {op:#x}")
    if not op & c.KGSL_GPUMEM_CACHE_RANGE:
        offset, length = 0, item.size
    if cache_mode(item.flags) not in CACHED or item.flags & c.KGSL_MEMFLAGS_IOCOHERENT:
        return
    if not 0 < length <= MAX_OP_BYTES:
        refuse(errno_codes.EINVAL, f"cache operation on {length} bytes")
    if offset + length > item.size:
        refuse(errno_codes.ERANGE, f"[{offset:#x}, +{length:#x}) of an object of {item.size:#x} bytes")
    if op & c.KGSL_GPUMEM_CACHE_CLEAN:
        item.views.clean(offset, length)
    if op & c.KGSL_GPUMEM_CACHE_INV:
        item.views.invalidate(offset, length)


@handles(k.GPUOBJ_SYNC)
def gpuobj_sync(file: KgslFile, a: Any) -> None:
    """An unknown id is no error for the kernel, which then drops the entries after it as well (qcom.md §1.6)."""
    if not 0 < a.count <= MAX_SYNC_OBJECTS:
        refuse(errno_codes.EINVAL, f"sync of {a.count} objects: 1 to {MAX_SYNC_OBJECTS} a call")
    entries = file.driver.user.records(kgsl_gpuobj_sync_obj, a.objs, a.obj_len, a.count)
    stray = next((index for index, entry in enumerate(entries) if entry.id not in file.memory.objects), None)
    for entry in entries[:stray]:
        sync_object(file.memory.objects[entry.id], entry.op, entry.offset, entry.length)
    if stray is not None:
        report_stray(file, entries[stray].id, stray, len(entries))


def report_stray(file: KgslFile, number: int, index: int, count: int) -> None:
    text = (
        f"GPUOBJ_SYNC: entry {index} of {count} names memory object {number}, which does not exist; "
        "KGSL ignores it and every later entry without an error"
    )
    file.driver.refusals.append(text)
    if file.system.strict:
        raise EmulatorRefusal(text)


@handles(k.GPUMEM_SYNC_CACHE)
def gpumem_sync_cache(file: KgslFile, a: Any) -> None:
    item = by_id_or_address(file, a.id, a.gpuaddr, "sync")
    sync_object(item, a.op, a.offset, a.length)


@handles(k.GPUMEM_SYNC_CACHE_BULK)
def gpumem_sync_cache_bulk(file: KgslFile, a: Any) -> None:
    """Whole objects by id; unknown ids are skipped here."""
    most = file.system.page_size // 4
    if not a.id_list or not 0 < a.count <= most:
        refuse(errno_codes.EINVAL, f"sync of {a.count} objects: 1 to {most} a call")
    raw = memoryview(file.driver.user.read(a.id_list, 4 * a.count)).cast("I")
    for number in sorted(set(raw)):
        item = file.memory.objects.get(number)
        if item is not None and cache_mode(item.flags) in CACHED:
            sync_object(item, a.op & ~c.KGSL_GPUMEM_CACHE_RANGE, 0, 0)
