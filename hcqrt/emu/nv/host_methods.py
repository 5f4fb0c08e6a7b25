"""Methods of the host class (XX6f): objects, semaphores, waits; what the PBDMA does itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

from hcqrt.emu.nv import semaphore
from hcqrt.emu.nv.classes import ClassTable, names
from hcqrt.emu.nv.gpu import Channel
from hcqrt.emu.nv.trouble import PBDMA_ERROR, Blocked, HardwareFault, Refused

if TYPE_CHECKING:
    from hcqrt.emu.nv.fifo import ChannelState

USERD_REF = 0x48
TSG_YIELD = 3  # clc56f.h NVC56F_YIELD_OP_TSG
MEM_OP_MEMBAR = 5  # clc56f.h NVC56F_MEM_OP_D_OPERATION_MEMBAR: the only one that needs no privilege
ACQUIRE_TIMEOUT_NS = 2_000_000_000  # nv-driver.md §8: channel flag PBDMA_ACQUIRE_TIMEOUT
GPU_TIMEOUT_ERROR = 8  # nverror.h ROBUST_CHANNEL_GPU_TIMEOUT_ERROR
RELEASE, REDUCTION = "RELEASE", "REDUCTION"
OPERATIONS = {
    0: "ACQUIRE",
    1: RELEASE,
    2: "ACQ_STRICT_GEQ",
    3: "ACQ_CIRC_GEQ",
    4: "ACQ_AND",
    5: "ACQ_NOR",
    6: REDUCTION,
}
ACQUIRE_FIELDS = frozenset({"OPERATION", "ACQUIRE_SWITCH_TSG", "PAYLOAD_SIZE"})
RELEASE_FIELDS = frozenset({"OPERATION", "RELEASE_WFI", "PAYLOAD_SIZE", "RELEASE_TIMESTAMP"})
REDUCTION_FIELDS = frozenset({"OPERATION", "RELEASE_WFI", "PAYLOAD_SIZE", "REDUCTION", "REDUCTION_FORMAT"})
LEGACY_OPERATIONS = {1: "ACQUIRE", 2: RELEASE, 4: "ACQ_CIRC_GEQ", 8: "ACQ_AND", 16: REDUCTION}
STORED = names(
    "SEM_ADDR_LO SEM_ADDR_HI SEM_PAYLOAD_LO SEM_PAYLOAD_HI SEMAPHOREA SEMAPHOREB SEMAPHOREC MEM_OP_A MEM_OP_B MEM_OP_C"
)


class HostMethods:
    """The host's registers of one channel."""

    def __init__(self, state: ChannelState) -> None:
        self.state = state
        self.channel: Channel = state.channel
        self.table: ClassTable = state.kind.table
        self.registers = dict.fromkeys(STORED, 0)
        self.blocked_since_ns: int | None = None
        self.interrupts = 0
        self.actions: dict[str, Callable[[int, dict[str, int]], None]] = {
            "NON_STALL_INTERRUPT": self.non_stall_interrupt,
            "SET_REFERENCE": self.set_reference,
            "SEM_EXECUTE": self.sem_execute,
            "SEMAPHORED": self.legacy_semaphore,
            "MEM_OP_D": self.mem_op,
            "WFI": lambda data, fields: state.wait_for_idle(),
            "YIELD": self.yield_slice,
            "ILLEGAL": self.illegal,
            "NOP": lambda data, fields: None,
        }

    def run(self, subchannel: int, offset: int, data: int) -> None:
        """Execute one host method. Raises Refused, HardwareFault, MmuFault, Blocked."""
        method = self.table.method(offset, PBDMA_ERROR)
        fields = self.table.decode(method, data, PBDMA_ERROR)
        if method.name == "SET_OBJECT":
            self.state.set_object(subchannel, fields["NVCLASS"], fields["ENGINE"])
        elif method.name in self.registers:
            self.registers[method.name] = data
        elif method.name in self.actions:
            self.actions[method.name](data, fields)
        else:
            raise Refused(PBDMA_ERROR, f"host method {method.name} ({offset:#x}) = {data:#x} is privileged")

    def non_stall_interrupt(self, data: int, fields: dict[str, int]) -> None:
        self.interrupts += 1

    def set_reference(self, data: int, fields: dict[str, int]) -> None:
        self.state.wait_for_idle()
        ctypes.c_uint32.from_address(self.channel.userd_ptr + USERD_REF).value = data

    def illegal(self, data: int, fields: dict[str, int]) -> None:
        raise HardwareFault(PBDMA_ERROR, f"host method ILLEGAL (0x4) = {data:#x}")

    def yield_slice(self, data: int, fields: dict[str, int]) -> None:
        self.state.yielded = fields["OP"] == TSG_YIELD

    def mem_op(self, data: int, fields: dict[str, int]) -> None:
        if fields["OPERATION"] != MEM_OP_MEMBAR:
            raise Refused(PBDMA_ERROR, f"MEM_OP_D = {data:#x}: operation {fields['OPERATION']:#x} is privileged")
        extra = data & ~(0x1F << 27) | self.registers["MEM_OP_A"] | self.registers["MEM_OP_B"]
        if extra or self.registers["MEM_OP_C"] > 1:  # MEMBAR_TYPE 0 and 1
            raise Refused(PBDMA_ERROR, f"MEM_OP membar with MEM_OP_C = {self.registers['MEM_OP_C']:#x}, D = {data:#x}")

    def sem_execute(self, data: int, fields: dict[str, int]) -> None:
        name = OPERATIONS[fields["OPERATION"]]
        used = {RELEASE: RELEASE_FIELDS, REDUCTION: REDUCTION_FIELDS}.get(name, ACQUIRE_FIELDS)
        for field, value in fields.items():
            if value and field not in used:
                raise Refused(PBDMA_ERROR, f"SEM_EXECUTE = {data:#010x}: {field} must be 0 for {name}")
        nbytes = 8 if fields["PAYLOAD_SIZE"] else 4
        registers = self.registers
        va = registers["SEM_ADDR_HI"] << 32 | registers["SEM_ADDR_LO"]
        payload = registers["SEM_PAYLOAD_LO"] | (registers["SEM_PAYLOAD_HI"] << 32 if nbytes == 8 else 0)
        stamped = bool(fields["RELEASE_TIMESTAMP"])
        self.check_alignment("SEM_EXECUTE", data, va, 16 if stamped else nbytes)
        if name == RELEASE:
            self.release(va, payload, nbytes, stamped, bool(fields["RELEASE_WFI"]))
        elif name == REDUCTION:
            self.reduction(va, data, fields, payload, nbytes)
        else:
            self.acquire(name, va, payload, nbytes)

    def check_alignment(self, what: str, data: int, va: int, alignment: int) -> None:
        if va % alignment:
            raise Refused(PBDMA_ERROR, f"{what} = {data:#010x}: semaphore at {va:#x} is not {alignment}-byte aligned")

    def release(self, va: int, payload: int, nbytes: int, stamped: bool, wfi: bool) -> None:
        if wfi:
            self.state.wait_for_idle()
        stamp = self.channel.gpu.timer_ns() if stamped else None
        semaphore.release(self.channel.address_space, va, payload, nbytes, stamp)

    def reduction(self, va: int, data: int, fields: dict[str, int], payload: int, nbytes: int) -> None:
        name = semaphore.HOST_REDUCTIONS[fields["REDUCTION"]]
        signed = fields["REDUCTION_FORMAT"] == 0
        if nbytes == 8 and (name in ("INC", "DEC") or (name == "ADD" and signed)):
            kind = "signed" if signed else "unsigned"
            raise Refused(PBDMA_ERROR, f"SEM_EXECUTE = {data:#010x}: no 64-bit {kind} reduction {name}")
        if fields["RELEASE_WFI"]:
            self.state.wait_for_idle()
        semaphore.reduce(self.channel.address_space, va, name, payload, nbytes, signed)

    def acquire(self, name: str, va: int, payload: int, nbytes: int) -> None:
        value = semaphore.load(self.channel.address_space, va, nbytes)
        if semaphore.ACQUIRES[name](value, payload, nbytes):
            self.blocked_since_ns = None
            return
        now = self.channel.gpu.clock_ns()
        if self.blocked_since_ns is None:
            self.blocked_since_ns = now
        if self.channel.acquire_timeout and now - self.blocked_since_ns > ACQUIRE_TIMEOUT_NS:
            waited = f"{(now - self.blocked_since_ns) / 1e9:.1f} s"
            raise HardwareFault(
                GPU_TIMEOUT_ERROR, f"{name} of {payload:#x} at {va:#x} timed out after {waited}; it holds {value:#x}"
            )
        raise Blocked(f"{name} of {payload:#x} at {va:#x}, which holds {value:#x}")

    def legacy_semaphore(self, data: int, fields: dict[str, int]) -> None:
        """SEMAPHORED, 32-bit payloads only; its RELEASE_WFI is inverted (0 waits)."""
        name = LEGACY_OPERATIONS[fields["OPERATION"]]
        is_acquire = name not in (RELEASE, REDUCTION)
        unused = ("RELEASE_WFI", "RELEASE_SIZE", "REDUCTION", "FORMAT") if is_acquire else ("ACQUIRE_SWITCH",)
        if name == RELEASE:
            unused = (*unused, "REDUCTION", "FORMAT")
        for field in unused:
            if fields[field]:
                raise Refused(PBDMA_ERROR, f"SEMAPHORED = {data:#010x}: {field} must be 0 for {name}")
        va = self.registers["SEMAPHOREA"] << 32 | self.registers["SEMAPHOREB"]
        payload = self.registers["SEMAPHOREC"]
        stamped = name == RELEASE and fields["RELEASE_SIZE"] == 0
        self.check_alignment("SEMAPHORED", data, va, 16 if stamped else 4)
        if name == RELEASE:
            self.release(va, payload, 4, stamped, fields["RELEASE_WFI"] == 0)
        elif name == REDUCTION:
            if fields["RELEASE_WFI"] == 0:
                self.state.wait_for_idle()
            kind = semaphore.HOST_REDUCTIONS[fields["REDUCTION"]]
            semaphore.reduce(self.channel.address_space, va, kind, payload, 4, fields["FORMAT"] == 0)
        else:
            self.acquire(name, va, payload, 4)
