"""Contexts of the emulated KGSL: flags, limits, timestamps, waits, the memory that shows timestamps."""

from __future__ import annotations

import errno
import time

import pytest
from kgsl_client import (
    CONSUMED,
    FAULT_INFO,
    NO_GMEM,
    PAGE,
    PLAIN,
    PREAMBLE,
    QUEUED,
    RETIRED,
    USER_TS,
    Kgsl,
    MakeKgsl,
    Stream,
    errno_of,
)


def kept(kgsl: Kgsl, flags: int) -> int:
    return kgsl.call("context_create", flags=flags)["flags"]


@pytest.mark.parametrize("flags", [0, PREAMBLE, NO_GMEM, 0x40, 0x1])
def test_contexts_without_preamble_or_with_gmem_are_refused(kgsl: Kgsl, flags: int) -> None:
    assert kgsl.error("context_create", flags=flags) == errno.EINVAL


def test_flags_are_masked_and_written_back(kgsl: Kgsl) -> None:
    assert kept(kgsl, PLAIN) == PLAIN | 0x40 | 8 << 12
    assert kept(kgsl, PLAIN | 0x1) == PLAIN | 0x40 | 8 << 12, "SAVE_GMEM is not kept"
    everything = PLAIN | 0x80 | 0x200 | 0x800 | 3 << 12 | 0x10000 | 0x40000 | 2 << 20 | 0x10000000 | FAULT_INFO
    assert kept(kgsl, everything) == everything | 0x40
    assert kept(kgsl, PLAIN | 2 << 25) == PLAIN | 0x40 | 8 << 12, "no preemption here, so no style"
    assert kgsl.error("context_create", flags=PLAIN | 0x20000) == errno.EOPNOTSUPP
    assert kgsl.error("context_create", flags=PLAIN | 0x20000000) == errno.EOPNOTSUPP


def test_preemption_and_lpac_where_they_are(make_kgsl: MakeKgsl) -> None:
    assert kept(make_kgsl(preemption=True), PLAIN | 2 << 25) == PLAIN | 0x40 | 8 << 12 | 2 << 25
    assert kept(make_kgsl("a660"), PLAIN | 0x20000000) == PLAIN | 0x40 | 8 << 12 | 0x20000000


