"""Fence descriptors and timelines of the emulated KGSL."""

from __future__ import annotations

import errno
import os
import select
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from kgsl_client import Kgsl, Stream, errno_of

ALL, ANY = 1, 2


def polled(fd: int, timeout_ms: int = 0) -> set[str]:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    names = {"in": select.POLLIN, "err": select.POLLERR}
    got = dict(poll.poll(timeout_ms)).get(fd, 0)
    return {name for name, bit in names.items() if got & bit}


@pytest.fixture
def fds() -> Iterator[list[int]]:
    opened: list[int] = []
    yield opened
    for fd in opened:
        os.close(fd)


def fence_of(kgsl: Kgsl, context: int, timestamp: int) -> int:
    target = kgsl.pointer("i", -1)
    kgsl.call("timestamp_event", type=2, context=context, timestamp=timestamp, priv=target, len=4)
    return int(struct.unpack("<i", kgsl.keep[-1].raw[:4])[0])


def test_a_fence_signals_when_its_timestamp_retires(kgsl: Kgsl, fds: list[int]) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.wait(1, index=1))
    kgsl.submit(context, stream.wait(2, index=1))
    fds += [fence_of(kgsl, context, 1), fence_of(kgsl, context, 2)]
    assert [polled(fd) for fd in fds] == [set(), set()]
    stream.out[1] = 1
    kgsl.wait(context, 1)
    assert [polled(fd) for fd in fds] == [{"in"}, set()]
    stream.out[1] = 2
    kgsl.wait(context, 2)
    fds.append(fence_of(kgsl, context, 1))
    assert [polled(fd) for fd in fds] == [{"in"}] * 3
    assert [item.kind for item in kgsl.system.live_objects()].count("fence") == 3


def test_fences_close_in_any_state(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    before = len(os.listdir("/proc/self/fd"))
    kgsl.submit(context, stream.wait(1, index=1))
    for _ in range(3):
        os.close(fence_of(kgsl, context, 1))
    stream.out[1] = 1
    kgsl.wait(context, 1)
    os.close(fence_of(kgsl, context, 1))
    assert not [item for item in kgsl.system.live_objects() if item.kind == "fence"]
    assert len(os.listdir("/proc/self/fd")) == before


def test_bad_events(kgsl: Kgsl) -> None:
    context = kgsl.context()
    target = kgsl.pointer("i", -1)
    good = {"type": 2, "context": context, "timestamp": 0, "priv": target, "len": 4}
    for change in ({"type": 1}, {"len": 8}, {"context": 99}, {"timestamp": 1}):
        assert kgsl.error("timestamp_event", **good | change) == errno.EINVAL, change
    before = len(os.listdir("/proc/self/fd"))
    assert kgsl.error("timestamp_event", **good | {"priv": 8}) == errno.EFAULT
    assert len(os.listdir("/proc/self/fd")) == before


def test_fences_of_a_lost_context_say_done(kgsl: Kgsl, fds: list[int]) -> None:
    """qcom.md §1.8, the trap: a fence does not tell work that ran from work that was dropped."""
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1))
    fds.append(fence_of(kgsl, context, 1))
    kgsl.system.inject("ioctl", "GPU_COMMAND", errno=errno.EDEADLK)
    assert kgsl.error("command", context=context) == errno.EDEADLK
    assert polled(fds[0]) == {"in"} and stream.out[0] == 0
    assert kgsl.error("timestamp_event", type=2, context=context, priv=kgsl.pointer("i", 0), len=4) == errno.EINVAL
    kgsl.system.resume()


def test_a_fence_outlives_its_file(kgsl: Kgsl, fds: list[int]) -> None:
    other = Kgsl(kgsl.system)
    stream, context = Stream(other), other.context()
    other.submit(context, stream.wait(1, index=1))
    fds.append(fence_of(other, context, 1))
    other.close()
    assert polled(fds[0]) == {"in"}


# timelines


def value(kgsl: Kgsl, timeline: int) -> int:
    return kgsl.call("timeline_query", timeline=timeline)["seqno"]


def points(kgsl: Kgsl, *entries: tuple[int, int], **more: int) -> dict[str, int]:
    """Entries are (timeline, value)."""
    raw = b"".join(struct.pack("<QI4x", seqno, timeline) for timeline, seqno in entries)
    return {"list": kgsl.pointer(f"{len(raw)}s", raw), "count": len(entries), "elemsize": 16} | more


