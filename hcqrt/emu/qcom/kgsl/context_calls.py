"""The ioctls of contexts: create, destroy, wait for a timestamp, read one, turn one into a fence."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import kgsl_timestamp_event_fence
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.contexts import NS_PER_MS, KgslContext, reached
from hcqrt.emu.qcom.kgsl.errors import refuse

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

CONTEXT_FLAGS = (
    c.KGSL_CONTEXT_PREAMBLE
    | c.KGSL_CONTEXT_NO_GMEM_ALLOC
    | c.KGSL_CONTEXT_PER_CONTEXT_TS
    | c.KGSL_CONTEXT_USER_GENERATED_TS
    | c.KGSL_CONTEXT_NO_FAULT_TOLERANCE
    | c.KGSL_CONTEXT_INVALIDATE_ON_FAULT
    | c.KGSL_CONTEXT_CTX_SWITCH
    | c.KGSL_CONTEXT_PRIORITY_MASK
    | c.KGSL_CONTEXT_TYPE_MASK
    | c.KGSL_CONTEXT_PWR_CONSTRAINT
    | c.KGSL_CONTEXT_IFH_NOP
    | c.KGSL_CONTEXT_SECURE
    | c.KGSL_CONTEXT_PREEMPT_STYLE_MASK
    | c.KGSL_CONTEXT_LPAC
    | c.KGSL_CONTEXT_NO_SNAPSHOT
    | c.KGSL_CONTEXT_FAULT_INFO
)
NEEDED_FLAGS = c.KGSL_CONTEXT_PREAMBLE | c.KGSL_CONTEXT_NO_GMEM_ALLOC
MEDIUM_PRIORITY = 8  # what a context without a priority gets
FOREVER_MS = 1 << 31  # from here on a timeout is none, as 0 is


def accepted_flags(file: KgslFile, flags: int) -> int:
    """What the kernel keeps of a context's flags. Raises OSError EINVAL or EOPNOTSUPP."""
    kept = flags & CONTEXT_FLAGS
    if not file.driver.options.preemption:
        kept &= ~c.KGSL_CONTEXT_PREEMPT_STYLE_MASK
    if kept & NEEDED_FLAGS != NEEDED_FLAGS:
        refuse(errno_codes.EINVAL, f"context flags {flags:#x} lack PREAMBLE or NO_GMEM_ALLOC")
    if kept & c.KGSL_CONTEXT_SECURE:
        refuse(errno_codes.EOPNOTSUPP, "secure contexts are not set up on this machine")
    if kept & c.KGSL_CONTEXT_LPAC and not file.driver.options.chip.lpac:
        refuse(errno_codes.EOPNOTSUPP, f"{file.driver.options.chip.name} has no LPAC")
    if not kept & c.KGSL_CONTEXT_PRIORITY_MASK:
        kept |= MEDIUM_PRIORITY << c.KGSL_CONTEXT_PRIORITY_SHIFT
    return kept | c.KGSL_CONTEXT_PER_CONTEXT_TS


@handles(k.DRAWCTXT_CREATE)
def drawctxt_create(file: KgslFile, a: Any) -> None:
    flags = accepted_flags(file, a.flags)
    most = file.driver.options.contexts_per_process
    if len(file.contexts) >= most:
        refuse(errno_codes.ENOSPC, f"this process has {most} contexts already")
    number = file.driver.context_number()
    context = KgslContext(file, number, flags, file.driver.gpu.new_context(file.memory.space))
    file.contexts[number] = context
    a.flags, a.drawctxt_id = flags, number


@handles(k.DRAWCTXT_DESTROY)
def drawctxt_destroy(file: KgslFile, a: Any) -> None:
    context = file.context(a.drawctxt_id, "destroy")
    del file.contexts[context.id]
    context.detach()


@handles(k.DEVICE_WAITTIMESTAMP_CTXTID)
def waittimestamp(file: KgslFile, a: Any) -> None:
    context = file.context(a.context_id, "wait")
    context.check_alive()
    if not context.user_timestamps and not reached(context.assigned, a.timestamp):
        refuse(errno_codes.EINVAL, f"timestamp {a.timestamp} was not handed out; {context.assigned} is the last one")
    forever = a.timeout == 0 or a.timeout >= FOREVER_MS

    def over() -> bool:
        return context.detached or context.invalid or reached(context.retired, a.timestamp)

    done = file.driver.sleeper.until(over, None if forever else a.timeout * NS_PER_MS)
    context.check_alive()
    if not done:
        refuse(errno_codes.ETIMEDOUT, f"timestamp {a.timestamp} after {a.timeout} ms; {context.retired} is retired")
    context.take_fault_mark()


@handles(k.CMDSTREAM_READTIMESTAMP_CTXTID)
def readtimestamp(file: KgslFile, a: Any) -> None:
    context = file.context(a.context_id, "read timestamp")
    values = {
        c.KGSL_TIMESTAMP_CONSUMED: context.consumed,
        c.KGSL_TIMESTAMP_RETIRED: context.retired,
        c.KGSL_TIMESTAMP_QUEUED: context.assigned,
    }
    if a.type not in values:
        refuse(errno_codes.EINVAL, f"timestamp type {a.type}")
    a.timestamp = values[a.type]


@handles(k.TIMESTAMP_EVENT)
def timestamp_event(file: KgslFile, a: Any) -> None:
    """A fence that signals when a timestamp retires; after an invalidation it signals as well."""
    if a.type != c.KGSL_TIMESTAMP_EVENT_FENCE or a.len != ctypes.sizeof(kgsl_timestamp_event_fence):
        refuse(errno_codes.EINVAL, f"event type {a.type} with {a.len} bytes")
    context = file.context(a.context_id, "timestamp event")
    if context.invalid:
        refuse(errno_codes.EINVAL, f"context {context.id} was invalidated")
    if not context.user_timestamps and not reached(context.assigned, a.timestamp):
        refuse(errno_codes.EINVAL, f"timestamp {a.timestamp} was not handed out; {context.assigned} is the last one")
    driver = file.driver
    fence, fd = driver.fences.create(f"context {context.id} timestamp {a.timestamp}")
    driver.hand_over_fd(fence, fd, a.priv)
    action = fence.finish
    fence.cancel = lambda: context.drop_event(action)
    context.add_event(a.timestamp, action)
