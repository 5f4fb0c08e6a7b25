"""Field report 30, Qualcomm part: the emulated side is not kind. What it does not know it refuses with its number."""

from __future__ import annotations

import ctypes
from decimal import Decimal

import pytest

import hcqrt
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.ioctl import Ioctl, iowr

NOWHERE_LO, NOWHERE_HI = 0x7000_0000, 0x7F
# Headers by hand from the facts' list, so that no encoder of ours stands on both sides.
BAD_STREAMS = {
    "unknown command 0x7f": ([0x707F8000], "0x7f"),
    "even parity of a command": ([0x70268000 ^ 1 << 23], "0x70a68000"),
    "even parity of a count": ([0x70268000 ^ 1 << 15], "0x70260000"),
    "even parity of a register": ([0x40BB0801 ^ 1 << 27, 0], "0x48bb0801"),
    "unknown register 0x3fff": ([0x483FFF01, 0], "0x3fff"),
    "count one too large": ([0x70E50002, 8, 0], "2"),
    "count past the end": ([0x703D0040, 0x1000], "64"),
    "neither type 4 nor 7": ([0x10000000], "0x10000000"),
    "reserved bit of a field": ([0x70E50001, 0x80000008], "0x80000000"),
    "unknown event": ([0x70460001, 0x7E], "0x7e"),
}


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_field_report_30_unknown_and_malformed_words_are_refused_with_their_number(machine, name):
    words, number = BAD_STREAMS[name]
    system = machine((), qcom="a630")
    with hcqrt.open_device("QCOM", system) as dev:
        with pytest.raises((EmulatorRefusal, hcqrt.DeviceFault)) as refusal:
            dev.compute_queue().q(*words).submit(dev)
            dev.synchronize()
            dev._wait_marks(dev._marks())
        assert number in str(refusal.value) + " ".join(map(str, system.refusals)), str(refusal.value)
        with pytest.raises((EmulatorRefusal, hcqrt.DeviceFault)):
            dev.check_health()


@pytest.mark.parametrize(
    "words",
    [
        [0x703D8003, NOWHERE_LO, NOWHERE_HI, 5],  # CP_MEM_WRITE
        [0x70BC8006, 0x15, NOWHERE_LO, NOWHERE_HI, 1, 0xFFFFFFFF, 32],  # CP_WAIT_REG_MEM
        [0x70460004, 0x4, NOWHERE_LO, NOWHERE_HI, 1],  # CP_EVENT_WRITE CACHE_FLUSH_TS
        [0x70BF8003, NOWHERE_LO, NOWHERE_HI, 4],  # CP_INDIRECT_BUFFER
    ],
    ids=["write", "wait", "event", "indirect buffer"],
)
def test_field_report_30_an_unmapped_address_is_a_fault_with_the_address(machine, words):
    """The first fault is final, and the driver says where it was."""
    system = machine((), qcom="a630")
    with hcqrt.open_device("QCOM", system) as dev:
        texts = []
        for _ in range(2):
            with pytest.raises(hcqrt.DeviceFault) as fault:
                dev.compute_queue().q(*words).submit(dev)
                dev._wait_marks(dev._marks())
            texts.append(str(fault.value))
        assert "0x7f70000000" in texts[0] and texts[1] == texts[0], "sticky, with the address"


def test_field_report_30_an_unknown_ioctl_is_refused_with_its_number(machine):
    system = machine((), qcom="a630")

    class Nothing(ctypes.Structure):
        _fields_ = (("x", ctypes.c_uint32),)

    call = Ioctl("IOCTL_KGSL_NOTHING", iowr("\x09", 0x7E, 4), Nothing)
    with system.open("/dev/kgsl-3d0") as fd, pytest.raises(hcqrt.IoctlError, match=r"IOCTL_KGSL_NOTHING.*ENOTTY"):
        call(fd)
    assert any("0xc004097e" in str(text) or "0x7e" in str(text) for text in system.refusals)
    system.refusals.clear()


def test_field_report_30_192_ticks_are_10_us_and_the_clock_never_runs_back(machine):
    system = machine((), qcom="a630")
    with hcqrt.open_device("QCOM", system) as dev:
        assert dev.ticks_to_us(192) == Decimal(10)
        first, second = dev.new_signal(), dev.new_signal()
        before = system.clock_ns()
        dev.compute_queue().timestamp(first).timestamp(second).submit(dev)
        dev._wait_marks(dev._marks())
        after = system.clock_ns()
        assert 0 <= second.timestamp - first.timestamp <= Decimal(after - before) / 1000 + 1
        first.close()
        second.close()
