"""KGSL client: properties, contexts, memory objects, timestamps and events of one open node. Source: qcom facts 1."""

from __future__ import annotations

import ctypes
import errno as errno_codes
import os
from collections.abc import Iterable
from typing import Any, TypeVar

from hcqrt.autogen.qcom import kgsl_consts as consts
from hcqrt.autogen.qcom import kgsl_ioctls as ioctls
from hcqrt.autogen.qcom import kgsl_structs as structs
from hcqrt.errors import IoctlError, OutOfMemory
from hcqrt.fileio import FileIOInterface, System
from hcqrt.ioctl import Ioctl, ioctl_error
from hcqrt.mmio import MMIOInterface

NODE = "/dev/kgsl-3d0"
SYSFS = "/sys/class/kgsl/kgsl-3d0"
OBJECT_BYTES_MAX = (1 << 32) - 1
SYNC_OBJECTS_MAX = 128  # of one GPUOBJ_SYNC
FOREVER_MS = 1 << 31  # timeouts from here on, and 0, mean forever
FAULT_TYPES = consts.KGSL_FAULT_TYPE_MAX
FAULTS_MAX = 64  # records asked of one kind: a GPU that made more says nothing new in them

AGAIN_MAX = 4000  # tries of a call that the driver asks to repeat: some 100 ms

C = TypeVar("C", bound=Any)
S = TypeVar("S", bound=ctypes.Structure)
SyncEntry = tuple[int, int, int, int]  # object id, operation, offset, bytes


