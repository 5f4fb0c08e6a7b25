"""UVM calls that register GPUs, address spaces, channels and peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hcqrt.autogen.nv.status import (
    NV_ERR_GPU_UUID_NOT_FOUND,
    NV_ERR_INVALID_ADDRESS,
    NV_ERR_INVALID_CHANNEL,
    NV_ERR_INVALID_DEVICE,
    NV_ERR_INVALID_FLAGS,
    NV_ERR_INVALID_OBJECT_HANDLE,
    NV_ERR_NOT_SUPPORTED,
    NV_ERR_OTHER_DEVICE_FOUND,
    NV_ERR_OUT_OF_RANGE,
)
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.rm.channels import ChannelObject
from hcqrt.emu.nv.rm.resources import VaSpace
from hcqrt.emu.nv.uvm.space import PAGE, Range, UvmGpu, UvmSpace

Run = Callable[[UvmSpace, Any], None]
TABLE: dict[str, Run] = {}
# Address space that a graphics context takes in a channel's window: one part for the group, one for each channel.
# Sizes of a Turing-class context are tens of MiB (nv-driver.md §8 calls 64 MiB ample).
GROUP_WINDOW_BYTES, CHANNEL_WINDOW_BYTES = 24 << 20, 4 << 20


def uvm_call(name: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        TABLE[name] = run
        return run

    return register


@uvm_call("UVM_REGISTER_GPU")
def register_gpu(space: UvmSpace, a: Any) -> None:
    space.check_alive()
    raw = bytes(a.gpu_uuid.uuid)
    board = space.driver.board_by("uuid", raw)
    if board is None or not board.opens:
        raise Refused(NV_ERR_GPU_UUID_NOT_FOUND, f"GPU {raw.hex()} is unknown or not open")
    if raw in space.gpus:
        raise Refused(NV_ERR_INVALID_DEVICE, f"GPU {raw.hex()} is registered already")
    if a.hClient or a.hSmcPartRef:
        space.driver.refusals.append("UVM_REGISTER_GPU of a partition")
        raise Refused(NV_ERR_NOT_SUPPORTED, "partitioned GPUs are not emulated")
    space.gpus[raw] = UvmGpu(space, board)
    a.numaEnabled, a.numaNodeId = 0, -1


@uvm_call("UVM_UNREGISTER_GPU")
def unregister_gpu(space: UvmSpace, a: Any) -> None:
    gpu = space.gpu(a.gpu_uuid)
    raw = bytes(a.gpu_uuid.uuid)
    gpu.close()
    del space.gpus[raw]
    space.peers = {pair for pair in space.peers if raw not in pair}


@uvm_call("UVM_REGISTER_GPU_VASPACE")
def register_va_space(space: UvmSpace, a: Any) -> None:
    space.check_alive()
    gpu = space.gpu(a.gpuUuid)
    if gpu.va_space is not None:
        raise Refused(NV_ERR_INVALID_DEVICE, "this GPU has an address space here already")
    va_space = space.client(a.hClient).objects.get(a.hVaSpace)
    if not isinstance(va_space, VaSpace):
        raise Refused(NV_ERR_INVALID_OBJECT_HANDLE, f"{a.hVaSpace:#x} is no address space")
    if va_space.board is not gpu.board:
        raise Refused(NV_ERR_OTHER_DEVICE_FOUND, "the address space belongs to another GPU")
    if not va_space.external:
        raise Refused(NV_ERR_INVALID_FLAGS, "the address space is not externally owned")
    if va_space.uvm is not None:
        raise Refused(NV_ERR_INVALID_DEVICE, "the address space is registered elsewhere")
    gpu.va_space, va_space.uvm = va_space, gpu


@uvm_call("UVM_UNREGISTER_GPU_VASPACE")
def unregister_va_space(space: UvmSpace, a: Any) -> None:
    space.gpu(a.gpuUuid, with_va_space=True).drop_va_space()


def find_channel(space: UvmSpace, client: int, handle: int) -> ChannelObject:
    item = space.client(client).objects.get(handle)
    if not isinstance(item, ChannelObject):
        raise Refused(NV_ERR_INVALID_OBJECT_HANDLE, f"{handle:#x} is no channel of client {client:#x}")
    return item


def place(space: UvmSpace, base: int, nbytes: int, size: int) -> Range:
    """The first free `size` bytes of a window."""
    position, end = base, base + nbytes
    while position + size <= end:
        taken = space.ranges.overlapping(position, position + size)
        if not taken:
            placed = Range(position, size, "channel")
            space.ranges.put(position, position + size, placed)
            return placed
        position = taken[-1].end
    raise Refused(NV_ERR_INVALID_ADDRESS, f"no free {size} bytes in the window at {base:#x}")


@uvm_call("UVM_REGISTER_CHANNEL")
def register_channel(space: UvmSpace, a: Any) -> None:
    space.check_alive()
    gpu = space.gpu(a.gpuUuid, with_va_space=True)
    item = find_channel(space, a.hClient, a.hChannel)
    if item.board is not gpu.board:
        raise Refused(NV_ERR_OTHER_DEVICE_FOUND, "the channel belongs to another GPU")
    if item.va_space is not gpu.va_space:
        raise Refused(NV_ERR_INVALID_CHANNEL, "the channel uses another address space")
    if item.uvm is not None:
        raise Refused(NV_ERR_INVALID_CHANNEL, "the channel is registered already")
    if item.context is not None:  # only graphics channels have context buffers; others ignore the window
        place_context(gpu, item, a.base, a.length)
    gpu.channels.append(item)
    item.uvm, item.channel.registered = gpu, True


def place_context(gpu: UvmGpu, item: ChannelObject, base: int, nbytes: int) -> None:
    """Find addresses for a channel's context buffers; the group's common ones are placed once."""
    if not base or base % PAGE or not nbytes or nbytes % PAGE:
        raise Refused(NV_ERR_INVALID_ADDRESS, f"window [{base:#x}, +{nbytes:#x})")
    if base + nbytes > 1 << gpu.board.chip.va_bits:
        raise Refused(NV_ERR_OUT_OF_RANGE, f"window [{base:#x}, +{nbytes:#x}) leaves the GPU's address space")
    group = item.channel.group
    gpu.hold_window(group, lambda: place(gpu.space, base, nbytes, GROUP_WINDOW_BYTES))
    try:
        gpu.hold_window(item, lambda: place(gpu.space, base, nbytes, CHANNEL_WINDOW_BYTES))
    except Refused:
        gpu.drop_window(group)
        raise


@uvm_call("UVM_UNREGISTER_CHANNEL")
def unregister_channel(space: UvmSpace, a: Any) -> None:
    for gpu in space.gpus.values():
        for item in gpu.channels:
            if (item.client.handle, item.handle) == (a.hClient, a.hChannel):
                gpu.drop_channel(item)
                return
    raise Refused(NV_ERR_INVALID_CHANNEL, f"channel {a.hChannel:#x} is not registered")


def pair_of(space: UvmSpace, a: Any) -> frozenset[bytes]:
    for uuid in (a.gpuUuidA, a.gpuUuidB):
        space.gpu(uuid)
    pair = frozenset((bytes(a.gpuUuidA.uuid), bytes(a.gpuUuidB.uuid)))
    if len(pair) != 2:
        raise Refused(NV_ERR_INVALID_DEVICE, "a GPU is no peer of itself")
    return pair


@uvm_call("UVM_ENABLE_PEER_ACCESS")
def enable_peer(space: UvmSpace, a: Any) -> None:
    pair = pair_of(space, a)
    if pair in space.peers or space.linked(pair):
        raise Refused(NV_ERR_INVALID_DEVICE, "peer access is on already")
    chips = [space.gpus[raw].board.chip for raw in pair]
    if not all(chip.peer_access for chip in chips):
        raise Refused(NV_ERR_NOT_SUPPORTED, "the driver forbids peer access between these cards")
    if len({chip.codename for chip in chips}) > 1:  # p2p_caps.c: same architecture and implementation only
        names = " and ".join(chip.codename for chip in chips)
        raise Refused(NV_ERR_NOT_SUPPORTED, f"{names} are different chips, which are no peers over PCIe")
    space.peers.add(pair)


@uvm_call("UVM_DISABLE_PEER_ACCESS")
def disable_peer(space: UvmSpace, a: Any) -> None:
    pair = pair_of(space, a)
    if pair not in space.peers:
        raise Refused(NV_ERR_INVALID_DEVICE, "peer access is off")
    space.peers.remove(pair)


@uvm_call("UVM_PAGEABLE_MEM_ACCESS")
def pageable_access(space: UvmSpace, a: Any) -> None:
    a.pageableMemAccess = 0


@uvm_call("UVM_PAGEABLE_MEM_ACCESS_ON_GPU")
def pageable_access_on_gpu(space: UvmSpace, a: Any) -> None:
    space.gpu(a.gpu_uuid)
    a.pageableMemAccess = 0


@uvm_call("UVM_CLEAN_UP_ZOMBIE_RESOURCES")
def clean_up_zombies(space: UvmSpace, a: Any) -> None:
    """Nothing outlives its registration here."""
