"""A GPU without a driver: channels made by hand over one address space, fed with words written from the headers."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.memory import Mapping, PhysicalMemory
from hcqrt.emu.nv.chips import CHIPS
from hcqrt.emu.nv.fifo import Host
from hcqrt.emu.nv.gpu import Channel, Gpu, Group
from hcqrt.fileio import Libc

MIB = 1 << 20
PUSH_VA = 0x12_3400_0000  # rings and command words
DATA_VA = 0x0020_0000
READ_ONLY_VA = 0x0400_0000
UNMAPPED_VA = 0xDEAD_0000
CODE_VA = 0x0060_0000
QMD_VA = 0x0070_0000
CONST_VA = 0x0071_0000
LOCAL_VA = 0x1_0000_0000
SHARED_WINDOW, LOCAL_WINDOW = 0x7294_0000_0000, 0x7293_0000_0000
GR0, COPY0 = 1, 9
COMPUTE, COPY = 0xC7C0, 0xC7B5
SET_COMPUTE = [0x20012000, 0xC7C0]
SET_COPY = [0x20018000, 0xC7B5]
SETUP = [
    *SET_COMPUTE,
    *(0x200220A8, SHARED_WINDOW >> 32, SHARED_WINDOW & 0xFFFFFFFF),
    *(0x200221EC, LOCAL_WINDOW >> 32, LOCAL_WINDOW & 0xFFFFFFFF),
]


def gp_entry(va: int, words: int, *, sync: bool = False, level: int = 1) -> int:
    return va | level << 41 | words << 42 | int(sync) << 63


class Bench:
    """One GPU, its memory, and a clock that moves by 1000 ns each time it is read."""

    def __init__(self, chip: str = "sm_86", *, strict: bool = True, **host: Any) -> None:
        self.memory = PhysicalMemory(Libc(), "bench", 8 << 30)
        self.space = GpuAddressSpace(CHIPS[chip].va_bits)
        self.now_ns = 10_000_000_000
        self.gpu = Gpu(CHIPS[chip], self.memory, self.clock_ns, strict=strict)
        self.launches: list[Launch] = []
        self.on_launch: Callable[[Launch], Result] = lambda launch: Result(32)
        self.host = Host(self.gpu, launch=self.launch, **host)
        self.gpu.engines = self.host
        self.push_va = PUSH_VA + 0x10000
        self.map(PUSH_VA, 4 * MIB)
        self.map(DATA_VA, 8 * MIB)
        self.map(READ_ONLY_VA, MIB, writable=False)
        self.channels = 0

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

    def close(self) -> None:
        for channel in list(self.gpu.channels.values()):
            self.host.channel_removed(channel)
            channel.userd.drop()
            assert channel.notifier is not None
            channel.notifier.drop()
        self.space.close()
        assert self.memory.used_bytes == 0
        self.memory.close()

    def channel(
        self,
        engine_type: int = GR0,
        *,
        group: Group | None = None,
        entries: int = 16,
        classes: tuple[int, ...] = (COMPUTE, COPY),
        channel_class: int = 0xC56F,
    ) -> Channel:
        number = self.channels
        self.channels += 1
        group = group or Group(engine_type, self.space, scheduled=True)
        channel = Channel(
            gpu=self.gpu,
            group=group,
            chid=number,
            token=0x100 + number,
            channel_class=channel_class,
            gpfifo_va=PUSH_VA + 0x400 * number,
            gpfifo_entries=entries,
            userd=self.memory.allocate(4096),
            userd_offset=512,
            notifier=self.memory.allocate(4096),
            notifier_offset=0,
            notifier_bytes=4096,
            address_space=self.space,
            objects=dict.fromkeys(classes, 1),
        )
        group.channels.append(channel)
        self.gpu.channels[channel.token] = channel
        return channel

    def userd(self, channel: Channel, offset: int) -> int:
        return ctypes.c_uint32.from_address(channel.userd_ptr + offset).value

    def set_put(self, channel: Channel, put: int) -> None:
        ctypes.c_uint32.from_address(channel.userd_ptr + 0x8C).value = put

    def push(self, channel: Channel, *words: int, sync: bool = False) -> int:
        """Write words and their GP entry and move GP_PUT, without a doorbell. Returns the address of the words."""
        va = self.push_va
        self.push_va += 4 * len(words)
        self.space.write(va, struct.pack(f"<{len(words)}I", *words))
        self.push_raw(channel, gp_entry(va, len(words), sync=sync))
        return va

    def push_raw(self, channel: Channel, entry: int) -> None:
        put = self.userd(channel, 0x8C)
        self.space.write(channel.gpfifo_va + 8 * put, struct.pack("<Q", entry))
        self.set_put(channel, (put + 1) % channel.gpfifo_entries)

    def ring(self, channel: Channel) -> None:
        self.host.doorbell(channel.token)
        self.gpu.run()

    def submit(self, channel: Channel, *words: int, sync: bool = False) -> None:
        self.push(channel, *words, sync=sync)
        self.ring(channel)

    def u32(self, va: int) -> int:
        return self.space.read_u32(va)

    def u64(self, va: int) -> int:
        return self.space.read_u64(va)

    def notifier(self, channel: Channel) -> tuple[int, int, int, int]:
        """(timestamp, info32, info16, status) of entry 0."""
        assert channel.notifier is not None
        return struct.unpack("<QIHH", ctypes.string_at(channel.notifier.host_ptr, 16))  # type: ignore[return-value]


def semaphore(va: int, payload: int, execute: int) -> list[int]:
    """Five words from SEM_ADDR_LO."""
    return [0x20050017, va & 0xFFFFFFFF, va >> 32, payload & 0xFFFFFFFF, payload >> 32, execute]
