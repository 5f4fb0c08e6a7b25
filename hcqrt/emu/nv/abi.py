"""Names, numbers and layouts of one NVIDIA driver version, as its own side of the ioctl sees them."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from hcqrt.autogen.nv import constant, layout
from hcqrt.autogen.nv.ioctls import CLASSES, CONTROLS, ESCAPES, UVM
from hcqrt.autogen.nv.names import CLASS_NAMES
from hcqrt.autogen.nv.releases import RELEASES
from hcqrt.autogen.nv.status import NV_STATUS


class Refused(Exception):
    """A driver's own word for no: the status that the caller will find in its struct."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(f"{NV_STATUS.get(status, 'status')} ({status:#x}): {why}")
        self.status, self.why = status, why


@lru_cache(maxsize=1)
def escape_names() -> dict[int, str]:
    return {nr: name for name, (nr, _) in ESCAPES.items()}


@lru_cache(maxsize=1)
def uvm_names() -> dict[int, str]:
    return {number: name for name, (number, _) in UVM.items()}


@lru_cache(maxsize=1)
def control_names() -> dict[int, str]:
    return {number: name for name, (number, _) in CONTROLS.items()}


@lru_cache(maxsize=1)
def class_names() -> dict[int, tuple[str, ...]]:
    """Every known name of a class number, the one with allocation parameters first."""
    names: dict[int, tuple[str, ...]] = {}
    for name, (number, _) in CLASSES.items():
        names[number] = (*names.get(number, ()), name)
    for number, name in CLASS_NAMES.items():
        names[number] = tuple(dict.fromkeys((*names.get(number, ()), name)))
    return names


class Abi:
    """Layouts by driver version. A version older than any known layout gets the oldest: it can still tell its name."""

    def __init__(self, text: str) -> None:
        try:
            self.version = tuple(int(part) for part in text.split("."))
        except ValueError:
            raise ValueError(f"driver version {text!r} is not numbers with dots") from None
        self.text = text
        self._at = max(self.version, RELEASES[0])
        self._found: dict[str, Any] = {}
        self._known: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        """Whether this version's headers have a name: an escape, a UVM call, a command or a class."""
        if name not in self._known:
            self._known[name] = constant(name, self._at) is not None
        return self._known[name]

    def struct(self, name: str) -> Any:
        """The ctypes class of a record. Raises KeyError where this version has none."""
        if name not in self._found:
            self._found[name] = layout(name, self._at)
        return self._found[name]

    def size(self, name: str) -> int:
        return ctypes.sizeof(self.struct(name))

    @property
    def control_size_status(self) -> int:
        """What a control with a wrong paramsSize returns: the size check moved (nv-driver.md §10)."""
        branch = self.version[0]
        first = self.version >= (535, 161, 7) if branch == 535 else self.version >= (550, 54, 14)
        return 0x1F if first else 0x3A  # INVALID_ARGUMENT, INVALID_PARAM_STRUCT

    @property
    def long_class_list(self) -> bool:
        """From 580.65.06 on the class list also holds engine-less and generic classes (nv-driver.md §4.11)."""
        return self.version >= (580, 65, 6)


def read_struct(struct: Any, address: int) -> Any:
    """A copy of a struct in this process's memory."""
    return struct.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(struct)))


def write_struct(value: Any, address: int) -> None:
    ctypes.memmove(address, ctypes.addressof(value), ctypes.sizeof(value))
