"""Field report 25: KGSL's error numbers, each on every call that can give it; and what dropped work leaves behind."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from words import entries, mem_write, nop, on_timeline

import hcqrt
from hcqrt.errors import DeviceFault, DriverError, HCQError

SUBMIT, WAIT = "IOCTL_KGSL_GPU_COMMAND", "IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID"
READ = "IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID"
UNMAPPED = 0xDEAD0000
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def buffer(qcom):
    with qcom.alloc(4096, cpu_access=True) as memory:
        memory.fill(0)
        yield memory


def words_at(buffer, index=0):
    return buffer.cpu_view().view(fmt="I").mv[index]


def store(dev, va, value):
    on_timeline(dev, *mem_write(va, value)).submit(dev)


@pytest.mark.parametrize("call", [SUBMIT, WAIT])
def test_25_eproto_raises_once_and_the_next_work_is_right(qcom, adreno, buffer, call):
    """The GPU faulted and was recovered since the last check. On submit the work was accepted all the same."""
    adreno.inject("ioctl", call, errno=errno.EPROTO)
    with pytest.raises(DeviceFault, match=r"results since the last check are suspect.*EPROTO.*kernel log \(kgsl\)"):
        store(qcom, buffer.va_addr, 1)
        qcom.synchronize()
    assert qcom.broken is None
    for value in range(2, 60):
        store(qcom, buffer.va_addr + 4 * value, value)
    qcom.synchronize()
    assert [words_at(buffer, index) for index in range(1, 60)] == [0, *range(2, 60)]
    assert words_at(buffer) == 1, "the submission that answered EPROTO had been taken"
    assert qcom.timeline_signal.value == qcom.timeline_value - 1


def test_25_the_timestamp_that_eproto_loses_is_asked_for(qcom, adreno, buffer):
    qcom.synchronize()
    adreno.inject("ioctl", SUBMIT, errno=errno.EPROTO)
    submitted = qcom.channel.submitted
    with pytest.raises(DeviceFault):
        store(qcom, buffer.va_addr, 1)
    assert qcom.channel.submitted == submitted + 1
    asked = [entry for entry in entries(adreno, "CMDSTREAM_READTIMESTAMP_CTXTID") if entry[4]["type"] == 3]
    assert len(asked) == 1 and asked[0][5]["timestamp"] == qcom.channel.last_timestamp


@pytest.mark.parametrize("call", [SUBMIT, WAIT, READ])
@pytest.mark.parametrize(("number", "words"), [("EDEADLK", "gave this context up"), ("ENOENT", "no longer knows this")])
def test_25_a_dead_context_is_sticky_and_reopening_works(adreno, call, number, words):
    dev = hcqrt.open_device("QCOM", adreno)
    buffer = dev.alloc(4096, cpu_access=True)
    dev.synchronize()
    adreno.inject("ioctl", call, errno=getattr(errno, number))
    with pytest.raises(DeviceFault, match=rf"{words}.*{number}.*open it again"):
        if call == READ:  # timestamps are read of work that does not end
            adreno.inject("stall")
        store(dev, buffer.va_addr, 1)
        dev.synchronize()
    adreno.resume()
    count = len(adreno.ioctl_log)
    for later in (dev.synchronize, lambda: store(dev, 0, 1), lambda: dev.alloc(64), dev.check_health):
        start = time.monotonic()
        with pytest.raises(DeviceFault, match=words):
            later()
        assert time.monotonic() - start < 0.05
    assert len(adreno.ioctl_log) == count, "later calls do not ask the driver again"
    start = time.monotonic()
    dev.close()
    assert time.monotonic() - start < 0.5 and adreno.live_objects() == []
    with hcqrt.open_device("QCOM", adreno) as again, again.alloc(64, cpu_access=True) as memory:
        store(again, memory.va_addr, 7)
        again.synchronize()
        assert words_at(memory) == 7


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN])
@pytest.mark.parametrize("call", [SUBMIT, WAIT])
def test_25_not_yet_is_no_error(qcom, adreno, buffer, call, number):
    adreno.inject("ioctl", call, errno=number, times=5)
    store(qcom, buffer.va_addr, 1)
    qcom.synchronize()
    assert words_at(buffer) == 1


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOMEM, errno.EIO, errno.EFAULT])
def test_25_every_other_number_is_an_error_that_names_the_call_and_nothing_was_submitted(qcom, adreno, buffer, number):
    qcom.synchronize()
    adreno.inject("ioctl", SUBMIT, errno=number)
    submitted = qcom.channel.submitted
    with pytest.raises(DriverError, match=rf"GPU_COMMAND on /dev/kgsl-3d0.*\[{errno.errorcode[number]}\]; context 1"):
        qcom.compute_queue().q(*mem_write(buffer.va_addr, 1)).submit(qcom)
    assert qcom.channel.submitted == submitted
    store(qcom, buffer.va_addr, 2)
    qcom.synchronize()
    assert words_at(buffer) == 2


def test_25_a_launch_that_the_driver_refuses_leaves_the_timeline_as_it_was(qcom, adreno):
    with qcom.alloc(64) as plain:
        adreno.inject("ioctl", SUBMIT, errno=errno.EINVAL)
        value = qcom.timeline_value
        with pytest.raises(DriverError):
            qcom.compute_queue().q(*nop(1)).submit(qcom)
        assert qcom.timeline_value == value
        plain.fill(1)
        assert plain.copyout() == b"\1" * 64


def test_errors_are_of_the_base_class(qcom, adreno):
    adreno.inject("ioctl", SUBMIT, errno=errno.EPROTO)
    with pytest.raises(HCQError):
        qcom.compute_queue().q(*nop(1)).submit(qcom)


@pytest.mark.parametrize(("status", "words"), [(1, "its own work"), (2, "somebody else's"), (3, "unknown reason")])
def test_every_reset_status_is_sticky_and_in_words(adreno, monkeypatch, status, words):
    dev = hcqrt.open_device("QCOM", adreno)
    dev.synchronize()
    monkeypatch.setattr(dev.kgsl, "reset_status", lambda context: status)
    adreno.inject("stall")
    store(dev, dev.flush_va, 1)
    for _ in range(2):
        with pytest.raises(DeviceFault, match=words):
            dev.check_health()
    adreno.resume()
    dev.close()


def test_a_call_that_the_driver_asks_to_repeat_is_repeated(qcom, adreno):
    adreno.inject("ioctl", "IOCTL_KGSL_GPUOBJ_ALLOC", errno=errno.EAGAIN, times=7)
    with qcom.alloc(3 << 12) as plain:
        plain.fill(1)


@pytest.mark.parametrize("call", [WAIT, READ])
def test_another_error_of_a_check_is_raised_once(qcom, adreno, buffer, call):
    qcom.synchronize()
    adreno.inject("stall")
    store(qcom, buffer.va_addr, 1)
    adreno.inject("ioctl", call, errno=errno.EIO)
    if call == WAIT:
        adreno.resume()
    with pytest.raises(DriverError, match="EIO"):
        qcom.check_health()
    adreno.resume()
    qcom.synchronize()
    assert qcom.broken is None and words_at(buffer) == 1
