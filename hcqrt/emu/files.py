"""Open files of an emulated machine, and what its drivers offer to it."""

from __future__ import annotations

import errno as errno_codes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hcqrt.emu.trace import Call, Record, snapshot
from hcqrt.emu.where import Where, caller, text
from hcqrt.fileio import FileIOInterface
from hcqrt.mmio import MMIOInterface

if TYPE_CHECKING:
    from hcqrt.emu.system import EmulatedSystem


def os_error(number: int, what: str) -> OSError:
    return OSError(number, f"{what}: {os.strerror(number)}")


@dataclass(frozen=True)
class LiveObject:
    """Something an emulated driver or the machine still holds."""

    kind: str  # "fd", "mapping", "handle", "range", …
    name: str
    where: Where = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}, made at {text(self.where)}"


class EmulatedFile(FileIOInterface):
    """An open device node. Drivers derive from it and answer `describe`, `command`, `map` and `released`."""

    def __init__(self, system: EmulatedSystem, path: str) -> None:
        super().__init__(path, -1, system.libc)
        self.system = system
        self.pid = system.getpid()
        self.where = caller()

    # what a driver answers

    def describe(self, request: int, argument: int) -> Call:
        """Names and structs of an ioctl, for the log and for injected failures. Changes nothing."""
        raise NotImplementedError

    def command(self, call: Call, argument: int) -> int | None:
        """Do the ioctl; returns the driver's status, None where the call has none. Raises OSError."""
        raise NotImplementedError

    def refuse_with(self, call: Call, argument: int, status: int) -> None:
        """Write `status` where this call reports one: an injected failure."""
        raise NotImplementedError

    def map(self, length: int, offset: int, address: int, *, writable: bool) -> MMIOInterface:
        """Map into the claimed range at `address`. Raises OSError."""
        raise os_error(errno_codes.ENODEV, f"mmap of {self.path}")

    def let_gpus_run(self) -> None:
        """Before and after each ioctl: the GPUs do what they can."""
        self.system.pump()

    def released(self) -> None:
        """The last reference is gone: free what hangs on this file."""

    # what the runtime calls

    def ioctl(self, request: int, argument: int) -> int:
        system = self.system
        system.after_fork()
        with system.lock:
            call = self.describe(request, argument)
            record = Record(
                system.clock_ns(), self.path, call, snapshot(argument, call.struct),
                snapshot(call.inner_address, call.inner_struct),
            )  # fmt: skip
            system.log(record)
            try:
                self._usable()
                self.let_gpus_run()
                self._issue(call, argument, record)
                self.let_gpus_run()
            except OSError as error:
                record.errno = error.errno or 0
                raise
            finally:
                record.after = snapshot(argument, call.struct)
                record.inner_after = snapshot(call.inner_address, call.inner_struct)
        return 0

    def _issue(self, call: Call, argument: int, record: Record) -> None:
        rule = self.system.rules.hit("ioctl", lambda: {self.path, *call.names()}, (call.request, *call.numbers))
        if rule is None:
            record.status = self.command(call, argument)
            return
        if rule.status is None or rule.errno is not None:
            raise os_error(rule.errno or errno_codes.EIO, f"injected: {call.name} {call.inner_name} on {self.path}")
        self.refuse_with(call, argument, rule.status)
        record.status = rule.status

    def _usable(self) -> None:
        if self.fd < 0:
            raise os_error(errno_codes.EBADF, f"{self.path} is closed")
        if self.pid != self.system.getpid():
            raise os_error(errno_codes.EINVAL, f"{self.path} was opened by process {self.pid}, before a fork")

    def mmap(self, length: int, offset: int = 0, *, address: int | None = None, writable: bool = True) -> MMIOInterface:
        system = self.system
        system.after_fork()
        with system.lock:
            self._usable()
            with system.mapping(self.path, length, offset, address) as at:
                return self.map(length, offset, at, writable=writable)

    def close(self) -> None:
        if self.fd < 0:
            return
        self.system.after_fork()
        with self.system.lock:
            self.system.close_file(self)
            self.fd = -1


class Driver(Protocol):
    """One emulated kernel driver."""

    refusals: list[str]  # what was asked for and is not known here, with its number
    last_refusal: str  # why the latest refused call was refused

    def nodes(self) -> dict[str, tuple[int, int | None]]:
        """Device nodes: path -> (mode bits, errno of an open that fails or None)."""

    def texts(self) -> dict[str, str]:
        """Files of procfs and sysfs."""

    def open(self, path: str) -> EmulatedFile | None:
        """A new file for one of its nodes; None for a path that is not its own. Raises OSError."""

    def run(self) -> bool:
        """Let its GPUs work; True when anything moved."""

    def live(self) -> Iterator[LiveObject]:
        """Everything it holds for its clients."""

    def stats(self) -> dict[str, int]:
        """Counters of its GPUs."""

    def stall(self, stalled: bool) -> None:
        """Stop or resume the fetching of commands."""

    def close(self) -> None:
        """Give the memory of its GPUs back."""
