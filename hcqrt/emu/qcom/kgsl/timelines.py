"""Software timelines: 64-bit counters that the CPU signals, and that calls and submissions wait for."""

from __future__ import annotations

import errno as errno_codes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import kgsl_timeline_val
from hcqrt.emu.files import LiveObject
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.fences import Fence
from hcqrt.emu.where import Where, caller

if TYPE_CHECKING:
    from hcqrt.emu.qcom.driver import QcomDriver
    from hcqrt.emu.qcom.kgsl.node import KgslFile

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
FOREVER_S = (1 << 63) // NS_PER_S  # seconds that no kernel time holds: no timeout
MAX_POINTS = 1 << 16


@dataclass(eq=False)
class Timeline:
    """One timeline. Fences of values that it has yet to reach wait here."""

    id: int
    owner: KgslFile
    value: int
    destroyed: bool = False
    fences: list[tuple[int, Fence]] = field(default_factory=list)
    where: Where = field(default_factory=caller)

    def signal(self, seqno: int) -> None:
        """Values only grow; a smaller one changes nothing."""
        self.value = max(self.value, seqno)
        due = [fence for wanted, fence in self.fences if wanted <= self.value]
        self.fences = [entry for entry in self.fences if entry[0] > self.value]
        for fence in due:
            fence.finish()

    def destroy(self) -> None:
        """What still waits ends: fences fail."""
        self.destroyed = True
        fences, self.fences = self.fences, []
        for _, fence in fences:
            fence.finish(failed=True)

    def drop_fence(self, fence: Fence) -> None:
        self.fences = [entry for entry in self.fences if entry[1] is not fence]


@dataclass(frozen=True)
class Point:
    """A value that a timeline is to reach."""

    timeline: Timeline
    seqno: int

    @property
    def over(self) -> bool:
        return self.timeline.value >= self.seqno or self.timeline.destroyed


class Timelines:
    """The timelines of the device: ids are valid in every process, only the owner may destroy one."""

    def __init__(self, driver: QcomDriver) -> None:
        self.driver = driver
        self.by_id: dict[int, Timeline] = {}
        self._next_id = 1

    def create(self, owner: KgslFile, value: int) -> Timeline:
        timeline = Timeline(self._next_id, owner, value)
        self._next_id += 1
        self.by_id[timeline.id] = timeline
        return timeline

    def find(self, number: int) -> Timeline:
        """Raises OSError ENODEV."""
        found = self.by_id.get(number)
        if found is None:
            refuse(errno_codes.ENODEV, f"timeline {number} does not exist")
        return found

    def points(self, address: int, nbytes: int, count: int) -> list[Point]:
        """An array of (value, timeline) records. Raises OSError."""
        if not 0 < count <= MAX_POINTS or not nbytes:
            refuse(errno_codes.EINVAL, f"{count} timeline points of {nbytes} bytes")
        entries = self.driver.user.records(kgsl_timeline_val, address, nbytes, count)
        for entry in entries:
            if entry.padding:
                refuse(errno_codes.EINVAL, f"padding of a timeline point is {entry.padding:#x}")
        return [Point(self.find(entry.timeline), entry.seqno) for entry in entries]

    def destroy(self, timeline: Timeline) -> None:
        del self.by_id[timeline.id]
        timeline.destroy()

    def close_file(self, owner: KgslFile) -> None:
        for timeline in [timeline for timeline in self.by_id.values() if timeline.owner is owner]:
            self.destroy(timeline)

    def live(self) -> Iterator[LiveObject]:
        for timeline in self.by_id.values():
            yield LiveObject("timeline", f"{timeline.id} at {timeline.value}", timeline.where)


@handles(k.TIMELINE_CREATE)
def timeline_create(file: KgslFile, a: Any) -> None:
    a.id = file.driver.timelines.create(file, a.seqno).id


@handles(k.TIMELINE_QUERY)
def timeline_query(file: KgslFile, a: Any) -> None:
    if a.padding:
        refuse(errno_codes.EINVAL, f"padding is {a.padding:#x}")
    a.seqno = file.driver.timelines.find(a.timeline).value


@handles(k.TIMELINE_SIGNAL)
def timeline_signal(file: KgslFile, a: Any) -> None:
    for point in file.driver.timelines.points(a.timelines, a.timelines_size, a.count):
        point.timeline.signal(point.seqno)


@handles(k.TIMELINE_WAIT)
def timeline_wait(file: KgslFile, a: Any) -> None:
    """EBUSY for a wait of no time, ETIMEDOUT for one that ran out."""
    if a.flags not in (c.KGSL_TIMELINE_WAIT_ALL, c.KGSL_TIMELINE_WAIT_ANY) or a.padding:
        refuse(errno_codes.EINVAL, f"timeline wait flags {a.flags:#x}, padding {a.padding:#x}")
    points = file.driver.timelines.points(a.timelines, a.timelines_size, a.count)
    enough = all if a.flags == c.KGSL_TIMELINE_WAIT_ALL else any
    timeout_ns = None if a.tv_sec >= FOREVER_S else max(a.tv_sec * NS_PER_S + a.tv_nsec, 0)
    if timeout_ns is not None and timeout_ns < NS_PER_MS:
        if not enough(point.over for point in points):
            refuse(errno_codes.EBUSY, f"{len(points)} timeline points are not reached")
        return
    if not file.driver.sleeper.until(lambda: enough(point.over for point in points), timeout_ns):
        refuse(errno_codes.ETIMEDOUT, f"{len(points)} timeline points after {a.tv_sec} s {a.tv_nsec} ns")


@handles(k.TIMELINE_FENCE_GET)
def timeline_fence_get(file: KgslFile, a: Any) -> None:
    driver = file.driver
    timeline = driver.timelines.find(a.timeline)
    fence, fd = driver.fences.create(f"timeline {timeline.id} at {a.seqno}")
    a.handle = fd
    if timeline.value >= a.seqno:
        fence.finish()
        return
    timeline.fences.append((a.seqno, fence))
    fence.cancel = lambda: timeline.drop_fence(fence)


@handles(k.TIMELINE_DESTROY)
def timeline_destroy(file: KgslFile, a: Any) -> None:
    """The record is a bare u32."""
    timeline = file.driver.timelines.find(a.value)
    if timeline.owner is not file:
        refuse(errno_codes.EINVAL, f"timeline {timeline.id} belongs to another file")
    file.driver.timelines.destroy(timeline)
