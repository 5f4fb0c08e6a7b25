"""One ioctl as an object: number, struct and name; field names checked, EINTR retried, errors in words."""

from __future__ import annotations

import ctypes
import errno as errno_codes
import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hcqrt.errors import IoctlError

if TYPE_CHECKING:
    from hcqrt.fileio import FileIOInterface

S = TypeVar("S", bound=ctypes.Structure)

# asm-generic/ioctl.h: direction 31:30, size 29:16, type 15:8, number 7:0
IOC_WRITE, IOC_READ = 1, 2
IOC_SIZE_MAX = (1 << 14) - 1


def ioc(direction: int, kind: int, nr: int, size: int) -> int:
    """Request number of a sized ioctl. Raises ValueError when a part does not fit its field."""
    if not 0 <= size <= IOC_SIZE_MAX:
        raise ValueError(f"ioctl nr {nr:#x}: {size} bytes do not fit the 14-bit size field (at most {IOC_SIZE_MAX})")
    if not (0 <= direction <= 3 and 0 <= kind <= 0xFF and 0 <= nr <= 0xFF):
        raise ValueError(f"ioctl direction {direction}, type {kind:#x}, nr {nr:#x}: out of range")
    return direction << 30 | size << 16 | kind << 8 | nr


def iowr(kind: str, nr: int, size: int) -> int:
    """Request that the kernel reads and writes, `kind` as the one-letter type of the header."""
    return ioc(IOC_WRITE | IOC_READ, ord(kind), nr, size)


def ioc_size(request: int) -> int:
    return request >> 16 & IOC_SIZE_MAX


def fill(struct: S, fields: dict[str, Any], name: str) -> S:
    """Set `fields` of `struct`; an unknown field or a value too wide for it raises instead of being cut."""
    for key, value in fields.items():
        if not hasattr(type(struct), key):
            raise TypeError(f"{name}: {type(struct).__name__} has no field {key!r}")
        setattr(struct, key, value)
        if isinstance(value, int) and not isinstance(value, bool):
            kept = getattr(struct, key)
            if isinstance(kept, int) and kept != value:
                raise ValueError(f"{name}: {key} = {value:#x} does not fit its field in {type(struct).__name__}")
    return struct


class Ioctl(Generic[S]):
    """A system call on a device node whose argument is one struct.

    `sized` requests carry the struct's size in their number and are checked against it here; raw ones (UVM) do not.
    """

    def __init__(self, name: str, request: int, struct: type[S], *, sized: bool = True) -> None:
        if sized and ioc_size(request) != ctypes.sizeof(struct):
            raise ValueError(
                f"{name} {request:#x} says {ioc_size(request)} bytes, {struct.__name__} has {ctypes.sizeof(struct)}"
            )
        self.name, self.request, self.struct, self.sized = name, request, struct, sized

    def __call__(self, fd: FileIOInterface, *, hint: str = "", **fields: Any) -> S:
        """Fill a zeroed struct from `fields`, issue the call, return it. Raises IoctlError; `hint` ends its text."""
        argument = fill(self.struct(), fields, self.name)
        self.issue(fd, argument, hint=hint)
        return argument

    def issue(self, fd: FileIOInterface, argument: ctypes.Structure, *, hint: str = "") -> None:
        """Issue the call with a struct the caller made (it may lie in a larger buffer)."""
        address = ctypes.addressof(argument)
        while True:
            try:
                fd.ioctl(self.request, address)
                return
            except OSError as error:
                if error.errno == errno_codes.EINTR:
                    continue
                raise ioctl_error(self.name, fd.path, error, hint) from error

    def __repr__(self) -> str:
        return f"Ioctl({self.name}, {self.request:#x}, {self.struct.__name__})"


def errno_name(number: int | None) -> str:
    if number == errno_codes.EDEADLK:
        return "EDEADLK"  # Linux has a second name for it, which some Pythons give
    return errno_codes.errorcode.get(number or 0, f"errno {number}")


def ioctl_error(name: str, path: str, error: OSError, hint: str = "") -> IoctlError:
    """The error of a failed system call: what failed, on which node, errno in words and by name, what was asked."""
    text = f"{name} on {path}: {os.strerror(error.errno or 0)} [{errno_name(error.errno)}]"
    return IoctlError(f"{text}; {hint}" if hint else text, request=name, errno=error.errno)
