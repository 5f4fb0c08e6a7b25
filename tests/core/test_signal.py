"""Signals without a device: the circular comparison, timeouts that restart on progress, slots that are reused."""

from __future__ import annotations

import ctypes
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.core.signal import HCQSignal, SignalPool, reached
from hcqrt.errors import DeviceFault, HCQError, SignalTimeout
from hcqrt.mmio import MMIOInterface

U64 = st.integers(0, (1 << 64) - 1)


class Page:
    def __init__(self, number: int) -> None:
        self._store = (ctypes.c_uint64 * 32)()
        self.va = 0x1000 * number
        self.cpu = MMIOInterface(ctypes.addressof(self._store), 256, "B", self._store)


class Clock:
    """A machine whose waits take 10 ms each, and in which something may happen at each."""

    def __init__(self) -> None:
        self.now_ns, self.steps, self.happens = 0, 0, lambda step: None

    def clock_ns(self) -> int:
        return self.now_ns

    def back_off(self, spins: int) -> None:
        self.now_ns += 10_000_000
        self.steps += 1
        self.happens(self.steps)


class Owner:
    wait_timeout_ms = 100
    fault: HCQError | None = None

    def __init__(self) -> None:
        self.system, self.pages = Clock(), 0
        self.pool = SignalPool(self.page, lambda ticks: Decimal(ticks) / 1000)

    def page(self) -> Page:
        self.pages += 1
        return Page(self.pages)

    def check_health(self) -> None:
        if self.fault is not None:
            raise self.fault

    def sleep_in_driver(self) -> None:
        """This one has no driver."""

    def describe_wait(self, signal: HCQSignal, target: int, waited_ms: int) -> str:
        return f"{signal.name} at {signal.value}, waited {waited_ms} ms for {target}"


@given(U64, st.integers(0, (1 << 63) - 1))
def test_a_value_is_reached_by_all_that_lie_less_than_half_the_circle_after_it(target, ahead):
    assert reached((target + ahead) % 2**64, target)
    assert not reached((target - ahead - 1) % 2**64, target)


@given(U64)
def test_values_have_64_bits(value):
    signal = Owner().pool.new(Owner(), value)
    assert signal.value == value
    signal.wait(value)
    for wrong in (-1, 1 << 64):
        with pytest.raises(ValueError):
            signal.value = wrong
    assert signal.value == value
    owner = Owner()
    for wrong in (-1, 1 << 64):
        with pytest.raises(ValueError, match="no unsigned 64-bit value"):
            owner.pool.new(owner, wrong)
    assert owner.pages == 0, "no slot is taken"


def test_a_wait_sees_a_value_that_wrapped():
    owner = Owner()
    signal = owner.pool.new(owner, 2**64 - 2)
    owner.system.happens = lambda step: setattr(signal, "value", (signal.value + 1) % 2**64)
    signal.wait(3)
    assert signal.value == 3 and owner.system.steps == 5


def test_progress_restarts_the_timeout():
    owner = Owner()
    signal = owner.pool.new(owner, 0, "counter")

    def every_ninth_step(step):
        if step % 9 == 0 and step < 100:
            signal.value += 1

    owner.system.happens = every_ninth_step
    signal.wait(11)  # 990 ms, never 100 ms without a change
    with pytest.raises(SignalTimeout, match="counter at 11, waited 110 ms for 12"):
        signal.wait(12)
    with pytest.raises(SignalTimeout, match="waited 510 ms"):
        signal.wait(12, 500)


def test_a_wait_looks_for_faults():
    owner = Owner()
    owner.wait_timeout_ms = 1_000_000
    signal, owner.fault = owner.pool.new(owner), DeviceFault("the GPU stopped")
    with pytest.raises(DeviceFault, match="stopped"):
        signal.wait(1)
    assert owner.system.steps <= 64


def test_slots_never_overlap_and_closed_ones_come_back():
    owner = Owner()
    signals = [owner.pool.new(owner, n) for n in range(40)]
    assert owner.pages == 3 and len({s.value_va for s in signals}) == 40
    assert all(s.value_va % 16 == 0 and s.timestamp_va == s.value_va + 8 for s in signals)
    assert [s.value for s in signals] == list(range(40))
    for signal in signals:
        signal.close()
        signal.close()
    again = [owner.pool.new(owner) for _ in range(48)]
    assert owner.pages == 3 and len({s.value_va for s in again}) == 48
    with pytest.raises(HCQError, match="was closed"):
        signals[0].wait(0)


def test_a_wait_ends_when_its_memory_goes_away():
    """A device that another thread closes unmaps what the wait looks at."""
    owner = Owner()
    signal = owner.pool.new(owner)
    owner.system.happens = lambda step: owner.pool.close() if step == 3 else None
    with pytest.raises(HCQError, match="was closed, or its device"):
        signal.wait(1)
    assert owner.system.steps == 3


@pytest.mark.parametrize("kind", ["uint8", "uint32", "int64", "uint64"])
def test_a_wait_takes_numpy_integers(kind):
    number = pytest.importorskip("numpy").dtype(kind).type(7)
    owner = Owner()
    owner.pool.new(owner, 8).wait(number)
    with pytest.raises(SignalTimeout, match="for 7"):
        owner.pool.new(owner, 6).wait(number)


@pytest.mark.parametrize("value", [-1, 1 << 32, 1 << 63, (1 << 64) - 1])
def test_a_32_bit_signal_is_never_waited_for_beyond_its_bits(value):
    owner = Owner()
    pool = SignalPool(owner.page, lambda ticks: Decimal(ticks), 32)
    with pytest.raises(ValueError, match="no unsigned 32-bit value"):
        pool.new(owner, 5).wait(value)


def test_a_timestamp_is_microseconds():
    owner = Owner()
    signal = owner.pool.new(owner)
    mv, index = signal.place
    mv[index + 1] = 1_234_567
    assert signal.timestamp == Decimal("1234.567")
