"""GPU_COMMAND: what the driver checks, and the queue of a context. Source: qcom.md §1.7."""

from __future__ import annotations

import errno as errno_codes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import kgsl_command_object
from hcqrt.emu.qcom.gpu import Submission
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.contexts import NS_PER_MS, KgslContext
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.profiling import Profile, find_profile
from hcqrt.emu.qcom.kgsl.ranges import in_range
from hcqrt.emu.qcom.kgsl.syncpoints import Ready, read_syncpoints

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

MAX_OBJECTS, MAX_SYNCPOINTS = 2000, 32
MAX_IB_WORDS = 0xFFFFF
IB_FLAGS = c.KGSL_CMDLIST_IB | c.KGSL_CMDLIST_CTXTSWITCH_PREAMBLE | c.KGSL_CMDLIST_IB_PREAMBLE
COMMAND_FLAGS = (
    c.KGSL_CMDBATCH_MEMLIST
    | c.KGSL_CMDBATCH_MARKER
    | c.KGSL_CMDBATCH_SUBMIT_IB_LIST
    | c.KGSL_CMDBATCH_CTX_SWITCH
    | c.KGSL_CMDBATCH_PROFILING
    | c.KGSL_CMDBATCH_PROFILING_KTIME
    | c.KGSL_CMDBATCH_END_OF_FRAME
    | c.KGSL_CMDBATCH_SYNC
    | c.KGSL_CMDBATCH_PWR_CONSTRAINT
)


def is_given(what: str, count: int, address: int, nbytes: int) -> bool:
    """Whether a list is there; one that is half there is refused."""
    if not count and not address and not nbytes:
        return False
    if not count or not address or not nbytes:
        refuse(errno_codes.EINVAL, f"{what}: {count} entries of {nbytes} bytes at {address:#x}")
    return True


def kind_of(a: Any) -> tuple[bool, bool, bool]:
    """(waits, has commands, is a marker), from the flags or else from what was given."""
    if a.numcmds > MAX_OBJECTS or a.numobjs > MAX_OBJECTS or a.numsyncs > MAX_SYNCPOINTS:
        refuse(
            errno_codes.EINVAL,
            f"{a.numcmds} commands, {a.numobjs} objects, {a.numsyncs} syncpoints: "
            f"at most {MAX_OBJECTS}, {MAX_OBJECTS} and {MAX_SYNCPOINTS}",
        )
    if a.flags & c.KGSL_CMDBATCH_MARKER:
        return False, False, True
    if a.flags & c.KGSL_CMDBATCH_SYNC:
        return True, False, False
    return bool(a.numsyncs), bool(a.numcmds), not a.numcmds and not a.numsyncs


def check_ib(ib: Any) -> None:
    text = f"IB of {ib.size} bytes at {ib.gpuaddr:#x}, flags {ib.flags:#x}"
    if not ib.flags & IB_FLAGS:
        refuse(errno_codes.EINVAL, f"{text}: is neither an IB nor a preamble")
    if not ib.size or ib.size >> 2 > MAX_IB_WORDS:
        refuse(errno_codes.EINVAL, f"{text}: 1 to {MAX_IB_WORDS} words")
    if ib.gpuaddr % 4 or not in_range(ib.gpuaddr, ib.size):
        refuse(errno_codes.EINVAL, f"{text}: address is not a word's, or outside of the process's addresses")


def read_ibs(file: KgslFile, a: Any) -> list[Any]:
    if not is_given("command list", a.numcmds, a.cmdlist, a.cmdsize):
        return []
    return file.driver.user.records(kgsl_command_object, a.cmdlist, a.cmdsize, a.numcmds)


