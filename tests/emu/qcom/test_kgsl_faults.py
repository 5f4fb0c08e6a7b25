"""Faults in the emulated KGSL: recovery, EPROTO, invalidation, EDEADLK, reset status, reports."""

from __future__ import annotations

import errno
import struct

import pytest
from kgsl_client import (
    CONSUMED,
    FAULT_INFO,
    GPU_READ_ONLY,
    NO_FT,
    PAGE,
    PLAIN,
    QUEUED,
    RETIRED,
    Buffer,
    Kgsl,
    MakeKgsl,
    Stream,
    errno_of,
)

from hcqrt.emu.refusal import EmulatorRefusal

UNMAPPED = 0x50_0000_0000
GUILTY = 1
READ, WRITE, TRANSLATION, PERMISSION = 1, 2, 4, 8


def stamps(kgsl: Kgsl, context: int) -> list[int]:
    return [kgsl.stamp(context, kind) for kind in (CONSUMED, RETIRED, QUEUED)]


def reset_status(kgsl: Kgsl, context: int) -> int:
    return int(kgsl.property(9, "I", context)[0])


def test_a_page_fault_skips_the_command_and_is_told_once(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1, va=UNMAPPED), stream.write(2))
    kgsl.submit(context, stream.write(3, index=1))
    kgsl.system.resume()
    assert (stream.out[0], stream.out[1]) == (0, 3) and stamps(kgsl, context) == [2, 2, 2]
    assert errno_of(kgsl.wait, context, 1) == "EPROTO"
    kgsl.wait(context, 1)
    assert kgsl.submit(context, stream.write(4)) == 3 and stream.out[0] == 4
    assert reset_status(kgsl, context) == 0 and kgsl.system.stats()["faults"] == 1


def test_eproto_of_a_command_comes_with_its_work_done(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.write(1, va=UNMAPPED))
    fields = kgsl.command_fields(context, [stream.write(5)])
    buffer = Buffer(struct.pack("<QQIIQIIQIIII", 0, fields["cmdlist"], 32, 1, 0, 0, 0, 0, 0, 0, context, 77))
    assert errno_of(kgsl.file.ioctl, 0xC040094A, buffer.address) == "EPROTO"
    assert buffer.unpack("60xI") == (77,), "the timestamp is lost"
    assert stream.out[0] == 5 and stamps(kgsl, context) == [2, 2, 2]
    assert kgsl.submit(context, stream.write(6)) == 3


def test_other_contexts_do_not_notice(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.write(1, va=UNMAPPED))
    kgsl.submit(two, stream.write(2))
    kgsl.wait(two, 1)
    assert stream.out[0] == 2 and errno_of(kgsl.wait, one, 1) == "EPROTO"


@pytest.mark.parametrize("flag", [NO_FT, 0x10000000])
def test_contexts_without_tolerance_are_lost_at_once(kgsl: Kgsl, flag: int) -> None:
    stream, context = Stream(kgsl), kgsl.context(PLAIN | flag)
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1, va=UNMAPPED))
    kgsl.submit(context, stream.write(2))
    kgsl.system.resume()
    assert stream.out[0] == 0
    assert stamps(kgsl, context) == [2, 2, 2], "the trap: all of it counts as retired, and none of it ran"
    assert errno_of(kgsl.wait, context, 1) == "EDEADLK" and errno_of(kgsl.submit, context) == "EDEADLK"
    assert kgsl.stamp(context, QUEUED) == 2, "nothing was queued"
    assert [reset_status(kgsl, context) for _ in range(2)] == [GUILTY, 0], "reading clears it"
    assert errno_of(kgsl.wait, context, 1) == "EDEADLK", "it stays lost"
    other = kgsl.context()
    kgsl.submit(other, stream.write(3))
    assert stream.out[0] == 3
    kgsl.call("context_destroy", id=context)


