"""Channel groups, context shares, channels and the engine objects on them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.status import (
    NV_ERR_INSUFFICIENT_RESOURCES,
    NV_ERR_INVALID_ADDRESS,
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_CLASS,
    NV_ERR_INVALID_OBJECT_PARENT,
    NV_ERR_NO_FREE_FIFOS,
    NV_ERR_NO_MEMORY,
)
from hcqrt.bits import is_pow2
from hcqrt.emu.memory import Block, OutOfPhysical
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import Board
from hcqrt.emu.nv.gpu import COPY_ENGINE_TYPES, Channel, Group
from hcqrt.emu.nv.rm.memory import Memory, mask, take
from hcqrt.emu.nv.rm.resources import Device, VaSpace, board_of, check_whole, need_parent
from hcqrt.emu.nv.rm.tree import Resource
from hcqrt.emu.where import text

if TYPE_CHECKING:
    from hcqrt.emu.nv.rm.alloc import Request
    from hcqrt.emu.nv.uvm.space import UvmGpu

USERD_BYTES = 512
# Video memory that the first graphics object of a channel takes. Real contexts take tens of MiB; this keeps small
# emulated cards usable and still shows NO_MEMORY on a full one.
GR_CONTEXT_BYTES = 1 << 20
CHANNEL_FLAGS = mask(
    c.NVOS04_FLAGS_GROUP_CHANNEL_RUNQUEUE, c.NVOS04_FLAGS_DELAY_CHANNEL_SCHEDULING,
    c.NVOS04_FLAGS_CHANNEL_PBDMA_ACQUIRE_TIMEOUT,
)  # fmt: skip
GROUP_DEFAULT_TIMESLICE_US = 1000
# What RM writes to the parameters of a channel that it made: nothing of its own leaves the kernel (kernel_channel.c).
# The last three came with 535.86.05: a caller with the shorter struct finds what lies behind it zeroed.
WIPED = (
    "hPhysChannelGroup", "internalFlags", "errorNotifierMem", "eccErrorNotifierMem", "ProcessID", "SubProcessID",
    "encryptIv", "decryptIv", "hmacNonce",
)  # fmt: skip


def is_graphics(engine_type: int) -> bool:
    return engine_type == c.NV2080_ENGINE_TYPE_GR0


class GroupObject(Resource):
    """KEPLER_CHANNEL_GROUP_A."""

    free_first = True

    def __init__(self, request: Request, board: Board, engine_type: int, va_space: VaSpace | None) -> None:
        super().__init__(request.client, request.parent, request.handle, request.number)
        self.board, self.va_space = board, va_space
        self.group = Group(engine_type, va_space.space if va_space is not None else None)
        self.timeslice_us = GROUP_DEFAULT_TIMESLICE_US
        self.interleave = c.NVA06C_CTRL_INTERLEAVE_LEVEL_MEDIUM
        self.uvm_shared_va: int | None = None  # where UVM mapped the buffers that the group's channels share

    def channels(self) -> list[ChannelObject]:
        return [child for child in self.children.values() if isinstance(child, ChannelObject)]


class CtxShare(Resource):
    """FERMI_CONTEXT_SHARE_A: binds an address space to channels of a group."""

    def __init__(self, request: Request, va_space: VaSpace, subcontext: int) -> None:
        super().__init__(request.client, request.parent, request.handle, request.number)
        self.va_space, self.subcontext = va_space, subcontext


class ChannelObject(Resource):
    """A GPFIFO channel. `channel` is what the GPU runs."""

    free_first = True

    def __init__(
        self, request: Request, board: Board, channel: Channel, va_space: VaSpace, share: CtxShare | None
    ) -> None:
        super().__init__(request.client, request.parent, request.handle, request.number)
        self.board, self.channel, self.va_space, self.share = board, channel, va_space, share
        self.token_index = 1  # notifier entry that the work-submit token goes to
        self.uvm: UvmGpu | None = None
        self.context: Block | None = None

    def free(self) -> None:
        if self.uvm is not None:
            self.uvm.drop_channel(self)
        gpu = self.board.gpu
        gpu.channels.pop(self.channel.token, None)
        self.channel.group.channels.remove(self.channel)
        if gpu.engines is not None:
            gpu.engines.channel_removed(self.channel)
        for block in (self.channel.userd, self.channel.notifier, self.context):
            if block is not None:
                block.drop()


class EngineObject(Resource):
    """A compute or copy object: the class that SET_OBJECT may name on its channel."""

    def __init__(self, request: Request, channel: ChannelObject, *, graphics: bool) -> None:
        super().__init__(request.client, request.parent, request.handle, request.number)
        self.channel, self.graphics = channel, graphics

    def free(self) -> None:
        self.channel.channel.objects.pop(self.number, None)


def check_engine(board: Board, engine_type: int) -> None:
    if not is_graphics(engine_type) and engine_type not in COPY_ENGINE_TYPES[: board.chip.copy_engines]:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"engine type {engine_type}")


def make_group(request: Request) -> GroupObject:
    need_parent(request, Device)
    p, board = request.params, board_of(request.parent)
    check_whole(board)
    check_engine(board, p.engineType)
    va_space = request.client.find(p.hVASpace, VaSpace, "hVASpace") if p.hVASpace else None
    if p.hObjectError or p.hObjectEccError:
        request.driver.refusals.append("KEPLER_CHANNEL_GROUP_A with an error context of its own")
        raise Refused(NV_ERR_INVALID_ARGUMENT, "hObjectError of a group is not emulated")
    return GroupObject(request, board, p.engineType, va_space)


def make_ctx_share(request: Request) -> CtxShare:
    need_parent(request, GroupObject)
    group, p = request.parent, request.params
    assert isinstance(group, GroupObject)
    if not is_graphics(group.group.engine_type):
        raise Refused(NV_ERR_INVALID_ARGUMENT, "only graphics groups have subcontexts")
    if p.flags > c.NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC:
        request.driver.refusals.append(f"FERMI_CONTEXT_SHARE_A flags {p.flags:#x}")
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"flags {p.flags:#x} are not emulated")
    va_space = request.client.find(p.hVASpace, VaSpace, "hVASpace")
    used = {child.subcontext for child in group.children.values() if isinstance(child, CtxShare)}
    first = 0 if p.flags == c.NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_SYNC else 1
    free = [number for number in range(first, group.board.chip.max_subcontexts) if number not in used]
    if not free or (first == 0 and free[0] != 0):
        raise Refused(NV_ERR_INSUFFICIENT_RESOURCES, "no subcontext is left in this group")
    p.subctxId = free[0]
    return CtxShare(request, va_space, free[0])


def bind_in_group(request: Request, parent: GroupObject) -> tuple[VaSpace, CtxShare | None]:
    """The address space of a channel in a group (nv-driver.md §8)."""
    p = request.params
    if p.hVASpace:
        raise Refused(NV_ERR_INVALID_ARGUMENT, "a channel of a group takes no hVASpace")
    if p.engineType not in (c.NV2080_ENGINE_TYPE_NULL, parent.group.engine_type):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"engine type {p.engineType} in a group of {parent.group.engine_type}")
    if any((member.share is None) != (p.hContextShare == 0) for member in parent.channels()):
        raise Refused(NV_ERR_INVALID_ARGUMENT, "all channels of a group pass a context share, or none")
    if not p.hContextShare:
        if parent.va_space is None:
            raise Refused(NV_ERR_INVALID_ARGUMENT, "neither the channel nor its group has an address space")
        return parent.va_space, None
    share = request.client.find(p.hContextShare, CtxShare, "context share")
    if share.parent is not parent:
        raise Refused(NV_ERR_INVALID_OBJECT_PARENT, "the context share belongs to another group")
    return share.va_space, share


def private_group(request: Request, board: Board) -> tuple[Group, VaSpace]:
    """The group that RM makes around a channel allocated under the device."""
    p = request.params
    if p.hContextShare:
        raise Refused(NV_ERR_INVALID_ARGUMENT, "a context share without a group")
    check_engine(board, p.engineType)
    va_space = request.client.find(p.hVASpace, VaSpace, "hVASpace")
    return Group(p.engineType, va_space.space), va_space


def find_userd(request: Request) -> tuple[Memory, int]:
    p = request.params
    if any(p.hUserdMemory[1:]) or any(p.userdOffset[1:]):
        raise Refused(NV_ERR_INVALID_ARGUMENT, "USERD for more than one subdevice")
    memory, offset = request.client.find(p.hUserdMemory[0], Memory, "USERD memory"), p.userdOffset[0]
    if offset % USERD_BYTES:
        raise Refused(NV_ERR_INVALID_ADDRESS, f"USERD at {offset:#x} is not {USERD_BYTES}-byte aligned")
    if offset + USERD_BYTES > memory.shape.nbytes:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"USERD at {offset:#x} leaves its {memory.shape.nbytes:#x} bytes")
    return memory, offset


def free_channel_id(board: Board) -> int:
    used = {channel.chid for channel in board.gpu.channels.values()}
    chid = next((number for number in range(board.chip.max_channels) if number not in used), None)
    if chid is None:
        raise Refused(NV_ERR_NO_FREE_FIFOS, f"{len(used)} channels are open on this GPU")
    return chid


def make_channel(request: Request) -> ChannelObject:
    need_parent(request, GroupObject, Device)
    p, parent, board = request.params, request.parent, board_of(request.parent)
    if p.hContextShare and p.hVASpace:
        raise Refused(NV_ERR_INVALID_ARGUMENT, "hContextShare and hVASpace together")
    if not is_pow2(p.gpFifoEntries) or p.gpFifoOffset % 8:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"ring of {p.gpFifoEntries} entries at {p.gpFifoOffset:#x}")
    if getattr(p, "hHandleVASpace", 0):  # from 610.43.02 on; no header tells what it is for
        request.driver.refusals.append(f"channel hHandleVASpace {p.hHandleVASpace:#x}")
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"hHandleVASpace {p.hHandleVASpace:#x} is not emulated")
    if p.flags & ~CHANNEL_FLAGS:
        request.driver.refusals.append(f"channel flags {p.flags:#x}")
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"channel flags {p.flags:#x} are not emulated")
    share: CtxShare | None = None
    if isinstance(parent, GroupObject):
        va_space, share = bind_in_group(request, parent)
        group = parent.group
    else:
        group, va_space = private_group(request, board)
    userd, userd_offset = find_userd(request)
    notifier = request.client.find(p.hObjectError, Memory, "error notifier") if p.hObjectError else None
    chid = free_channel_id(board)
    channel = Channel(
        gpu=board.gpu,
        group=group,
        chid=chid,
        token=board.chip.token_bits | runlist_of(group.engine_type) << 16 | chid,  # nv-driver.md §0.9
        channel_class=request.number,
        gpfifo_va=p.gpFifoOffset,
        gpfifo_entries=p.gpFifoEntries,
        userd=userd.block.hold(),
        userd_offset=userd_offset,
        notifier=notifier.block.hold() if notifier is not None else None,
        notifier_offset=0,
        notifier_bytes=notifier.shape.nbytes if notifier is not None else 0,
        address_space=va_space.space,
        acquire_timeout=bool(take(p.flags, c.NVOS04_FLAGS_CHANNEL_PBDMA_ACQUIRE_TIMEOUT)),
    )
    p.cid = chid
    wipe(p)
    group.channels.append(channel)
    board.gpu.channels[channel.token] = channel
    made = ChannelObject(request, board, channel, va_space, share)
    channel.where = text(made.where)
    return made


def wipe(p: Any) -> None:
    for name in WIPED:
        place = getattr(type(p), name, None)
        if place is not None:
            ctypes.memset(ctypes.addressof(p) + place.offset, 0, place.size)


def runlist_of(engine_type: int) -> int:
    return 0 if is_graphics(engine_type) else COPY_ENGINE_TYPES.index(engine_type) + 1


def make_engine_object(request: Request) -> EngineObject:
    need_parent(request, ChannelObject)
    parent = request.parent
    assert isinstance(parent, ChannelObject)
    graphics = request.number in parent.board.chip.compute_classes
    if graphics and not is_graphics(parent.channel.group.engine_type):
        raise Refused(NV_ERR_INVALID_CLASS, "a compute object on a copy engine's channel")
    if graphics and parent.context is None:
        try:
            parent.context = parent.board.gpu.vidmem.allocate(GR_CONTEXT_BYTES)
        except OutOfPhysical as error:
            raise Refused(NV_ERR_NO_MEMORY, f"graphics context: {error}") from error
    parent.channel.objects[request.number] = request.handle
    return EngineObject(request, parent, graphics=graphics)


def has_runlist(channel: Any) -> bool:
    """A channel is on a runlist once it has an engine object or was scheduled."""
    return bool(channel.objects) or channel.group.scheduled