class KgslClient:
    """One open node: a process context of the driver, which ends with the last file that refers to it."""

    def __init__(self, system: System) -> None:
        """Raises OSError when the node does not open."""
        self.system = system
        self.fd: FileIOInterface = system.open(NODE)
        self._objects: set[int] = set()

    def close(self) -> None:
        self.fd.close()

    def _call(self, call: Ioctl[S], *, hint: str = "", **fields: Any) -> S:
        """One ioctl with these fields. EAGAIN is tried again for a while, as EINTR is by `Ioctl`. Raises IoctlError."""
        for spins in range(AGAIN_MAX):
            try:
                return call(self.fd, hint=hint, **fields)
            except IoctlError as error:
                if error.errno != errno_codes.EAGAIN:
                    raise
                self.system.back_off(spins)
        return call(self.fd, hint=hint, **fields)

    # properties

    def get_property(self, number: int, value: C) -> C:
        """Fill `value` (a ctypes object of the exact size). Raises IoctlError, also for a property it lacks."""
        self._call(
            ioctls.DEVICE_GETPROPERTY,
            type=number,
            value=ctypes.addressof(value),
            sizebytes=ctypes.sizeof(value),
            hint=f"property {number:#x}",
        )
        return value

    def optional_property(self, number: int, value: C) -> C | None:
        """As `get_property`; None where this kernel does not know the property, for whatever reason it gives."""
        try:
            return self.get_property(number, value)
        except IoctlError:
            return None

    def device_info(self) -> structs.kgsl_devinfo:
        return self.get_property(consts.KGSL_PROP_DEVICE_INFO, structs.kgsl_devinfo())

    def driver_version(self) -> str:
        """ "3.14", or "unknown"."""
        version = self.optional_property(consts.KGSL_PROP_VERSION, structs.kgsl_version())
        return f"{version.drv_major}.{version.drv_minor}" if version is not None else "unknown"

    def gpu_model(self) -> str:
        """The driver's own name of the GPU, empty on kernels that do not say it."""
        model = self.optional_property(consts.KGSL_PROP_GPU_MODEL, structs.kgsl_gpu_model())
        text = bytes(model.gpu_model).decode(errors="replace") if model is not None else ""
        return text or (self.system.read_text(f"{SYSFS}/gpu_model") or "").strip()

    def reset_status(self, context: int) -> int | None:
        """KGSL_CTX_STAT_* since the last call, which clears it; None where the driver does not say."""
        status = self.optional_property(consts.KGSL_PROP_GPU_RESET_STAT, ctypes.c_uint32(context))
        return None if status is None else int(status.value)

    def fault_count(self, context: int) -> tuple[int, int] | None:
        """How often this context faulted, and the last timestamp; None on kernels that do not say."""
        fault = structs.kgsl_context_property_fault()
        query = structs.kgsl_context_property(
            data=ctypes.addressof(fault),
            size=ctypes.sizeof(fault),
            type=consts.KGSL_CONTEXT_PROP_FAULTS,
            contextid=context,
        )
        if self.optional_property(consts.KGSL_PROP_CONTEXT_PROPERTY, query) is None:
            return None
        return fault.faults, fault.timestamp

    def constrain_power(self, context: int, level: int | None) -> None:
        """Ask for at least KGSL_CONSTRAINT_PWR_* while this context works; None takes it back. Raises IoctlError."""
        data = ctypes.c_uint32(level or 0)
        constraint = structs.kgsl_device_constraint(context_id=context)
        if level is not None:
            constraint.type, constraint.size = consts.KGSL_CONSTRAINT_PWRLEVEL, ctypes.sizeof(data)
            constraint.data = ctypes.addressof(data)
        self._call(
            ioctls.SETPROPERTY,
            type=consts.KGSL_PROP_PWR_CONSTRAINT,
            value=ctypes.addressof(constraint),
            sizebytes=ctypes.sizeof(constraint),
            hint="power constraint",
        )

    # contexts

    def create_context(self, flags: int, least: int) -> tuple[int, int]:
        """Its id, and which of the flags the kernel took; `least` is asked where it refuses one of the others."""
        try:
            made = self._call(ioctls.DRAWCTXT_CREATE, flags=flags, hint=f"flags {flags:#x}")
        except IoctlError as error:
            if error.errno != errno_codes.EINVAL or flags == least:
                raise
            made = self._call(ioctls.DRAWCTXT_CREATE, flags=least, hint=f"flags {least:#x}")
        return made.drawctxt_id, made.flags

    def destroy_context(self, context: int) -> None:
        self._call(ioctls.DRAWCTXT_DESTROY, drawctxt_id=context, hint=f"context {context}")

    # memory objects

    def alloc(self, nbytes: int, flags: int) -> structs.kgsl_gpuobj_alloc:
        """A new object: id, kept flags, mmapsize. Raises OutOfMemory when the driver has no memory or addresses."""
        if not 0 < nbytes <= OBJECT_BYTES_MAX:
            raise OutOfMemory(f"{nbytes} bytes asked of {NODE}, which gives 1 to {OBJECT_BYTES_MAX} at a time")
        try:
            made = self._call(ioctls.GPUOBJ_ALLOC, size=nbytes, flags=flags, hint=f"{nbytes} bytes asked")
        except IoctlError as error:
            if error.errno in (errno_codes.ENOMEM, errno_codes.ENOSPC):
                raise OutOfMemory(str(error)) from error
            raise
        self._objects.add(made.id)
        return made

    def info(self, number: int) -> structs.kgsl_gpuobj_info:
        """Where an object lies for the GPU, its size and flags."""
        return self._call(ioctls.GPUOBJ_INFO, id=number, hint=f"object {number}")

    def free(self, number: int) -> None:
        """The GPU no longer uses it. Twice is fine."""
        if number in self._objects:
            self._objects.remove(number)
            self._call(ioctls.GPUOBJ_FREE, id=number, hint=f"object {number}")

    def mmap(self, number: int, nbytes: int) -> MMIOInterface:
        """Map an object for the host; `nbytes` as GPUOBJ_ALLOC gave them. Raises OutOfMemory."""
        try:
            return self.fd.mmap(nbytes, number * self.system.page_size)  # an id in the place of a page offset
        except OSError as error:
            failure = ioctl_error(f"mmap of object {number}", NODE, error, f"{nbytes} bytes; see ulimit -v and -n")
            if error.errno in (errno_codes.ENOMEM, errno_codes.EAGAIN):
                raise OutOfMemory(str(failure)) from error
            raise failure from error

    def import_user(self, address: int, nbytes: int, *, readonly: bool) -> int:
        """Pin host pages for the GPU; whole pages. The driver cleans and invalidates them once."""
        place = structs.kgsl_gpuobj_import_useraddr(virtaddr=address)
        flags = consts.KGSL_CACHEMODE_WRITEBACK << consts.KGSL_CACHEMODE_SHIFT | consts.KGSL_MEMFLAGS_IOCOHERENT
        if readonly:
            flags |= consts.KGSL_MEMFLAGS_GPUREADONLY
        hint = f"{nbytes} bytes of host memory at {address:#x}"
        return self._import(consts.KGSL_USER_MEM_TYPE_ADDR, place, nbytes, flags, hint)

    def import_dmabuf(self, fd: int) -> int:
        """Map a dma-buf for the GPU. The object holds the buffer, so the fd may be closed."""
        place = structs.kgsl_gpuobj_import_dma_buf(fd=fd)
        return self._import(consts.KGSL_USER_MEM_TYPE_DMABUF, place, ctypes.sizeof(place), 0, f"dma-buf {fd}")

    def _import(self, kind: int, place: ctypes.Structure, length: int, flags: int, hint: str) -> int:
        try:
            made = self._call(
                ioctls.GPUOBJ_IMPORT, priv=ctypes.addressof(place), priv_len=length, flags=flags, type=kind, hint=hint
            )
        except IoctlError as error:
            if error.errno == errno_codes.ENOMEM:
                raise OutOfMemory(f"{error}; see ulimit -l") from error
            if error.errno == errno_codes.EFAULT and kind == consts.KGSL_USER_MEM_TYPE_ADDR:
                text = f"{error}; the mapping of a GPU buffer cannot be imported, nor memory mapped read-only"
                raise IoctlError(text, request=error.request, errno=error.errno) from error
            raise
        self._objects.add(made.id)
        return int(made.id)

    def sync(self, entries: Iterable[SyncEntry]) -> None:
        """Clean or invalidate ranges of cached objects, KGSL_GPUMEM_CACHE_* each.

        The kernel stops at the first id that it does not know, without an error: such an entry is our own bug.
        """
        rest = list(entries)
        assert all(entry[0] in self._objects for entry in rest), "a cache operation on an object that was freed"
        while rest:
            batch, rest = rest[:SYNC_OBJECTS_MAX], rest[SYNC_OBJECTS_MAX:]
            array = (structs.kgsl_gpuobj_sync_obj * len(batch))()
            for item, (number, operation, offset, nbytes) in zip(array, batch, strict=True):
                item.id, item.offset, item.length = number, offset, nbytes
                item.op = operation | consts.KGSL_GPUMEM_CACHE_RANGE
            self._call(
                ioctls.GPUOBJ_SYNC,
                objs=ctypes.addressof(array),
                obj_len=ctypes.sizeof(structs.kgsl_gpuobj_sync_obj),
                count=len(batch),
                hint=f"{len(batch)} objects",
            )

    # timestamps

    def read_timestamp(self, context: int, kind: int) -> int:
        """KGSL_TIMESTAMP_CONSUMED, _RETIRED or _QUEUED of a context."""
        return int(self._call(ioctls.CMDSTREAM_READTIMESTAMP_CTXTID, context_id=context, type=kind).timestamp)

    def wait_timestamp(self, context: int, timestamp: int, timeout_ms: int) -> bool:
        """Sleep until a timestamp has retired. False when the time is over or a signal came: look, then call again.

        A true answer is no proof that the work was done: a context that the driver gave up retires everything.
        Raises IoctlError for every other errno.
        """
        if not 0 < timeout_ms < FOREVER_MS:
            raise ValueError(
                f"a wait of {timeout_ms} ms: the driver takes 1 to {FOREVER_MS - 1}, anything else is forever"
            )
        call = ioctls.DEVICE_WAITTIMESTAMP_CTXTID
        argument = call.struct(context_id=context, timestamp=timestamp, timeout=timeout_ms)
        try:
            self.fd.ioctl(call.request, ctypes.addressof(argument))
        except OSError as error:
            if error.errno in (errno_codes.ETIMEDOUT, errno_codes.EINTR, errno_codes.EAGAIN):
                return False
            raise ioctl_error(call.name, NODE, error, f"context {context}, timestamp {timestamp}") from error
        return True

    def timestamp_event(self, context: int, timestamp: int) -> int:
        """A sync file that becomes readable when the timestamp has retired; the caller closes it with os.close."""
        fence = structs.kgsl_timestamp_event_fence(fence_fd=-1)
        self._call(
            ioctls.TIMESTAMP_EVENT,
            type=consts.KGSL_TIMESTAMP_EVENT_FENCE,
            timestamp=timestamp,
            context_id=context,
            priv=ctypes.addressof(fence),
            len=ctypes.sizeof(fence),
            hint=f"context {context}, timestamp {timestamp}",
        )
        os.set_inheritable(fence.fence_fd, False)
        return int(fence.fence_fd)

    # faults

    def page_faults(self, context: int) -> list[tuple[int, int]]:
        """(address, KGSL_PAGEFAULT_TYPE_* bits) of each fault the driver kept. Raises IoctlError if it keeps none."""
        size = ctypes.sizeof(structs.kgsl_fault)
        faults = (structs.kgsl_fault * FAULT_TYPES)()
        query: dict[str, Any] = {"faultsize": size, "context_id": context, "hint": f"context {context}"}
        count = self._call(ioctls.GET_FAULT_REPORT, **query).faultnents
        count = min(count or FAULT_TYPES, FAULT_TYPES)
        self._call(ioctls.GET_FAULT_REPORT, faultlist=ctypes.addressof(faults), faultnents=count, **query)
        known = [fault for fault in faults[:count] if fault.type == consts.KGSL_FAULT_TYPE_PAGEFAULT and fault.count]
        if not known:
            return []
        number = min(known[0].count, FAULTS_MAX)
        records = (structs.kgsl_pagefault_report * number)()
        record_bytes = ctypes.sizeof(structs.kgsl_pagefault_report)
        wanted = structs.kgsl_fault(
            fault=ctypes.addressof(records), type=consts.KGSL_FAULT_TYPE_PAGEFAULT, count=number, size=record_bytes
        )
        self._call(ioctls.GET_FAULT_REPORT, faultlist=ctypes.addressof(wanted), faultnents=1, **query)
        return [(record.fault_addr, record.fault_type) for record in records]
