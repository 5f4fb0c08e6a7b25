"""The device nodes of RM: /dev/nvidiactl and /dev/nvidiaN."""

from __future__ import annotations

import errno as errno_codes
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.ioctls import ESCAPES
from hcqrt.emu.files import EmulatedFile, os_error
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import Board
from hcqrt.emu.nv.rm.calls import RmCall, read_call
from hcqrt.emu.nv.rm.escapes import HANDLERS
from hcqrt.emu.nv.rm.mapping import MapContext, map_context
from hcqrt.emu.trace import Call
from hcqrt.mmio import MMIOInterface

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver

CTL_NODE = "/dev/nvidiactl"


def status_holder(a: Any) -> tuple[Any, str] | None:
    """Where a struct of this driver reports its status."""
    if hasattr(a, "params") and hasattr(a.params, "status"):
        a = a.params
    name = next((name for name in ("status", "Status", "rmStatus") if hasattr(a, name)), None)
    return None if name is None else (a, name)


class NvFile(EmulatedFile):
    """An open RM node. `ctl` is the control file that its calls belong to, `context` what a mmap of it shows."""

    kind = ""

    def __init__(self, driver: NvDriver, path: str) -> None:
        super().__init__(driver.system, path)
        self.driver = driver
        self.context: MapContext | None = None

    @property
    def ctl(self) -> CtlFile | None:
        raise NotImplementedError

    def describe(self, request: int, argument: int) -> RmCall:
        return read_call(self.driver.abi, request, argument)

    def command(self, call: Call, argument: int) -> int | None:
        assert isinstance(call, RmCall)
        self.driver.check_allowed(call, self.path)
        if call.name in ESCAPES and (call.struct is None or not call.address):
            raise os_error(
                errno_codes.EINVAL, f"{call.name} on {self.path}: request {call.request:#x} has a wrong size"
            )
        handler = HANDLERS.get(call.name)
        if handler is None or call.struct is None:
            self.driver.refusals.append(f"{call.name} on {self.path} (request {call.request:#x})")
            raise os_error(errno_codes.EINVAL, f"{call.name} on {self.path}: not known to the emulated driver")
        if self.kind not in handler.kinds:
            raise os_error(errno_codes.EINVAL, f"{call.name} on {self.path}: not for this kind of node")
        a: Any = call.struct.from_address(call.address)
        status = 0
        try:
            handler.run(self, a, call)
        except Refused as refusal:
            status = refusal.status
            self.driver.last_refusal = f"{call.name} {call.inner_name}: {refusal}"
        holder = status_holder(a)
        if holder is None:
            return None
        setattr(*holder, status)
        return status

    def refuse_with(self, call: Call, argument: int, status: int) -> None:
        holder = None
        if isinstance(call, RmCall) and call.struct is not None:
            holder = status_holder(call.struct.from_address(call.address))
        if holder is None:
            raise os_error(errno_codes.EINVAL, f"injected: {call.name} reports no status; give an errno")
        setattr(*holder, status)

    def map(self, length: int, offset: int, address: int, *, writable: bool) -> MMIOInterface:
        if self.context is None:
            raise os_error(errno_codes.EINVAL, f"mmap of {self.path}: RM_MAP_MEMORY gave this file nothing to map")
        return map_context(self, self.context, length, offset, address, writable=writable)


class CtlFile(NvFile):
    """/dev/nvidiactl: owns the clients that were made through it."""

    kind = "ctl"

    def __init__(self, driver: NvDriver, path: str) -> None:
        super().__init__(driver, path)
        self.attached: list[Board] | None = None

    @property
    def ctl(self) -> CtlFile:
        return self

    def released(self) -> None:
        for client in [client for client in self.driver.clients.values() if client.file is self]:
            self.driver.free_client(client)
        for board in self.attached or ():
            board.opens -= 1


class GpuFile(NvFile):
    """/dev/nvidiaN: keeps its GPU initialised while open."""

    kind = "gpu"

    def __init__(self, driver: NvDriver, path: str, board: Board) -> None:
        super().__init__(driver, path)
        self.board = board
        self.registered: CtlFile | None = None
        board.opens += 1

    @property
    def ctl(self) -> CtlFile | None:
        return self.registered

    def released(self) -> None:
        self.board.opens -= 1
