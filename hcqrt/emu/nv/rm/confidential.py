"""Confidential computing as the driver reports it: NV_CONFIDENTIAL_COMPUTE and its controls (nv-driver.md §13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.status import NV_ERR_INVALID_CLASS, NV_ERR_NOT_READY, NV_ERR_NOT_SUPPORTED
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.board import Board
from hcqrt.emu.nv.rm.tree import Client, Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver
    from hcqrt.emu.nv.rm.alloc import Request

Run = Callable[["NvDriver", Any, Any], None]
TABLE: dict[str, tuple[type[Resource], Run]] = {}
# Mode of a card (board.CONFIDENTIAL_MODES) -> (ccFeature, whether it accepts clients)
MODES = {
    "": (c.NV_CONF_COMPUTE_SYSTEM_FEATURE_DISABLED, True),
    "apm": (c.NV_CONF_COMPUTE_SYSTEM_FEATURE_APM_ENABLED, True),
    "hcc": (c.NV_CONF_COMPUTE_SYSTEM_FEATURE_HCC_ENABLED, True),
    "not ready": (c.NV_CONF_COMPUTE_SYSTEM_FEATURE_APM_ENABLED, False),
}


class ConfidentialCompute(Resource):
    """NV_CONFIDENTIAL_COMPUTE: speaks for all cards of the machine."""


def make_confidential(request: Request) -> ConfidentialCompute:
    if not isinstance(request.parent, Client):
        raise Refused(NV_ERR_INVALID_CLASS, "confidential computing is asked about under the client")
    if not any(c.NV_CONFIDENTIAL_COMPUTE in board.chip.engine_classes for board in request.driver.boards):
        raise Refused(NV_ERR_NOT_SUPPORTED, "no card of this machine knows confidential computing")
    return ConfidentialCompute(request.client, request.parent, request.handle, request.number)


def control(name: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        TABLE[name] = (ConfidentialCompute, run)
        return run

    return register


@control("NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES")
def capabilities(driver: NvDriver, item: ConfidentialCompute, p: Any) -> None:
    feature = max(MODES[board.chip.confidential][0] for board in driver.boards)
    p.cpuCapability, p.environment, p.devToolsMode = 0, 0, 0
    p.gpusCapability = p.ccFeature = feature  # both: 0 none, 1 APM, 2 HCC
    if hasattr(p, "multiGpuMode"):  # from 550.40.07 on
        p.multiGpuMode = c.NV_CONF_COMPUTE_SYSTEM_MULTI_GPU_MODE_NONE


@control("NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_GPUS_STATE")
def gpus_state(driver: NvDriver, item: ConfidentialCompute, p: Any) -> None:
    p.bAcceptClientRequest = all(MODES[board.chip.confidential][1] for board in driver.boards)


def check_accepts_clients(board: Board) -> None:
    if not MODES[board.chip.confidential][1]:
        raise Refused(NV_ERR_NOT_READY, "the GPU does not accept clients yet: confidential computing")


def check_visible(board: Board) -> None:
    if MODES[board.chip.confidential][0] == c.NV_CONF_COMPUTE_SYSTEM_FEATURE_HCC_ENABLED:
        raise Refused(NV_ERR_NOT_SUPPORTED, "video memory of a confidential GPU cannot be mapped")
