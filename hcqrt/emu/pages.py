"""The memory side of an emulated machine: mmap and munmap with its own page size, tracked and able to fail."""

from __future__ import annotations

import errno as errno_codes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hcqrt.emu.files import os_error
from hcqrt.emu.host import HostMap, HostMapping
from hcqrt.emu.memory import OutOfPhysical, PhysicalMemory
from hcqrt.emu.trace import Rules
from hcqrt.emu.where import caller
from hcqrt.fileio import System
from hcqrt.mmio import MMIOInterface


class PagedSystem(System):
    """A `System` whose anonymous memory lies in an emulated machine's own memory."""

    strict: bool
    lock: threading.RLock
    rules: Rules
    memory: PhysicalMemory
    host: HostMap

    def _check_pages(self, what: str, nbytes: int, *places: int) -> None:
        if nbytes <= 0 or (self.strict and nbytes % self.page_size) or any(at % self.page_size for at in places):
            at = ", ".join(f"{place:#x}" for place in places)
            raise os_error(errno_codes.EINVAL, f"{what} of {nbytes} bytes [{at}] with {self.page_size}-byte pages")

    @contextmanager
    def mapping(self, path: str, length: int, offset: int, address: int | None) -> Iterator[int]:
        """The checks around every mmap, and the addresses for it. Gives them back when the body fails."""
        self._check_pages(f"mmap of {path}", length, offset, address or 0)
        rule = self.rules.hit("mmap", lambda: (path,))
        if rule is not None:
            raise os_error(rule.errno or errno_codes.ENOMEM, f"injected: mmap of {length} bytes of {path}")
        at = self.host.place(length, self.page_size) if address is None else address
        try:
            yield at
        except OSError:
            if address is None:
                self.libc.munmap(at, length)
            raise

    def reserve(self, nbytes: int, align: int, below: int, start: int = 1 << 36) -> int:
        with self.lock:
            self._check_pages("reserve", nbytes)
            address = super().reserve(nbytes, max(align, self.page_size), below, start)
            self.host.track(HostMapping("reservation", "", address, nbytes, None, 0, caller()))
            return address

    def anonymous(self, nbytes: int, address: int | None = None, *, shared: bool = True) -> MMIOInterface:
        with self.lock, self.mapping("anonymous", nbytes, 0, address) as at:
            try:
                block = self.memory.allocate(nbytes)
            except OutOfPhysical as error:
                raise os_error(errno_codes.ENOMEM, f"anonymous memory ({error})") from error
            try:
                self.host.map_block(block, 0, nbytes, at, "memory", "anonymous")
            finally:
                block.drop()
            return MMIOInterface(at, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        with self.lock:
            self._check_pages("munmap", nbytes, address)
            super().unmap(address, nbytes)
            self.host.forget(address, nbytes)

    def back_to_reserved(self, address: int, nbytes: int) -> None:
        with self.lock:
            self._check_pages("mmap of a reservation", nbytes, address)
            super().back_to_reserved(address, nbytes)
            self.host.track(HostMapping("reservation", "", address, nbytes, None, 0, caller()))