def read_objects(file: KgslFile, a: Any) -> Profile | None:
    """The list of memory objects only keeps them alive, which they are; one may be the profiling record."""
    if not is_given("object list", a.numobjs, a.objlist, a.objsize):
        return None
    found: Profile | None = None
    for entry in file.driver.user.records(kgsl_command_object, a.objlist, a.objsize, a.numobjs):
        if not entry.flags & c.KGSL_OBJLIST_MEMOBJ:
            refuse(errno_codes.EINVAL, f"object list flags {entry.flags:#x}: is no memory object")
        if entry.flags & c.KGSL_OBJLIST_PROFILE and a.flags & c.KGSL_CMDBATCH_PROFILING and found is None:
            found = find_profile(file, entry)
    return found


@handles(k.GPU_COMMAND)
def gpu_command(file: KgslFile, a: Any) -> None:
    waits, has_commands, marker = kind_of(a)
    unknown = a.flags & ~COMMAND_FLAGS
    if unknown:
        file.driver.refusals.append(f"GPU_COMMAND flags {unknown:#x}")
    context = file.context(a.context_id, "command")
    ready: list[Ready] = []
    if waits:
        if not is_given("syncpoint list", a.numsyncs, a.synclist, a.syncsize):
            refuse(errno_codes.EINVAL, "a sync command without syncpoints")
        ready = read_syncpoints(file, context, a.synclist, a.syncsize, a.numsyncs)
    ibs, profile = (read_ibs(file, a), read_objects(file, a)) if has_commands else ([], None)
    context.check_alive()
    for ib in ibs:
        check_ib(ib)
    wait_for_room(file, context)
    if has_commands or marker:
        a.timestamp = context.next_timestamp(a.timestamp)
        queue(file, context, a, ibs, ready, profile)
    else:
        a.timestamp = 0
        context.gpu.submit(Submission(0, [], ready=every(ready)))
    context.take_fault_mark()


def wait_for_room(file: KgslFile, context: KgslContext) -> None:
    """A full queue puts the caller to sleep. Raises OSError ETIMEDOUT, EDEADLK or ENOENT."""
    options, pending = file.driver.options, context.gpu.pending

    def room() -> bool:
        return len(pending) < options.queue_depth or context.invalid or context.detached

    if not file.driver.sleeper.until(room, options.queue_timeout_ms * NS_PER_MS):
        text = f"context {context.id}: {len(pending)} commands queued, none retired in {options.queue_timeout_ms} ms"
        refuse(errno_codes.ETIMEDOUT, text)
    context.check_alive()


def every(ready: list[Ready]) -> Callable[[], bool]:
    return lambda: all(question() for question in ready)


def queue(
    file: KgslFile, context: KgslContext, a: Any, ibs: list[Any], ready: list[Ready], profile: Profile | None
) -> None:
    driver, timestamp = file.driver, int(a.timestamp)
    constrained = bool((a.flags | context.flags) & c.KGSL_CONTEXT_PWR_CONSTRAINT)
    if profile is not None:
        profile.queued()

    def started() -> None:
        switched = driver.switch_to(context)
        context.gpu.pending[0].ibs = (
            [] if context.flags & c.KGSL_CONTEXT_IFH_NOP else chosen_ibs(ibs, switched=switched)
        )
        context.started(timestamp)
        if constrained:
            driver.apply_constraint(context)
        if profile is not None:
            profile.submitted()

    def done() -> None:
        if profile is not None:
            profile.retired()
        context.finished(timestamp)

    watch = [] if context.flags & c.KGSL_CONTEXT_IFH_NOP else [(ib.gpuaddr, ib.size >> 2) for ib in ibs]
    submission = Submission(timestamp, [], done=done, started=started, ready=every(ready), watch=watch)
    context.gpu.submit(submission)


def chosen_ibs(ibs: list[Any], *, switched: bool) -> list[tuple[int, int]]:
    """Preambles for a context switch run only after one."""
    return [(ib.gpuaddr, ib.size >> 2) for ib in ibs if switched or not ib.flags & c.KGSL_CMDLIST_CTXTSWITCH_PREAMBLE]
