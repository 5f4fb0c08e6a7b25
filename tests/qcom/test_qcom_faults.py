"""After a GPU fault: dropped work is noticed, what is behind it goes on, a context that was given up stays so."""

from __future__ import annotations

import errno
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from words import mem_write, on_timeline

import hcqrt
from hcqrt.errors import DeviceFault, DriverError, SignalTimeout
from hcqrt.qcom import device as qcom_device

UNMAPPED = 0xDEAD0000
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tolerant(monkeypatch):
    """Contexts that the driver recovers, as on kernels that refuse the flag against it."""
    monkeypatch.setattr(qcom_device, "CONTEXT_FLAGS", qcom_device.CONTEXT_FLAGS & ~0x200)


@pytest.fixture
def buffer(qcom):
    with qcom.alloc(4096, cpu_access=True) as memory:
        memory.fill(0)
        yield memory


def words_at(buffer, index=0):
    return buffer.cpu_view().view(fmt="I").mv[index]


def store(dev, va, value):
    on_timeline(dev, *mem_write(va, value)).submit(dev)


def test_8_the_first_fault_is_sticky_and_says_where_and_in_what(adreno):
    """Field report 8: "wait timeout" and nothing else."""
    dev = hcqrt.open_device("QCOM", adreno)
    dev.last_launch = "matmul_128"
    store(dev, UNMAPPED, 1)
    start = time.monotonic()
    with pytest.raises(DeviceFault) as error:
        dev.synchronize()
    assert time.monotonic() - start < 2
    text = str(error.value)
    for part in ("QCOM:0", "KGSL 3.14", "write of 0xdead0000", "below every allocation", "last launch: matmul_128",
                 "kernel log (kgsl)", "open it again"):  # fmt: skip
        assert part in text, text
    assert dev.timeline_signal.value < dev.timeline_value - 1
    with pytest.raises(DeviceFault, match="write of 0xdead0000"):
        store(dev, UNMAPPED, 1)
    dev.close()
    assert adreno.live_objects() == []


def test_a_wait_for_the_host_may_take_longer_than_the_driver_s_limit(adreno_machine):
    system = adreno_machine(ib_timeout_ms=50)
    with hcqrt.open_device("QCOM", system) as dev:
        gate = dev.new_signal()
        dev.compute_queue().wait(gate, 1).signal(gate, 2).submit(dev)
        threading.Timer(0.3, setattr, (gate, "value", 1)).start()
        gate.wait(2, timeout_ms=5000)


@pytest.mark.usefixtures("tolerant")
def test_a_recovered_fault_raises_once_though_its_work_was_dropped(qcom, buffer):
    """The driver retires the timestamp of work that it dropped: the timeline would never come."""
    store(qcom, UNMAPPED, 1)
    start = time.monotonic()
    with pytest.raises(DeviceFault, match=r"QCOM:0 \(.*KGSL 3\.14\): the GPU faulted and was recovered.*context: 1,"):
        qcom.synchronize()
    assert time.monotonic() - start < 2
    assert qcom.channel.retired == qcom.channel.submitted, "nothing waits for what will never be stored"
    qcom.synchronize()
    store(qcom, buffer.va_addr, 5)
    qcom.synchronize()
    assert words_at(buffer) == 5 and qcom.channel.retired == qcom.channel.submitted


@pytest.mark.usefixtures("tolerant")
def test_a_fault_that_a_submission_told_of_is_not_told_again(qcom, buffer):
    store(qcom, UNMAPPED, 1)
    with pytest.raises(DeviceFault, match="EPROTO"):
        store(qcom, buffer.va_addr, 5)
    qcom.synchronize()
    assert words_at(buffer) == 5 and qcom.timeline_signal.value == qcom.timeline_value - 1


def test_the_driver_is_asked_once_for_each_piece_of_work(qcom, adreno):
    qcom.synchronize()
    count = len(adreno.ioctl_log)
    qcom.synchronize()
    assert len(adreno.ioctl_log) == count


