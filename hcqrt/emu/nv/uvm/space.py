"""A UVM address space: registered GPUs, their RM address spaces and channels, and the ranges of addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.status import (
    NV_ERR_INVALID_ADDRESS,
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_CLIENT,
    NV_ERR_INVALID_DEVICE,
    NV_ERR_INVALID_STATE,
    NV_ERR_PAGE_TABLE_NOT_AVAIL,
    NV_OK,
    NV_WARN_NOTHING_TO_DO,
)
from hcqrt.emu.files import LiveObject
from hcqrt.emu.intervals import IntervalMap
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import Board
from hcqrt.emu.where import Where, caller

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver
    from hcqrt.emu.nv.rm.channels import ChannelObject
    from hcqrt.emu.nv.rm.resources import VaSpace
    from hcqrt.emu.nv.rm.tree import Client
    from hcqrt.emu.nv.uvm.node import UvmFile

PAGE = 4096  # UVM checks external ranges against 4 KiB whatever the kernel's page size
INIT_DISABLE_HMM, INIT_MULTI_PROCESS = 1, 2  # uvm_types.h, UVM_INIT_FLAGS_*


@dataclass(eq=False)
class Range:
    """A piece of the address space: an external range of the caller, or a channel's context buffers."""

    base: int
    nbytes: int
    kind: str  # "external" or "channel"
    where: Where = field(default_factory=caller)


class UvmGpu:
    """A GPU registered in a space."""

    def __init__(self, space: UvmSpace, board: Board) -> None:
        self.space, self.board = space, board
        self.va_space: VaSpace | None = None
        self.channels: list[ChannelObject] = []
        self.windows: dict[object, tuple[Range, int]] = {}  # owner (channel or group) -> range and users
        self.where = caller()
        board.opens += 1  # UVM keeps the GPU initialised

    def hold_window(self, owner: object, make: Any) -> None:
        """Count one more user of an owner's context buffers, placing them with `make()` the first time."""
        placed, users = self.windows.get(owner, (None, 0))
        self.windows[owner] = (placed if placed is not None else make(), users + 1)

    def drop_window(self, owner: object) -> None:
        if owner not in self.windows:
            return
        placed, users = self.windows[owner]
        if users > 1:
            self.windows[owner] = (placed, users - 1)
            return
        del self.windows[owner]
        self.space.ranges.cut(placed.base, placed.base + placed.nbytes)

    def drop_channel(self, item: ChannelObject) -> None:
        """Stop a channel and give its addresses back."""
        self.channels.remove(item)
        item.uvm, item.channel.registered, item.channel.group.scheduled = None, False, False
        self.drop_window(item)
        self.drop_window(item.channel.group)

    def drop_va_space(self) -> None:
        """Unregister the RM address space: channels stop, every mapping goes."""
        if self.va_space is None:
            return
        for item in list(self.channels):
            self.drop_channel(item)
        self.va_space.space.close()
        self.va_space.uvm = None
        self.va_space = None

    def close(self) -> None:
        self.drop_va_space()
        self.board.opens -= 1


class UvmSpace:
    """What one initialised UVM file holds."""

    def __init__(self, driver: NvDriver, flags: int) -> None:
        self.driver, self.flags = driver, flags
        self.gpus: dict[bytes, UvmGpu] = {}
        self.peers: set[frozenset[bytes]] = set()
        self.ranges: IntervalMap[Range] = IntervalMap()
        self.has_mm = self.mm_released = False
        self.where = caller()
        driver.spaces.append(self)

    def gpu(self, uuid: Any, *, with_va_space: bool = False) -> UvmGpu:
        """A registered GPU by its uuid, refused when it is not (or has no address space)."""
        raw = bytes(uuid.uuid)
        gpu = self.gpus.get(raw)
        if gpu is None or (with_va_space and gpu.va_space is None):
            raise Refused(NV_ERR_INVALID_DEVICE, f"GPU {raw.hex()} has no registration (or no address space) here")
        return gpu

    def linked(self, pair: frozenset[bytes]) -> bool:
        """NVLink peers: registering both is all that it takes."""
        names = {self.gpus[raw].board.chip.nvlink for raw in pair}
        return len(names) == 1 and "" not in names

    def client(self, handle: int) -> Client:
        client = self.driver.clients.get(handle)
        if client is None:
            raise Refused(NV_ERR_INVALID_CLIENT, f"client {handle:#x} does not exist")
        return client

    def check_alive(self) -> None:
        if self.mm_released:
            raise Refused(NV_ERR_PAGE_TABLE_NOT_AVAIL, "the file of UVM_MM_INITIALIZE was closed")

    def external_range(self, base: int, nbytes: int) -> Range:
        """The external range that holds [base, base + nbytes), refused when there is none."""
        if not base or not nbytes or base % PAGE or nbytes % PAGE:
            raise Refused(NV_ERR_INVALID_ADDRESS, f"[{base:#x}, +{nbytes:#x}) is empty or not page aligned")
        item = self.ranges.find(base)
        if item is None or item.value.kind != "external" or base + nbytes > item.end:
            raise Refused(NV_ERR_INVALID_ADDRESS, f"[{base:#x}, +{nbytes:#x}) is in no external range")
        found: Range = item.value
        return found

    def live(self) -> Iterator[LiveObject]:
        yield LiveObject("space", "UVM address space", self.where)
        for raw, gpu in self.gpus.items():
            yield LiveObject("registration", f"UVM GPU {raw.hex()}", gpu.where)
        for item in self.ranges:
            piece = item.value
            yield LiveObject("range", f"UVM {piece.kind} {piece.base:#x}+{piece.nbytes:#x}", piece.where)

    def destroy(self) -> None:
        """The file was closed: channels stop, mappings and references go."""
        for gpu in self.gpus.values():
            gpu.close()
        self.gpus.clear()
        self.ranges.clear()
        if self in self.driver.spaces:
            self.driver.spaces.remove(self)


def initialize(file: UvmFile, a: Any) -> int:
    """UVM_INITIALIZE; repeating it with the same flags is fine."""
    if a.flags & ~(INIT_DISABLE_HMM | INIT_MULTI_PROCESS) or file.mm_of is not None:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"flags {a.flags:#x}, or a file that holds another space's mm")
    if file.space is None:
        file.space = UvmSpace(file.driver, a.flags)
    elif file.space.flags != a.flags:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"initialised with flags {file.space.flags:#x} before")
    return NV_OK


def mm_initialize(file: UvmFile, a: Any) -> int:
    """UVM_MM_INITIALIZE on a second file: it keeps the process's memory map alive for the first one's space."""
    if file.system.restricted:
        return NV_WARN_NOTHING_TO_DO  # a sandbox's process model has no memory map to keep (nv-driver.md §14)
    other = file.system.fds.get(a.uvmFd)
    space = getattr(other, "space", None)
    if not isinstance(space, UvmSpace) or file.space is not None or file.mm_of is not None:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"fd {a.uvmFd} is no initialised UVM file, or this one has a role")
    space.check_alive()
    if space.has_mm:
        raise Refused(NV_ERR_INVALID_STATE, "the space has its mm file already")
    space.has_mm, file.mm_of = True, space
    return NV_OK
