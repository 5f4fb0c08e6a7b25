"""Read an RM escape: which one it is, its struct, and what its pointers lead to."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from hcqrt.autogen.nv.ioctls import CLASSES, CONTROLS, ESCAPES
from hcqrt.emu.nv.abi import Abi, class_names, control_names, escape_names
from hcqrt.emu.trace import Call
from hcqrt.ioctl import ioc_size

READ_WRITE = 3  # asm-generic/ioctl.h: _IOC_READ | _IOC_WRITE
MAGIC = ord("F")  # nv-ioctl-numbers.h, NV_IOCTL_MAGIC
ARRAYS = {"NV_ESC_CARD_INFO": "nv_ioctl_card_info_t", "NV_ESC_ATTACH_GPUS_TO_FD": None}  # None: of u32
ALLOC_STRUCTS = ("NVOS21_PARAMETERS", "NVOS64_PARAMETERS")  # told apart by size


@dataclass
class RmCall(Call):
    """An escape; `address` is where its struct lies, `struct` is None when the size is not the kernel's own."""

    address: int = 0


def struct_of(abi: Abi, name: str, size: int) -> Any:
    """The struct of an escape if `size` is exactly its size."""
    if name in ARRAYS:
        row = ARRAYS[name]
        item: Any = ctypes.c_uint32 if row is None else abi.struct(row)
        count, rest = divmod(size, ctypes.sizeof(item))
        return item * count if count and not rest else None
    names = ALLOC_STRUCTS if name == "NV_ESC_RM_ALLOC" else (ESCAPES[name][1] or "",)
    return next((abi.struct(known) for known in names if known and abi.size(known) == size), None)


def escape_of(abi: Abi, nr: int) -> str:
    """The escape that this version has under a number, or nothing."""
    name = escape_names().get(nr, "")
    return name if name and abi.has(name) else ""


def read_call(abi: Abi, request: int, argument: int) -> RmCall:
    """Decode a request on a device file. Unknown ones keep their number as their name."""
    direction, kind, nr, size = request >> 30, request >> 8 & 0xFF, request & 0xFF, ioc_size(request)
    name = escape_of(abi, nr)
    if direction != READ_WRITE or kind != MAGIC or not name or request >> 32:
        return RmCall(f"ioctl {request:#x}", request, None)
    struct = struct_of(abi, name, size)
    if name == "NV_ESC_IOCTL_XFER_CMD" and struct is not None and argument:
        return read_transfer(abi, struct.from_address(argument), request)
    call = RmCall(name, request, struct, numbers=(nr,), address=argument)
    if struct is not None and argument:
        read_inner(abi, call)
    return call


def read_transfer(abi: Abi, transfer: Any, request: int) -> RmCall:
    """An escape too large for the size field of a request, passed by pointer."""
    name = escape_of(abi, transfer.cmd)
    if not name or not transfer.ptr:
        return RmCall(f"NV_ESC_IOCTL_XFER_CMD {transfer.cmd:#x}", request, None)
    struct = struct_of(abi, name, transfer.size)
    call = RmCall(name, request, struct, numbers=(transfer.cmd,), address=transfer.ptr)
    if struct is not None:
        read_inner(abi, call)
    return call


def read_inner(abi: Abi, call: RmCall) -> None:
    """Fill in what RM_ALLOC and RM_CONTROL carry."""
    assert call.struct is not None
    a: Any = call.struct.from_address(call.address)
    table, number, pointer = CLASSES, 0, 0
    if call.name == "NV_ESC_RM_ALLOC":
        number, pointer = a.hClass, a.pAllocParms
        names = class_names().get(number, ())
    elif call.name == "NV_ESC_RM_CONTROL":
        table, number, pointer = CONTROLS, a.cmd, a.params
        names = (control_names()[number],) if number in control_names() else ()
        names = tuple(name for name in names if abi.has(name))
    else:
        return
    call.inner_name, call.aliases = (names[0] if names else f"{number:#x}"), names[1:]
    call.numbers = (*call.numbers, number)
    struct_name = next((table[name][1] for name in names if name in table), None)
    if struct_name is None or not pointer:
        return
    struct = abi.struct(struct_name)
    if call.name == "NV_ESC_RM_ALLOC" or a.paramsSize == ctypes.sizeof(struct):
        call.inner_struct, call.inner_address = struct, pointer
