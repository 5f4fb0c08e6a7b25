"""HCQDevice: one GPU behind queues: timeline, memory with cache, staged copies, waiting, faults, closing."""

from __future__ import annotations

import functools
import operator
import os
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hcqrt.config import Config
from hcqrt.core.buffer import HCQBuffer
from hcqrt.core.peers import NoPeers, Peers
from hcqrt.core.pool import MemoryPool
from hcqrt.core.signal import MASK64, HCQSignal, SignalPool
from hcqrt.errors import HCQError
from hcqrt.fileio import System

if TYPE_CHECKING:
    from typing_extensions import Self

    from hcqrt.core.alloc import FencedRing
    from hcqrt.core.hostcopy import Copies
    from hcqrt.core.program import HCQProgram
    from hcqrt.core.queue import HWQueue

MemoryKind = tuple[bool, ...]  # host, cpu_access, uncached, and what a backend adds for itself
CLOSE_AFTER_TIMEOUT_MS = 100


class HCQDevice(ABC):
    """A device opened by `open_device`. Vendor devices bring the driver up and make queues and programs.

    `timeline_signal` reaches `timeline_value - 1` when all work of the launch and copy calls has finished.
    """

    name: str
    arch: str = "unknown"  # until bring-up has asked
    place = ""  # which GPU of the machine it is, in words
    kernargs: FencedRing
    timeline_signal: HCQSignal
    staging: Copies
    kernel_log = "Xid"  # what to look for there
    signal_bits = 64  # how wide a signal's value may be on this device
    has_images = False
    _opened = False  # set once the driver is up: what fails before that unwinds by itself

    def __init__(self, name: str, system: System, config: Config) -> None:
        self.name, self.system, self.config = name, system, config
        self.wait_timeout_ms = config.wait_timeout_ms
        self.lock = threading.RLock()
        self._health = threading.RLock()  # held to look for a fault and to set `broken`; taken last
        self.timeline_value = 1
        self.broken: HCQError | None = None  # why every later call fails: fault, fork or close
        self.last_launch = "none"
        self.pid = system.getpid()
        self._closed = self._forked = False
        self.timed_out = False  # something did not end in a whole wait
        self.pool = MemoryPool(self)
        self.peers: Peers = NoPeers(self)
        self._children: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._signals = SignalPool(self._signal_page, self.ticks_to_us, self.signal_bits)
        os.register_at_fork(after_in_child=functools.partial(_after_fork, weakref.ref(self)))

    # what vendor devices provide

    @abstractmethod
    def compute_queue(self) -> HWQueue:
        """A new empty queue for kernels."""

    @abstractmethod
    def copy_queue(self) -> HWQueue | None:
        """A new empty queue for copies, or None where the device has none."""

    @abstractmethod
    def program(self, binary: bytes, name: str | None = None) -> HCQProgram:
        """Load a kernel. `name` chooses one of several in a file. Raises BinaryError; nothing stays loaded."""

    @abstractmethod
    def ticks_to_us(self, ticks: int) -> Decimal: ...
    @abstractmethod
    def _allocate(self, nbytes: int, kind: MemoryKind) -> Any:
        """Memory from the driver, with `va`, `nbytes` and `cpu`. Raises OutOfMemory."""

    @abstractmethod
    def _release(self, memory: Any) -> None: ...
    @abstractmethod
    def _signal_page(self) -> Any: ...
    @abstractmethod
    def _marks(self) -> Any:
        """What has been submitted so far, for `_retired`."""

    @abstractmethod
    def _retired(self, marks: Any) -> bool: ...
    @abstractmethod
    def _wait_marks(self, marks: Any) -> None: ...
    @abstractmethod
    def _poll_fault(self) -> HCQError | None:
        """The device's fault, read from the driver, or None."""

    @abstractmethod
    def _stop_work(self) -> None:
        """End what still runs, before its memory is freed: called on close when the device did not become idle."""

    @abstractmethod
    def _close_driver(self) -> None:
        """Give everything back that open took. Called once, with nothing in flight or the device faulted."""

    @abstractmethod
    def _total_bytes(self) -> int: ...

    # timeline

    def upcoming(self) -> int:
        """The next value of the timeline, which is claimed by storing the one after it to `timeline_value`."""
        return self.timeline_value

    def next_timeline(self) -> int:
        """Claim the next value of the timeline; the caller's queue waits for the one before and signals this one."""
        value = self.upcoming()
        self.timeline_value = value + 1 & MASK64
        return value

    def submit_to(self, queue: HWQueue, value: int) -> None:
        """Submit a queue that takes the timeline to `value`, the upcoming one; claimed if any of it was submitted."""
        channel = queue._channel(self)
        submitted, self.timeline_value = channel.submitted, value + 1 & MASK64
        try:
            queue.submit(self)
        except BaseException:  # also Ctrl-C: what was not submitted must not be waited for
            if channel.submitted == submitted:
                self.timeline_value = value
            raise

    def new_signal(self, value: int = 0) -> HCQSignal:
        with self.lock:
            self.check_usable()
            return self._signals.new(self, value)

    def check_signal(self, signal: HCQSignal) -> None:
        """Refuse a signal of another device: at its address lies something of this one's."""
        if getattr(signal, "owner", self) is not self:
            owner = getattr(signal.owner, "name", "unknown")
            raise HCQError(
                f"{signal!r} belongs to another device ({owner}), which {self.name} cannot reach; use its wait()"
            )

    def synchronize(self, timeout_ms: int | None = None) -> None:
        """Wait until all launches and copies have finished. Raises DeviceFault or SignalTimeout."""
        self.check_usable()
        self.timeline_signal.wait(self.timeline_value - 1 & MASK64, timeout_ms)
        self.check_health()

    # health

    def check_usable(self) -> None:
        """Raise why the device cannot be used any more, when it cannot."""
        if self.broken is not None:
            raise type(self.broken)(*self.broken.args)

    def check_health(self) -> None:
        """Ask the driver for a fault; a fault is sticky and every later call raises it again.

        Waits call it without the device's lock, also while another thread closes the device.
        """
        with self._health:
            if self.broken is None:
                self.broken = self._poll_fault()
        self.check_usable()

    def _break(self, why: HCQError) -> None:
        """Fail every later call, for `why` unless there is a reason already. Then nothing looks for faults any more."""
        with self._health:
            self.broken = self.broken or why

    def sleep_in_driver(self) -> None:
        """Called by waits that take long. Most drivers offer no wait that would help."""
        return

    def describe_wait(self, signal: HCQSignal, target: int, waited_ms: int) -> str:
        self.timed_out = True
        what = "compute timeline" if signal is self.timeline_signal else repr(signal)
        return (
            f"{self.name}: {what} stuck at {signal.value}, waited {waited_ms / 1000:.1f} s for {target}; "
            f"last launch: {self.last_launch}. No fault is reported: the kernel may be endless, or a queue may wait "
            f"for a signal that nothing sets; see the kernel log ({self.kernel_log}), or raise HCQRT_WAIT_TIMEOUT_MS"
        )

    # memory

    def alloc(
        self, nbytes: int, *, host: bool = False, cpu_access: bool = False, uncached: bool = False, image: Any = None
    ) -> HCQBuffer:
        """Memory of `nbytes`: on the device, mapped for the host too (`cpu_access`), or in host memory (`host`).

        Contents are undefined. Raises OutOfMemory with what is in use, cached and there in all.
        """
        if image is not None:
            raise ValueError(f"{self.name} has no images")
        nbytes = operator.index(nbytes)
        if nbytes <= 0:
            raise ValueError(f"a buffer needs at least 1 byte, got {nbytes}")
        with self.lock:
            self.check_usable()
            memory = self.take_memory(nbytes, (host, cpu_access, uncached))
            return HCQBuffer(memory.va, nbytes, self, memory)

    def take_memory(self, nbytes: int, kind: MemoryKind) -> Any:
        """Memory from the cache or the driver, counted and freed on close. Called with the lock."""
        return self.pool.take(nbytes, kind)

    def round_size(self, nbytes: int, kind: MemoryKind) -> int:
        """The size that is really allocated, so that the cache finds it again."""
        return -(-nbytes // self.system.page_size) * self.system.page_size

    def free(self, memory: Any) -> None:
        """Take memory back; it is reused or released once what was submitted so far has retired."""
        with self.lock:
            if not self._forked:
                self.pool.free(memory)

    def drop(self, memory: Any) -> None:
        """As `free`, from a finaliser: only noted, since it may run in the middle of anything."""
        self.pool.drop(memory)

    def memory_stats(self) -> dict[str, int]:
        """Bytes: `in_use` by live buffers and programs, `cached`, `total` of the device, `peak` of in_use."""
        with self.lock:
            return self.pool.stats()

    # copies

    def copyin(self, dest: HCQBuffer, data: memoryview) -> None:
        self.staging.copyin(dest, data)

    def copyout(self, into: memoryview, src: HCQBuffer) -> None:
        self.staging.copyout(into, src)

    def fill(self, dest: HCQBuffer, byte: int) -> None:
        self.staging.fill(dest, byte)

    def copy(self, dest: HCQBuffer, src: HCQBuffer) -> None:
        """Copy all of `src` to the start of `dest`, both of this device."""
        self.staging.copy(dest, src)

    def enable_peer(self, other: HCQDevice) -> None:
        """Have copies between this device's buffers and `other`'s go from GPU to GPU, in both directions.

        Raises DriverError, naming both GPUs, where that cannot be. Copies work all the same: through host memory.
        """
        self.check_usable()
        other.check_usable()
        if other is self:
            raise ValueError(f"{self.name} is no peer of itself")
        self.peers.enable(other)

    @property
    def identity(self) -> str:
        """Its name, and which GPU of the machine that is."""
        return f"{self.name} ({self.place})" if self.place else self.name

    # opening and closing

    def _start(self, start: Callable[[], None]) -> None:
        """Run the part of opening that `close` undoes: the driver is up, memory and queues are made."""
        self._opened = True
        try:
            start()
        except BaseException:
            self._break(HCQError(f"{self.name} did not open"))
            self.close()
            raise

    def own(self, child: Any) -> None:
        """Close `child` (a bound queue, a program) before the device."""
        self._children[id(child)] = child

    def disown(self, child: Any) -> None:
        self._children.pop(id(child), None)

    @property
    def children(self) -> list[Any]:
        """What `own` was told of and lives; also while another thread makes more."""
        return [child for reference in self._children.valuerefs() if (child := reference()) is not None]

    def close(self) -> None:
        """Wait for the work in flight, unless the device has faulted, then free everything. Twice is fine."""
        if self._closed or self._forked:
            return
        with self.lock, ExitStack() as undo:  # every step runs, also after one that fails
            self._closed = True
            undo.callback(self._close_driver)
            undo.callback(self._release_all)
            for child in self.children:
                undo.callback(child.close)
            try:
                if self.broken is None:
                    if self.timed_out:  # what did not end in a whole wait is not waited for again
                        self.wait_timeout_ms = min(self.wait_timeout_ms, CLOSE_AFTER_TIMEOUT_MS)
                    self._wait_marks(self._marks())
            except HCQError as error:
                self._break(error)
            if self.broken is not None:
                undo.callback(self._stop_work)

    def _release_all(self) -> None:
        self._break(HCQError(f"{self.name} was closed; open it again"))
        self._signals.close()
        self.pool.release_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._opened and not (self._closed or self._forked):
            warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<{self.name} {self.arch}{' closed' if self._closed else ''}>"


def _after_fork(reference: weakref.ref[HCQDevice]) -> None:
    """In the child: the device belongs to the parent. Later calls say so, and close() leaves it alone."""
    dev = reference()
    if dev is None or dev._closed:
        return
    dev._forked, dev.lock, dev._health = True, threading.RLock(), threading.RLock()
    dev.broken = HCQError(
        f"{dev.name} was opened by process {dev.pid}, this is its fork {os.getpid()}; "
        "open the device after the fork, or start processes with the spawn method"
    )
