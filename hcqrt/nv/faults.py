"""Why the GPU stopped: error notifiers, MMU fault records and SM states, as one text. Source: nv-engine facts 9."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hcqrt.autogen.nv.status import ROBUST_CHANNEL
from hcqrt.errors import DriverError
from hcqrt.nv.rm import RmClient

SMS_SHOWN = 4  # a fault of the same kernel on more of them says nothing new
SMS_PER_CALL = 100  # length of smErrorStateArray
EXCEPTIONS = {
    13: "graphics exception",
    31: "MMU fault",
    32: "bad command words (PBDMA error)",
    43: "channel reset",
    44: "fault during context switch",
    45: "stopped because another channel or process failed",
    69: "graphics class error: unknown method or data",
    79: "GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
}
NEEDS_RESET = (79, 95, 119, 120, 143)
WARP_ERRORS = {
    1: "stack error", 2: "API stack error", 3: "return on empty stack", 4: "PC wrap", 5: "misaligned PC",
    6: "PC overflow", 7: "misaligned immediate-constant address", 8: "misaligned register",
    9: "illegal instruction encoding", 10: "illegal SPH combination", 11: "illegal instruction parameter",
    12: "invalid constant address", 13: "out-of-range register", 14: "out-of-range shared or local address",
    15: "misaligned address", 16: "invalid address space", 17: "illegal instruction parameter",
    18: "invalid constant address (LDC)", 19: "geometry error", 20: "divergent", 21: "warp exit",
}  # fmt: skip
SM_ERRORS = {
    0: "SM-to-SM fault", 1: "L1 error", 2: "errors of several warps", 3: "physical stack overflow",
    4: "trap instruction (BPT.INT)", 5: "trap instruction (BPT.PAUSE)", 6: "single step",
    29: "corrected ECC error", 30: "uncorrectable ECC error", 31: "timeout",
}  # fmt: skip
MMU_FAULTS = (
    "no page directory", "page directory size", "unmapped page", "address beyond the limit", "unbound instance",
    "privilege violation", "write to read-only memory", "read of write-only memory", "pitch mask", "work creation",
    "unsupported aperture", "compression failure", "unsupported kind", "region violation", "poisoned",
    "atomic violation",
)  # fmt: skip
ACCESSES = {
    0: "read",
    1: "write",
    2: "atomic",
    3: "prefetch",
    4: "weak atomic",
    8: "physical read",
    9: "physical write",
}


def exception_name(code: int) -> str:
    name = ROBUST_CHANNEL.get(code, "")
    text = EXCEPTIONS.get(code) or (f"copy engine {code - 39} error" if 39 <= code <= 41 else "unknown error")
    return f"{text} (Xid {code}{', ' + name if name else ''})"


@dataclass(frozen=True)
class MmuRecord:
    address: int
    fault: int
    access: int

    def __str__(self) -> str:
        kind = MMU_FAULTS[self.fault] if self.fault < len(MMU_FAULTS) else f"fault type {self.fault}"
        return f"{ACCESSES.get(self.access, f'access {self.access}')} of {self.address:#x}: {kind}"


@dataclass(frozen=True)
class SmRecord:
    sm: int
    global_esr: int
    warp_esr: int
    pc: int
    address: int

    def __str__(self) -> str:
        number = self.warp_esr & 0xFFFF
        what = WARP_ERRORS.get(number, f"warp error {number:#x}") if self.warp_esr else self._sm_errors()
        return f"SM {self.sm}: {what} at pc {self.pc:#x} (global ESR {self.global_esr:#x}, warp ESR {self.warp_esr:#x})"

    def _sm_errors(self) -> str:
        """What the SM reports where no warp has an error of its own: an `asm("trap")`, say."""
        bits = [bit for bit in range(32) if self.global_esr >> bit & 1]
        return ", ".join(SM_ERRORS.get(bit, f"SM error {bit}") for bit in bits) or "no warp error"


class FaultReader:
    """Reads what the driver knows of a fault; the debugger object is made when first needed and may be refused."""

    def __init__(self, rm: RmClient, device: int, compute_object: int, channel: int, sm_count: int) -> None:
        self.rm, self.sm_count, self.channel = rm, sm_count, channel
        self.handle = rm.alloc("GT200_DEBUGGER", device, hAppClient=rm.root, hClass3dObject=compute_object)

    def mmu(self) -> list[MmuRecord]:
        reply = self.rm.control(self.handle, "NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO")
        entries = reply.mmuFaultInfoList[: min(reply.count, len(reply.mmuFaultInfoList))]
        return [MmuRecord(entry.faultAddress, entry.faultType, entry.accessType) for entry in entries]

    def sms(self) -> list[SmRecord]:
        found = []
        for start in range(0, self.sm_count, SMS_PER_CALL):
            count = min(SMS_PER_CALL, self.sm_count - start)
            reply = self.rm.control(
                self.handle,
                "NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES",
                hTargetChannel=self.channel,
                numSMsToRead=count,
                startingSM=start,
            )
            for index, state in enumerate(reply.smErrorStateArray[:count]):
                if state.hwwGlobalEsr or state.hwwWarpEsr:
                    pc = state.hwwWarpEsrPc64 or state.hwwWarpEsrPc
                    record = SmRecord(start + index, state.hwwGlobalEsr, state.hwwWarpEsr, pc, state.hwwEsrAddr)
                    found.append(record)
        return found


@dataclass(frozen=True)
class Notification:
    """A filled error notifier. Source: nvgputypes.h, NvNotification."""

    channel: str
    exception: int
    engine: int
    time_ns: int

    @classmethod
    def read(cls, channel: str, halves: Any) -> Notification:
        time_ns = sum(halves[i] << 16 * i for i in range(4))
        return cls(channel, halves[4] | halves[5] << 16, halves[6], time_ns)


def _details(read: Callable[[], list[str]]) -> list[str]:
    try:
        return read()
    except DriverError as error:
        return [f"no details: {error}"]


def _place(sm: SmRecord, where: str | None) -> str:
    return f"{sm} in {where}" if where else str(sm)


def describe(
    name: str,
    notifications: Iterable[Notification],
    reader: FaultReader | None,
    *,
    last_launch: str,
    find_allocation: Callable[[int], str],
    find_code: Callable[[int], str | None],
) -> str:
    """One line: what happened, where, in which kernel, and what to do."""
    filled = list(notifications)
    parts = [f"{name}: " + "; ".join(f"{exception_name(n.exception)} on the {n.channel} channel" for n in filled)]
    if reader is not None:
        # each by itself: sandboxes allow the SM states but not the MMU records
        parts += _details(lambda: [f"{mmu} ({find_allocation(mmu.address)})" for mmu in reader.mmu()])
        parts += _details(lambda: [_place(sm, find_code(sm.pc)) for sm in reader.sms()[:SMS_SHOWN]])
    parts.append(f"last launch: {last_launch}")
    if any(n.exception in NEEDS_RESET for n in filled):
        parts.append("the GPU needs a reset or a reboot")
    parts.append("see the kernel log (Xid); close the device and open it again")
    return "; ".join(parts)
