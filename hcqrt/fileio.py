"""The machine as a device sees it: files, ioctl, mmap, time. `System` is the real one, through libc by cffi."""

from __future__ import annotations

import errno as errno_codes
import functools
import mmap as mmap_flags
import os
import stat as stat_bits
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hcqrt.bits import align_up
from hcqrt.errors import HCQError
from hcqrt.mmio import MMIOInterface

if TYPE_CHECKING:
    from typing_extensions import Self

LIBC_CDEF = """
void *mmap(void *addr, size_t length, int prot, int flags, int fd, int64_t offset);
int munmap(void *addr, size_t length);
int madvise(void *addr, size_t length, int advice);
int ioctl(int fd, unsigned long request, void *arg);
"""
FENCE_CDEF = "void atomic_thread_fence(int order);"
MEMORY_ORDER_SEQ_CST = 5  # stdatomic.h

# bits/mman-map-flags-generic.h and bits/mman-linux.h, x86-64 and arm64 alike
MAP_FIXED, MAP_NORESERVE, MAP_FIXED_NOREPLACE = 0x10, 0x4000, 0x100000
MADV_DONTFORK = 10
PROT_RW = mmap_flags.PROT_READ | mmap_flags.PROT_WRITE
PROT_NONE = 0

SPINS_BEFORE_SLEEP = 2000  # a kernel that takes microseconds is seen at once; longer ones don't burn a core
SLEEP_S = 50e-6


class Libc:
    """The few libc calls that Python's own modules do not give with addresses. Made when the first device opens."""

    def __init__(self) -> None:
        import cffi

        self.ffi = cffi.FFI()
        self.ffi.cdef(LIBC_CDEF)
        self.lib: Any = self.ffi.dlopen(None)

    def _failed(self, what: str) -> OSError:
        number = self.ffi.errno
        return OSError(number, f"{what}: {os.strerror(number)}")

    def mmap(self, address: int, length: int, prot: int, flags: int, fd: int, offset: int) -> int:
        pointer = self.lib.mmap(self.ffi.cast("void *", address), length, prot, flags, fd, offset)
        got = int(self.ffi.cast("uintptr_t", pointer))
        if got == (1 << 64) - 1:
            raise self._failed(f"mmap of {length} bytes at {address:#x}")
        return got

    def munmap(self, address: int, length: int) -> None:
        if self.lib.munmap(self.ffi.cast("void *", address), length):
            raise self._failed(f"munmap of {length} bytes at {address:#x}")

    def dont_fork(self, address: int, length: int) -> None:
        if self.lib.madvise(self.ffi.cast("void *", address), length, MADV_DONTFORK):
            raise self._failed(f"madvise of {length} bytes at {address:#x}")

    def ioctl(self, fd: int, request: int, argument: int) -> int:
        result = int(self.lib.ioctl(fd, request, self.ffi.cast("void *", argument)))
        if result < 0:
            raise self._failed(f"ioctl {request:#x}")
        return result


def load_fence() -> Any:
    """A callable that orders all earlier stores before all later ones, write-combined ones included."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(FENCE_CDEF)
    for name in ("libatomic.so.1", "libatomic.so"):
        try:
            library = ffi.dlopen(name)
            fence = functools.partial(library.atomic_thread_fence, MEMORY_ORDER_SEQ_CST)
        except (OSError, AttributeError):
            continue
        setattr(fence, "library", library)  # noqa: B010  # cffi unloads a library that nobody holds
        return fence
    if os.uname().machine not in ("x86_64", "AMD64"):
        raise HCQError("no store fence: libatomic is not installed; install it (package libatomic1) and try again")
    return load_x86_fence()


def load_x86_fence() -> Any:
    """Without libatomic: semaphore post and wait hold locked instructions, which drain every store on x86-64."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(
        "typedef struct { char opaque[32]; } sem_t; int sem_init(sem_t *, int, unsigned); int sem_post(sem_t *);"
        "int sem_trywait(sem_t *);"
    )
    lib: Any = ffi.dlopen(None)
    semaphore = ffi.new("sem_t *")
    if lib.sem_init(semaphore, 0, 0):
        raise HCQError("no store fence: sem_init failed; install libatomic (package libatomic1) and try again")
    post, trywait = lib.sem_post, lib.sem_trywait

    def fence() -> None:
        post(semaphore)
        trywait(semaphore)

    return fence


