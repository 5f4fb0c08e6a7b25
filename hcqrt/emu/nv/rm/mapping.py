"""RM_MAP_MEMORY and the mmap that follows it: BAR0, BAR1 and system memory in the caller's address space."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.status import (
    NV_ERR_INSUFFICIENT_RESOURCES,
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_BASE,
    NV_ERR_INVALID_LIMIT,
    NV_ERR_INVALID_OBJECT,
    NV_ERR_NOT_SUPPORTED,
    NV_ERR_OBJECT_NOT_FOUND,
    NV_ERR_STATE_IN_USE,
)
from hcqrt.bits import align_up
from hcqrt.emu.files import os_error
from hcqrt.emu.memory import Block
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import Board
from hcqrt.emu.nv.rm.confidential import check_visible
from hcqrt.emu.nv.rm.memory import PINNED, VIDMEM, Memory
from hcqrt.emu.nv.rm.resources import USERMODE_BYTES, Device, Subdevice, Usermode, board_of
from hcqrt.emu.nv.rm.tree import Client, Resource
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.mmio import FORMAT_BYTES, HookedMMIO, MMIOInterface

if TYPE_CHECKING:
    from hcqrt.emu.nv.rm.node import NvFile
    from hcqrt.emu.system import EmulatedSystem

TIME_0, TIME_1, DOORBELL = 0x80, 0x84, 0x90  # usermode page (nv-driver.md §4.12)
BAR1_UNIT = 64 << 10  # BAR1 is handed out in big pages
READ_ONLY = 1  # NVOS33_FLAGS_ACCESS 1:0


@dataclass(eq=False)
class MapContext:
    """What mmap of a file shows. It is used up by RM_UNMAP_MEMORY or by freeing the object, not by munmap."""

    resource: Memory | Usermode
    block: Block
    board: Board
    offset: int
    nbytes: int
    linear: int
    bar1_bytes: int
    exact: bool  # BAR mappings take exactly their length
    read_only: bool
    revoked: bool = False

    def revoke(self) -> None:
        self.revoked = True
        self.board.bar1_free += self.bar1_bytes
        if isinstance(self.resource, Memory):
            del self.resource.contexts[self.linear]


class UsermodePage(HookedMMIO):
    """The usermode page: a store to the doorbell rings it, a load of the timer is fresh."""

    __slots__ = ("refresh",)

    def __init__(
        self, addr: int, nbytes: int, fmt: str, *, on_write: Callable[[int, int], None], refresh: Callable[[], None],
        base_offset: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(addr, nbytes, fmt, on_write=on_write, base_offset=base_offset)
        self.refresh = refresh

    def __getitem__(self, index: Any) -> Any:
        self.refresh()
        return self.mv[index]

    def view(self, offset: int = 0, nbytes: int | None = None, fmt: str | None = None) -> UsermodePage:
        plain = MMIOInterface.view(self, offset, nbytes, fmt)
        return UsermodePage(
            plain.addr, plain.nbytes, plain.fmt, on_write=self.on_write, refresh=self.refresh,
            base_offset=self.base_offset + offset,
        )  # fmt: skip


def map_memory(ctl: NvFile, client: Client, a: Any) -> None:
    """NV_ESC_RM_MAP_MEMORY: bind a range of an object to a file that has shown nothing yet."""
    p = a.params
    over = client.find(p.hDevice, Resource, "device")
    if not isinstance(over, Device | Subdevice):
        raise Refused(NV_ERR_INVALID_OBJECT, f"{over.class_name} is no device or subdevice")
    resource = client.find(p.hMemory, Resource, "memory")
    if not isinstance(resource, Memory | Usermode):
        raise Refused(NV_ERR_INVALID_OBJECT, f"{resource.class_name} cannot be mapped")
    kind = resource.shape.kind if isinstance(resource, Memory) else VIDMEM
    total = resource.shape.nbytes if isinstance(resource, Memory) else USERMODE_BYTES
    if kind == PINNED:
        raise Refused(NV_ERR_NOT_SUPPORTED, "pinned memory is mapped already, where it came from")
    board = board_of(over)
    if board is not board_of(resource):
        raise Refused(NV_ERR_INVALID_ARGUMENT, "memory of another GPU")
    if kind == VIDMEM and isinstance(resource, Memory):
        check_visible(board)
    check_range(ctl.system, p, total)
    file = mapping_file(ctl, a.fd, board if kind == VIDMEM else None)
    bar1 = align_up(p.length, BAR1_UNIT) if kind == VIDMEM and isinstance(resource, Memory) else 0
    if bar1 > board.bar1_free:
        raise Refused(NV_ERR_INSUFFICIENT_RESOURCES, f"{bar1} bytes of BAR1, {board.bar1_free} are free")
    board.bar1_free -= bar1
    linear = resource.block.offset + p.offset + (1 << 44)  # opaque to the caller
    while isinstance(resource, Memory) and linear in resource.contexts:
        linear += 1 << 45
    length = align_up(p.length, ctl.system.page_size)
    context = MapContext(
        resource, resource.block, board, p.offset, length, linear, bar1, kind == VIDMEM, p.flags & 3 == READ_ONLY
    )
    if isinstance(resource, Memory):
        resource.contexts[linear] = context
    file.context = context
    p.pLinearAddress = linear


def check_range(system: EmulatedSystem, p: Any, total: int) -> None:
    if p.offset >= total:
        raise Refused(NV_ERR_INVALID_BASE, f"offset {p.offset:#x} of {total:#x} bytes")
    if not p.length or p.offset + p.length > total:
        raise Refused(NV_ERR_INVALID_LIMIT, f"[{p.offset:#x}, +{p.length:#x}) of {total:#x} bytes")
    if p.offset % system.page_size:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"offset {p.offset:#x} inside a page is not emulated")
    if p.flags & 3 > READ_ONLY:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"access mode {p.flags & 3} is not emulated")


def mapping_file(ctl: NvFile, fd: int, board: Board | None) -> NvFile:
    """The file that will show the memory: the GPU's own node for a BAR, the control node for system memory."""
    file: Any = ctl.system.fds.get(fd)
    kind = getattr(file, "kind", "")
    if kind != ("ctl" if board is None else "gpu") or (board is not None and file.board is not board):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"fd {fd} is not an open file of the right node")
    if file.context is not None:
        raise Refused(NV_ERR_STATE_IN_USE, f"fd {fd} has shown a mapping before")
    found: NvFile = file
    return found


