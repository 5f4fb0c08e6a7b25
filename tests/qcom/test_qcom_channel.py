"""Submitting: what the ioctl gets, long queues, full queues, wrap-around of 32-bit counters, waiting."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import threading
import time

import pytest
from words import entries, mem_write, nop, on_timeline

import hcqrt
from hcqrt.core import signal as core_signal
from hcqrt.errors import HCQError, SignalTimeout

RELEASE_BYTES = 24  # WAIT_FOR_IDLE and CACHE_FLUSH_TS with address and value: 6 words


def small_ring(adreno, **settings):
    from hcqrt.config import Config

    config = dataclasses.replace(Config(), cmd_bytes=16 << 10, wait_timeout_ms=20_000, **settings)
    return hcqrt.open_device("QCOM", adreno, config=config)  # segments of 1 KiB


def submissions(system):
    return entries(system, "GPU_COMMAND")


@pytest.fixture
def buffer(qcom):
    with qcom.alloc(4096, cpu_access=True) as memory:
        memory.fill(0)
        yield memory


def test_one_submission_is_one_indirect_buffer_of_its_words_and_the_progress(qcom, adreno, buffer):
    before = len(submissions(adreno))
    qcom.compute_queue().q(*mem_write(buffer.va_addr, 77)).submit(qcom)
    [entry] = submissions(adreno)[before:]
    sent = entry[4]
    assert (sent["numcmds"], sent["cmdsize"], sent["numobjs"], sent["numsyncs"]) == (1, 32, 0, 0)
    assert sent["flags"] == 1, "the command object's, an indirect buffer"
    assert sent["size"] == 4 * 4 + RELEASE_BYTES and sent["gpuaddr"] % 4 == 0
    assert sent["context_id"] == qcom.channel.context
    qcom.channel.wait_progress(qcom.channel.submitted)
    assert buffer.cpu_view().view(fmt="I").mv[0] == 77


def test_every_submission_uses_the_same_structs(qcom, adreno):
    queue = qcom.compute_queue().q(*nop(3))
    for _ in range(20):
        queue.submit(qcom)
    qcom.channel.wait_progress(qcom.channel.submitted)
    assert len({entry[4]["cmdlist"] for entry in submissions(adreno)}) == 1
    stamps = [entry[5]["timestamp"] for entry in submissions(adreno)]
    assert stamps == list(range(1, len(stamps) + 1))


def test_a_long_queue_is_split_between_packets(adreno):
    with small_ring(adreno) as dev, dev.alloc(4096, cpu_access=True) as memory:
        dev.synchronize()
        before = len(submissions(adreno))
        queue = dev.compute_queue()
        for index in range(200):
            queue.q(*nop(index % 15)).q(*mem_write(memory.va_addr + 4 * index, index + 1))
        queue.submit(dev)
        dev.channel.wait_progress(dev.channel.submitted)
        sizes = [entry[4]["size"] for entry in submissions(adreno)[before:]]
        assert len(sizes) > 8 and max(sizes) <= 1024
        assert sum(sizes) == 4 * len(queue.words) + RELEASE_BYTES * len(sizes)
        assert list(memory.cpu_view().view(fmt="I").mv[:200]) == list(range(1, 201))


def test_a_packet_that_does_not_fit_is_refused_before_anything_runs(adreno):
    with small_ring(adreno) as dev:
        dev.synchronize()
        before = len(submissions(adreno))
        queue = dev.compute_queue().q(*nop(3)).q(0x7010_0000 | 300 | (1 ^ (300).bit_count() & 1) << 15, *[0] * 300)
        with pytest.raises(ValueError, match=r"300 words does not fit.*HCQRT_CMD_BYTES"):
            queue.submit(dev)
        with pytest.raises(ValueError, match="no packet header"):
            dev.compute_queue().q(*[0x12345678] * 400).submit(dev)
        assert len(submissions(adreno)) == before


def test_a_bound_queue_has_at_most_what_one_indirect_buffer_holds(qcom):
    words = nop(15)
    most = 0xFFFFF - 6
    queue = qcom.compute_queue().q(*words * (most // 16), *nop(most % 16 - 1))
    assert len(queue.words) == most
    queue.bind(qcom).submit(qcom)
    qcom.channel.wait_progress(qcom.channel.submitted)
    queue.close()
    with pytest.raises(ValueError, match=str(most)):
        qcom.compute_queue().q(*words * (most // 16), *nop(most % 16 - 1), *nop(0)).bind(qcom)


def test_at_most_48_submissions_are_outstanding(qcom, adreno, buffer):
    qcom.synchronize()
    adreno.inject("stall")
    queue = qcom.compute_queue().q(*nop(1))
    before = len(submissions(adreno))
    qcom.wait_timeout_ms = 50
    with pytest.raises(SignalTimeout, match="stuck"):
        for _ in range(100):
            queue.submit(qcom)
    assert len(submissions(adreno)) - before == 48
    adreno.resume()
    qcom.wait_timeout_ms = 20_000
    for index in range(200):
        qcom.compute_queue().q(*mem_write(buffer.va_addr, index)).submit(qcom)
    qcom.channel.wait_progress(qcom.channel.submitted)
    assert buffer.cpu_view().view(fmt="I").mv[0] == 199


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR])
def test_25_a_full_driver_queue_is_tried_again(qcom, adreno, buffer, number):
    """Field report 25: ETIMEDOUT is "not yet": the driver's queue was full for 10 s, nothing was taken."""
    adreno.inject("ioctl", "IOCTL_KGSL_GPU_COMMAND", errno=number, times=3)
    on_timeline(qcom, *mem_write(buffer.va_addr, 5)).submit(qcom)
    qcom.synchronize()
    assert buffer.cpu_view().view(fmt="I").mv[0] == 5
    assert [entry[6] for entry in submissions(adreno)[-4:]] == [number] * 3 + [0]


