"""Copies between the driver and the calling process: a bad address is EFAULT, never a crash."""

from __future__ import annotations

import ctypes
import errno as errno_codes
import os
from typing import Any, TypeVar

from hcqrt.emu.qcom.kgsl.errors import refuse

S = TypeVar("S", bound=ctypes.Structure)
PAGE_BYTES = 4096  # a record longer than a page is nonsense, as copy_struct_from_user has it
NO_SUCH_CALL = (errno_codes.ENOSYS, errno_codes.EPERM)  # sandboxes that forbid process_vm_readv


class IoVec(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class UserMemory:
    """The memory of the process that calls, which is this process."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        vector = ctypes.POINTER(IoVec)
        self._readv, self._writev = libc.process_vm_readv, libc.process_vm_writev
        for call in (self._readv, self._writev):
            call.restype = ctypes.c_ssize_t
            call.argtypes = [ctypes.c_int, vector, ctypes.c_ulong, vector, ctypes.c_ulong, ctypes.c_ulong]
        self._pid = os.getpid()
        self._local, self._remote = IoVec(), IoVec()

    def _transfer(self, call: Any, local: int, remote: int, nbytes: int) -> bool:
        """Whether all of it could be copied. Raises nothing."""
        if not nbytes:
            return True
        if not 0 < remote < 1 << 63:
            return False
        self._local.base, self._local.length = local, nbytes
        self._remote.base, self._remote.length = remote, nbytes
        done = call(self._pid, ctypes.byref(self._local), 1, ctypes.byref(self._remote), 1, 0)
        if done < 0 and ctypes.get_errno() in NO_SUCH_CALL:
            source, dest = (remote, local) if call is self._readv else (local, remote)
            ctypes.memmove(dest, source, nbytes)  # nothing else is left to try
            return True
        return bool(done == nbytes)

    def load(self, dest_ptr: int, address: int, nbytes: int) -> bool:
        """Copy from the caller to driver memory; False when the caller's side cannot be read."""
        return self._transfer(self._readv, dest_ptr, address, nbytes)

    def store(self, address: int, source_ptr: int, nbytes: int) -> bool:
        """Copy from driver memory to the caller; False when the caller's side cannot be written."""
        return self._transfer(self._writev, source_ptr, address, nbytes)

    def peek(self, address: int, nbytes: int) -> bytes | None:
        """None when it cannot be read."""
        buffer = ctypes.create_string_buffer(nbytes)
        return buffer.raw if self.load(ctypes.addressof(buffer), address, nbytes) else None

    def read(self, address: int, nbytes: int) -> bytes:
        """Raises OSError EFAULT."""
        raw = self.peek(address, nbytes)
        if raw is None:
            refuse(errno_codes.EFAULT, f"{nbytes} bytes at {address:#x} cannot be read")
        return raw

    def write(self, address: int, data: bytes | ctypes.Structure | ctypes.Array[ctypes.c_uint32]) -> None:
        """Raises OSError EFAULT."""
        raw = bytes(data)
        buffer = ctypes.create_string_buffer(raw, len(raw))
        if not self.store(address, ctypes.addressof(buffer), len(raw)):
            refuse(errno_codes.EFAULT, f"{len(raw)} bytes at {address:#x} cannot be written")

    def record(self, struct: type[S], address: int, nbytes: int) -> S:
        """A record of which the caller knows `nbytes`: missing ones are zero, unknown ones must be (E2BIG)."""
        known = ctypes.sizeof(struct)
        if nbytes > PAGE_BYTES:
            refuse(errno_codes.E2BIG, f"{struct.__name__} of {nbytes} bytes")
        raw = self.read(address, nbytes)
        if any(raw[known:]):
            refuse(errno_codes.E2BIG, f"{struct.__name__}: unknown bytes after {known} are not zero")
        return struct.from_buffer_copy(raw[:known].ljust(known, b"\0"))

    def records(self, struct: type[S], address: int, nbytes: int, count: int) -> list[S]:
        """An array of which each item has `nbytes`, as the kernel walks it."""
        return [self.record(struct, address + index * nbytes, nbytes) for index in range(count)]
