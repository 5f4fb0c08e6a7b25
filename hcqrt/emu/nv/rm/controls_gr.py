"""Controls that tell the shape of the graphics engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.status import NV_ERR_INVALID_ARGUMENT
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.chips import Chip
from hcqrt.emu.nv.rm.resources import Subdevice, board_of
from hcqrt.emu.nv.rm.tree import Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver

Run = Callable[["NvDriver", Any, Any], None]
TABLE: dict[str, tuple[type[Resource], Run]] = {}
WARP_THREADS = 32
MAX_INFO_ENTRIES = 0x100  # far above the number of indices that exist


def control(name: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        TABLE[name] = (Subdevice, run)
        return run

    return register


def check_route(p: Any) -> None:
    if p.grRouteInfo.flags or p.grRouteInfo.route:
        raise Refused(NV_ERR_INVALID_ARGUMENT, "engine routing is for partitioned GPUs")


def gr_values(chip: Chip) -> dict[int, int]:
    """NV2080_CTRL_GR_INFO_INDEX_* -> value. LITTER values are what the architecture could hold, not this board."""
    return {
        c.NV2080_CTRL_GR_INFO_INDEX_SM_VERSION: chip.sm_version,
        c.NV2080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM: chip.warps_per_sm,
        c.NV2080_CTRL_GR_INFO_INDEX_MAX_THREADS_PER_WARP: WARP_THREADS,
        c.NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS: chip.litter_gpcs,
        c.NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC: chip.max_tpcs_per_gpc,
        c.NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC: chip.sms_per_tpc,
        c.NV2080_CTRL_GR_INFO_INDEX_MAX_SUBCONTEXT_COUNT: chip.max_subcontexts,
        c.NV2080_CTRL_GR_INFO_INDEX_GPU_CORE_COUNT: chip.sms * chip.cores_per_sm,
        c.NV2080_CTRL_GR_INFO_INDEX_SHADER_PIPE_COUNT: chip.gpcs,
        c.NV2080_CTRL_GR_INFO_INDEX_SHADER_PIPE_SUB_COUNT: chip.tpcs,
    }


def fill_info(driver: NvDriver, entries: Any, chip: Chip, name: str) -> None:
    values = gr_values(chip)
    for entry in entries:
        if entry.index not in values:
            driver.refusals.append(f"{name} index {entry.index:#x}")
            raise Refused(NV_ERR_INVALID_ARGUMENT, f"graphics info {entry.index:#x} is not emulated")
        entry.data = values[entry.index]


@control("NV2080_CTRL_CMD_GR_GET_INFO")
def gr_get_info(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    check_route(p)
    if not p.grInfoList or not 0 < p.grInfoListSize <= MAX_INFO_ENTRIES:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"{p.grInfoListSize} entries at {p.grInfoList:#x}")
    row: Any = driver.abi.struct("NV2080_CTRL_GR_INFO")
    entries = (row * p.grInfoListSize).from_address(p.grInfoList)
    fill_info(driver, entries, board_of(subdevice).chip, "NV2080_CTRL_CMD_GR_GET_INFO")


@control("NV2080_CTRL_CMD_GR_GET_INFO_V2")
def gr_get_info_v2(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    check_route(p)
    if not 0 < p.grInfoListSize <= len(p.grInfoList):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"{p.grInfoListSize} entries")
    entries = p.grInfoList[: p.grInfoListSize]
    fill_info(driver, entries, board_of(subdevice).chip, "NV2080_CTRL_CMD_GR_GET_INFO_V2")


@control("NV2080_CTRL_CMD_GR_GET_GPC_MASK")
def gpc_mask(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    check_route(p)
    p.gpcMask = (1 << board_of(subdevice).chip.gpcs) - 1


@control("NV2080_CTRL_CMD_GR_GET_TPC_MASK")
def tpc_mask(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    check_route(p)
    chip = board_of(subdevice).chip
    if p.gpcId >= chip.gpcs:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"GPC {p.gpcId} of {chip.gpcs}")
    p.tpcMask = (1 << chip.tpcs_of(p.gpcId)) - 1


@control("NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER")
def global_sm_order(driver: NvDriver, subdevice: Subdevice, p: Any) -> None:
    check_route(p)
    chip = board_of(subdevice).chip
    if chip.sms > len(p.globalSmId):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"{chip.sms} SMs do not fit the table")
    for index in range(chip.sms):
        row, tpc = p.globalSmId[index], index // chip.sms_per_tpc
        row.gpcId = row.virtualGpcId = tpc // chip.max_tpcs_per_gpc
        row.localTpcId = row.virtualTpcId = tpc % chip.max_tpcs_per_gpc
        row.localSmId, row.globalTpcId = index % chip.sms_per_tpc, tpc
    p.numSm, p.numTpc = chip.sms, chip.tpcs
