"""The device node of UVM: raw command numbers, status inside the struct, errno 0 even on failure."""

from __future__ import annotations

import errno as errno_codes
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.ioctls import UVM
from hcqrt.autogen.nv.status import NV_ERR_ILLEGAL_ACTION, NV_ERR_NOT_SUPPORTED
from hcqrt.emu.files import EmulatedFile, os_error
from hcqrt.emu.nv.abi import Refused, uvm_names
from hcqrt.emu.nv.uvm import external, register
from hcqrt.emu.nv.uvm.space import UvmSpace, initialize, mm_initialize
from hcqrt.emu.trace import Call

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver

UVM_NODE = "/dev/nvidia-uvm"
HANDLERS = {**register.TABLE, **external.TABLE}


class UvmFile(EmulatedFile):
    """An open UVM file: nothing yet, an address space, or the file that keeps a space's mm alive."""

    def __init__(self, driver: NvDriver, path: str) -> None:
        super().__init__(driver.system, path)
        self.driver = driver
        self.space: UvmSpace | None = None
        self.mm_of: UvmSpace | None = None

    def describe(self, request: int, argument: int) -> Call:
        name = uvm_names().get(request, "")
        if not name or not self.driver.abi.has(name):
            return Call(f"uvm ioctl {request:#x}", request, None)
        struct_name = UVM[name][1]
        struct = self.driver.abi.struct(struct_name) if struct_name is not None else None
        return Call(name, request, struct)

    def command(self, call: Call, argument: int) -> int | None:
        self.driver.check_allowed(call, self.path)
        if call.name == "UVM_DEINITIALIZE":
            return None  # does nothing: closing the file is what ends a space
        if call.struct is None:
            self.driver.refusals.append(f"{call.name} on {self.path}")
            raise os_error(errno_codes.EINVAL, f"{call.name}: not known to the emulated driver")
        if not argument:
            raise os_error(errno_codes.EFAULT, f"{call.name}: no struct")
        a: Any = call.struct.from_address(argument)
        try:
            status = self._run(call.name, a)
        except Refused as refusal:
            status = refusal.status
            self.driver.last_refusal = f"{call.name}: {refusal}"
        a.rmStatus = status
        return status

    def _run(self, name: str, a: Any) -> int:
        if name == "UVM_INITIALIZE":
            return initialize(self, a)
        if name == "UVM_MM_INITIALIZE":
            return mm_initialize(self, a)
        if self.space is None:
            raise Refused(NV_ERR_ILLEGAL_ACTION, "UVM_INITIALIZE was not called on this file")
        handler = HANDLERS.get(name)
        if handler is None:
            self.driver.refusals.append(f"{name} on {self.path}")
            raise Refused(NV_ERR_NOT_SUPPORTED, "not emulated")
        handler(self.space, a)
        return 0

    def refuse_with(self, call: Call, argument: int, status: int) -> None:
        if call.struct is None:
            raise os_error(errno_codes.EINVAL, f"injected: {call.name} reports no status; give an errno")
        a: Any = call.struct.from_address(argument)
        a.rmStatus = status

    def released(self) -> None:
        if self.space is not None:
            self.space.destroy()
        if self.mm_of is not None:
            self.mm_of.mm_released = True
