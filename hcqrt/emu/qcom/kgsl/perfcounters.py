"""Performance counters: the always-on one is real; of the others none is free, as on a machine that is profiled."""

from __future__ import annotations

import errno as errno_codes
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import kgsl_perfcounter_read_group
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.errors import refuse

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

ALWAYS_ON = c.KGSL_PERFCOUNTER_GROUP_ALWAYSON
ALWAYS_ON_COUNTABLE = 0
ALWAYS_ON_REGISTER = 0x0980  # CP_ALWAYS_ON_COUNTER, low word; the high one follows
MAX_READS = 100


def check_counter(file: KgslFile, group: int, countable: int) -> None:
    """Raises OSError EINVAL for what no kernel knows, EBUSY for counters that this machine has no room for."""
    if group >= c.KGSL_PERFCOUNTER_GROUP_MAX:
        refuse(errno_codes.EINVAL, f"counter group {group:#x}")
    if group != ALWAYS_ON:
        file.driver.refusals.append(f"performance counter group {group:#x} countable {countable:#x}")
        refuse(errno_codes.EBUSY, f"counter group {group:#x} has no free counter here")
    if countable != ALWAYS_ON_COUNTABLE:
        refuse(errno_codes.EINVAL, f"countable {countable:#x} of the always-on group")


@handles(k.PERFCOUNTER_GET)
def perfcounter_get(file: KgslFile, a: Any) -> None:
    check_counter(file, a.groupid, a.countable)
    file.counters += 1
    a.offset, a.offset_hi = ALWAYS_ON_REGISTER, ALWAYS_ON_REGISTER + 1


@handles(k.PERFCOUNTER_PUT)
def perfcounter_put(file: KgslFile, a: Any) -> None:
    if a.groupid != ALWAYS_ON or a.countable != ALWAYS_ON_COUNTABLE or not file.counters:
        refuse(errno_codes.EINVAL, f"counter {a.groupid:#x}/{a.countable:#x} was not taken")
    file.counters -= 1


@handles(k.PERFCOUNTER_QUERY)
def perfcounter_query(file: KgslFile, a: Any) -> None:
    """How many counters a group has, and what each counts."""
    if a.groupid >= c.KGSL_PERFCOUNTER_GROUP_MAX:
        refuse(errno_codes.EINVAL, f"counter group {a.groupid:#x}")
    countables = [ALWAYS_ON_COUNTABLE] if a.groupid == ALWAYS_ON else []
    a.max_counters = len(countables)
    if a.countables and a.count:
        shown = countables[: a.count]
        file.driver.user.write(a.countables, b"".join(value.to_bytes(4, "little") for value in shown))


@handles(k.PERFCOUNTER_READ)
def perfcounter_read(file: KgslFile, a: Any) -> None:
    user, driver = file.driver.user, file.driver
    if not 0 < a.count <= MAX_READS or not a.reads:
        refuse(errno_codes.EINVAL, f"{a.count} counters at {a.reads:#x}: 1 to {MAX_READS}")
    entries = user.records(kgsl_perfcounter_read_group, a.reads, 16, a.count)
    for entry in entries:
        check_counter(file, entry.groupid, entry.countable)
        if not file.counters:
            refuse(errno_codes.EINVAL, f"counter {entry.groupid:#x}/{entry.countable:#x} was not taken")
        entry.value = driver.gpu.ticks(driver.system.clock_ns())
    user.write(a.reads, b"".join(bytes(entry) for entry in entries))
