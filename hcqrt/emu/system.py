"""EmulatedSystem: a machine of emulated drivers and GPUs, in the place of the real `System`."""

from __future__ import annotations

import errno as errno_codes
import os
import stat as stat_bits
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hcqrt.bits import is_pow2
from hcqrt.emu.files import Driver, EmulatedFile, LiveObject, os_error
from hcqrt.emu.host import HostMap
from hcqrt.emu.interrupts import interrupts_held
from hcqrt.emu.memory import PhysicalMemory
from hcqrt.emu.pages import PagedSystem
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.emu.spec import parse_spec
from hcqrt.emu.trace import IoctlLog, LogEntry, Record, Rule, Rules
from hcqrt.emu.worker import GpuWorker
from hcqrt.fileio import FileIOInterface, Libc

DEFAULT_NV_DRIVER = "580.95.05"
SYSTEM_MEMORY_BYTES = 64 << 30  # sparse
FIRST_FD = 3  # a process has its standard streams open
FD_LIMIT = 1024  # RLIMIT_NOFILE of a plain login
CHECKS = ("caches",)  # a GPU that sees stale constants and launch descriptors until told to invalidate
Entry = str | Mapping[str, Any]


class EmulatedSystem(PagedSystem):
    """A machine with emulated GPUs. See the members' docstrings; `nodes` and `files` may be edited at any time."""

    name = "emulated"

    def __init__(
        self,
        nv: Iterable[Entry] = (),
        qcom: Entry | None = None,
        *,
        nv_driver: str = DEFAULT_NV_DRIVER,
        strict: bool = True,
        page_size: int = 4096,
        seed: int = 0,
        check: Iterable[str] = (),
        fd_limit: int = FD_LIMIT,
        threads: int | None = None,
        restricted: bool = False,
    ) -> None:
        """`threads` above 1: the GPUs run beside the caller, in an order of their own. None asks HCQRT_EMU_THREADS.

        `restricted`: the NVIDIA driver is behind a container sandbox's proxy, which lets only some calls through.
        """
        super().__init__()
        if not is_pow2(page_size) or page_size < 4096:
            raise ValueError(f"page size {page_size}: not a power of two of at least 4096")
        self.check = frozenset(check)
        if unknown := sorted(self.check - set(CHECKS)):
            raise ValueError(f"check={', '.join(unknown)}: no such check; there is {', '.join(CHECKS)}")
        entries = [nv] if isinstance(nv, str | Mapping) else list(nv)
        self.page_size, self.strict, self.seed, self.fd_limit = page_size, strict, seed, fd_limit
        self._spec, self._nv_driver, self._qcom, self.restricted = entries, nv_driver, qcom, restricted
        self.threads = _threads_asked() if threads is None else threads
        self.nodes: dict[str, tuple[int, int | None]] = {}
        self.files: dict[str, str] = {}
        self.lock = threading.RLock()
        self.rules = Rules()
        self._log = IoctlLog()
        self._started_ns = time.monotonic_ns()
        self._ioctls = 0
        self._running = False
        self._late_refusal: EmulatorRefusal | None = None
        self._libc = Libc()
        self._boot()
        for driver in self.drivers:
            self.nodes |= driver.nodes()
            self.files |= driver.texts()

    def _boot(self) -> None:
        """Make the drivers and their memory, for this process."""
        self._pid = super().getpid()
        self.memory = PhysicalMemory(self.libc, "hcqrt-sysmem", SYSTEM_MEMORY_BYTES, self.page_size)
        self.host = HostMap(self.libc, self.memory)
        self.fds: dict[int, EmulatedFile] = {}
        self.drivers: list[Driver] = []
        self.worker = GpuWorker(self) if self.threads > 1 else None
        if self._spec:
            from hcqrt.emu.nv.driver import NvDriver

            self.drivers.append(NvDriver(self, self._spec, self._nv_driver))
        if self._qcom is not None:
            from hcqrt.emu.qcom.driver import QcomDriver

            self.drivers.append(QcomDriver(self, self._qcom))

    @classmethod
    def from_text(cls, text: str) -> EmulatedSystem:
        """The machine of `emulated[:CHIP[@DRIVER],…]`; a plain `emulated` has one GPU."""
        chips, version, adreno = parse_spec(text)
        return cls(nv=chips, qcom=adreno, nv_driver=version or DEFAULT_NV_DRIVER)

    @property
    def libc(self) -> Libc:
        assert self._libc is not None, "made in the constructor"
        return self._libc

    # what a test reads and sets

    def inject(
        self, kind: str, match: str | int | None = None, *, nth: int = 1, times: int = 1,
        errno: int | None = None, status: int | None = None,
    ) -> None:  # fmt: skip
        """Make calls fail: `open`, `ioctl`, `mmap` (the nth that matches, `times` in a row); `stall`, `fault`.

        `match`: ioctl, class or control name or number, or a path. None matches every call of the kind.
        """
        with self.lock:
            if kind == "stall":
                for driver in self.drivers:
                    driver.stall(True)
            else:
                self.rules.add(Rule(kind, match, nth, times, errno, status))

    def resume(self) -> None:
        """End a `stall` and let the GPUs catch up."""
        for driver in self.drivers:
            driver.stall(False)
        self.run_gpus()

    @property
    def ioctl_log(self) -> list[LogEntry]:
        """(t_ns, path, request name, inner name, fields in, fields out, errno, status) of this process's ioctls."""
        self.after_fork()
        with self.lock:
            return self._log.entries()

    @property
    def refusals(self) -> list[str]:
        """What was asked for that the emulated drivers and GPUs do not know, each with its number."""
        return [text for driver in self.drivers for text in driver.refusals]

    @property
    def last_refusal(self) -> str:
        """Why the latest refused driver call was refused."""
        return next((driver.last_refusal for driver in self.drivers if driver.last_refusal), "")

    def live_objects(self) -> list[LiveObject]:
        """What the machine still holds: fds, CPU mappings, and each driver's objects, with where each was made."""
        with self.lock:
            found = [LiveObject("fd", f"{number} {file.path}", file.where) for number, file in self.fds.items()]
            seen = {item.value: None for item in self.host.map}
            found += [LiveObject("mapping", f"{m.kind} {m.path} {m.address:#x}+{m.nbytes:#x}", m.where) for m in seen]
            for driver in self.drivers:
                found += driver.live()
            return found

    def stats(self) -> dict[str, int | float]:
        """Counters since the machine was made; `seconds` is its age."""
        counts: dict[str, int | float] = dict.fromkeys(("doorbells", "launches", "copies", "instructions", "faults"), 0)
        for driver in self.drivers:
            for name, value in driver.stats().items():
                counts[name] = counts.get(name, 0) + value
        return {"ioctls": self._ioctls, **counts, "seconds": (time.monotonic_ns() - self._started_ns) / 1e9}

    # files

    def open(self, path: str) -> FileIOInterface:
        self.after_fork()
        with self.lock:
            rule = self.rules.hit("open", lambda: (path,))
            if rule is not None:
                raise os_error(rule.errno or errno_codes.EIO, f"injected: open {path}")
            if path not in self.nodes:
                raise os_error(errno_codes.ENOENT, f"open {path}")
            failure = self.nodes[path][1]
            if failure is not None:
                raise os_error(failure, f"open {path}")
            if len(self.fds) + FIRST_FD >= self.fd_limit:
                raise os_error(errno_codes.EMFILE, f"open {path}")
            file = next((found for driver in self.drivers if (found := driver.open(path)) is not None), None)
            if file is None:
                raise os_error(errno_codes.ENXIO, f"open {path}")  # a node with no driver behind it
            file.fd = next(number for number in range(FIRST_FD, self.fd_limit) if number not in self.fds)
            self.fds[file.fd] = file
            return file

    def close_file(self, file: EmulatedFile) -> None:
        """Called by the file's own close. A child's close of an inherited file leaves the parent's alone."""
        if self.fds.get(file.fd) is file and file.pid == self.getpid():
            del self.fds[file.fd]
            file.released()
            self.pump()

    def after_fork(self) -> None:
        """A forked child starts with an empty log, and with machinery of its own once it has nothing inherited."""
        if self._pid == super().getpid():
            return
        self.lock = threading.RLock()  # a thread that does not exist here may hold the old one
        self._running = False
        self._log.clear()
        self._boot()

    def log(self, record: Record) -> None:
        self._ioctls += 1
        self._log.add(record)

    def exists(self, path: str) -> bool:
        folder = path.rstrip("/") + "/"
        return any(known == path or known.startswith(folder) for known in (*self.nodes, *self.files))

    def listdir(self, path: str) -> list[str]:
        folder = path.rstrip("/") + "/"
        known = (known for known in (*self.nodes, *self.files) if known.startswith(folder))
        return sorted({name[len(folder) :].split("/")[0] for name in known})

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def stat_text(self, path: str) -> str:
        if path not in self.nodes:
            return "not readable [ENOENT]"
        return f"{stat_bits.filemode(stat_bits.S_IFCHR | stat_bits.S_IMODE(self.nodes[path][0]))} uid 0 gid 0"

    # time

    def run_gpus(self) -> bool:
        """Let every GPU work until it has nothing to do. True when anything moved."""
        if self._running:
            return False
        with self.lock, interrupts_held():
            self.raise_late_refusal()
            self._running = True
            try:
                moved = [driver.run() for driver in self.drivers]
            finally:
                self._running = False
        return any(moved)

    def raise_late_refusal(self) -> None:
        late, self._late_refusal = self._late_refusal, None
        if late is not None:
            raise late

    def pump(self) -> bool:
        """Run the GPUs where nothing may fail for them (an ioctl): a refusal waits for the next plain run."""
        try:
            return self.run_gpus()
        except EmulatorRefusal as refusal:
            self._late_refusal = refusal
            return True

    def ring(self, doorbell: Callable[[int], None], token: int) -> None:
        """A doorbell store: the GPUs run here and now, or in their own thread."""
        if self.worker is not None:
            self.worker.ring(doorbell, token)
            return
        with self.lock:
            doorbell(token)
            self.run_gpus()

    def back_off(self, spins: int) -> None:
        """One step of a wait: the GPUs run here; a machine with nothing to do sleeps as a real one."""
        if self.worker is not None:
            self.worker.wake()
            super().back_off(spins)
            self.raise_late_refusal()
        elif not self.run_gpus():
            super().back_off(spins)

    def close(self) -> None:
        """Give all memory back. The machine cannot be used afterwards; unclosed ones do this when collected."""
        if self.worker is not None:
            self.worker.stop()
        for driver in self.drivers:
            driver.close()
        self.memory.close()


def _threads_asked() -> int:
    text = os.environ.get("HCQRT_EMU_THREADS", "").strip() or "1"
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"HCQRT_EMU_THREADS={text!r} is no number of threads; say 1 or 2")
    return int(text)
