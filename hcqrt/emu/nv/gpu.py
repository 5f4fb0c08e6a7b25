"""State of one emulated NVIDIA GPU that its driver side and its engines share: channels, faults, debugger records."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.memory import Block, MmuFault, PhysicalMemory
from hcqrt.emu.nv.chips import Chip
from hcqrt.emu.refusal import EmulatorRefusal

# nverror.h ROBUST_CHANNEL_*: the codes of the error notifier (nv-driver.md §9); names for the text of a fault
GR_EXCEPTION, MMU_FAULT, PBDMA_ERROR, RESET_CHANNEL, PREEMPTIVE_REMOVAL, GR_CLASS_ERROR = 13, 31, 32, 43, 45, 69
COPY_ENGINE_TYPES: tuple[int, ...] = (*range(9, 19), *range(0x34, 0x3E))  # NV2080_ENGINE_TYPE_COPY0.. COPY19
NOTIFIER_BYTES = 16  # NvNotification: timestamp u64, info32 @8, info16 @12, status u16 @14
NOTIFIER_ERROR, NOTIFIER_TOKEN = 0, 1
STATUS_ERROR = 0xFFFF
TIMER_GRAIN_NS = 32  # PTIMER counts in steps of 32 ns

# Fault and access types of the MMU, as READ_MMU_FAULT_INFO reports them (nv-driver.md §9)
FAULT_TYPES = {"PDE": 0, "PDE_SIZE": 1, "PTE": 2, "VA_LIMIT": 3, "RO": 6, "WO": 7, "ATOMIC": 15}
ACCESS_TYPES = {"read": 0, "fetch": 0, "write": 1, "atomic": 2}


@dataclass(frozen=True)
class SmError:
    """What one SM latched: ESR words, PC (a GPU address) and the address that failed, 0 where there is none."""

    sm: int = 0
    global_esr: int = 0
    warp_esr: int = 0
    pc: int = 0
    address: int = 0


@dataclass(eq=False)
class Group:
    """A channel group (TSG): the unit that is scheduled, and that a fault takes down."""

    engine_type: int  # NV2080_ENGINE_TYPE_*: 1 is GR0, 9.. are COPY0..
    address_space: GpuAddressSpace | None = None
    channels: list[Channel] = field(default_factory=list)
    scheduled: bool = False


@dataclass(eq=False)
class Channel:
    """A GPFIFO channel as the host engine sees it. `engine_state` belongs to the engines."""

    gpu: Gpu
    group: Group
    chid: int
    token: int
    channel_class: int
    gpfifo_va: int
    gpfifo_entries: int
    userd: Block
    userd_offset: int
    notifier: Block | None
    notifier_offset: int
    notifier_bytes: int
    address_space: GpuAddressSpace
    acquire_timeout: bool = False  # flag PBDMA_ACQUIRE_TIMEOUT: a host acquire of over ~2 s is an error
    where: str = ""
    objects: dict[int, int] = field(default_factory=dict)  # class number of an engine object -> its handle
    registered: bool = False  # with UVM
    error: str = ""  # why it is dead
    engine_state: Any = None

    @property
    def userd_ptr(self) -> int:
        """Host pointer of the 512 bytes of USERD."""
        return self.userd.host_ptr + self.userd_offset

    @property
    def runnable(self) -> bool:
        return self.group.scheduled and not self.error

    def notify(self, index: int, info32: int, info16: int, status: int, time_ns: int) -> bool:
        """Fill one entry of the error notifier; False when the client gave no memory for it."""
        if self.notifier is None or (index + 1) * NOTIFIER_BYTES > self.notifier_bytes:
            return False
        at = self.notifier.host_ptr + self.notifier_offset + index * NOTIFIER_BYTES
        ctypes.c_uint64.from_address(at).value = time_ns
        ctypes.c_uint32.from_address(at + 8).value = info32
        ctypes.c_uint16.from_address(at + 12).value = info16
        ctypes.c_uint16.from_address(at + 14).value = status  # last: it is what a waiting CPU polls
        return True


class Engines(Protocol):
    """What the driver side needs from the GPU side (hcqrt/emu/nv/fifo.py)."""

    def doorbell(self, token: int) -> None: ...
    def run(self) -> bool: ...
    def channel_removed(self, channel: Channel) -> None: ...


@dataclass
class FaultInfo:
    """Debugger state: what READ_MMU_FAULT_INFO and READ_ALL_SM_ERROR_STATES report until they are cleared."""

    mmu: list[tuple[int, int, int]] = field(default_factory=list)  # address, fault type, access type
    sms: dict[int, SmError] = field(default_factory=dict)


class Gpu:
    """One emulated GPU. The driver adds and removes channels; the engines run them and post faults."""

    def __init__(self, chip: Chip, vidmem: PhysicalMemory, clock_ns: Callable[[], int], *, strict: bool = True) -> None:
        self.chip, self.vidmem, self.clock_ns, self.strict = chip, vidmem, clock_ns, strict
        self.refusals: list[str] = []
        self.channels: dict[int, Channel] = {}  # by work-submit token
        self.stats: Counter[str] = Counter()  # doorbells launches copies instructions faults
        self.faults = FaultInfo()
        self.stalled = False
        self.injected_fault: Callable[[str], bool] = lambda name: False
        self.engines: Engines | None = None
        self.log: list[str] = []  # one line per fault, in words: what dmesg would say

    def timer_ns(self) -> int:
        """PTIMER: the time base of semaphore timestamps and of the usermode page."""
        return self.clock_ns() // TIMER_GRAIN_NS * TIMER_GRAIN_NS

    def run(self) -> bool:
        """Let the engines work; True when anything moved."""
        return self.engines is not None and not self.stalled and self.engines.run()

    def post_fault(
        self, channel: Channel, code: int, detail: str, *, mmu: MmuFault | None = None, sm: SmError | None = None
    ) -> None:
        """Robust-channel recovery: debugger records, error notifiers, and the whole channel group dead."""
        if channel.error:
            return
        self.stats["faults"] += 1
        text = f"Xid {code} on channel {channel.chid} (class {channel.channel_class:#x}): {detail}"
        self.log.append(text)
        if mmu is not None:
            entry = (mmu.address, FAULT_TYPES[mmu.kind], ACCESS_TYPES[mmu.access])
            self.faults.mmu = [*self.faults.mmu, entry][:4]  # the report has room for four; the first ones tell most
        if sm is not None:
            self.faults.sms.setdefault(sm.sm, sm)
        for member in channel.group.channels:
            if member.error:
                continue
            mine = member is channel
            member.error = text if mine else f"removed: {text}"
            info32 = code if mine else PREEMPTIVE_REMOVAL
            member.notify(NOTIFIER_ERROR, info32, channel.group.engine_type, STATUS_ERROR, self.timer_ns())

    def refuse(self, channel: Channel, code: int, detail: str) -> None:
        """Something the emulator does not know: the channel dies as on hardware, and strict mode raises as well.

        `detail` holds the number that was not known. Raises EmulatorRefusal when strict.
        """
        self.refusals.append(detail)
        self.post_fault(channel, code, detail)
        if self.strict:
            raise EmulatorRefusal(f"emulated {self.chip.name}, channel {channel.chid}: {detail}")