def test_limits(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl()
    first = [kgsl.context() for _ in range(200)]
    assert kgsl.error("context_create", flags=PLAIN) == errno.ENOSPC
    assert len(set(first)) == 200
    others = [Kgsl(kgsl.system) for _ in range(4)]
    for other in others[:3]:
        for _ in range(200):
            other.context()
    for _ in range(18):  # 8 pages of 40-byte records, of which the first is nobody's
        others[3].context()
    assert others[3].error("context_create", flags=PLAIN) == errno.ENOSPC
    kgsl.call("context_destroy", id=first[5])
    assert others[3].context() == first[5]
    for other in others:
        other.close()


def test_unknown_contexts(kgsl: Kgsl) -> None:
    context = kgsl.context()
    kgsl.call("context_destroy", id=context)
    for number in (0, context, 99):
        assert kgsl.error("context_destroy", id=number) == errno.EINVAL
        assert kgsl.error("waittimestamp", context=number) == errno.EINVAL
        assert kgsl.error("readtimestamp", context=number, type=RETIRED) == errno.EINVAL
        assert kgsl.error("command", context=number) == errno.EINVAL


def test_timestamps_count_per_context(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    assert [kgsl.stamp(one, kind) for kind in (CONSUMED, RETIRED, QUEUED)] == [0, 0, 0]
    assert [kgsl.submit(one, stream.write(value)) for value in (5, 6)] == [1, 2]
    assert kgsl.submit(two, stream.write(7)) == 1
    assert [kgsl.stamp(one, kind) for kind in (CONSUMED, RETIRED, QUEUED)] == [2, 2, 2]
    assert kgsl.error("readtimestamp", context=one, type=0) == errno.EINVAL
    assert kgsl.error("readtimestamp", context=one, type=4) == errno.EINVAL


def test_work_that_waits_is_consumed_and_not_retired(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.wait(3, index=1))
    kgsl.submit(one, stream.write(8))
    assert [kgsl.stamp(one, kind) for kind in (CONSUMED, RETIRED, QUEUED)] == [1, 0, 2]
    kgsl.submit(two, stream.write(9, index=2))
    assert stream.out[2] == 9 and stream.out[0] == 0, "another context goes on"
    before = time.monotonic()
    assert errno_of(kgsl.wait, one, 2, 30) == "ETIMEDOUT" and time.monotonic() - before >= 0.03
    stream.out[1] = 3
    kgsl.wait(one, 2)
    assert stream.out[0] == 8 and [kgsl.stamp(one, kind) for kind in (CONSUMED, RETIRED, QUEUED)] == [2, 2, 2]


def test_a_context_can_wait_for_another(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.wait(1, index=1), stream.write(8))
    kgsl.submit(two, stream.write(1, index=1))
    kgsl.wait(one, 1, 0)
    assert stream.out[0] == 8


def test_waits_for_what_was_not_handed_out(kgsl: Kgsl) -> None:
    context, own = kgsl.context(), kgsl.context(PLAIN | USER_TS)
    assert kgsl.error("waittimestamp", context=context, timestamp=1, timeout=1) == errno.EINVAL
    assert kgsl.error("waittimestamp", context=own, timestamp=1, timeout=1) == errno.ETIMEDOUT
    kgsl.wait(context, 0)
    kgsl.wait(context, 0xFFFFFFFF)  # just behind 0


@pytest.mark.parametrize("timeout", [0, 1 << 31, 0xFFFFFFFF])
def test_timeouts_that_are_none(kgsl: Kgsl, timeout: int) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.write(1))
    kgsl.wait(context, 1, timeout)


def test_own_timestamps_must_grow(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context(PLAIN | USER_TS)
    assert kgsl.submit(context, stream.write(1), timestamp=10) == 10
    for stale in (10, 9, 0x8000000B):
        assert errno_of(kgsl.submit, context, stream.write(2), timestamp=stale) == "ERANGE"
    assert stream.out[0] == 1 and kgsl.stamp(context) == 10
    assert kgsl.submit(context, stream.write(3), timestamp=0x80000009) == 0x80000009
    assert kgsl.submit(context, stream.write(3), timestamp=5) == 5, "it wrapped"
    kgsl.wait(context, 0x80000009)
    assert kgsl.stamp(context) == 5


def test_a_destroyed_context_drops_its_work(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.wait(1, index=1), stream.write(8))
    kgsl.call("context_destroy", id=context)
    stream.out[1] = 1
    kgsl.submit(kgsl.context(), stream.write(2, index=2))
    assert (stream.out[0], stream.out[2]) == (0, 2)


def test_the_memstore_shows_timestamps(kgsl: Kgsl) -> None:
    cookie, size, flags = kgsl.property(2, "QQI4x")
    assert size == 8 * PAGE and flags == 0x204
    assert errno_of(kgsl.file.mmap, size, cookie) == "EPERM"
    assert errno_of(kgsl.file.mmap, PAGE, cookie, writable=False) == "EINVAL"
    view = kgsl.file.mmap(size, cookie, writable=False)
    kgsl.maps.append(view)
    words = view.view(fmt="I")
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.write(1))
    kgsl.submit(context, stream.wait(1, index=1))
    record = context * 40 // 4
    assert (words[record], words[record + 2]) == (2, 1)
    stream.out[1] = 1
    kgsl.wait(context, 2)
    assert words[record + 2] == 2


def test_nops_of_a_dry_run(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context(PLAIN | 0x10000)
    assert kgsl.submit(context, stream.write(5)) == 1
    kgsl.wait(context, 1)
    assert stream.out[0] == 0 and kgsl.stamp(context) == 1