class FileIOInterface:
    """An open device node."""

    def __init__(self, path: str, fd: int, libc: Libc) -> None:
        self.path, self.fd, self._libc = path, fd, libc

    def ioctl(self, request: int, argument: int) -> int:
        """One ioctl with the address of its argument; raises OSError. `Ioctl` retries EINTR and words the error."""
        return self._libc.ioctl(self.fd, request, argument)

    def mmap(self, length: int, offset: int = 0, *, address: int | None = None, writable: bool = True) -> MMIOInterface:
        """Map `length` bytes (MAP_SHARED), over whatever is at `address` when one is given. Raises OSError."""
        prot = PROT_RW if writable else mmap_flags.PROT_READ
        flags = mmap_flags.MAP_SHARED | (MAP_FIXED if address is not None else 0)
        return MMIOInterface(self._libc.mmap(address or 0, length, prot, flags, self.fd, offset), length)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class System:
    """The real machine. Emulated ones derive from it, so that nothing above knows which it talks to."""

    name = "real"

    def __init__(self) -> None:
        self._libc: Libc | None = None
        self._fence: Any = None
        self.page_size: int = os.sysconf("SC_PAGE_SIZE")

    @staticmethod
    def default(spec: str | None = None) -> System:
        """The machine that `spec` names: None or "real", or "emulated[:chip[@driver],…]"."""
        if spec is None or spec in ("", "real"):
            return System()
        if spec.split(":")[0] != "emulated":
            raise ValueError(f"system {spec!r}: say real, emulated, or emulated:CHIP[@DRIVER],… (HCQRT_SYSTEM)")
        from hcqrt.emu.system import EmulatedSystem

        return EmulatedSystem.from_text(spec)

    def same_machine(self, other: System) -> bool:
        """Whether devices of both are in one machine: every plain System is the real one."""
        return self is other or type(self) is type(other) is System

    @property
    def libc(self) -> Libc:
        if self._libc is None:
            self._libc = Libc()
        return self._libc

    # files

    def open(self, path: str) -> FileIOInterface:
        """Open a device node for reading and writing, closed on exec. Raises OSError."""
        return FileIOInterface(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), self.libc)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def listdir(self, path: str) -> list[str]:
        """Sorted names in a folder; empty when it does not exist or may not be read."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def read_text(self, path: str) -> str | None:
        """A small text file (procfs, sysfs), or None when it cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def stat_text(self, path: str) -> str:
        """Mode and owner for an error text, such as `crw-rw---- uid 0 gid 44`."""
        try:
            status = os.stat(path)
        except OSError as error:
            return f"not readable [{errno_codes.errorcode.get(error.errno or 0, '?')}]"
        return f"{stat_bits.filemode(status.st_mode)} uid {status.st_uid} gid {status.st_gid}"

    # memory

    def reserve(self, nbytes: int, align: int, below: int, start: int = 1 << 36) -> int:
        """Claim `nbytes` of address space, aligned, ending at or under `below`, with nothing mapped. Raises OSError."""
        flags = mmap_flags.MAP_PRIVATE | mmap_flags.MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE
        address = align_up(start, align)
        while address + nbytes <= below:
            try:
                got = self.libc.mmap(address, nbytes, PROT_NONE, flags, -1, 0)
            except OSError as error:
                if error.errno != errno_codes.EEXIST:
                    raise
            else:
                if got == address:
                    return address
                self.libc.munmap(got, nbytes)  # kernels before 4.17 take the address as a hint
            address += max(align, align_up(nbytes, align))
        raise OSError(errno_codes.ENOMEM, f"no free {nbytes} bytes of address space in [{start:#x}, {below:#x})")

    def anonymous(self, nbytes: int, address: int | None = None, *, shared: bool = True) -> MMIOInterface:
        """Fresh zeroed host memory, at `address` (inside a reservation) when one is given. Raises OSError."""
        flags = mmap_flags.MAP_ANONYMOUS | (mmap_flags.MAP_SHARED if shared else mmap_flags.MAP_PRIVATE)
        if address is not None:
            flags |= MAP_FIXED
        return MMIOInterface(self.libc.mmap(address or 0, nbytes, PROT_RW, flags, -1, 0), nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        self.libc.munmap(address, nbytes)

    def back_to_reserved(self, address: int, nbytes: int) -> None:
        """Drop what is mapped in a part of a reservation, but keep the addresses claimed."""
        flags = mmap_flags.MAP_PRIVATE | mmap_flags.MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED
        self.libc.mmap(address, nbytes, PROT_NONE, flags, -1, 0)

    # time and order

    def clock_ns(self) -> int:
        return time.monotonic_ns()

    def back_off(self, spins: int) -> None:
        """One step of a wait that has polled `spins` times: spin first, then sleep."""
        if spins > SPINS_BEFORE_SLEEP:
            time.sleep(SLEEP_S)

    @property
    def fence(self) -> Any:
        """A callable that orders earlier stores before later ones. Keep it: it is on the launch path."""
        if self._fence is None:
            self._fence = load_fence()
        return self._fence

    def getpid(self) -> int:
        return os.getpid()
