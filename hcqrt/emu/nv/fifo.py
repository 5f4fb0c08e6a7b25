"""The host of an emulated GPU: doorbells, rings, and channels taken round robin, one GP entry at a time."""

from __future__ import annotations

import ctypes
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from hcqrt.emu.executor import Launcher, run_kernel
from hcqrt.emu.nv.chip_classes import COMPUTE, COPY
from hcqrt.emu.nv.classes import ClassTable
from hcqrt.emu.nv.compute import ComputeEngine
from hcqrt.emu.nv.copy import CopyEngine, CopyRecord
from hcqrt.emu.nv.gpu import Channel, Gpu
from hcqrt.emu.nv.host_classes import HostClass, host_class
from hcqrt.emu.nv.host_methods import HostMethods
from hcqrt.emu.nv.pushbuffer import (
    ENTRY_BYTES,
    OPCODE_EXTENDED_BASE,
    OPCODE_ILLEGAL,
    Methods,
    decode_entry,
    methods,
)
from hcqrt.emu.nv.trouble import (
    GR_CLASS_ERROR,
    MMU_FAULT,
    PBDMA_ERROR,
    Blocked,
    HardwareFault,
    Hung,
    MmuFault,
    Refused,
    copy_error,
)

USERD_GP_GET, USERD_GP_PUT = 0x88, 0x8C
FIRST_ENGINE_METHOD = 0x100  # below it the host keeps methods to itself
GR_ENGINE_TYPE = 1
COMPUTE_SUBCHANNEL, COPY_SUBCHANNEL, LAST_SUBCHANNEL = 1, 4, 4
PREFETCH_ENTRIES = 8  # how far the PBDMA reads ahead; an entry with SYNC stops it
PREFETCH_WORDS = 4096
COPY_LOG_ENTRIES = 64


class Engine(Protocol):
    """An engine object bound to a subchannel."""

    table: ClassTable

    def run(self, offset: int, data: int) -> None: ...
    def finish(self) -> None: ...


@dataclass
class Segment:
    """A fetched GP entry; `index` is its place in the ring."""

    index: int
    words: int
    methods: Methods


@dataclass(eq=False)
class ChannelState:
    """What the host keeps of one channel."""

    host: Host
    channel: Channel
    kind: HostClass
    get: int = 0  # next entry to execute
    fetch: int = 0  # next entry to read
    put: int = 0  # end of the ring as last read from USERD
    rung: bool = False
    pushbuffer_base: int = 0  # bits 56:40 of every segment's address
    segments: deque[Segment] = field(default_factory=deque)
    pending: tuple[int, int, int] | None = None  # a method that had to wait
    bound: dict[int, Engine] = field(default_factory=dict)  # subchannel -> object
    engines: dict[int, Engine] = field(default_factory=dict)  # class number -> object
    yielded: bool = False
    hung: str = ""
    registers: HostMethods = field(init=False)

    def __post_init__(self) -> None:
        self.registers = HostMethods(self)

    @property
    def graphics(self) -> bool:
        return self.channel.group.engine_type == GR_ENGINE_TYPE

    @property
    def class_error(self) -> int:
        return GR_CLASS_ERROR if self.graphics else copy_error(self.channel.group.engine_type)

    def wait_for_idle(self) -> None:
        """Engines run each method to its end, so only a half-loaded one can be wrong here."""
        for engine in self.engines.values():
            engine.finish()

    def set_object(self, subchannel: int, number: int, engine: int) -> None:
        what = f"SET_OBJECT class {number:#x} on subchannel {subchannel}"
        if engine:
            raise Refused(PBDMA_ERROR, f"{what}: engine {engine:#x} is a software method")
        if number not in self.channel.objects:
            known = ", ".join(f"{known:#x}" for known in self.channel.objects) or "none"
            raise Refused(self.class_error, f"{what}: no such object on this channel, it has {known}")
        kind = number & 0xFF
        if self.graphics:
            wanted = {COMPUTE: COMPUTE_SUBCHANNEL, COPY: COPY_SUBCHANNEL}.get(kind)
            if wanted != subchannel:
                raise Refused(self.class_error, f"{what}: that class belongs on subchannel {wanted}")
        elif kind != COPY:
            raise Refused(self.class_error, f"{what}: a copy channel takes copy classes only")
        if number not in self.engines:
            make = ComputeEngine if kind == COMPUTE else CopyEngine
            self.engines[number] = make(self.host, self.channel, number)
        self.bound[subchannel if self.graphics else 0] = self.engines[number]

    def engine_method(self, subchannel: int, offset: int, data: int) -> None:
        if subchannel > LAST_SUBCHANNEL:
            raise Refused(
                PBDMA_ERROR, f"method {offset:#x} on subchannel {subchannel}: software methods are not for users"
            )
        engine = self.bound.get(subchannel if self.graphics else 0)
        if engine is None:
            raise Refused(self.class_error, f"method {offset:#x} on subchannel {subchannel}: no object is set there")
        engine.run(offset, data)