@pytest.mark.usefixtures("tolerant")
def test_work_behind_a_dropped_submission_goes_on(qcom, adreno, buffer):
    qcom.synchronize()
    adreno.inject("stall")
    store(qcom, UNMAPPED, 1)
    for index in range(5):
        store(qcom, buffer.va_addr + 4 * index, index + 1)  # each waits for the timeline value of the one before
    adreno.resume()
    with pytest.raises(DeviceFault, match="suspect"):
        qcom.synchronize()
    qcom.synchronize()
    assert [words_at(buffer, index) for index in range(5)] == [1, 2, 3, 4, 5]
    assert qcom.timeline_signal.value == qcom.timeline_value - 1


@pytest.mark.usefixtures("tolerant")
def test_a_fault_without_the_timeline_is_seen_by_the_next_synchronize(qcom):
    qcom.compute_queue().q(*mem_write(UNMAPPED, 1)).submit(qcom)
    with pytest.raises(DeviceFault, match="suspect"):
        qcom.synchronize()
    qcom.synchronize()


@pytest.mark.usefixtures("tolerant")
def test_a_fault_is_seen_though_the_driver_gives_no_mark(adreno_machine):
    """A kernel whose waits never say EPROTO: the dword that was not stored tells it."""
    system = adreno_machine()
    with hcqrt.open_device("QCOM", system) as dev:
        dev.synchronize()
        kgsl, wait = dev.kgsl, dev.kgsl.wait_timestamp
        store(dev, UNMAPPED, 1)
        try:
            wait(dev.channel.context, dev.channel.last_timestamp, 100)
        except DriverError as error:
            assert error.errno == errno.EPROTO  # taken away before the device asks
        assert kgsl.read_timestamp(dev.channel.context, 2) == dev.channel.last_timestamp
        with pytest.raises(DeviceFault, match="work was dropped"):
            dev.synchronize()
        dev.synchronize()


def fault_until_dead(dev):
    for _ in range(10):
        try:
            store(dev, UNMAPPED, 1)
            dev.synchronize()
        except DeviceFault:
            if dev.broken is not None:
                return
    raise AssertionError("four faults within three seconds make the driver give a context up")


@pytest.mark.usefixtures("tolerant")
def test_the_fourth_fault_is_sticky_and_says_where(adreno):
    dev = hcqrt.open_device("QCOM", adreno)
    dev.last_launch = "matmul_128"
    fault_until_dead(dev)
    with pytest.raises(DeviceFault) as error:
        dev.synchronize()
    text = str(error.value)
    for part in ("QCOM:0", "KGSL 3.14", "write of 0xdead0000", "below every allocation", "last launch: matmul_128",
                 "faults of this context: 4", "kernel log (kgsl)", "open it again"):  # fmt: skip
        assert part in text, text
    dev.close()
    assert adreno.live_objects() == []


@pytest.mark.usefixtures("tolerant")
def test_retired_timestamps_alone_are_never_success(adreno):
    """A context that the driver gave up retires everything: waits must not take that for work done."""
    dev = hcqrt.open_device("QCOM", adreno)
    buffer = dev.alloc(64, cpu_access=True)
    words_before = words_at(buffer)
    adreno.inject("stall")
    for _ in range(5):
        store(dev, UNMAPPED, 1)
    done = dev.new_signal()
    on_timeline(dev, *mem_write(buffer.va_addr, 1)).signal(done, 1).submit(dev)
    adreno.resume()
    with pytest.raises(DeviceFault):
        for _ in range(6):  # recovered ones first, each raises once
            try:
                done.wait(1, timeout_ms=5000)
                break
            except DeviceFault:
                if dev.broken is not None:
                    raise
    assert dev.broken is not None
    assert dev.kgsl.read_timestamp(dev.channel.context, 2) == dev.channel.last_timestamp
    assert words_at(buffer) == words_before and done.value == 0
    dev.close()