def test_too_many_faults_in_a_row(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    for number in range(1, 4):
        kgsl.submit(context, stream.write(1, va=UNMAPPED))
        assert errno_of(kgsl.wait, context, number) == "EPROTO"
    kgsl.submit(context, stream.write(1, va=UNMAPPED))
    assert errno_of(kgsl.wait, context, 4) == "EDEADLK" and reset_status(kgsl, context) == GUILTY


def test_faults_far_apart_are_recovered_from(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(fault_window_ms=1, fault_burst=1)
    stream, context = Stream(kgsl), kgsl.context()
    now = [0]
    kgsl.system.clock_ns = lambda: now[0]  # type: ignore[method-assign]  # a clock that the test moves
    for number in range(1, 4):
        now[0] += 1_000_001
        kgsl.submit(context, stream.write(1, va=UNMAPPED))
        assert errno_of(kgsl.wait, context, number) == "EPROTO"
    kgsl.submit(context, stream.write(1, va=UNMAPPED))
    assert errno_of(kgsl.wait, context, 4) == "EDEADLK"


def test_a_wait_ends_when_its_context_is_lost(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context(PLAIN | NO_FT)
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1, va=UNMAPPED))
    kgsl.system.drivers[0].stall(False)
    assert errno_of(kgsl.wait, context, 1, 0) == "EDEADLK"


def test_a_command_that_takes_too_long_loses_its_context(make_kgsl: MakeKgsl) -> None:
    """The kernel's own timeout, which contexts without fault tolerance do not have (qcom.md §1.5)."""
    kgsl = make_kgsl()
    now = [0]
    kgsl.system.clock_ns = lambda: now[0]  # type: ignore[method-assign]  # a clock that the test moves
    stream, context, patient = Stream(kgsl), kgsl.context(), kgsl.context(PLAIN | NO_FT)
    for number in (context, patient):
        kgsl.submit(number, stream.wait(1, index=1))
        kgsl.submit(number, stream.write(5))
    assert stamps(kgsl, context) == [1, 0, 2]
    now[0] = 2_000_000_000
    assert stamps(kgsl, context) == [1, 0, 2]
    now[0] += 1
    assert stamps(kgsl, context) == [2, 2, 2] and stamps(kgsl, patient) == [1, 0, 2]
    assert errno_of(kgsl.wait, context, 1) == "EDEADLK" and reset_status(kgsl, context) == GUILTY
    assert "longer than 2000 ms" in kgsl.system.last_refusal
    assert stream.out[0] == 0
    stream.out[1] = 1
    kgsl.wait(patient, 2)
    assert stream.out[0] == 5 and kgsl.system.stats()["faults"] == 1


def test_time_in_the_queue_or_in_a_stall_does_not_count(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(ib_timeout_ms=20)
    stream, context, other = Stream(kgsl), kgsl.context(), kgsl.context(PLAIN | NO_FT)
    kgsl.submit(other, stream.wait(1, index=1))
    sync = kgsl.pointer("QQI4x", kgsl.pointer("II", other, 1), 8, 0)
    kgsl.submit(context, stream.write(5), synclist=sync, syncsize=24, numsyncs=1)
    assert errno_of(kgsl.wait, context, 1, 50) == "ETIMEDOUT", "sync points are waited for without a limit"
    kgsl.system.inject("stall")
    stream.out[1] = 1
    assert errno_of(kgsl.wait, context, 1, 50) == "ETIMEDOUT"
    kgsl.system.resume()
    kgsl.wait(context, 1)
    assert stream.out[0] == 5


def test_a_stall_starts_the_time_of_a_command_anew(kgsl: Kgsl) -> None:
    now = [0]
    kgsl.system.clock_ns = lambda: now[0]  # type: ignore[method-assign]  # a clock that the test moves
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.wait(1, index=1))
    assert stamps(kgsl, context) == [1, 0, 1]
    kgsl.system.inject("stall")
    now[0] = 5_000_000_000
    assert stamps(kgsl, context) == [1, 0, 1]
    kgsl.system.resume()
    assert stamps(kgsl, context) == [1, 0, 1]
    now[0] += 2_000_000_001
    assert stamps(kgsl, context) == [1, 1, 1]
    assert errno_of(kgsl.wait, context, 1) == "EDEADLK"


def test_a_lost_context_is_told_before_anything_is_checked(kgsl: Kgsl) -> None:
    context = kgsl.context()
    kgsl.system.inject("ioctl", "GPU_COMMAND", errno=errno.EDEADLK)
    assert kgsl.error("command", context=context) == errno.EDEADLK
    assert kgsl.error("command", **kgsl.command_fields(context, [(2, 16)])) == errno.EDEADLK


def test_refused_words_are_loud_when_strict(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl()
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.put([0x707F0001, 0]))
    with pytest.raises(EmulatorRefusal, match="0x7f"):
        kgsl.wait(context, 1)
    assert errno_of(kgsl.wait, context, 1) == "EDEADLK"
    lenient = make_kgsl(options={"strict": False})
    stream, context = Stream(lenient), lenient.context()
    lenient.submit(context, stream.put([0x707F0001, 0]))
    assert errno_of(lenient.wait, context, 1) == "EDEADLK" and len(lenient.system.refusals) == 1


def test_a_waiting_call_tells_of_refused_words(kgsl: Kgsl) -> None:
    """A wait without end must not hide that the GPU met something unknown."""
    stream, context, own = Stream(kgsl), kgsl.context(), kgsl.context(PLAIN | 0x80)
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.put([0x707F0001, 0]))
    kgsl.system.drivers[0].stall(False)
    with pytest.raises(EmulatorRefusal, match="0x7f"):
        kgsl.wait(own, 1, 0)


