"""Controls of channel groups and channels: scheduling, tokens, priorities."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.status import (
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_OBJECT,
    NV_ERR_INVALID_STATE,
    NV_ERR_RC_ERROR,
)
from hcqrt.emu.nv.abi import Refused
from hcqrt.emu.nv.rm.channels import ChannelObject, GroupObject, has_runlist
from hcqrt.emu.nv.rm.tree import Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver

Run = Callable[["NvDriver", Any, Any], None]
TABLE: dict[str, tuple[type[Resource], Run]] = {}
MIN_TIMESLICE_US = 1


def control(name: str, on: type[Resource]) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        TABLE[name] = (on, run)
        return run

    return register


def schedule(channels: list[ChannelObject], p: Any) -> None:
    """Put channels on their runlist; graphics channels of a UVM-owned space must be registered first."""
    if not p.bEnable:
        for item in channels:
            item.channel.group.scheduled = False
        return
    for item in channels:
        if item.channel.error:
            raise Refused(NV_ERR_RC_ERROR, f"channel {item.channel.chid}: {item.channel.error}")
        if item.context is not None and item.va_space.external and not item.channel.registered:
            raise Refused(NV_ERR_INVALID_STATE, f"channel {item.channel.chid} is not registered with UVM")
    for item in channels:
        item.channel.group.scheduled = True


@control("NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", GroupObject)
def group_schedule(driver: NvDriver, group: GroupObject, p: Any) -> None:
    schedule(group.channels(), p)
    group.group.scheduled = bool(p.bEnable)


@control("NVA06F_CTRL_CMD_GPFIFO_SCHEDULE", ChannelObject)
@control("NVC36F_CTRL_CMD_GPFIFO_SCHEDULE", ChannelObject)  # gone from 555.42.02 on
def channel_schedule(driver: NvDriver, channel: ChannelObject, p: Any) -> None:
    schedule([channel], p)


@control("NVA06F_CTRL_CMD_BIND", ChannelObject)
@control("NVC36F_CTRL_CMD_BIND", ChannelObject)  # gone from 555.42.02 on
def channel_bind(driver: NvDriver, channel: ChannelObject, p: Any) -> None:
    if p.engineType != channel.channel.group.engine_type:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"engine {p.engineType} on a channel of another")


@control("NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN", ChannelObject)
def work_submit_token(driver: NvDriver, item: ChannelObject, p: Any) -> None:
    if not has_runlist(item.channel):
        raise Refused(NV_ERR_INVALID_STATE, "the channel has no runlist yet: no engine object, not scheduled")
    p.workSubmitToken = item.channel.token
    item.channel.notify(item.token_index, item.channel.token, 0, 0, item.board.gpu.timer_ns())


@control("NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX", ChannelObject)
def token_index(driver: NvDriver, item: ChannelObject, p: Any) -> None:
    if item.channel.notifier is None:
        raise Refused(NV_ERR_INVALID_OBJECT, "the channel has no notifier")
    item.token_index = p.index


@control("NVA06C_CTRL_CMD_SET_TIMESLICE", GroupObject)
def set_timeslice(driver: NvDriver, group: GroupObject, p: Any) -> None:
    if p.timesliceUs < MIN_TIMESLICE_US:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"timeslice of {p.timesliceUs} us")
    group.timeslice_us = p.timesliceUs


@control("NVA06C_CTRL_CMD_GET_TIMESLICE", GroupObject)
def get_timeslice(driver: NvDriver, group: GroupObject, p: Any) -> None:
    p.timesliceUs = group.timeslice_us


@control("NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL", GroupObject)
def set_interleave(driver: NvDriver, group: GroupObject, p: Any) -> None:
    if p.tsgInterleaveLevel > c.NVA06C_CTRL_INTERLEAVE_LEVEL_HIGH:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"interleave level {p.tsgInterleaveLevel}")
    group.interleave = p.tsgInterleaveLevel


@control("NVA06C_CTRL_CMD_GET_INTERLEAVE_LEVEL", GroupObject)
def get_interleave(driver: NvDriver, group: GroupObject, p: Any) -> None:
    p.tsgInterleaveLevel = group.interleave


@control("NVA06C_CTRL_CMD_PREEMPT", GroupObject)
def preempt(driver: NvDriver, group: GroupObject, p: Any) -> None:
    """Nothing is ever half done between two runs of the emulated GPU, so there is nothing to wait for."""
    if p.bManualTimeout and p.timeoutUs > c.NVA06C_CTRL_CMD_PREEMPT_MAX_MANUAL_TIMEOUT_US:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"timeout of {p.timeoutUs} us")