def test_a_driver_queue_that_stays_full_ends_in_a_timeout(qcom, adreno):
    qcom.synchronize()
    qcom.wait_timeout_ms = 100
    adreno.inject("ioctl", "IOCTL_KGSL_GPU_COMMAND", errno=errno.ETIMEDOUT, times=1_000_000)
    submitted = qcom.channel.submitted
    with pytest.raises(
        SignalTimeout, match=r"takes no more work \[ETIMEDOUT\], waited \d+\.\d s with 0 submissions in flight"
    ):
        qcom.compute_queue().q(*nop(1)).submit(qcom)
    assert qcom.channel.submitted == submitted
    adreno.rules.drop("ioctl")


@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_around_the_ioctl_counts_what_the_driver_took(qcom, after):
    qcom.synchronize()
    channel, ioctl = qcom.channel, qcom.channel._ioctl
    submitted = channel.submitted

    def interrupted(request, argument):
        if after:
            ioctl(request, argument)
        raise KeyboardInterrupt

    channel._ioctl = interrupted
    with pytest.raises(KeyboardInterrupt):
        qcom.compute_queue().q(*nop(1)).submit(qcom)
    channel._ioctl = ioctl
    assert channel.submitted == submitted + after
    channel.wait_progress(channel.submitted)


# bound queues


def test_a_bound_queue_runs_again_while_it_is_in_flight(qcom, adreno, buffer):
    gate = qcom.new_signal()
    queue = qcom.compute_queue().wait(gate, 1).q(*mem_write(buffer.va_addr, 3)).bind(qcom)
    marks = []
    for _ in range(3):
        queue.submit(qcom)
        marks.append(qcom.channel.submitted)
    assert qcom.channel.retired < marks[0]
    gate.value = 1
    qcom.channel.wait_progress(marks[2])
    assert buffer.cpu_view().view(fmt="I").mv[0] == 3
    queue.close()


def test_a_bound_queue_that_runs_again_is_one_submission_each(qcom, adreno, buffer):
    """The driver retires every submission: one that stores no progress would look like work that it dropped."""
    gate, before = qcom.new_signal(), len(submissions(adreno))
    queue = qcom.compute_queue().wait(gate, 1).q(*mem_write(buffer.va_addr, 3)).bind(qcom)
    for _ in range(3):
        queue.submit(qcom)
    assert [call[4]["numcmds"] for call in submissions(adreno)[before:]] == [1, 2, 2]
    assert qcom.channel.submitted == len(submissions(adreno))
    gate.value = 1
    qcom.channel.wait_progress(qcom.channel.submitted)
    queue.submit(qcom)  # not in flight: its own words store the progress
    assert submissions(adreno)[-1][4]["numcmds"] == 1
    queue.close()


def test_health_checks_while_a_bound_queue_runs_again_and_again_find_no_fault(machine):
    """With a GPU of its own thread, which may stand between any two of its steps when the driver is asked."""
    system = machine((), qcom="a630", threads=2)
    with hcqrt.open_device("QCOM", system) as dev:
        queue = dev.compute_queue().memory_barrier().bind(dev)
        for _ in range(200):
            for _ in range(3):
                queue.submit(dev)
            while dev.channel.retired < dev.channel.submitted:
                dev.check_health()
        queue.close()
    system.close()


# waiting


def test_a_long_wait_sleeps_in_the_driver_a_little_at_a_time(qcom, adreno, monkeypatch):
    monkeypatch.setattr(core_signal, "SPINS_BEFORE_DRIVER", 10)
    done = qcom.new_signal()
    qcom.compute_queue().wait(done, 1).signal(done, 2).submit(qcom)
    threading.Timer(0.1, setattr, (done, "value", 1)).start()
    done.wait(2, timeout_ms=5000)
    waits = entries(adreno, "DEVICE_WAITTIMESTAMP_CTXTID")
    assert waits and all(1 <= entry[4]["timeout"] <= 10 for entry in waits)