def test_timelines_count_up(kgsl: Kgsl) -> None:
    one, two = (kgsl.call("timeline_create", seqno=seqno)["id"] for seqno in (5, 1 << 40))
    assert one != two and (value(kgsl, one), value(kgsl, two)) == (5, 1 << 40)
    kgsl.call("timeline_signal", **points(kgsl, (one, 9), (two, 3)))
    assert (value(kgsl, one), value(kgsl, two)) == (9, 1 << 40), "values never shrink"
    for name, fields in (
        ("timeline_query", {"timeline": 99}),
        ("timeline_signal", points(kgsl, (99, 1))),
        ("timeline_destroy", {"id": 99}),
        ("timeline_fence", {"timeline": 99}),
    ):
        assert kgsl.error(name, **fields) == errno.ENODEV, name
    assert kgsl.error("timeline_signal", **points(kgsl)) == errno.EINVAL
    kgsl.call("timeline_destroy", id=one)
    assert kgsl.error("timeline_query", timeline=one) == errno.ENODEV
    other = Kgsl(kgsl.system)
    assert value(other, two) == 1 << 40 and other.error("timeline_destroy", id=two) == errno.EINVAL
    other.close()


def test_waits_for_timelines(kgsl: Kgsl) -> None:
    one, two = (kgsl.call("timeline_create")["id"] for _ in range(2))
    kgsl.call("timeline_signal", **points(kgsl, (one, 4)))
    both = points(kgsl, (one, 4), (two, 1))
    kgsl.call("timeline_wait", **both, flags=ANY)
    assert kgsl.error("timeline_wait", **both, flags=ALL) == errno.EBUSY, "no time to wait"
    before = time.monotonic()
    assert kgsl.error("timeline_wait", **both, flags=ALL, nsec=20_000_000) == errno.ETIMEDOUT
    assert time.monotonic() - before >= 0.02
    assert kgsl.error("timeline_wait", **both, flags=0) == errno.EINVAL
    assert kgsl.error("timeline_wait", **points(kgsl, (99, 1)), flags=ALL) == errno.ENODEV
    signal = points(kgsl, (two, 1))
    thread = threading.Timer(0.03, lambda: kgsl.call("timeline_signal", **signal))
    thread.start()
    kgsl.call("timeline_wait", **both, flags=ALL, sec=5)
    thread.join(5)


def test_fences_of_timelines(kgsl: Kgsl, fds: list[int]) -> None:
    timeline = kgsl.call("timeline_create")["id"]
    fds += [kgsl.call("timeline_fence", timeline=timeline, seqno=seqno)["handle"] for seqno in (0, 1, 2)]
    assert [polled(fd) for fd in fds] == [{"in"}, set(), set()]
    kgsl.call("timeline_signal", **points(kgsl, (timeline, 1)))
    assert [polled(fd) for fd in fds] == [{"in"}, {"in"}, set()]
    kgsl.call("timeline_destroy", id=timeline)
    assert polled(fds[2]) == {"in", "err"}, "what can never come is an error"
    assert errno_of(kgsl.call, "timeline_query", timeline=timeline) == "ENODEV"


def test_a_timeline_forgets_fences_that_were_closed(kgsl: Kgsl) -> None:
    timeline = kgsl.call("timeline_create")["id"]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        os.close(kgsl.call("timeline_fence", timeline=timeline, seqno=1)["handle"])
    assert [item.kind for item in kgsl.system.live_objects()].count("fence") == 0
    assert len(os.listdir("/proc/self/fd")) == before
    kgsl.call("timeline_signal", **points(kgsl, (timeline, 1)))
    padded = kgsl.pointer("QII", 1, timeline, 1)
    assert kgsl.error("timeline_signal", list=padded, count=1, elemsize=16) == errno.EINVAL


def test_a_file_is_no_fence(kgsl: Kgsl, fds: list[int]) -> None:
    fds += os.pipe()
    number = kgsl.alloc()
    for fd, expected in ((fds[0], errno.EINVAL), (1 << 20, errno.EBADF)):
        assert kgsl.error("free", id=number, flags=1, type=2, priv=kgsl.pointer("i", fd), len=4) == expected
    kgsl.call("free", id=number)
