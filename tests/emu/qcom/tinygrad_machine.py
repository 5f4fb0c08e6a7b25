"""Puts an emulated machine under tinygrad's own Qualcomm driver: its files, and what it does besides through them.

For programs of their own only: `install` changes tinygrad for the whole process, and must come before it opens QCOM.
"""

from __future__ import annotations

import ctypes
import re
from types import ModuleType, SimpleNamespace
from typing import Any

import tinygrad.runtime.support.hcq as hcq

from hcqrt.emu.qcom.kgsl.node import KGSL_NODE
from hcqrt.emu.system import EmulatedSystem

SYSFS = "/sys/class/kgsl/"
ECHO = re.compile(r"sudo sh -c 'echo (\d+) > (\S+)'")
HZ = 100  # of the kernel, which keeps the idle timer in its own ticks
FOREVER_TICKS = (1 << 62) - 2  # MAX_JIFFY_OFFSET: what a number of ms with its top bit set becomes


class Files(hcq.FileIOInterface):  # type: ignore[misc]  # tinygrad has no types
    """tinygrad's way to files, with those of the emulated machine among them."""

    machine: EmulatedSystem

    def __init__(self, path: str = "", flags: int = 0, fd: int | None = None) -> None:
        self.path, self.file, self.fd = path, None, -1
        if path == KGSL_NODE:
            self.file = self.machine.open(path)
        elif not path.startswith(SYSFS):
            super().__init__(path, flags, fd)

    def __del__(self) -> None:
        if self.fd >= 0:
            super().__del__()

    def ioctl(self, request: int, arg: Any) -> int:
        return super().ioctl(request, arg) if self.file is None else self.file.ioctl(request, ctypes.addressof(arg))

    def mmap(self, start: int, sz: int, prot: int, flags: int, offset: int) -> int:
        if self.file is None:
            return super().mmap(start, sz, prot, flags, offset)
        return self.file.mmap(sz, offset, address=start or None).addr

    def read(self, size: int | None = None, binary: bool = False, offset: int | None = None) -> Any:
        return self.machine.read_text(self.path) if self.path.startswith(SYSFS) else super().read(size, binary, offset)

    @staticmethod
    def munmap(buf: int, sz: int) -> None:
        Files.machine.unmap(buf, sz)


def shell(command: str) -> int:
    """The one thing that tinygrad asks a shell for: a number for sysfs, as root. The kernel keeps it in ticks."""
    found = ECHO.fullmatch(command)
    if found is None or found[2] != f"{SYSFS}kgsl-3d0/idle_timer":
        raise ValueError(f"not a command of tinygrad's Qualcomm driver: {command}")
    ms = int(found[1])
    ticks = FOREVER_TICKS if ms >> 31 else ms * HZ // 1000
    Files.machine.files[found[2]] = f"{ticks * 1000 // HZ % (1 << 32)}\n"
    return 0


def install(machine: EmulatedSystem, cleaned: list[tuple[int, int]]) -> ModuleType:
    """Returns tinygrad's driver. `cleaned` gets (address, lines) of each cleaning of CPU caches, which is Arm code."""
    Files.machine = machine
    hcq.FileIOInterface = Files
    import tinygrad.runtime.support.system as system

    system.os = SimpleNamespace(**{**vars(system.os), "system": shell})
    import tinygrad.runtime.ops_qcom as ops_qcom

    assert ops_qcom.FileIOInterface is Files
    cleaner = SimpleNamespace(fxn=lambda address, lines: cleaned.append((address.value, lines)))
    ops_qcom.dcache_flush = lambda: cleaner
    return ops_qcom
