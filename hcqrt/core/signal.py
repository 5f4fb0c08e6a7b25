"""Signals: 16 bytes that host and GPU both see, a 64-bit value and a time; their pool, and waiting."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from hcqrt.core.alloc import GpuMemory
from hcqrt.errors import HCQError, SignalTimeout
from hcqrt.fileio import System

SLOT_BYTES = 16  # +0 value, +8 timestamp (nv-engine semaphore record; CP_EVENT_WRITE uses the same halves)
MASK64 = (1 << 64) - 1
HALF64 = 1 << 63
SPINS_BETWEEN_CHECKS = 64  # a wait looks for faults this often
SPINS_BEFORE_DRIVER = 4096  # some 100 ms of waiting; from then on it looks every time, and sleeps in the driver


def reached(value: int, target: int) -> bool:
    """Circular comparison of 64-bit counters, as the hardware's ACQ_CIRC_GEQ does it: right across the wrap."""
    return (value - target) & MASK64 < HALF64


class SignalOwner(Protocol):
    """What a signal needs of its device."""

    @property
    def system(self) -> System: ...
    @property
    def wait_timeout_ms(self) -> int: ...
    def check_health(self) -> None:
        """Raise the device's fault when there is one."""

    def sleep_in_driver(self) -> None:
        """Sleep a little in the driver until work may have finished, where it offers that."""

    def describe_wait(self, signal: HCQSignal, target: int, waited_ms: int) -> str:
        """What was last submitted, for the text of a timeout."""


class HCQSignal:
    """A 64-bit value in memory that queues wait for and set; only its low `bits` where the hardware has fewer.

    `value_va` and `timestamp_va` are GPU addresses, 16-byte and 8-byte aligned.
    """

    __slots__ = ("__weakref__", "_index", "_mv", "_pool", "bits", "name", "owner", "value_va")

    def __init__(self, owner: SignalOwner, pool: SignalPool, value_va: int, mv: memoryview, index: int) -> None:
        self.owner, self._pool, self.value_va, self._index = owner, pool, value_va, index
        self._mv: Any = mv
        self.name, self.bits = "signal", pool.bits

    @property
    def timestamp_va(self) -> int:
        return self.value_va + 8

    @property
    def value(self) -> int:
        """The value now, 64 bits unsigned."""
        return int(self._mv[self._index])

    @value.setter
    def value(self, value: int) -> None:
        if value >> self.bits:
            raise ValueError(f"{value} is no unsigned {self.bits}-bit value for {self!r}")
        self._mv[self._index] = value

    @property
    def place(self) -> tuple[memoryview, int]:
        """Where the value lies: a view of 64-bit items and the index in it. For loops that cannot afford `value`."""
        return self._mv, self._index

    @property
    def timestamp(self) -> Decimal:
        """Microseconds on the GPU's clock at the last timestamp or signal that was stamped."""
        return self._pool.ticks_to_us(self._mv[self._index + 1])

    def reached(self, value: int) -> bool:
        """Whether the signal is at `value` or beyond, counting in a circle."""
        return (self.value - value) & MASK64 < HALF64

    def wait(self, value: int, timeout_ms: int | None = None) -> None:
        """Block until the value is reached. The timeout counts from the last change of the value, not from the start.

        Raises:
            ValueError: the signal can never have this value.
            SignalTimeout: no progress for `timeout_ms` (default HCQRT_WAIT_TIMEOUT_MS).
            DeviceFault: the device faulted meanwhile.
        """
        index = self._index
        last = self._mv[index]  # asked anew every time: a close() in another thread takes the memory away
        if type(value) is not int:
            value = operator.index(value)  # a NumPy integer would overflow in what follows
        if self.bits < 64 and value >> self.bits:
            raise ValueError(f"{value} is no unsigned {self.bits}-bit value for {self!r}")
        if (last - value) & MASK64 < HALF64:
            return
        system, owner = self.owner.system, self.owner
        limit_ms = owner.wait_timeout_ms if timeout_ms is None else timeout_ms
        start = progress_at = system.clock_ns()
        spins = 0
        while True:
            system.back_off(spins)
            spins += 1
            now = self._mv[index]
            if (now - value) & MASK64 < HALF64:
                return
            if spins % SPINS_BETWEEN_CHECKS == 0 or spins > SPINS_BEFORE_DRIVER:
                owner.check_health()
            if spins > SPINS_BEFORE_DRIVER:
                owner.sleep_in_driver()
            time_ns = system.clock_ns()
            if now != last:
                last, progress_at = now, time_ns
            elif time_ns - progress_at > limit_ms * 1_000_000:
                owner.check_health()
                waited_ms = (time_ns - start) // 1_000_000
                raise SignalTimeout(owner.describe_wait(self, value, waited_ms))

    def close(self) -> None:
        """Give the slot back. The caller knows that no queue in flight uses it. Twice is fine."""
        if self._mv is not NO_MEMORY:
            self._pool.free(self)
            self._mv = NO_MEMORY

    def __repr__(self) -> str:
        return f"<{self.name} at {self.value_va:#x}>"


class SignalPool:
    """Slots out of pages of device-visible host memory.

    Args:
        page: allocates one page; uncached or snooped host memory, zeroed.
        ticks_to_us: turns the hardware's timestamp into microseconds.
        bits: of a value that the hardware stores and compares.
    """

    def __init__(self, page: Callable[[], GpuMemory], ticks_to_us: Callable[[int], Decimal], bits: int = 64) -> None:
        self._page, self.ticks_to_us, self.bits = page, ticks_to_us, bits
        self.pages: list[GpuMemory] = []
        self._free: list[tuple[int, memoryview, int]] = []
        self._lock = threading.Lock()
        self._made: weakref.WeakSet[HCQSignal] = weakref.WeakSet()

    def new(self, owner: SignalOwner, value: int = 0, name: str = "signal") -> HCQSignal:
        if value >> self.bits:
            raise ValueError(f"{value} is no unsigned {self.bits}-bit value for a signal")
        with self._lock:
            if not self._free:
                self._add_page()
            va, mv, index = self._free.pop()
        mv[index], mv[index + 1] = value, 0
        signal = HCQSignal(owner, self, va, mv, index)
        signal.name = name
        self._made.add(signal)
        return signal

    def _add_page(self) -> None:
        page = self._page()
        if page.cpu is None:
            raise ValueError("signals need memory that the host can see")
        self.pages.append(page)
        mv = page.cpu.view(fmt="Q").mv
        slots = len(mv) // 2
        self._free += [(page.va + i * SLOT_BYTES, mv, i * 2) for i in reversed(range(slots))]

    def free(self, signal: HCQSignal) -> None:
        with self._lock:
            self._free.append((signal.value_va, signal._mv, signal._index))

    def close(self) -> None:
        """The pages are about to be unmapped: no signal may touch them any more."""
        for signal in list(self._made):
            signal._mv = NO_MEMORY
        self._free.clear()


class NoMemory:
    """What a closed signal has in place of its memory."""

    def __getitem__(self, index: int) -> NoReturn:
        raise HCQError("the signal was closed, or its device; make another with new_signal()")

    def __setitem__(self, index: int, value: int) -> None:
        self[index]


NO_MEMORY = NoMemory()