def unmap_memory(client: Client, a: Any) -> None:
    """NV_ESC_RM_UNMAP_MEMORY: gives BAR1 back. The caller's own mapping is his to remove."""
    resource = client.find(a.hMemory, Resource, "memory")
    if isinstance(resource, Usermode):
        return  # register space: nothing is kept per mapping
    if not isinstance(resource, Memory) or a.pLinearAddress not in resource.contexts:
        raise Refused(NV_ERR_OBJECT_NOT_FOUND, f"no mapping at {a.pLinearAddress:#x}")
    resource.contexts[a.pLinearAddress].revoke()


def map_context(
    file: NvFile, context: MapContext, length: int, offset: int, address: int, *, writable: bool
) -> MMIOInterface:
    """The mmap itself."""
    if offset or context.revoked:
        raise os_error(errno_codes.EINVAL, f"mmap of {file.path} at {offset:#x}: offset must be 0, mapping alive")
    if context.exact and length != context.nbytes:
        raise os_error(errno_codes.ENXIO, f"mmap of {file.path}: {length} bytes, RM_MAP_MEMORY said {context.nbytes}")
    if length > context.nbytes:
        raise os_error(errno_codes.ERANGE, f"mmap of {file.path}: {length} bytes of {context.nbytes}")
    if writable and context.read_only:
        raise os_error(errno_codes.EACCES, f"mmap of {file.path}: the mapping is read-only")
    host = file.system.host
    host.map_block(context.block, context.offset, length, address, "device", file.path, writable=writable)
    if isinstance(context.resource, Usermode) and writable:
        return usermode_page(file.system, context, address, length)
    return MMIOInterface(address, length)


def usermode_page(system: EmulatedSystem, context: MapContext, address: int, length: int) -> UsermodePage:
    gpu, pointer = context.board.gpu, context.block.host_ptr
    write_only = isinstance(context.resource, Usermode) and context.resource.write_only

    def refresh() -> None:
        if write_only:
            return  # through BAR1 the page takes stores only: what a load gives is nobody's promise, here zero
        ctypes.c_uint64.from_address(pointer + TIME_0).value = gpu.timer_ns()

    def on_write(offset: int, nbytes: int) -> None:
        if context.offset + offset != DOORBELL or nbytes != FORMAT_BYTES["I"]:
            text = f"store of {nbytes} bytes at {context.offset + offset:#x} of the usermode page"
            gpu.refusals.append(text)
            if gpu.strict:
                raise EmulatorRefusal(text)
            return
        gpu.stats["doorbells"] += 1
        if gpu.engines is not None:
            system.ring(gpu.engines.doorbell, ctypes.c_uint32.from_address(pointer + DOORBELL).value)

    return UsermodePage(address, length, "B", on_write=on_write, refresh=refresh)
