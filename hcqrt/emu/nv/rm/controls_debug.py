"""Controls that report faults: the debugger object and the channel's own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.status import NV_ERR_INVALID_ARGUMENT
from hcqrt.bits import hi32, lo32
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.gpu import SmError
from hcqrt.emu.nv.rm.channels import ChannelObject
from hcqrt.emu.nv.rm.controls_gpu import put_text
from hcqrt.emu.nv.rm.resources import Debugger
from hcqrt.emu.nv.rm.tree import Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver

Run = Callable[["NvDriver", Any, Any], None]
TABLE: dict[str, tuple[type[Resource], Run]] = {}
NO_ERROR = SmError()


def control(name: str, on: type[Resource]) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        TABLE[name] = (on, run)
        return run

    return register


def check_channel(debugger: Debugger, handle: int) -> None:
    """0 means whatever is resident; else it must be a channel of the debugged client."""
    if handle:
        debugger.client.find(handle, ChannelObject, "hTargetChannel")


@control("NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES", Debugger)
def read_sm_errors(driver: NvDriver, debugger: Debugger, p: Any) -> None:
    check_channel(debugger, p.hTargetChannel)
    sms, faults = debugger.board.chip.sms, debugger.board.gpu.faults
    room = len(p.smErrorStateArray)
    if p.numSMsToRead > room or p.startingSM + p.numSMsToRead > sms:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"SMs [{p.startingSM}, +{p.numSMsToRead}) of {sms}, {room} at once")
    for index in range(p.numSMsToRead):
        error, row = faults.sms.get(p.startingSM + index, NO_ERROR), p.smErrorStateArray[index]
        ctypes.memset(ctypes.addressof(row), 0, ctypes.sizeof(row))
        row.hwwGlobalEsr, row.hwwWarpEsr = error.global_esr, error.warp_esr
        row.hwwWarpEsrPc, row.hwwWarpEsrPc64 = lo32(error.pc), error.pc
        row.hwwEsrAddr = error.address
    p.mmuFault.valid = int(bool(faults.mmu))
    p.mmuFault.faultInfo = faults.mmu[0][1] if faults.mmu else 0


@control("NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO", Debugger)
def read_mmu_faults(driver: NvDriver, debugger: Debugger, p: Any) -> None:
    faults = debugger.board.gpu.faults.mmu
    for row, (address, kind, access) in zip(p.mmuFaultInfoList, faults, strict=False):
        row.faultAddress, row.faultType, row.accessType = address, kind, access
    p.count = len(faults)


@control("NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES", Debugger)
def clear_sm_errors(driver: NvDriver, debugger: Debugger, p: Any) -> None:
    check_channel(debugger, p.hTargetChannel)
    faults, sms = debugger.board.gpu.faults, debugger.board.chip.sms
    if p.numSMsToClear > sms:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"{p.numSMsToClear} SMs of {sms}")
    for index in range(p.numSMsToClear):
        faults.sms.pop(index, None)
    faults.mmu = []


@control("NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK", Debugger)
def set_exception_mask(driver: NvDriver, debugger: Debugger, p: Any) -> None:
    debugger.exception_mask = p.exceptionMask


@control("NV83DE_CTRL_CMD_DEBUG_SET_MODE_MMU_DEBUG", Debugger)
def set_mmu_debug(driver: NvDriver, debugger: Debugger, p: Any) -> None:
    if p.action not in (1, 2):  # ENABLE, DISABLE (ctrl83dedebug.h)
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"MMU debug action {p.action}")


@control("NV906F_CTRL_CMD_GET_MMU_FAULT_INFO", ChannelObject)
def channel_mmu_fault(driver: NvDriver, item: ChannelObject, p: Any) -> None:
    faults = item.board.gpu.faults.mmu
    ctypes.memset(ctypes.addressof(p), 0, ctypes.sizeof(p))
    if faults and item.channel.error:
        address, kind, _access = faults[0]
        p.addrHi, p.addrLo, p.faultType = hi32(address), lo32(address), kind
        put_text(p, "faultString", item.channel.error)
