"""Ioctls that sleep: the GPU goes on meanwhile, and other threads get at the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hcqrt.emu.system import EmulatedSystem

SLICE_S = 0.0005  # how often a sleeping caller looks again
NS_PER_MS = 1_000_000


class Sleeper:
    """Waits inside of an ioctl, which holds the machine's lock."""

    def __init__(self, system: EmulatedSystem) -> None:
        self.system = system
        self._unlocked = threading.Condition(system.lock)

    def let_gpus_run(self) -> bool:
        """True when anything moved here. Memory may have changed, so queues that wait for it look again."""
        if self.system.worker is None:
            return self.system.pump()
        self.system.worker.wake()
        return False

    def until(self, ready: Callable[[], bool], timeout_ns: int | None) -> bool:
        """Wait until `ready()`; False when `timeout_ns` passed first, None is forever. Raises a strict refusal."""
        system = self.system
        deadline = None if timeout_ns is None else system.clock_ns() + timeout_ns
        while not ready():
            moved = self.let_gpus_run()
            system.raise_late_refusal()
            if moved:
                continue
            left_s = SLICE_S
            if deadline is not None:
                left_ns = deadline - system.clock_ns()
                if left_ns <= 0:
                    return False
                left_s = min(left_s, left_ns / 1e9)
            self._unlocked.wait(left_s)
        return True