@pytest.mark.usefixtures("tolerant")
def test_an_old_kernel_without_details_still_names_the_fault(adreno_machine):
    system = adreno_machine(
        missing_properties=["KGSL_PROP_CONTEXT_PROPERTY", "KGSL_PROP_GPU_RESET_STAT"],
        missing_ioctls=["GET_FAULT_REPORT"],
    )
    dev = hcqrt.open_device("QCOM", system)
    fault_until_dead(dev)
    with pytest.raises(DeviceFault, match="gave this context up"):
        dev.synchronize()
    assert dev.timeline_signal.value < dev.timeline_value - 1, "its work was never done"
    dev.close()
    assert system.live_objects() == []


def test_an_endless_wait_times_out_and_close_does_not_wait_again(adreno):
    dev = hcqrt.open_device("QCOM", adreno)
    never = dev.new_signal()
    value = dev.next_timeline()
    dev.last_launch = "spinner"
    dev.compute_queue().wait(never, 1).signal(dev.timeline_signal, value).submit(dev)
    with pytest.raises(SignalTimeout, match=r"waited \d+\.\d s.*last launch: spinner"):
        dev.synchronize(200)
    start = time.monotonic()
    dev.close()
    assert time.monotonic() - start < 1.5 and adreno.live_objects() == []


CHILD = """
import hcqrt
from hcqrt.emu.system import EmulatedSystem
dev = hcqrt.open_device("QCOM", EmulatedSystem(qcom="a630"))
buffer = dev.alloc(64)
signal = dev.new_signal()
import time
for _ in range(10):
    if dev.broken is not None:
        break
    try:
        value = dev.next_timeline()
        queue = dev.compute_queue().wait(dev.timeline_signal, value - 1).q(0x703D8003, 0xDEAD0000, 0, 1)
        queue.signal(dev.timeline_signal, value).submit(dev)
        dev.synchronize()
    except hcqrt.DeviceFault:
        pass
assert dev.broken is not None
for _ in range(3):
    start = time.monotonic()
    try:
        dev.synchronize()
    except hcqrt.DeviceFault:
        assert time.monotonic() - start < 0.05
dev.synchronize()
"""


def test_9_a_faulted_process_ends_at_once_with_one_traceback():
    """Field report 9: after a fault every later call hangs again, exit included."""
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD)], capture_output=True, text=True, timeout=20, cwd=ROOT
    )
    assert run.returncode == 1 and time.monotonic() - start < 5
    assert run.stderr.count("Traceback") == 1 and "Exception ignored" not in run.stderr
    assert "gave this context up" in run.stderr.splitlines()[-1]


@pytest.mark.usefixtures("tolerant")
def test_waits_after_a_recovered_fault_do_not_end_before_the_work_behind_it(qcom, adreno, buffer):
    """Moving the timeline on for dropped work must not let it pass work that still runs."""
    qcom.synchronize()
    adreno.inject("stall")
    gate = qcom.new_signal()
    store(qcom, UNMAPPED, 1)
    store(qcom, UNMAPPED, 1)
    value = qcom.next_timeline()
    held = qcom.compute_queue().wait(qcom.timeline_signal, value - 1).wait(gate, 1).q(*mem_write(buffer.va_addr, 1))
    held.signal(qcom.timeline_signal, value).submit(qcom)
    store(qcom, buffer.va_addr + 4, 2)
    adreno.resume()
    for _ in range(2):
        try:
            qcom.synchronize(100)
        except DeviceFault as error:
            assert "suspect" in str(error)
        except SignalTimeout:
            break
    with pytest.raises(SignalTimeout):
        qcom.synchronize(50)
    assert words_at(buffer) == 0 and qcom.timeline_signal.value == value - 1
    gate.value = 1
    qcom.synchronize()
    assert (words_at(buffer), words_at(buffer, 1)) == (1, 2)
