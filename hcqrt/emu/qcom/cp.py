"""The command processor of one context: command buffers, packet headers, and the packets taken one by one."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.qcom.compute import Dispatch
from hcqrt.emu.qcom.packets import no_handler, packets_of
from hcqrt.emu.qcom.registers import RegisterFile
from hcqrt.emu.qcom.state import LoadedState
from hcqrt.emu.qcom.trouble import Blocked, Refused

if TYPE_CHECKING:
    from hcqrt.emu.qcom.gpu import Gpu

TYPE4, TYPE7 = 4, 7
MAX_LEVEL = 2  # a command buffer of the driver's list, and one below it
MAX_IB_WORDS = 0xFFFFF


@dataclass(eq=False)
class Words:
    """Command words as they were at some time, and how far they have been run."""

    va: int
    words: memoryview
    position: int = 0

    def check_unchanged(self, space: GpuAddressSpace, when: str) -> None:
        """Words still to come must be as they were: the hardware may have read them. Raises Refused and MmuFault."""
        rest = self.words[self.position :]
        va = self.va + 4 * self.position
        now = memoryview(space.read(va, 4 * len(rest))).cast("I") if len(rest) else rest
        if now != rest:
            index = next(i for i in range(len(rest)) if now[i] != rest[i])
            raise Refused(
                f"command words at {va + 4 * index:#x} changed from {rest[index]:#010x} to {now[index]:#010x} {when}"
            )


@functools.lru_cache(maxsize=4096)
def decode_header(header: int) -> tuple[int, int, int]:
    """(type, register or opcode, count). Raises Refused: other types, wrong parity, reserved bits."""
    kind = header >> 28
    if kind == TYPE4:
        target, count, reserved = header >> 8 & 0x3FFFF, header & 0x7F, header & 1 << 26
        parities = (("count", count, header >> 7 & 1), ("register", target, header >> 27 & 1))
    elif kind == TYPE7:
        target, count, reserved = header >> 16 & 0x7F, header & 0x3FFF, header & (0xF << 24 | 1 << 14)
        parities = (("count", count, header >> 15 & 1), ("opcode", target, header >> 23 & 1))
    else:
        raise Refused(f"packet header {header:#010x}: type {kind}, only 4 and 7 are known")
    for name, value, bit in parities:
        if (value.bit_count() + bit) % 2 == 0:
            raise Refused(f"packet header {header:#010x}: wrong parity of {name} {value:#x}")
    if reserved:
        raise Refused(f"packet header {header:#010x}: reserved bits {reserved:#x}")
    if kind == TYPE4 and count == 0:
        raise Refused(f"packet header {header:#010x}: a write of no registers")
    return kind, target, count


class CommandProcessor:
    """Registers, loaded state and the place in the command buffers. A fresh one is what a reset leaves behind."""

    def __init__(self, gpu: Gpu, space: GpuAddressSpace) -> None:
        self.gpu, self.space = gpu, space
        self.generation = gpu.chip.generation
        self.packets = packets_of(self.generation)
        self.registers = RegisterFile(gpu)
        self.state = LoadedState(gpu.chip, lenient=not gpu.strict, check=gpu.check_caches)
        self.marker: int | None = None  # mode of the last CP_SET_MARKER
        self.thread = self.generation.first_thread  # then that of the last CP_THREAD_CONTROL
        self.launches = 0
        self.in_flight: deque[Dispatch] = deque()  # started, and not waited for
        self.frames: list[Words] = []
        self.queue: deque[tuple[int, int]] = deque()
        self.parked = False

    def start(self, ibs: Sequence[tuple[int, int]]) -> None:
        """Begin a submission. The kernel's own packets in front of it leave the CP's threads as they always are."""
        self.thread = self.generation.first_thread
        self.queue.extend(ibs)

    @property
    def finished(self) -> bool:
        return not self.frames and not self.queue and not self.in_flight

    def where(self) -> str:
        """The place of the packet at hand, for texts."""
        if not self.frames:
            return "between command buffers"
        frame = self.frames[-1]
        return f"command buffer at {frame.va:#x}, dword {frame.position:#x}"

    def run(self) -> bool:
        """Run packets until the submission ends or one must wait. True when any was done. Raises Refused, WorkFault,
        MmuFault; the packet at fault is not passed."""
        moved = False
        if self.parked:
            for frame in self.frames:
                frame.check_unchanged(self.space, f"while their buffer at {frame.va:#x} was running")
            self.parked = False
        while True:
            while self.frames and self.frames[-1].position == len(self.frames[-1].words):
                self.frames.pop()
            if not self.frames:
                if not self.queue:
                    return self.drain() or moved
                self.enter(*self.queue.popleft())
            try:
                self.packet(self.frames[-1])
            except Blocked:
                if self.drain():  # what it waits for may come from a shader that is still running
                    moved = True
                    continue
                self.parked = True
                return moved
            moved = True

    def enter(self, va: int, words: int) -> None:
        """Take up a command buffer. Raises Refused and MmuFault."""
        if len(self.frames) >= MAX_LEVEL:
            raise Refused(f"CP_INDIRECT_BUFFER to {va:#x}: more than {MAX_LEVEL} levels of command buffers")
        if va % 4 or not 0 < words <= MAX_IB_WORDS:
            raise Refused(f"command buffer at {va:#x} of {words:#x} dwords: not aligned, empty or too long")
        self.frames.append(Words(va, memoryview(self.space.read(va, 4 * words)).cast("I")))

    def packet(self, frame: Words) -> None:
        """Run one packet and pass it."""
        words, at = frame.words, frame.position
        kind, target, count = decode_header(words[at])
        after = at + 1 + count
        if after > len(words):
            raise Refused(
                f"packet header {words[at]:#010x}: count {count} spills past the buffer, "
                f"which has {len(words) - at - 1} dwords left"
            )
        if kind == TYPE4:
            self.write_registers(target, words[at + 1 : after].tolist())
        else:
            handler = self.packets.get(target)
            if handler is None:
                raise no_handler(self.generation, target, count)
            handler(self, words[at + 1 : after].tolist())
        frame.position = after

    def write_registers(self, offset: int, values: Sequence[int]) -> None:
        """Consecutive registers, and what writing them sets off. Raises Refused."""
        self.registers.write_many(offset, values, bool(self.in_flight))
        if self.registers.invalidated:
            self.state.invalidate(self.registers.take_invalidation())

    def drain(self) -> bool:
        """Wait for everything that was started. True when there was anything. Raises WorkFault."""
        if not self.in_flight:
            return False
        if self.gpu.order is not None:
            self.gpu.order.shuffle(self.in_flight)  # nothing said in which order they may run
        while self.in_flight:
            self.in_flight[0].run(self.gpu)
            self.in_flight.popleft()
        return True
