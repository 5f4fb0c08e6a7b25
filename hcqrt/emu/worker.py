"""The threaded mode of an emulated machine: its GPUs run in a thread of their own, beside the caller."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hcqrt.emu.system import EmulatedSystem

IDLE_S = 0.05  # how soon the thread of a machine that nobody holds any more goes away
STOP_S = 5.0


class GpuWorker:
    """Rings doorbells and runs the GPUs when woken. Starts with the first doorbell."""

    def __init__(self, system: EmulatedSystem) -> None:
        self._system = weakref.ref(system)
        self._rung: deque[tuple[Callable[[int], None], int]] = deque()
        self._event = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def ring(self, doorbell: Callable[[int], None], token: int) -> None:
        """A store to a doorbell: it never waits for the GPU."""
        self._rung.append((doorbell, token))
        self._event.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="hcqrt-emulated-gpu", daemon=True)
            self._thread.start()
            atexit.register(stop_at_exit, weakref.ref(self))

    def wake(self) -> None:
        """Memory may have changed: a queue that waits for it should look again."""
        self._event.set()

    def stop(self) -> None:
        """End the thread; what it has begun is finished."""
        self._stopped = True
        self._event.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def _work(self) -> None:
        while not self._stopped:
            woken = self._event.wait(IDLE_S)
            self._event.clear()
            system = self._system()
            if system is None:
                return
            if woken:
                self._run(system)
            del system

    def _run(self, system: EmulatedSystem) -> None:
        with system.lock:
            while self._rung:
                doorbell, token = self._rung.popleft()
                doorbell(token)
        while not self._stopped and system.pump():
            pass


def stop_at_exit(reference: weakref.ref[GpuWorker]) -> None:
    """A process that ends without closing its device: the GPU must not run while its memory is torn down."""
    worker = reference()
    if worker is not None:
        worker.stop()
