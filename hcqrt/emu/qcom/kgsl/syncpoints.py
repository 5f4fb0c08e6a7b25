"""What a submission waits for before it runs: timestamps of contexts, fences, timelines."""

from __future__ import annotations

import errno as errno_codes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom.kgsl_structs import (
    kgsl_cmd_syncpoint_fence,
    kgsl_cmd_syncpoint_timeline,
    kgsl_cmd_syncpoint_timestamp,
    kgsl_command_syncpoint,
)
from hcqrt.emu.qcom.kgsl.contexts import KgslContext, reached
from hcqrt.emu.qcom.kgsl.errors import refuse

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

Ready = Callable[[], bool]


def read_syncpoints(file: KgslFile, context: KgslContext, address: int, nbytes: int, count: int) -> list[Ready]:
    """One question per syncpoint: is it over? Raises OSError."""
    entries = file.driver.user.records(kgsl_command_syncpoint, address, nbytes, count)
    return [read_syncpoint(file, context, entry) for entry in entries]


def read_syncpoint(file: KgslFile, context: KgslContext, entry: Any) -> Ready:
    user = file.driver.user
    if entry.type == c.KGSL_CMD_SYNCPOINT_TYPE_TIMESTAMP:
        return on_timestamp(file, context, user.record(kgsl_cmd_syncpoint_timestamp, entry.priv, entry.size))
    if entry.type == c.KGSL_CMD_SYNCPOINT_TYPE_FENCE:
        fence = file.driver.fences.find(user.record(kgsl_cmd_syncpoint_fence, entry.priv, entry.size).fd)
        return lambda: fence.done
    if entry.type == c.KGSL_CMD_SYNCPOINT_TYPE_TIMELINE:
        record = user.record(kgsl_cmd_syncpoint_timeline, entry.priv, entry.size)
        points = file.driver.timelines.points(record.timelines, record.timelines_size, record.count)
        return lambda: all(point.over for point in points)
    refuse(errno_codes.EINVAL, f"syncpoint type {entry.type}")


def on_timestamp(file: KgslFile, context: KgslContext, record: Any) -> Ready:
    """Any context of the device, also of another process; not a timestamp that its context has yet to hand out."""
    other = file.driver.context_by_number(record.context_id)
    if other is None:
        refuse(errno_codes.EINVAL, f"syncpoint on context {record.context_id}, which does not exist")
    stamp = record.timestamp
    ahead = not reached(other.assigned, stamp)
    if ahead and (other is context or not other.user_timestamps):
        refuse(errno_codes.EINVAL, f"syncpoint on timestamp {stamp}; context {other.id} is at {other.assigned}")
    return lambda: other.detached or other.invalid or reached(other.retired, stamp)
