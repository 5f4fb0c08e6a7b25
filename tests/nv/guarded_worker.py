"""Runs a vector add where every struct that goes to the driver ends at memory that cannot be touched.

    guarded_worker.py DRIVER ABI

Escapes have the size of their request, parameters the size that the call says, UVM structs that of the layout in use.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import warnings

import numpy as np

from hcqrt.autogen.nv.ioctls import UVM
from hcqrt.config import Config
from hcqrt.emu import EmulatedSystem
from hcqrt.emu.files import EmulatedFile
from hcqrt.ioctl import ioc_size
from hcqrt.nv.abi import Abi
from hcqrt.opening import open_device
from hcqrt.tools.check_frame import shipped_kernel

PAGE, ROOM = mmap.PAGESIZE, 8 * mmap.PAGESIZE
WITH_PARAMETERS = {0x2A: (16, 24), 0x2B: (16, 24)}  # RM_CONTROL, NVOS21: where pointer and size lie
libc = ctypes.CDLL(None, use_errno=True)


class Guard:
    """Room whose end is the end of what may be touched."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, ROOM + PAGE)
        self.end = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + ROOM
        if libc.mprotect(ctypes.c_void_p(self.end), PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def take(self, address: int, size: int) -> int:
        """A copy of `size` bytes that ends at the guard."""
        assert size <= ROOM
        ctypes.memmove(self.end - size, address, size)
        return self.end - size


def main(driver: str, override: str) -> None:
    abi = Abi(driver, override)
    uvm = {request: struct_name for request, struct_name in UVM.values() if struct_name is not None}
    outer, inner = Guard(), Guard()
    plain = EmulatedFile.ioctl

    def guarded(file: EmulatedFile, request: int, argument: int) -> int:
        size = ctypes.sizeof(abi.struct(uvm[request])) if file.path.endswith("uvm") else ioc_size(request)
        copy = outer.take(argument, size)
        places = None if file.path.endswith("uvm") else WITH_PARAMETERS.get(request & 0xFF)
        pointer = nbytes = 0
        if places is not None:
            pointer = ctypes.c_uint64.from_address(argument + places[0]).value
            nbytes = ctypes.c_uint32.from_address(argument + places[1]).value
        if pointer:
            ctypes.c_uint64.from_address(copy + places[0]).value = inner.take(pointer, nbytes)
        try:
            return plain(file, request, copy)
        finally:
            if pointer:
                ctypes.memmove(pointer, inner.end - nbytes, nbytes)
                ctypes.c_uint64.from_address(copy + places[0]).value = pointer
            ctypes.memmove(argument, copy, size)

    EmulatedFile.ioctl = guarded  # type: ignore[method-assign]  # in this process only
    config = Config(nv_abi=override, wait_timeout_ms=20_000)
    with open_device("NV", EmulatedSystem(nv=["sm_86"], nv_driver=driver), config=config) as dev:
        a = np.arange(1000, dtype=np.float32)
        out, left, right = (dev.alloc(4000) for _ in range(3))
        left.copyin(a)
        right.copyin(a * 2)
        prg = dev.program(shipped_kernel("sm_86", "vector_add"))
        prg(out, left, right, vals=(1000,), global_size=(32, 1, 1), local_size=(32, 1, 1), wait=True)
        assert np.array_equal(np.frombuffer(out.copyout(), np.float32), a * 3)
    print("added")


if __name__ == "__main__":
    warnings.simplefilter("error", RuntimeWarning)
    main(*sys.argv[1:])
