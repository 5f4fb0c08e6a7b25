"""GPU_COMMAND of the emulated KGSL: what is checked, the queue, sync points, markers, profiling records."""

from __future__ import annotations

import errno
import struct
import threading
import time

import pytest
from kgsl_client import PAGE, PLAIN, QUEUED, RETIRED, Kgsl, MakeKgsl, Stream, errno_of

MARKER, PROFILING, SYNC_ONLY, IB_LIST = 0x2, 0x10, 0x400, 0x4
MEMOBJ, PROFILE = 8, 0x10


@pytest.mark.parametrize(
    ("va", "nbytes", "flags"),
    [
        (None, 0, 1),
        (None, 4 * 0x100000, 1),
        (None, 16, 0),
        (None, 16, 8),
        (2, 16, 1),
        (0x80_0000_0000, 16, 1),
        (0x7F_FFFF_FFF8, 16, 1),
        (0, 16, 1),
    ],
)
def test_bad_command_buffers(kgsl: Kgsl, va: int | None, nbytes: int, flags: int) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    fields = kgsl.command_fields(context, [(stream.va if va is None else va, nbytes)], flags)
    assert kgsl.error("command", **fields) == errno.EINVAL
    assert kgsl.stamp(context, QUEUED) == 0


def test_the_longest_command_buffer(kgsl: Kgsl) -> None:
    """0xFFFFF words, in a context that skips them: only the driver's checks are at work."""
    stream, context = Stream(kgsl), kgsl.context(PLAIN | 0x10000)
    assert kgsl.submit(context, (stream.va, 4 * 0xFFFFF)) == 1
    assert errno_of(kgsl.submit, context, (stream.va, 4 * 0x100000)) == "EINVAL"


