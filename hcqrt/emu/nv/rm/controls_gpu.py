"""Controls that tell what a GPU is: identity, classes, memory, bus, time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.status import (
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_PARAM_STRUCT,
    NV_ERR_NOT_SUPPORTED,
)
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import NVIDIA, Board
from hcqrt.emu.nv.chips import Chip
from hcqrt.emu.nv.class_history import classes_at
from hcqrt.emu.nv.rm.memory import mask, take
from hcqrt.emu.nv.rm.resources import Device, Subdevice, board_of
from hcqrt.emu.nv.rm.tree import Client, Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver

Run = Callable[["NvDriver", Any, Any], None]
TABLE: dict[str, tuple[type[Resource], Run]] = {}
NO_GPU = c.NV0000_CTRL_GPU_INVALID_ID
GID_BINARY = 2  # NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY


def control(name: str, on: type[Resource]) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        TABLE[name] = (on, run)
        return run

    return register


def put_text(struct: Any, name: str, text: str) -> None:
    """A zero-terminated text in a field that is a fixed array of characters or bytes."""
    place = getattr(type(struct), name)
    raw = text.encode("ascii")[: place.size - 1].ljust(place.size, b"\0")
    ctypes.memmove(ctypes.addressof(struct) + place.offset, raw, place.size)


def fill_ids(array: Any, ids: list[int]) -> None:
    for index in range(len(array)):
        array[index] = ids[index] if index < len(ids) else NO_GPU


@control("NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS", Client)
def attached_ids(driver: NvDriver, client: Client, p: Any) -> None:
    fill_ids(p.gpuIds, [board.gpu_id for board in driver.boards if board.opens])


@control("NV0000_CTRL_CMD_GPU_GET_PROBED_IDS", Client)
def probed_ids(driver: NvDriver, client: Client, p: Any) -> None:
    fill_ids(p.gpuIds, [board.gpu_id for board in driver.boards])
    fill_ids(p.excludedGpuIds, [])


@control("NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2", Client)
def id_info_v2(driver: NvDriver, client: Client, p: Any) -> None:
    board = driver.board_by("gpu_id", p.gpuId)
    if board is None or not board.opens:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"GPU {p.gpuId:#x} is unknown or not initialised")
    p.gpuFlags, p.deviceInstance, p.subDeviceInstance = 0, board.device_instance, 0
    p.sliStatus, p.boardId, p.gpuInstance, p.numaId = 0, board.gpu_id, board.index, -1


@control("NV0000_CTRL_CMD_GPU_GET_PCI_INFO", Client)
def pci_info(driver: NvDriver, client: Client, p: Any) -> None:
    board = driver.board_by("gpu_id", p.gpuId)
    if board is None:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"GPU {p.gpuId:#x} is unknown")
    p.domain, p.bus, p.slot = board.pci[:3]


@control("NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2", Client)
def build_version(driver: NvDriver, client: Client, p: Any) -> None:
    put_text(p, "driverVersionBuffer", driver.abi.text)
    put_text(p, "versionBuffer", driver.abi.text)
    if hasattr(p, "driverBranch"):  # from 560.28.03 on
        put_text(p, "driverBranch", f"r{driver.abi.version[0]}_00")
    put_text(p, "titleBuffer", f"NVIDIA Kernel Module {driver.abi.text}")
    p.changelistNumber = p.officialChangelistNumber = 0


def class_list(driver: NvDriver, chip: Chip) -> list[int]:
    """What this driver version lists, in ascending order."""
    others = chip.other_classes if driver.abi.long_class_list else ()
    return classes_at((*chip.engine_classes, *others), driver.abi.version)


@control("NV0080_CTRL_CMD_GPU_GET_CLASSLIST", Device)
def get_class_list(driver: NvDriver, device: Device, p: Any) -> None:
    classes = class_list(driver, device.board.chip)
    if not p.classList:
        p.numClasses = len(classes)
        return
    if p.numClasses < len(classes):
        raise Refused(NV_ERR_INVALID_PARAM_STRUCT, f"room for {p.numClasses} of {len(classes)} classes")
    ctypes.memmove(p.classList, (ctypes.c_uint32 * len(classes))(*classes), 4 * len(classes))
    p.numClasses = len(classes)


@control("NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2", Device)
def get_class_list_v2(driver: NvDriver, device: Device, p: Any) -> None:
    classes = class_list(driver, device.board.chip)
    if len(p.classList) < len(classes):
        raise Refused(NV_ERR_INVALID_PARAM_STRUCT, f"{len(classes)} classes do not fit the table")
    p.classList[: len(classes)] = classes
    p.numClasses = len(classes)


@control("NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES", Device)
def num_subdevices(driver: NvDriver, device: Device, p: Any) -> None:
    p.numSubDevices = 1


@control("NV2080_CTRL_CMD_GPU_GET_GID_INFO", Subdevice)
def gid_info(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    board = board_of(subdevice)
    known = mask(c.NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT, c.NV2080_GPU_CMD_GPU_GET_GID_FLAGS_TYPE)
    kind = take(p.flags, c.NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT)
    if p.index or p.flags & ~known or take(p.flags, c.NV2080_GPU_CMD_GPU_GET_GID_FLAGS_TYPE):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"GID index {p.index}, flags {p.flags:#x}")
    raw = board.uuid if kind == GID_BINARY else board.uuid_text.encode() + b"\0"
    p.length = len(raw)
    ctypes.memmove(ctypes.addressof(p.data), raw, len(raw))


@control("NV2080_CTRL_CMD_GPU_GET_NAME_STRING", Subdevice)
def name_string(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    if p.gpuNameStringFlags != c.NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_ASCII:
        raise Refused(NV_ERR_NOT_SUPPORTED, f"name flags {p.gpuNameStringFlags:#x}")
    put_text(p, "gpuNameString", board_of(subdevice).chip.model)  # the ASCII form starts the field


@control("NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING", Subdevice)
def short_name_string(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    put_text(p, "gpuShortNameString", board_of(subdevice).chip.codename)


@control("NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS", Subdevice)
def partition_ids(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    p.partitionCount = int(board_of(subdevice).chip.mig)
    p.swizzId[0] = 1  # the one instance that an emulated card is cut into


@control("NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO", Subdevice)
def simulation_info(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    p.type = 0  # NV2080_CTRL_GPU_GET_SIMULATION_INFO_TYPE_NONE: what silicon says


@control("NV2080_CTRL_CMD_MC_GET_ARCH_INFO", Subdevice)
def arch_info(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    chip = board_of(subdevice).chip
    p.architecture, p.implementation, p.revision, p.subRevision = (
        chip.architecture, chip.implementation, chip.revision, 0,
    )  # fmt: skip


@control("NV2080_CTRL_CMD_BUS_GET_PCI_INFO", Subdevice)
def bus_pci_info(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    chip = board_of(subdevice).chip
    p.pciDeviceId = p.pciExtDeviceId = chip.pci_device << 16 | NVIDIA
    p.pciSubSystemId, p.pciRevisionId = 0, chip.revision
    p.pciExtDeviceId = chip.pci_device


@control("NV2080_CTRL_CMD_TIMER_GET_TIME", Subdevice)
def timer_get_time(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    p.time_nsec = board_of(subdevice).gpu.timer_ns()


@control("NV2080_CTRL_CMD_RC_GET_ERROR_COUNT", Subdevice)
def rc_error_count(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    p.errorCount = board_of(subdevice).gpu.stats["faults"]


@control("NV2080_CTRL_CMD_PERF_BOOST", Subdevice)
def perf_boost(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    known = mask(
        c.NV2080_CTRL_PERF_BOOST_FLAGS_CMD, c.NV2080_CTRL_PERF_BOOST_FLAGS_CUDA,
        c.NV2080_CTRL_PERF_BOOST_FLAGS_ASYNC, c.NV2080_CTRL_PERF_BOOST_FLAGS_CUDA_PRIORITY,
    )  # fmt: skip
    endless = p.duration == c.NV2080_CTRL_PERF_BOOST_DURATION_INFINITE
    wrong = take(p.flags, c.NV2080_CTRL_PERF_BOOST_FLAGS_CMD) > c.NV2080_CTRL_PERF_BOOST_FLAGS_CMD_BOOST_TO_MAX
    if wrong or p.flags & ~known or (p.duration > c.NV2080_CTRL_PERF_BOOST_DURATION_MAX and not endless):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"boost flags {p.flags:#x}, duration {p.duration}")


def fb_values(board: Board) -> dict[int, int]:
    """NV2080_CTRL_FB_INFO_INDEX_* -> value; sizes in KiB."""
    memory = board.gpu.vidmem
    total, free = memory.capacity_bytes >> 10, memory.free_bytes >> 10
    return {
        c.NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE: board.chip.bar1_bytes >> 10,
        c.NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE: board.bar1_free >> 10,
        c.NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE: total,
        c.NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE: total,
        c.NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE: total,
        c.NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE: total,
        c.NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE: free,
    }


@control("NV2080_CTRL_CMD_FB_GET_INFO_V2", Subdevice)
def fb_get_info(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    values = fb_values(board_of(subdevice))
    if p.fbInfoListSize > len(p.fbInfoList):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"{p.fbInfoListSize} entries in a table of {len(p.fbInfoList)}")
    for entry in p.fbInfoList[: p.fbInfoListSize]:
        if entry.index not in values:
            driver.refusals.append(f"NV2080_CTRL_CMD_FB_GET_INFO_V2 index {entry.index:#x}")
            raise Refused(NV_ERR_INVALID_ARGUMENT, f"framebuffer info {entry.index:#x} is not emulated")
        entry.data = values[entry.index]
