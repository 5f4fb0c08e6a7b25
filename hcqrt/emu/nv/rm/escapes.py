"""The RM escapes: what each one does, and on which node it may be called."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.consts import (
    NV_RM_API_VERSION_CMD_QUERY,
    NV_RM_API_VERSION_CMD_RELAXED,
    NV_RM_API_VERSION_CMD_STRICT,
)
from hcqrt.autogen.nv.status import (
    NV_ERR_INVALID_CLIENT,
    NV_ERR_INVALID_OBJECT_PARENT,
    NV_ERR_NOT_SUPPORTED,
    NV_ERR_OBJECT_NOT_FOUND,
)
from hcqrt.emu.files import os_error
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import NVIDIA, Board
from hcqrt.emu.nv.rm.alloc import alloc_object
from hcqrt.emu.nv.rm.calls import RmCall
from hcqrt.emu.nv.rm.controls import control_object
from hcqrt.emu.nv.rm.controls_gpu import put_text
from hcqrt.emu.nv.rm.mapping import map_memory, unmap_memory
from hcqrt.emu.nv.rm.memory import Memory, alloc_os_descriptor
from hcqrt.emu.nv.rm.resources import Device
from hcqrt.emu.nv.rm.tree import Client

if TYPE_CHECKING:
    from hcqrt.emu.nv.rm.node import CtlFile, GpuFile, NvFile

VERSION_REPLY_RECOGNIZED = 1  # nv-ioctl.h, NV_RM_API_VERSION_REPLY_RECOGNIZED
SYSTEM_MEMBLOCK_BYTES = 128 << 20  # what x86-64 kernels report for memory hot-plug
BAR0_BYTES = 16 << 20
Run = Callable[[Any, Any, RmCall], None]


@dataclass(frozen=True)
class Handler:
    kinds: tuple[str, ...]  # of node: "ctl", "gpu"
    run: Run


HANDLERS: dict[str, Handler] = {}


def escape(name: str, *kinds: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        HANDLERS[name] = Handler(kinds or ("ctl",), run)
        return run

    return register


def find_client(file: NvFile, handle: int) -> Client:
    """A client that this file may use: made through its control file, and not by a process before a fork."""
    client = file.driver.clients.get(handle)
    if client is None or file.ctl is None or client.file is not file.ctl:
        raise Refused(NV_ERR_INVALID_CLIENT, f"client {handle:#x} does not belong to this file")
    return client


@escape("NV_ESC_CHECK_VERSION_STR")
def check_version(file: CtlFile, a: Any, call: RmCall) -> None:
    ours, theirs = file.driver.abi.text, bytes(a.versionString).split(b"\0")[0].decode("ascii", "replace")
    matches = {
        NV_RM_API_VERSION_CMD_QUERY: True,
        NV_RM_API_VERSION_CMD_STRICT: theirs == ours,
        NV_RM_API_VERSION_CMD_RELAXED: theirs.split(".")[0] == ours.split(".")[0],
    }.get(a.cmd)
    if matches is None:
        file.driver.refusals.append(f"NV_ESC_CHECK_VERSION_STR cmd {a.cmd:#x}")
        raise os_error(errno_codes.EINVAL, f"version check: command {a.cmd:#x}")
    put_text(a, "versionString", ours)
    a.reply = VERSION_REPLY_RECOGNIZED if matches else 0
    if not matches:
        raise os_error(errno_codes.EINVAL, f"version check: driver is {ours}, caller says {theirs}")


@escape("NV_ESC_SYS_PARAMS")
def sys_params(file: CtlFile, a: Any, call: RmCall) -> None:
    a.memblock_size = SYSTEM_MEMBLOCK_BYTES


@escape("NV_ESC_CARD_INFO")
def card_info(file: CtlFile, a: Any, call: RmCall) -> None:
    boards = file.driver.boards
    if len(a) < len(boards):
        raise os_error(errno_codes.EINVAL, f"card info: room for {len(a)}, {len(boards)} cards")
    ctypes.memset(call.address, 0, ctypes.sizeof(a))
    for row, board in zip(a, boards, strict=False):
        fill_card(row, board)


def fill_card(row: Any, board: Board) -> None:
    row.valid = 1
    row.pci_info.domain, row.pci_info.bus, row.pci_info.slot, row.pci_info.function = board.pci
    row.pci_info.vendor_id, row.pci_info.device_id = NVIDIA, board.chip.pci_device
    row.gpu_id, row.minor_number, row.interrupt_line = board.gpu_id, board.minor, 16 + board.index
    row.reg_address, row.reg_size = 0xF000_0000 + board.index * BAR0_BYTES, BAR0_BYTES
    row.fb_address, row.fb_size = (1 + board.index) << 38, board.chip.bar1_bytes


@escape("NV_ESC_REGISTER_FD", "gpu")
def register_fd(file: GpuFile, a: Any, call: RmCall) -> None:
    ctl = file.system.fds.get(a.ctl_fd)
    if file.registered is not None or ctl is None or getattr(ctl, "kind", "") != "ctl":
        raise os_error(errno_codes.EINVAL, f"register fd: {a.ctl_fd} is no control file, or this file has one already")
    file.registered = ctl  # type: ignore[assignment]  # kind "ctl" is CtlFile


@escape("NV_ESC_ATTACH_GPUS_TO_FD")
def attach_gpus(file: CtlFile, a: Any, call: RmCall) -> None:
    boards = [file.driver.board_by("gpu_id", gpu_id) for gpu_id in a]
    if file.attached is not None or None in boards:
        raise os_error(errno_codes.EINVAL, "attach: done before on this file, or one gpu id is unknown")
    file.attached = [board for board in boards if board is not None]
    for board in file.attached:
        board.opens += 1


@escape("NV_ESC_WAIT_OPEN_COMPLETE", "gpu")
def wait_open_complete(file: GpuFile, a: Any, call: RmCall) -> None:
    a.rc, a.adapterStatus = 0, 0


@escape("NV_ESC_ALLOC_OS_EVENT", "ctl", "gpu")
def alloc_os_event(file: NvFile, a: Any, call: RmCall) -> None:
    client = find_client(file, a.hClient)
    if a.fd in client.os_events:
        raise Refused(NV_ERR_NOT_SUPPORTED, f"fd {a.fd} has an event already")
    client.os_events.add(a.fd)


@escape("NV_ESC_FREE_OS_EVENT", "ctl", "gpu")
def free_os_event(file: NvFile, a: Any, call: RmCall) -> None:
    client = find_client(file, a.hClient)
    if a.fd not in client.os_events:
        raise Refused(NV_ERR_OBJECT_NOT_FOUND, f"fd {a.fd} has no event")
    client.os_events.remove(a.fd)


@escape("NV_ESC_RM_ALLOC", "ctl", "gpu")
def rm_alloc(file: NvFile, a: Any, call: RmCall) -> None:
    alloc_object(file, a, call)


@escape("NV_ESC_RM_FREE")
def rm_free(file: CtlFile, a: Any, call: RmCall) -> None:
    client = find_client(file, a.hRoot)
    resource = client.objects.get(a.hObjectOld)
    if resource is None:
        raise Refused(NV_ERR_OBJECT_NOT_FOUND, f"object {a.hObjectOld:#x} does not exist")
    if resource is client:
        file.driver.free_client(client)
        return
    assert resource.parent is not None, "only clients have no parent"
    if a.hObjectParent and resource.parent.handle != a.hObjectParent:
        raise Refused(NV_ERR_INVALID_OBJECT_PARENT, f"{a.hObjectParent:#x} is not the parent of {a.hObjectOld:#x}")
    client.remove(resource)


@escape("NV_ESC_RM_CONTROL")
def rm_control(file: CtlFile, a: Any, call: RmCall) -> None:
    control_object(file, find_client(file, a.hClient), a)


@escape("NV_ESC_RM_MAP_MEMORY")
def rm_map_memory(file: CtlFile, a: Any, call: RmCall) -> None:
    map_memory(file, find_client(file, a.params.hClient), a)


@escape("NV_ESC_RM_UNMAP_MEMORY")
def rm_unmap_memory(file: CtlFile, a: Any, call: RmCall) -> None:
    unmap_memory(find_client(file, a.hClient), a)


@escape("NV_ESC_RM_ALLOC_MEMORY", "gpu")
def rm_alloc_memory(file: GpuFile, a: Any, call: RmCall) -> None:
    alloc_os_descriptor(file, find_client(file, a.params.hRoot), a)


@escape("NV_ESC_RM_DUP_OBJECT")
def rm_dup_object(file: CtlFile, a: Any, call: RmCall) -> None:
    """Only memory: what a second client of the same process needs to share a buffer."""
    client, source = find_client(file, a.hClient), find_client(file, a.hClientSrc)
    parent = client.find(a.hParent, Device, "parent")
    memory = source.find(a.hObjectSrc, Memory, "source")
    copy = Memory(client, parent, client.new_handle(a.hObject), memory.number, memory.shape, memory.block.hold())
    client.add(copy)
    a.hObject = copy.handle


@escape("NV_ESC_RM_VID_HEAP_CONTROL")
def rm_vid_heap_control(file: CtlFile, a: Any, call: RmCall) -> None:
    file.driver.refusals.append(f"NV_ESC_RM_VID_HEAP_CONTROL function {a.function:#x}")
    raise Refused(NV_ERR_NOT_SUPPORTED, f"heap function {a.function:#x} is not emulated")


@escape("NV_ESC_RM_MAP_MEMORY_DMA")
def rm_map_memory_dma(file: CtlFile, a: Any, call: RmCall) -> None:
    file.driver.refusals.append("NV_ESC_RM_MAP_MEMORY_DMA")
    raise Refused(NV_ERR_NOT_SUPPORTED, "RM-managed mappings are not emulated; map through UVM")
