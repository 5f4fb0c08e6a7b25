"""RM objects without memory of their own: device, subdevice, address space, usermode page, debugger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.consts import (
    NV_DEVICE_ALLOCATION_VAMODE_MULTIPLE_VASPACES,
    NV_DEVICE_ALLOCATION_VAMODE_SINGLE_VASPACE,
    NV_VASPACE_ALLOCATION_FLAGS_ENABLE_PAGE_FAULTING,
    NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED,
)
from hcqrt.autogen.nv.status import (
    NV_ERR_INSUFFICIENT_PERMISSIONS,
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_CLASS,
    NV_ERR_INVALID_OBJECT,
    NV_ERR_INVALID_OBJECT_PARENT,
    NV_ERR_INVALID_PARAMETER,
    NV_ERR_INVALID_STATE,
    NV_ERR_NOT_SUPPORTED,
    NV_ERR_OBJECT_NOT_FOUND,
)
from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.memory import Block
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import Board
from hcqrt.emu.nv.rm.confidential import check_accepts_clients
from hcqrt.emu.nv.rm.tree import Client, Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.rm.alloc import Request
    from hcqrt.emu.nv.uvm.space import UvmGpu

USERMODE_BYTES = 64 << 10
VASPACE_FLAGS = NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED | NV_VASPACE_ALLOCATION_FLAGS_ENABLE_PAGE_FAULTING
BIG_PAGE_SIZES = (0, 64 << 10, 128 << 10)


class Device(Resource):
    """NV01_DEVICE_0."""

    def __init__(self, client: Client, handle: int, number: int, board: Board, va_mode: int) -> None:
        super().__init__(client, client, handle, number)
        self.board, self.va_mode = board, va_mode


class Subdevice(Resource):
    """NV20_SUBDEVICE_0."""


class VaSpace(Resource):
    """FERMI_VASPACE_A. `space` is what the GPU sees; UVM fills it once it is registered there."""

    def __init__(self, request: Request, board: Board, base: int, limit: int, *, external: bool) -> None:
        super().__init__(request.client, request.parent, request.handle, request.number)
        self.board, self.base, self.limit, self.external = board, base, limit, external
        self.space = GpuAddressSpace(board.chip.va_bits)
        self.uvm: UvmGpu | None = None

    def free(self) -> None:
        if self.uvm is not None:
            self.uvm.drop_va_space()
        self.space.close()


class Usermode(Resource):
    """The page with the doorbell and the timer."""

    def __init__(self, request: Request, board: Board, block: Block, *, write_only: bool) -> None:
        super().__init__(request.client, request.parent, request.handle, request.number)
        self.board, self.block, self.write_only = board, block, write_only

    def free(self) -> None:
        self.block.drop()


class Debugger(Resource):
    """GT200_DEBUGGER: reads what a GPU latched when a program failed."""

    def __init__(self, request: Request, board: Board) -> None:
        super().__init__(request.client, request.parent, request.handle, request.number)
        self.board = board
        self.exception_mask = 0


def board_of(resource: Resource | None) -> Board:
    """The card that an object belongs to."""
    device = resource.ancestor(Device) if resource is not None else None
    if device is None:
        raise Refused(NV_ERR_INVALID_OBJECT_PARENT, "not below a device")
    return device.board


def check_whole(board: Board) -> None:
    """Without a subscription to an instance there is nothing to run on: nv-driver.md §1, MIG."""
    if board.chip.mig:
        raise Refused(NV_ERR_INVALID_STATE, "the GPU is cut into instances and this client subscribed to none")


def need_parent(request: Request, *kinds: type[Resource]) -> None:
    if not isinstance(request.parent, kinds):
        raise Refused(NV_ERR_INVALID_OBJECT_PARENT, f"parent is a {request.parent.class_name}")


def make_device(request: Request) -> Device:
    need_parent(request, Client)
    p: Any = request.params
    board = request.driver.board_by("device_instance", p.deviceId)
    if board is None:
        raise Refused(NV_ERR_INVALID_CLASS, f"no device {p.deviceId}")
    if not board.opens:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"GPU {board.gpu_id:#x} is not initialised: its node is not open")
    check_accepts_clients(board)
    if p.vaMode > NV_DEVICE_ALLOCATION_VAMODE_MULTIPLE_VASPACES:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"vaMode {p.vaMode}")
    if p.flags or p.hTargetClient or p.hTargetDevice or p.vaSpaceSize:
        request.driver.refusals.append(f"NV01_DEVICE_0 flags {p.flags:#x} or a target or size")
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"device flags {p.flags:#x} are not emulated")
    return Device(request.client, request.handle, request.number, board, p.vaMode)


def make_subdevice(request: Request) -> Subdevice:
    need_parent(request, Device)
    if request.params is not None and request.params.subDeviceId:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"subdevice {request.params.subDeviceId} of a single GPU")
    return Subdevice(request.client, request.parent, request.handle, request.number)


def make_va_space(request: Request) -> VaSpace:
    need_parent(request, Device)
    p: Any = request.params
    board, device = board_of(request.parent), request.parent
    assert isinstance(device, Device)
    check_whole(board)
    if device.va_mode == NV_DEVICE_ALLOCATION_VAMODE_SINGLE_VASPACE:
        raise Refused(NV_ERR_INVALID_STATE, "the device has a single address space")
    if p.index or p.flags & ~VASPACE_FLAGS:
        request.driver.refusals.append(f"FERMI_VASPACE_A index {p.index}, flags {p.flags:#x}")
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"index {p.index}, flags {p.flags:#x} are not emulated")
    top = 1 << board.chip.va_bits
    limit = p.vaBase + p.vaSize if p.vaSize else top
    if limit > top or p.vaBase >= limit or p.bigPageSize not in BIG_PAGE_SIZES:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"[{p.vaBase:#x}, {limit:#x}) or page size {p.bigPageSize:#x}")
    external = bool(p.flags & NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED)
    p.vaSize = limit - p.vaBase
    return VaSpace(request, board, p.vaBase, limit, external=external)


def make_usermode(request: Request) -> Usermode:
    need_parent(request, Subdevice)
    p: Any = request.params  # classes before HOPPER_USERMODE_A have none and never read any
    through_bar1 = p is not None and bool(p.bBar1Mapping)
    if p is not None and p.bPriv:
        if not through_bar1:
            raise Refused(NV_ERR_INVALID_PARAMETER, "bPriv without bBar1Mapping")
        raise Refused(NV_ERR_INSUFFICIENT_PERMISSIONS, "bPriv is for the kernel")
    block = request.driver.system.memory.allocate(USERMODE_BYTES)
    return Usermode(request, board_of(request.parent), block, write_only=through_bar1)


def make_debugger(request: Request) -> Debugger:
    from hcqrt.emu.nv.rm.channels import EngineObject

    need_parent(request, Device)
    p: Any = request.params
    if p.hDebuggerClient_Obsolete:
        raise Refused(NV_ERR_INVALID_ARGUMENT, "hDebuggerClient_Obsolete is not 0")
    if p.hAppClient != request.client.handle:
        raise Refused(NV_ERR_NOT_SUPPORTED, "objects of another client are not emulated")
    target = request.client.objects.get(p.hClass3dObject)
    if target is None:
        raise Refused(NV_ERR_INVALID_OBJECT_PARENT, f"object {p.hClass3dObject:#x} does not exist")
    if not isinstance(target, EngineObject) or not target.graphics:
        raise Refused(NV_ERR_INVALID_OBJECT, f"{target.class_name} is no graphics or compute object")
    if not any(isinstance(item, Subdevice) for item in request.parent.descendants()):
        raise Refused(NV_ERR_OBJECT_NOT_FOUND, "the client has no subdevice")
    return Debugger(request, board_of(request.parent))