def test_a_wait_with_nothing_in_flight_does_not_ask_the_driver_to_sleep(qcom, adreno, monkeypatch):
    monkeypatch.setattr(core_signal, "SPINS_BEFORE_DRIVER", 10)
    qcom.synchronize()
    before = len(entries(adreno, "DEVICE_WAITTIMESTAMP_CTXTID"))
    with pytest.raises(SignalTimeout):
        qcom.new_signal().wait(1, timeout_ms=50)
    assert len(entries(adreno, "DEVICE_WAITTIMESTAMP_CTXTID")) == before


def test_a_timeout_names_the_wait_and_the_device_goes_on(qcom, adreno):
    qcom.synchronize()
    adreno.inject("stall")
    on_timeline(qcom, *nop(1)).submit(qcom)
    with pytest.raises(SignalTimeout, match=r"timeline stuck at 0, waited \d+\.\d s for 1.*kernel log \(kgsl\)"):
        qcom.synchronize(100)
    adreno.resume()
    qcom.synchronize()


def test_a_queue_of_another_device_is_refused(qcom, machine):
    with hcqrt.open_device("QCOM", machine((), qcom="a630")) as other, pytest.raises(HCQError, match="cannot go to"):
        qcom.compute_queue().q(*nop(1)).submit(other)


@pytest.mark.parametrize("name", ["signal", "wait"])
def test_a_signal_of_another_device_is_refused(qcom, machine, name):
    """Its address is one of ours too, and some other signal's."""
    with hcqrt.open_device("QCOM", machine((), qcom="a630")) as other:
        foreign, own = other.new_signal(), qcom.new_signal()
        assert foreign.value_va == own.value_va
        with pytest.raises(HCQError, match=r"another device \(QCOM:0\), which QCOM:0 cannot reach"):
            getattr(qcom.compute_queue(), name)(foreign, 1)


@pytest.mark.parametrize("spins", [10, 1_000_000])
def test_9_ctrl_c_ends_a_wait(qcom, monkeypatch, spins):
    """Field report 9: Ctrl-C interrupts a wait, also one that sleeps in the driver."""
    monkeypatch.setattr(core_signal, "SPINS_BEFORE_DRIVER", spins)
    never = qcom.new_signal()
    qcom.compute_queue().wait(never, 1).submit(qcom)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        never.wait(1)
    assert time.monotonic() - start < 0.6
    never.value = 1


def test_10_a_ring_of_16_entries_holds_at_most_15(adreno):
    """Field report 10: hang after many submissions."""
    with small_ring(adreno, ring_entries=16) as dev, dev.alloc(64, cpu_access=True) as memory:
        dev.synchronize()
        adreno.inject("stall")
        before = len(submissions(adreno))
        dev.wait_timeout_ms = 50
        with pytest.raises(SignalTimeout):
            for _ in range(20):
                dev.compute_queue().q(*nop(1)).submit(dev)
        assert len(submissions(adreno)) - before == 15
        adreno.resume()
        dev.wait_timeout_ms = 20_000
        for index in range(2000):
            on_timeline(dev, *mem_write(memory.va_addr, index)).submit(dev)
        dev.synchronize()
        assert memory.cpu_view().view(fmt="I").mv[0] == 1999


def test_work_runs_on_a_machine_whose_gpu_is_a_thread_of_its_own(machine):
    system = machine((), qcom="a630", threads=2)
    with hcqrt.open_device("QCOM", system) as dev, dev.alloc(4096, cpu_access=True) as memory:
        for index in range(300):
            on_timeline(dev, *mem_write(memory.va_addr + 4 * (index % 1024), index + 1)).submit(dev)
        dev.synchronize()
        assert list(memory.cpu_view().view(fmt="I").mv[:300]) == list(range(1, 301))
    system.close()


def test_ctrl_c_while_a_full_queue_is_tried_again_counts_what_the_driver_took(qcom, adreno):
    qcom.synchronize()
    channel, ioctl = qcom.channel, qcom.channel._ioctl
    submitted, calls = channel.submitted, []

    def full_then_interrupted(request, argument):
        calls.append(request)
        if len(calls) == 1:
            raise OSError(errno.ETIMEDOUT, "full")
        ioctl(request, argument)
        raise KeyboardInterrupt

    channel._ioctl = full_then_interrupted
    with pytest.raises(KeyboardInterrupt):
        qcom.compute_queue().q(*nop(1)).submit(qcom)
    channel._ioctl = ioctl
    assert channel.submitted == submitted + 1
    channel.wait_progress(channel.submitted)
