"""GET_FAULT_REPORT: first how many faults of each type, then the records. Source: qcom.md §1.3 and §1.8."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import kgsl_fault, kgsl_pagefault_report
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.contexts import KgslContext
from hcqrt.emu.qcom.kgsl.errors import refuse

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

MAX_ENTRIES = 1024


@handles(k.GET_FAULT_REPORT)
def get_fault_report(file: KgslFile, a: Any) -> None:
    """Only for invalidated contexts that asked for it at their making."""
    context = file.context(a.context_id, "fault report")
    if not context.flags & c.KGSL_CONTEXT_FAULT_INFO or not context.invalid:
        refuse(errno_codes.EINVAL, f"context {context.id} is not invalidated, or was made without FAULT_INFO")
    if not a.faultlist:
        a.faultnents = c.KGSL_FAULT_TYPE_MAX
        return
    if a.faultnents > MAX_ENTRIES:
        refuse(errno_codes.EINVAL, f"{a.faultnents} entries")
    nbytes = min(a.faultsize, ctypes.sizeof(kgsl_fault))
    entries = file.driver.user.records(kgsl_fault, a.faultlist, a.faultsize, a.faultnents)
    if any(entry.fault for entry in entries):
        write_records(file, context, entries)
    elif context.faults and entries:
        count = kgsl_fault(type=c.KGSL_FAULT_TYPE_PAGEFAULT, count=len(context.faults))
        file.driver.user.write(a.faultlist, bytes(count)[:nbytes])


def write_records(file: KgslFile, context: KgslContext, entries: list[Any]) -> None:
    for entry in entries:
        if entry.type >= c.KGSL_FAULT_TYPE_MAX:
            refuse(errno_codes.EINVAL, f"fault type {entry.type}")
    wanted = next((entry for entry in reversed(entries) if entry.type == c.KGSL_FAULT_TYPE_PAGEFAULT), None)
    if wanted is None:
        return
    nbytes = min(wanted.size, ctypes.sizeof(kgsl_pagefault_report))
    for index, fault in enumerate(list(context.faults)[: wanted.count]):
        record = kgsl_pagefault_report(fault_addr=fault.address, fault_type=fault.kind)
        file.driver.user.write(wanted.fault + index * wanted.size, bytes(record)[:nbytes])
