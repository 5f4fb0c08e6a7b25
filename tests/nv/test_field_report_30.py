"""Field report 30, NVIDIA part: the emulated side is not kind. What it does not know it refuses with its number."""

from __future__ import annotations

import ctypes

import pytest

import hcqrt
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.ioctl import Ioctl, iowr
from hcqrt.nv.methods import COMPUTE, COPY, HOST, header

BAD_STREAMS = {
    "unknown compute method": ([header(COMPUTE, 0x3FFC, 1), 0], "0x3ffc"),
    "unknown method 0x1ffc": ([header(COMPUTE, 0x1FFC, 1), 0], "0x1ffc"),
    "unknown host method": ([header(HOST, 0x0C, 1), 0], "0xc"),
    "count one too large": ([header(COMPUTE, 0x2B4, 2), 0x10000, 3], "0x2b8"),
    "count past the segment": ([header(COMPUTE, 0x2B4, 40), 0], "40"),
    "reserved operation": ([6 << 29], "6"),
    "reserved bit of a field": ([header(COMPUTE, 0x1698, 1), 0x2], "0x2"),
    "unknown action": ([header(COMPUTE, 0x2C0, 1), 5], "5"),
    "misaligned semaphore": ([header(HOST, 0x5C, 5), 0x1004, 0x10, 1, 0, 0x03000001], "0x10"),
}


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_field_report_30_unknown_and_malformed_words_are_refused_with_their_number(machine, name):
    words, number = BAD_STREAMS[name]
    system = machine()
    with hcqrt.open_device("NV", system) as dev:
        with pytest.raises((EmulatorRefusal, hcqrt.DeviceFault)) as refusal:
            dev.compute_queue().q(*words).submit(dev)
            dev.synchronize()
            dev._wait_marks(dev._marks())
        assert number in str(refusal.value) + " ".join(map(str, system.refusals)), str(refusal.value)
        with pytest.raises((EmulatorRefusal, hcqrt.DeviceFault)):
            dev.check_health()


@pytest.mark.parametrize("make", ["copy from", "copy to", "semaphore"])
def test_field_report_30_an_unmapped_address_is_a_fault_with_the_address(machine, make):
    with hcqrt.open_device("NV", machine()) as dev, dev.alloc(4096) as buf:
        nowhere = 0x77_0000_0000
        if make == "semaphore":
            queue = dev.compute_queue().q(header(HOST, 0x5C, 5), 0, 0x77, 1, 0, 0x01000001)
        else:
            pair = (buf, nowhere) if make == "copy from" else (nowhere, buf)
            queue = dev.copy_queue().copy(*pair, 64)
        with pytest.raises(hcqrt.DeviceFault, match=r"0x7700000000"):
            queue.submit(dev)
            dev._wait_marks(dev._marks())


def test_field_report_30_an_unknown_ioctl_is_refused_with_its_number(machine):
    system = machine()

    class Nothing(ctypes.Structure):
        _fields_ = (("x", ctypes.c_uint32),)

    call = Ioctl("NV_ESC_NOTHING", iowr("F", 0x7E, 4), Nothing)
    with system.open("/dev/nvidiactl") as fd, pytest.raises(hcqrt.IoctlError, match=r"NV_ESC_NOTHING.*EINVAL"):
        call(fd)
    assert any("0xc004467e" in str(text) or "0x7e" in str(text) for text in system.refusals)
    system.refusals.clear()


def test_field_report_30_timestamps_are_nanoseconds_and_never_run_back(dev):
    first, second = dev.new_signal(), dev.new_signal()
    before = dev.system.clock_ns()
    dev.compute_queue().timestamp(first).timestamp(second).submit(dev)
    dev._wait_marks(dev._marks())
    after = dev.system.clock_ns()
    assert 0 <= second.timestamp - first.timestamp <= (after - before + 64) / 1000 + 1
    first.close()
    second.close()


def test_the_copy_queue_refuses_compute_methods(machine):
    system = machine()
    with hcqrt.open_device("NV", system) as dev, pytest.raises((EmulatorRefusal, hcqrt.DeviceFault)):
        dev.copy_queue().q(header(COPY, 0x2B4, 1), 0).submit(dev)
        dev._wait_marks(dev._marks())
