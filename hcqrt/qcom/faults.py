"""What happens after a GPU fault: dropped work is noticed, errno numbers get words. Source: qcom facts 1.8."""

from __future__ import annotations

import errno as errno_codes
from typing import TYPE_CHECKING

from hcqrt.autogen.qcom import kgsl_consts as consts
from hcqrt.errors import DeviceFault, HCQError, IoctlError

if TYPE_CHECKING:
    from hcqrt.qcom.device import QCOMDevice

FAULTS_SHOWN = 4
LOOK_MS = 1  # of a wait that only asks
RESET_STATUS = {
    consts.KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT: "its own work faulted, hung, or ran longer than the driver allows",
    consts.KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT: "the GPU was reset because of somebody else's work",
    consts.KGSL_CTX_STAT_UNKNOWN_CONTEXT_RESET_EXT: "the GPU was reset for an unknown reason",
}
ACCESSES = (
    (consts.KGSL_PAGEFAULT_TYPE_READ, "read"),
    (consts.KGSL_PAGEFAULT_TYPE_WRITE, "write"),
    (consts.KGSL_PAGEFAULT_TYPE_TRANSLATION, "unmapped page"),
    (consts.KGSL_PAGEFAULT_TYPE_PERMISSION, "no permission"),
    (consts.KGSL_PAGEFAULT_TYPE_EXTERNAL, "external abort"),
    (consts.KGSL_PAGEFAULT_TYPE_TRANSACTION_STALLED, "stalled"),
)
DEAD = "the driver gave this context up"
GONE = "the driver no longer knows this context: it was destroyed or detached"
SUSPECT = "the GPU faulted and was recovered: results since the last check are suspect"


def page_fault_text(address: int, kind: int, where: str) -> str:
    """ "write of 0xdead0000: unmapped page (below every allocation)"."""
    words = [name for bit, name in ACCESSES if kind & bit]
    access = " and ".join(word for word in words if word in ("read", "write")) or "access"
    why = ", ".join(word for word in words if word not in ("read", "write"))
    unknown = kind & ~sum(bit for bit, _ in ACCESSES)
    if unknown:
        why = ", ".join(filter(None, (why, f"fault type {unknown:#x}")))
    return f"{access} of {address:#x}{f': {why}' if why else ''} ({where})"


class FaultWatch:
    """Looks after the one context of a device.

    A context that the driver gave up is a sticky fault. One that faulted and was recovered is an error once; the work
    that the driver dropped meanwhile will never store its signals, so the timeline is moved on in its place.
    """

    def __init__(self, dev: QCOMDevice) -> None:
        self._dev = dev
        self._checked = 0  # progress value up to which the driver was asked for faults
        self._told = 0  # progress value up to which an error was raised for recovered faults

    def poll(self) -> HCQError | None:
        """The sticky fault, or None. Raises DeviceFault for one that the driver recovered from, once."""
        dev = self._dev
        channel = dev.channel
        if channel.retired >= channel.submitted:  # nothing was dropped; what is left to ask for is the driver's mark
            return self._final(None if self._checked == channel.submitted else self._ask(channel.submitted))
        status = dev.kgsl.reset_status(channel.context)
        if status:
            return self._dead(f"{DEAD}: {RESET_STATUS.get(status, f'reset status {status}')}")
        try:
            retired = channel.retired_by_kernel()
        except IoctlError as error:
            return self._final(self.refused(error))
        if channel.retired >= retired:
            return None
        new = retired > self._told
        fault = self._ask(retired)
        if dev.broken is not None:
            return dev.broken
        channel.skip_to(retired)
        if fault is None and new:
            self._told = channel.submitted
            fault = DeviceFault(self._describe(f"{SUSPECT}; work was dropped"))
        return self._final(fault)

    def _final(self, fault: HCQError | None) -> HCQError | None:
        """Raise what is no sticky fault: it is told once."""
        if fault is not None and self._dev.broken is None:
            raise fault
        return fault

    def _ask(self, progress: int) -> HCQError | None:
        """Take the driver's mark of a fault, which it gives to the next call that waits or submits."""
        channel = self._dev.channel
        try:
            if progress and self._dev.kgsl.wait_timestamp(channel.context, channel.timestamp_of(progress), LOOK_MS):
                self._checked = progress
        except IoctlError as error:
            return self.refused(error)
        return None

    def sleep(self, timeout_ms: int) -> None:
        """Let the driver wake us when the next submission retires. Returns at once when none is in flight."""
        channel = self._dev.channel
        following = channel.retired + 1
        if following > channel.submitted:
            return
        try:
            self._dev.kgsl.wait_timestamp(channel.context, channel.timestamp_of(following), timeout_ms)
        except IoctlError as error:
            raise self.refused(error) from error

    def refused(self, error: IoctlError) -> HCQError:
        """The error for an errno of the driver; a sticky one is kept in `broken`."""
        if error.errno == errno_codes.EPROTO:
            channel = self._dev.channel
            self._told = channel.submitted
            return DeviceFault(self._describe(f"{SUSPECT} ({error})"))
        if error.errno == errno_codes.EDEADLK:
            return self._dead(f"{DEAD} ({error})")
        if error.errno == errno_codes.ENOENT:
            return self._dead(f"{GONE} ({error})")
        return error

    def _dead(self, what: str) -> HCQError:
        dev = self._dev
        if dev.broken is None:
            dev.broken = DeviceFault(self._describe(what, "close the device and open it again"))
        return dev.broken

    def _describe(self, what: str, next_step: str = "run it again, or close the device and open it again") -> str:
        dev = self._dev
        parts = [f"{dev.name} ({dev.model}, {dev.driver}): {what}", *self._details()]
        parts += [f"last launch: {dev.last_launch}", f"see the kernel log ({dev.kernel_log}); {next_step}"]
        return "; ".join(parts)

    def _details(self) -> list[str]:
        """Addresses where the driver keeps them, how many faults where it counts them."""
        dev, context = self._dev, self._dev.channel.context
        found: list[str] = []
        if dev.context_flags & consts.KGSL_CONTEXT_FAULT_INFO:
            try:
                faults = list(dict.fromkeys(dev.kgsl.page_faults(context)))[:FAULTS_SHOWN]
                found = [page_fault_text(address, kind, dev.pool.find(address)) for address, kind in faults]
            except IoctlError as error:
                if error.errno != errno_codes.EINVAL:  # it has one only of contexts that it gave up
                    found = [f"no fault report: {error}"]
        count = dev.kgsl.fault_count(context)
        if count is not None and count[0]:
            found.append(f"faults of this context: {count[0]}, the last at timestamp {count[1]}")
        return found