def context_faults(kgsl: Kgsl, context: int) -> tuple[int, int]:
    answer = Buffer(bytes(8))
    kgsl.property(0x28, "QIII4x", answer.address, 8, 1, context)
    count, stamp = answer.unpack("iI")
    return count, stamp


def test_the_fault_count_of_a_context(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    assert context_faults(kgsl, context) == (0, 0)
    for _ in range(2):
        kgsl.submit(context, stream.write(1))
        with pytest.raises(OSError, match="faulted"):
            kgsl.submit(context, stream.write(1, va=UNMAPPED))
            kgsl.submit(context)
    assert context_faults(kgsl, context) == (2, 5)


def report(kgsl: Kgsl, context: int) -> list[tuple[int, int]]:
    """(address, type) of every page fault, in the two passes of the header."""
    kinds = kgsl.call("fault_report", context=context)["faultnents"]
    entries = Buffer(bytes(24 * kinds))
    kgsl.call("fault_report", context=context, faultlist=entries.address, faultnents=kinds, faultsize=24)
    where, kind, count, _ = entries.unpack("QIII4x")
    assert where == 0
    if not count:
        return []
    assert kind == 1
    records = Buffer(bytes(32 * count))
    filled = Buffer(struct.pack("<QIII4x", records.address, kind, count, 32))
    kgsl.call("fault_report", context=context, faultlist=filled.address, faultnents=1, faultsize=24)
    return [struct.unpack_from("<Q16xI4x", records.raw, 32 * index) for index in range(count)]  # type: ignore[misc]


def test_the_report_of_page_faults(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context(PLAIN | FAULT_INFO)
    _, read_only, _ = kgsl.memory(PAGE, GPU_READ_ONLY)
    assert kgsl.error("fault_report", context=context) == errno.EINVAL, "it is for lost contexts"
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1, va=UNMAPPED))
    kgsl.submit(context, stream.copy(UNMAPPED + 64, stream.data_va))
    kgsl.submit(context, stream.write(1, va=read_only + 8))
    kgsl.submit(context, stream.write(1, va=UNMAPPED + 128))
    kgsl.system.resume()
    assert errno_of(kgsl.wait, context, 4) == "EDEADLK"
    assert report(kgsl, context) == [
        (UNMAPPED, WRITE | TRANSLATION),
        (UNMAPPED + 64, READ | TRANSLATION),
        (read_only + 8, WRITE | PERMISSION),
        (UNMAPPED + 128, WRITE | TRANSLATION),
    ]
    plain = kgsl.context(PLAIN | NO_FT)
    with pytest.raises(OSError, match="invalidated"):
        kgsl.submit(plain, stream.write(1, va=UNMAPPED))
        kgsl.submit(plain)
    assert kgsl.error("fault_report", context=plain) == errno.EINVAL, "it was made without FAULT_INFO"


def test_a_report_without_page_faults_is_empty(kgsl: Kgsl) -> None:
    context = kgsl.context(PLAIN | FAULT_INFO)
    kgsl.system.inject("ioctl", "GPU_COMMAND", errno=errno.EDEADLK)
    assert kgsl.error("command", context=context) == errno.EDEADLK
    assert report(kgsl, context) == []
    bad = Buffer(struct.pack("<QIII4x", 8, 2, 1, 32))
    fields = {"context": context, "faultlist": bad.address, "faultnents": 1, "faultsize": 24}
    assert kgsl.error("fault_report", **fields) == errno.EINVAL