class Host:
    """All channels of one GPU. `launch` executes kernels; tests may give their own."""

    def __init__(
        self,
        gpu: Gpu,
        *,
        launch: Launcher = run_kernel,
        order: random.Random | None = None,
        budget: int | None = None,
        check_caches: bool = False,
    ) -> None:
        self.gpu, self.launch, self.order, self.budget, self.check_caches = gpu, launch, order, budget, check_caches
        self.unknown_tokens = 0
        self.active: dict[Channel, None] = {}  # channels with work, in the order of their doorbells
        self.copy_log: deque[CopyRecord] = deque(maxlen=COPY_LOG_ENTRIES)

    def doorbell(self, token: int) -> None:
        """NOTIFY_CHANNEL_PENDING: the channel has a new GP_PUT. Unknown tokens and dead channels are ignored."""
        channel = self.gpu.channels.get(token)
        if channel is None:
            self.unknown_tokens += 1
            return
        if channel.error:
            return
        self.guarded(channel, self.ring, channel)

    def ring(self, channel: Channel) -> None:
        if channel.engine_state is None:
            channel.engine_state = ChannelState(self, channel, host_class(channel.channel_class))
        channel.engine_state.rung = True
        self.active[channel] = None

    def channel_removed(self, channel: Channel) -> None:
        self.active.pop(channel, None)
        channel.engine_state = None

    def run(self) -> bool:
        """Run every channel until none can go on. True when anything moved."""
        moved = False
        while True:
            channels = list(self.active)
            if self.order is not None:
                self.order.shuffle(channels)
            moves = [self.turn(channel) for channel in channels]  # all of them: any() would stop at the first
            if True not in moves:
                return moved
            moved = True

    def turn(self, channel: Channel) -> bool:
        """One turn of a channel: at most one GP entry. True when it moved."""
        if channel.error or channel.engine_state is None:
            self.active.pop(channel, None)
            return False
        if not channel.runnable or channel.engine_state.hung:
            return False
        return bool(self.guarded(channel, self.advance, channel.engine_state))

    def guarded(self, channel: Channel, work: Callable[..., bool | None], *args: object) -> bool | None:
        """Do `work` and turn what goes wrong into the channel's error."""
        try:
            return work(*args)
        except Refused as error:
            refusal = error
        except HardwareFault as fault:
            self.gpu.post_fault(channel, fault.code, fault.detail, mmu=fault.mmu, sm=fault.sm)
            return True
        except MmuFault as miss:
            self.gpu.post_fault(channel, MMU_FAULT, str(miss), mmu=miss)
            return True
        except Hung as endless:
            channel.engine_state.hung = str(endless)
            self.gpu.log.append(f"channel {channel.chid} hangs: {endless}")
            return True
        self.gpu.refuse(channel, refusal.code, refusal.detail)  # may raise, with nothing else in its traceback
        return True

    def advance(self, state: ChannelState) -> bool:
        if state.rung:
            self.read_put(state)
        self.prefetch(state)
        if not state.segments:
            self.active.pop(state.channel, None)
            return False
        moved = self.run_segment(state, state.segments[0])
        if state.pending is not None or state.yielded:
            state.yielded = False
            return moved
        state.segments.popleft()
        state.get = (state.get + 1) % state.channel.gpfifo_entries
        if state.kind.gp_get:
            ctypes.c_uint32.from_address(state.channel.userd_ptr + USERD_GP_GET).value = state.get
        return True

    def read_put(self, state: ChannelState) -> None:
        """Take GP_PUT from USERD. Refused: outside the ring, or moved back past entries already handed over."""
        state.rung = False
        put = ctypes.c_uint32.from_address(state.channel.userd_ptr + USERD_GP_PUT).value
        count = state.channel.gpfifo_entries
        if put >= count:
            raise Refused(PBDMA_ERROR, f"GP_PUT {put:#x} is outside the ring of {count} entries")
        if (put - state.get) % count < (state.put - state.get) % count:
            raise Refused(PBDMA_ERROR, f"GP_PUT went from {state.put} to {put}, past GP_GET {state.get}")
        state.put = put

    def prefetch(self, state: ChannelState) -> None:
        """Read entries and their words ahead of execution, up to one that waits for its predecessors (SYNC)."""
        space, count = state.channel.address_space, state.channel.gpfifo_entries
        while state.fetch != state.put and len(state.segments) < PREFETCH_ENTRIES:
            try:
                raw = int.from_bytes(
                    space.read(state.channel.gpfifo_va + state.fetch * ENTRY_BYTES, ENTRY_BYTES), "little"
                )
                entry = decode_entry(raw, state.fetch, extended_base=state.kind.extended_base)
                ahead = sum(segment.words for segment in state.segments)
                if state.segments and (entry.sync or ahead + entry.words > PREFETCH_WORDS):
                    return
                if entry.opcode == OPCODE_ILLEGAL:
                    raise HardwareFault(PBDMA_ERROR, f"GP entry {state.fetch} = {raw:#018x}: opcode ILLEGAL")
                if entry.opcode == OPCODE_EXTENDED_BASE:
                    state.pushbuffer_base = entry.va
                va = state.pushbuffer_base | entry.va
                self.check_kind(state, va, entry.words)
                words = memoryview(space.read(va, 4 * entry.words)).cast("I")
            except (Refused, HardwareFault, MmuFault):
                if state.segments:  # its turn will come: what is before it still runs
                    return
                raise
            state.segments.append(Segment(state.fetch, entry.words, methods(words)))
            state.fetch = (state.fetch + 1) % count

    def check_kind(self, state: ChannelState, va: int, words: int) -> None:
        """Refused: USERD in system memory and commands in video memory, on chips that cannot have that."""
        channel, vidmem = state.channel, self.gpu.vidmem
        if not self.gpu.chip.userd_with_ring or channel.userd.memory is vidmem:
            return
        for what, address in (("the ring", channel.gpfifo_va), ("a pushbuffer", va if words else channel.gpfifo_va)):
            found = channel.address_space.find(address)
            if found is not None and found.value.block.memory is vidmem:
                raise Refused(PBDMA_ERROR, f"{what} at {address:#x} is in video memory, USERD in system memory")

    def run_segment(self, state: ChannelState, segment: Segment) -> bool:
        """Run methods until the segment ends, one must wait, or the channel yields. True when any was done."""
        moved = False
        while True:
            method = state.pending or next(segment.methods, None)
            if method is None:
                return True
            state.pending = method  # stays so when Ctrl-C ends a run of the GPU: the next run does it again
            subchannel, offset, data = method
            try:
                if offset < FIRST_ENGINE_METHOD:
                    state.registers.run(subchannel, offset, data)
                else:
                    state.engine_method(subchannel, offset, data)
            except Blocked:
                return moved
            state.pending, moved = None, True
            if state.yielded:
                return True
