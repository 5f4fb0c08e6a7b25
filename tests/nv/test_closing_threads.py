"""Threads that look for faults while another closes the device, allocates or loads programs."""

from __future__ import annotations

import threading

import pytest

import hcqrt
from hcqrt import HCQError
from hcqrt.tools.check_frame import shipped_kernel


class Unsettled:
    """Memory in a device's books that makes the device allocate when its address is asked for."""

    nbytes = 0

    def __init__(self, dev):
        self.dev, self.made = dev, []

    @property
    def va(self):
        self.made.append(self.dev.alloc(64))
        return 0

    def close(self):
        return


def test_close_waits_for_the_thread_that_looks_for_faults(machine, monkeypatch):
    dev = hcqrt.open_device("NV", machine())
    looks, done = threading.Event(), threading.Event()

    def poll():  # in the middle of reading notifiers, which close unmaps
        looks.set()
        done.wait(10)

    monkeypatch.setattr(dev, "_poll_fault", poll)
    looker, closer = threading.Thread(target=dev.check_health), threading.Thread(target=dev.close)
    looker.start()
    assert looks.wait(10)
    closer.start()
    closer.join(0.2)
    waited = closer.is_alive()
    done.set()
    for thread in (looker, closer):
        thread.join(10)
        assert not thread.is_alive()
    assert waited
    with pytest.raises(HCQError, match="closed"):  # not forgotten by the look that found nothing
        dev.alloc(1)


def test_a_closed_device_is_not_asked_for_faults(machine, monkeypatch):
    dev = hcqrt.open_device("NV", machine())
    dev.close()
    monkeypatch.setattr(dev, "_poll_fault", lambda: pytest.fail("reads memory that is gone"))
    with pytest.raises(HCQError, match="closed"):
        dev.check_health()


def test_a_fault_is_described_while_another_thread_allocates(dev):
    unsettled = Unsettled(dev)
    dev.pool.count(None, 0, unsettled)
    dev.pool.count(None, 0, Unsettled(dev))
    assert "0 bytes at" not in dev.pool.find(1 << 60)
    for buf in unsettled.made:
        buf.close()


def test_the_code_of_a_fault_is_found_while_another_thread_loads(dev, monkeypatch):
    binary = shipped_kernel("sm_86", "fill")
    programs = [dev.program(binary) for _ in range(3)]
    for prg in programs:
        monkeypatch.setattr(prg, "locate", lambda pc: programs.append(dev.program(binary)))
    assert dev._find_code(0x1234) is None
    assert len(programs) == 6