def test_lists_that_are_half_there(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    good = kgsl.command_fields(context, [stream.write(1)])
    for change in ({"cmdlist": 0}, {"cmdsize": 0}, {"numobjs": 1}, {"objlist": 8}, {"objsize": 32}):
        assert kgsl.error("command", **good | change) == errno.EINVAL, change
    for change in ({"numcmds": 2001}, {"numobjs": 2001}, {"numsyncs": 33}):
        assert kgsl.error("command", **good | change) == errno.EINVAL, change
    assert kgsl.error("command", **good | {"cmdsize": 5000}) == errno.E2BIG
    assert kgsl.call("command", **good)["timestamp"] == 1


@pytest.mark.parametrize("flags", [1, 2, 4, 5])
def test_kinds_of_command_buffers(kgsl: Kgsl, flags: int) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.call("command", **kgsl.command_fields(context, [stream.write(9)], flags, flags=IB_LIST))
    assert stream.out[0] == 9 and kgsl.system.refusals == []


def test_a_switch_preamble_runs_after_a_switch_only(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    preamble = stream.write(1)

    def runs(context: int) -> bool:
        stream.out[0] = 0
        kgsl.call("command", **kgsl.command_fields(context, [preamble], 2))
        return bool(stream.out[0] == 1)

    assert [runs(one), runs(one), runs(two), runs(one)] == [True, False, True, True]


def test_buffers_of_one_command_run_in_order(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.write(1), stream.copy(stream.data_va, stream.data_va + 4), stream.write(2))
    assert (stream.out[0], stream.out[1]) == (2, 1)


def test_unknown_flags_are_reported(kgsl: Kgsl) -> None:
    kgsl.call("command", context=kgsl.context(), flags=1 << 40)
    assert kgsl.system.refusals == ["GPU_COMMAND flags 0x10000000000"]


def test_a_command_without_commands_is_a_marker(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.wait(1, index=1))
    assert kgsl.call("command", context=context)["timestamp"] == 2
    ignored = kgsl.command_fields(context, [(5, 5)], 0, flags=MARKER)
    assert kgsl.call("command", **ignored)["timestamp"] == 3, "a marker's lists are not looked at"
    assert kgsl.stamp(context) == 0
    stream.out[1] = 1
    kgsl.wait(context, 3)


# sync points


def sync_fields(kgsl: Kgsl, *points: tuple[int, str, tuple[int, ...]]) -> dict[str, int]:
    """Sync points as (type, layout, values)."""
    raw = b"".join(
        struct.pack("<QQI4x", kgsl.pointer(layout, *values), struct.calcsize("<" + layout), kind)
        for kind, layout, values in points
    )
    return {"synclist": kgsl.pointer(f"{len(raw)}s", raw), "syncsize": 24, "numsyncs": len(points)}


def on_stamp(kgsl: Kgsl, context: int, timestamp: int) -> dict[str, int]:
    return sync_fields(kgsl, (0, "II", (context, timestamp)))


def fence_of(kgsl: Kgsl, context: int, timestamp: int) -> int:
    target = kgsl.pointer("i", -1)
    kgsl.call("timestamp_event", type=2, context=context, timestamp=timestamp, priv=target, len=4)
    return int(struct.unpack("<i", kgsl.keep[-1].raw[:4])[0])


def test_a_timestamp_of_another_context(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.wait(1, index=1))
    kgsl.submit(two, stream.write(5), **on_stamp(kgsl, one, 1))
    assert stream.out[0] == 0 and kgsl.stamp(two) == 0 and kgsl.stamp(two, 1) == 0, "it has not begun"
    stream.out[1] = 1
    kgsl.wait(two, 1)
    assert stream.out[0] == 5


def test_timestamps_that_cannot_be_waited_for(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    for context, stamp in ((one, 1), (two, 1), (99, 0)):
        fields = kgsl.command_fields(one, [stream.write(1)], **on_stamp(kgsl, context, stamp))
        assert kgsl.error("command", **fields) == errno.EINVAL
    assert kgsl.error("command", context=one, **sync_fields(kgsl, (3, "I", (0,)))) == errno.EINVAL


def test_a_destroyed_context_holds_nobody_up(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(PLAIN | 0x80), kgsl.context()
    kgsl.submit(two, stream.write(5), **on_stamp(kgsl, one, 1000))
    assert stream.out[0] == 0, "a caller's own timestamps may be waited for ahead"
    kgsl.call("context_destroy", id=one)
    kgsl.wait(two, 1)
    assert stream.out[0] == 5


def test_sync_only_commands_have_no_timestamp(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.wait(1, index=1))
    assert kgsl.call("command", context=two, flags=SYNC_ONLY, **on_stamp(kgsl, one, 1))["timestamp"] == 0
    assert kgsl.call("command", context=two, timestamp=77, **on_stamp(kgsl, one, 1))["timestamp"] == 0
    assert kgsl.submit(two, stream.write(5)) == 1
    assert stream.out[0] == 0
    stream.out[1] = 1
    kgsl.wait(two, 1)
    assert kgsl.error("command", context=two, flags=SYNC_ONLY) == errno.EINVAL


def test_a_fence_as_sync_point(kgsl: Kgsl) -> None:
    import os

    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.wait(1, index=1))
    fd = fence_of(kgsl, one, 1)
    copy = os.dup(fd)
    os.close(fd)
    kgsl.submit(two, stream.write(5), **sync_fields(kgsl, (1, "i", (copy,))))
    os.close(copy)
    assert stream.out[0] == 0
    stream.out[1] = 1
    kgsl.wait(two, 1)
    assert stream.out[0] == 5
    fields = kgsl.command_fields(one, [stream.write(1)], **sync_fields(kgsl, (1, "i", (-1,))))
    assert kgsl.error("command", **fields) == errno.EINVAL


def test_a_timeline_as_sync_point(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    timeline = kgsl.call("timeline_create", seqno=3)["id"]
    value = kgsl.pointer("QI4x", 5, timeline)
    kgsl.submit(context, stream.write(5), **sync_fields(kgsl, (2, "QII", (value, 1, 16))))
    assert stream.out[0] == 0
    kgsl.call("timeline_signal", list=kgsl.pointer("QI4x", 4, timeline), count=1, elemsize=16)
    assert stream.out[0] == 0
    kgsl.call("timeline_signal", list=value, count=1, elemsize=16)
    assert stream.out[0] == 5
    kgsl.call("timeline_destroy", id=timeline)


# the queue


def test_a_full_queue_sleeps_and_gives_up(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(queue_timeout_ms=40)
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("stall")
    for value in range(1, 50):
        assert kgsl.submit(context, stream.write(value)) == value
    before = time.monotonic()
    assert errno_of(kgsl.submit, context, stream.write(50)) == "ETIMEDOUT"
    assert time.monotonic() - before >= 0.04 and kgsl.stamp(context, QUEUED) == 49
    other = kgsl.context()
    assert kgsl.submit(other, stream.write(1, index=1)) == 1, "each context has its own queue"
    kgsl.system.resume()
    assert stream.out[0] == 49 and kgsl.submit(context, stream.write(51)) == 50


def test_room_in_the_queue_wakes_the_caller(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(queue_depth=2)
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.wait(1, index=1))
    kgsl.submit(context, stream.write(5))
    store = threading.Timer(0.05, lambda: stream.out.__setitem__(1, 1))
    store.start()
    assert kgsl.submit(context, stream.write(6)) == 3
    store.join(5)
    kgsl.wait(context, 3)
    assert stream.out[0] == 6


def test_depth_of_newer_machines(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(queue_depth=126, queue_timeout_ms=1)
    context = kgsl.context()
    kgsl.system.inject("stall")
    for _ in range(126):
        kgsl.call("command", context=context)
    assert kgsl.error("command", context=context) == errno.ETIMEDOUT


# memory objects and profiling


def object_fields(kgsl: Kgsl, *entries: tuple[int, int, int, int, int]) -> dict[str, int]:
    """Objects as (offset, gpuaddr, size, flags, id)."""
    raw = b"".join(struct.pack("<QQQII", *entry) for entry in entries)
    return {"objlist": kgsl.pointer(f"{len(raw)}s", raw), "objsize": 32, "numobjs": len(entries)}


def test_a_profiling_record(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    number, va, view = kgsl.memory()
    entry = (64, va, PAGE, MEMOBJ | PROFILE, number)
    before_ns = time.time_ns()
    ticks_before = kgsl.system.clock_ns() * 12 // 625
    kgsl.submit(context, stream.wait(1, index=1), flags=PROFILING, **object_fields(kgsl, entry))
    time.sleep(0.005)
    stream.out[1] = 1
    kgsl.wait(context, 1)
    seconds, nanoseconds, queued, submitted, retired = struct.unpack_from("<5Q", view.mv, 64)
    assert before_ns <= seconds * 10**9 + nanoseconds <= time.time_ns() and nanoseconds < 10**9
    assert ticks_before <= queued <= submitted <= retired - 96_000, "5 ms are 96 000 ticks of 19.2 MHz"
    assert retired <= kgsl.system.clock_ns() * 12 // 625


def test_a_profiling_record_may_be_gone_by_then(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    number, va, view = kgsl.memory()
    entry = (0, va, PAGE, MEMOBJ | PROFILE, number)
    kgsl.submit(context, stream.wait(1, index=1), flags=PROFILING, **object_fields(kgsl, entry))
    kgsl.call("free", id=number)
    stream.out[1] = 1
    kgsl.wait(context, 1)
    queued, _, retired = struct.unpack_from("<3Q", view.mv, 16)
    assert queued and not retired
    kgsl.submit(context, stream.write(1), flags=PROFILING, **object_fields(kgsl, (0, va, PAGE, MEMOBJ | PROFILE, 99)))
    kgsl.wait(context, 2)


@pytest.mark.parametrize(("offset", "size", "by_id"), [(PAGE - 32, PAGE, True), (0, 2 * PAGE, True), (0, PAGE, False)])
def test_profiling_records_that_do_not_fit_are_ignored(kgsl: Kgsl, offset: int, size: int, by_id: bool) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    number, va, view = kgsl.memory()
    entry = (offset, va, size, MEMOBJ | PROFILE, number) if by_id else (0, va + PAGE - 32, 32, MEMOBJ | PROFILE, 0)
    kgsl.submit(context, stream.write(1), flags=PROFILING, **object_fields(kgsl, entry))
    assert stream.out[0] == 1 and not any(view.mv)


def test_profiling_needs_its_flag_and_objects_theirs(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    number, va, view = kgsl.memory()
    kgsl.submit(context, stream.write(1), **object_fields(kgsl, (0, va, PAGE, MEMOBJ | PROFILE, number)))
    kgsl.submit(context, stream.write(1), **object_fields(kgsl, (0, va, PAGE, MEMOBJ, number)))
    assert not any(view.mv)
    fields = kgsl.command_fields(context, [stream.write(1)], **object_fields(kgsl, (0, va, PAGE, PROFILE, number)))
    assert kgsl.error("command", **fields) == errno.EINVAL
    assert kgsl.stamp(context, RETIRED) == 2


def test_an_own_timestamp_belongs_to_markers_too(kgsl: Kgsl) -> None:
    context = kgsl.context(PLAIN | 0x80)
    assert kgsl.call("command", context=context, timestamp=7)["timestamp"] == 7
    assert kgsl.error("command", context=context, timestamp=7) == errno.ERANGE
