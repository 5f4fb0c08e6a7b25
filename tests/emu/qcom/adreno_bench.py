"""An emulated Adreno without a driver: contexts over one address space, fed with words written from the facts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.memory import Mapping, PhysicalMemory
from hcqrt.emu.qcom.chips import CHIPS
from hcqrt.emu.qcom.gpu import Gpu, GpuContext, Submission
from hcqrt.emu.qcom.trouble import GpuFault
from hcqrt.fileio import Libc

KIB = 1024
COMMAND_VA = 0x10_0000_0000  # as the worked dispatch of qcom.md §3.3 places things
CODE_VA = 0x10_0001_0000
CONST_VA = 0x10_0002_0000
OUT_VA = 0x10_0003_0000
IN_VA = 0x10_0004_0000
SIGNAL_VA = 0x10_0005_0000
DATA_VA = 0x10_0100_0000
READ_ONLY_VA = 0x10_0200_0000
UNMAPPED_VA = 0x10_DEAD_0000

# The words of §3.3, packet by packet
DISPATCH = (
    "70e50001 00000008",
    "40bb0801 00000060",
    "40ab0001 00000005",
    "48ae0401 00000000",
    "40ae0f01 00000020",
    "40b30901 00000002",
    "40b60001 00108000",
    "70268000",
    "40b98701 00000101",
    "48a9bb02 00000100 00000001",
    "40a9b08a 00000180 00000001 00000000 00000000 00010000 00000010 00000000 00000000 00000000 00000000",
    "48a9bd01 00000000",
    "40b9908c 000000ff 00000080 00000000 00000001 00000000 00000001 00000000 00fcfcc0 000000fc 00000001 00000001"
    " 00000001",
    "70348003 00764000 00020000 00000010",
    "70348003 00760000 00010000 00000010",
    "70b30004 00000000 00000002 00000001 00000001",
    "70268000",
    "70460004 00000004 00050000 00000010 00000001",
)
LAUNCH_PACKET = 15  # its place in DISPATCH
EXEC_CS = 0x70B30004
CODE = (
    0x46D80803200600C0, 0x4218080300000003, 0x46D8080320020003, 0x4210000410020003, 0x202CC00500000003,
    0x4210000810000003, 0x202CC00900000001, 0x0000050000000000, 0xC006000601810001, 0x5210000620050006,
    0x0000050000000000, 0xC0C611000180000C, 0x0300000000000000,
)  # fmt: skip
CONSTANTS = (0x00030000, 0x00000010, 0x00040000, 0x00000010)

WAIT_FOR_IDLE = (0x70268000,)
FLUSH = (0x70460004, 4, SIGNAL_VA & 0xFFFFFFFF, SIGNAL_VA >> 32)  # and the value


def odd(value: int) -> int:
    """The bit that makes value and bit hold an odd number of ones."""
    return 1 - bin(value).count("1") % 2


def type4(register: int, *values: int) -> list[int]:
    count = len(values)
    return [4 << 28 | odd(register) << 27 | register << 8 | odd(count) << 7 | count, *values]


def type7(opcode: int, *payload: int) -> list[int]:
    count = len(payload)
    return [7 << 28 | odd(opcode) << 23 | opcode << 16 | odd(count) << 15 | count, *payload]


def lo_hi(va: int) -> tuple[int, int]:
    return va & 0xFFFFFFFF, va >> 32


def dispatch(
    change: dict[int, int] | None = None,
    *,
    drop: Iterable[int] = (),
    before: Iterable[int] = (),
    launch: Iterable[int] | None = None,
    example: Sequence[str] = DISPATCH,
) -> list[int]:
    """The worked dispatch with other register values.

    `change`: offset -> value, in place where the register is written, else in front of the launch. `drop`: packets of
    the example left out. `before`: words in front of the launch packet; `launch`: words in its place.
    """
    left = dict(change or {})
    words: list[int] = []
    for index, text in enumerate(example):
        packet = [int(word, 16) for word in text.split()]
        if index in drop:
            continue
        if packet[0] >> 28 == 4:
            first = packet[0] >> 8 & 0x3FFFF
            for at in range(1, len(packet)):
                packet[at] = left.pop(first + at - 1, packet[at])
        if packet[0] == EXEC_CS:
            for offset, value in left.items():
                words += type4(offset, value)
            words += before
            packet = list(packet if launch is None else launch)
        words += packet
    return words


class Bench:
    """One GPU, its memory, and a clock that moves by 1000 ns each time it is read."""

    def __init__(self, chip: str = "a630", **options: Any) -> None:
        self.memory = PhysicalMemory(Libc(), "bench", 1 << 30)
        self.space = GpuAddressSpace()
        self.now_ns = 10_000_000_000
        self.refused: list[str] = []
        self.faults: list[GpuFault] = []
        self.launches: list[Launch] = []
        self.on_launch: Callable[[Launch], Result] = lambda launch: Result(64)
        options.setdefault("launch", self.launch)
        self.gpu = Gpu(CHIPS[chip], self.clock_ns, refuse=self.refused.append, **options)
        for va in (COMMAND_VA, CODE_VA, CONST_VA, OUT_VA, IN_VA, SIGNAL_VA):
            self.map(va, 64 * KIB)
        self.map(DATA_VA, 1024 * KIB)
        self.map(READ_ONLY_VA, 64 * KIB, writable=False)
        self.space.write(CODE_VA, struct.pack(f"<{len(CODE)}Q", *CODE))
        self.space.write(CONST_VA, struct.pack("<4I", *CONSTANTS))
        self.command_va = COMMAND_VA
        self.retired: list[int] = []
        self.context = self.new_context()
        self.timestamp = 0

    def clock_ns(self) -> int:
        self.now_ns += 1000
        return self.now_ns

    def launch(self, launch: Launch) -> Result:
        self.launches.append(launch)
        return self.on_launch(launch)

    def map(self, va: int, nbytes: int, *, writable: bool = True) -> None:
        block = self.memory.allocate(nbytes)
        self.space.map(Mapping(va, nbytes, block, 0, writable=writable))
        block.drop()

    def new_context(self) -> GpuContext:
        context = self.gpu.new_context(self.space)
        context.on_fault = self.faults.append
        return context

    def store(self, *words: int) -> int:
        """Put command words into memory; their address."""
        va = self.command_va
        self.command_va += 4 * len(words)
        self.space.write(va, struct.pack(f"<{len(words)}I", *words))
        return va

    def queue(self, *words: int, context: GpuContext | None = None) -> int:
        """Submit without running the GPU; the address of the words."""
        va = self.store(*words)
        self.timestamp += 1
        timestamp = self.timestamp
        (context or self.context).submit(
            Submission(timestamp, [(va, len(words))], lambda: self.retired.append(timestamp))
        )
        return va

    def submit(self, *words: int, context: GpuContext | None = None) -> int:
        va = self.queue(*words, context=context)
        self.gpu.run()
        return va

    def u32(self, va: int) -> int:
        return self.space.read_u32(va)

    def close(self) -> None:
        for context in list(self.gpu.contexts):
            context.close()
        self.space.close()
        assert self.memory.used_bytes == 0
        self.memory.close()
