"""Ctrl-C while an emulated GPU works: it waits for the end of a step, since a real GPU would not stop half way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, "FrameType | None"], object]


class Held:
    """The handler of SIGINT meanwhile: notes that it came."""

    def __init__(self, previous: Handler) -> None:
        self.previous, self.came = previous, False
        self.active = True  # until the block that it holds interrupts for is left

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True

    def deliver(self) -> None:
        if self.came:
            self.came = False
            self.previous(signal.SIGINT, None)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """What is between two steps of the GPU is never left half done; a Ctrl-C is raised at the end."""
    previous = signal.getsignal(signal.SIGINT)
    on_main = threading.current_thread() is threading.main_thread()  # only there do handlers run, and may be set
    if not on_main or not callable(previous) or isinstance(previous, Held):
        yield
        return
    held = Held(previous)
    signal.signal(signal.SIGINT, held)
    try:
        yield
    finally:
        held.active = False
        signal.signal(signal.SIGINT, previous)
        held.deliver()


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside of `interrupts_held`: a kernel may take long, and can be ended; the GPU will run it again."""
    held = signal.getsignal(signal.SIGINT)
    if not isinstance(held, Held) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, held.previous)
    try:
        held.deliver()
        yield
    finally:
        if held.active:  # a Ctrl-C just before this line leaves it to the collector of garbage, when all is over
            signal.signal(signal.SIGINT, held)
