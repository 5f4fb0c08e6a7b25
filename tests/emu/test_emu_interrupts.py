"""Ctrl-C around an emulated GPU's work: held back, let through, and afterwards as it was."""

from __future__ import annotations

import gc
import signal

import pytest

from hcqrt.emu.interrupts import interruptible, interrupts_held


def test_one_that_comes_meanwhile_is_raised_at_the_end():
    before = signal.getsignal(signal.SIGINT)
    steps = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        steps.append("went on")
    assert steps == ["went on"] and signal.getsignal(signal.SIGINT) is before


def test_a_kernel_can_be_ended():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_held(), interruptible():
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the interrupt was held back")
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_left_late_does_not_hold_interrupts_for_ever():
    """An interrupt on the way out of `interruptible` leaves it to the garbage collector."""
    before = signal.getsignal(signal.SIGINT)
    with interrupts_held():
        inner = interruptible()
        inner.__enter__()
    del inner
    gc.collect()
    assert signal.getsignal(signal.SIGINT) is before
