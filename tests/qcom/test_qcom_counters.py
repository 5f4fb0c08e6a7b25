"""Counters of 32 bits: progress and timeline where they start over, and what other signals may hold."""

from __future__ import annotations

import threading
import time

import pytest
from words import mem_write, on_timeline

from hcqrt import Variable


@pytest.fixture
def buffer(qcom):
    with qcom.alloc(4096, cpu_access=True) as memory:
        memory.fill(0)
        yield memory


def set_counters(dev, value):
    """As after so many launches."""
    dev.synchronize()
    channel = dev.channel
    channel.submitted = channel._full_at = value
    channel.progress.value = value
    dev.timeline_signal.value, dev.timeline_value = value, value + 1
    channel._make_room()


def test_progress_and_timeline_go_on_where_their_32_bits_start_over(qcom, adreno, buffer):
    set_counters(qcom, (1 << 32) - 6)
    for index in range(12):
        on_timeline(qcom, *mem_write(buffer.va_addr + 4 * index, index + 1)).submit(qcom)
    qcom.synchronize()
    assert list(buffer.cpu_view().view(fmt="I").mv[:12]) == list(range(1, 13))
    assert qcom.timeline_value > 1 << 32 and qcom.timeline_signal.value == qcom.timeline_value - 1
    assert qcom.channel.submitted > 1 << 32 and qcom.channel.retired == qcom.channel.submitted
    with qcom.alloc(100) as plain:
        plain.fill(9)
        assert plain.copyout() == b"\x09" * 100


def test_nothing_is_in_flight_where_the_counters_start_over(qcom, adreno, buffer):
    set_counters(qcom, (1 << 32) - 3)
    gate = qcom.new_signal()
    qcom.compute_queue().wait(gate, 1).q(*mem_write(buffer.va_addr, 1)).submit(qcom)
    qcom.compute_queue().q(*mem_write(buffer.va_addr + 4, 2)).submit(qcom)
    threading.Timer(0.2, setattr, (gate, "value", 1)).start()
    start = time.monotonic()
    qcom.compute_queue().q(*mem_write(buffer.va_addr + 8, 3)).submit(qcom)
    assert time.monotonic() - start > 0.1, "it waited for the two before"
    qcom.channel.wait_progress(qcom.channel.submitted)
    assert list(buffer.cpu_view().view(fmt="I").mv[:3]) == [1, 2, 3]


def test_a_bound_queue_goes_over_the_wrap(qcom, buffer):
    value, out = Variable("value"), Variable("out")
    queue = qcom.compute_queue().wait(qcom.timeline_signal, value - 1)
    queue.q(0x703D8003, out & 0xFFFF_FFFF, out >> 32, 5).signal(qcom.timeline_signal, value).bind(qcom)
    set_counters(qcom, (1 << 32) - 4)
    for index in range(9):
        queue.submit(qcom, {value: qcom.next_timeline(), out: buffer.va_addr + 4 * index})
    qcom.synchronize()
    assert list(buffer.cpu_view().view(fmt="I").mv[:10]) == [5] * 9 + [0]
    queue.close()


def test_signals_hold_32_bits(qcom):
    assert qcom.signal_bits == 32
    signal = qcom.new_signal((1 << 32) - 1)
    for refused in (lambda: qcom.new_signal(1 << 32), lambda: setattr(signal, "value", 1 << 32)):
        with pytest.raises(ValueError, match="32-bit"):
            refused()
    signal.value = 0
    with pytest.raises(ValueError, match="32-bit"):
        signal.wait(1 << 32, timeout_ms=10)
    for queue in (qcom.compute_queue().signal(signal, 1 << 32), qcom.compute_queue().wait(signal, 1 << 32)):
        with pytest.raises(ValueError, match="32 bits"):
            queue.submit(qcom)
    qcom.compute_queue().signal(signal, (1 << 32) - 1).submit(qcom)
    signal.wait((1 << 32) - 1, timeout_ms=5000)
    assert signal.value == (1 << 32) - 1


@pytest.mark.parametrize("left", [0, 1, 2, 3, 4])
def test_a_bound_queue_in_flight_goes_over_the_wrap(qcom, buffer, left):
    """Running it again takes two buffers, of which only the second stores the progress."""
    gate = qcom.new_signal()
    queue = qcom.compute_queue().wait(gate, 1).q(*mem_write(buffer.va_addr, 3)).bind(qcom)
    set_counters(qcom, (1 << 32) - 1 - left)
    queue.submit(qcom)
    threading.Timer(0.05, setattr, (gate, "value", 1)).start()
    for _ in range(4):
        queue.submit(qcom)
    qcom.channel.wait_progress(qcom.channel.submitted)
    assert buffer.cpu_view().view(fmt="I").mv[0] == 3 and qcom.channel.submitted > 1 << 32
    queue.close()


def test_the_timeline_starts_over_only_when_all_before_is_done(qcom):
    set_counters(qcom, (1 << 32) - 2)
    gate, value = qcom.new_signal(), qcom.next_timeline()
    assert value == (1 << 32) - 1
    qcom.compute_queue().wait(gate, 1).signal(qcom.timeline_signal, value).submit(qcom)
    threading.Timer(0.2, setattr, (gate, "value", 1)).start()
    start = time.monotonic()
    assert qcom.next_timeline() == (1 << 32) + 1
    assert time.monotonic() - start > 0.1
    assert qcom.timeline_signal.value == 1 << 32
    qcom.timeline_value = (1 << 32) + 1  # nobody submits what was claimed
