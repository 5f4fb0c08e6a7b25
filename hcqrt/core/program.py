"""HCQProgram: a loaded kernel that can be called; HCQArgsState: its arguments in GPU-visible memory."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.core.alloc import FencedRing
from hcqrt.core.patch import MemoryPatch
from hcqrt.core.signal import MASK64
from hcqrt.core.sints import ForeignSymbol, Symbol, is_symbolic
from hcqrt.errors import HCQError, LaunchError

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.core.device import HCQDevice

Launch = Callable[[Sequence["HCQBuffer"], Sequence[Any]], None]
Size = tuple[int, int, int]


@dataclass(frozen=True)
class Resources:
    """What one thread or workgroup of a kernel uses: registers per thread, bytes, threads."""

    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads: int
    barriers: int = 0


@dataclass(frozen=True)
class Param:
    """One kernel parameter: byte offset from the parameters' start, and size in bytes."""

    offset: int
    size: int


class HCQArgsState:
    """The arguments of one launch, in a slot of the fenced kernel-argument ring.

    `mv`, `offset`, `va`: the slot's memory, its start in it, its GPU address. The slot is held until the object dies;
    a submission tags `segment` with its progress value, so the slot is reused only when that has retired.
    """

    __slots__ = ("__weakref__", "mv", "offset", "patches", "prg", "segment", "used", "va")

    def __init__(self, prg: HCQProgram, ring: FencedRing, nbytes: int) -> None:
        self.prg = prg
        self.offset = ring.alloc(nbytes)
        self.mv, self.va = ring.mv, ring.va + self.offset
        self.segment = ring.segment
        self.segment.holds += 1
        self.patches: list[MemoryPatch] = []
        self.used = False  # a launch already uses what the slot holds besides the arguments

    def copy_of(self, ring: FencedRing, nbytes: int) -> HCQArgsState:
        """The same arguments in another slot, symbols included: for a second launch whose slot must differ."""
        other = HCQArgsState(self.prg, ring, nbytes)
        other.mv[other.offset : other.offset + nbytes] = self.mv[self.offset : self.offset + nbytes]
        move = other.offset - self.offset
        other.patches = [MemoryPatch(other.mv, p.offset + move, p.fmt, p.value, p.mask) for p in self.patches]
        return other

    def __del__(self) -> None:
        segment = getattr(self, "segment", None)
        if segment is not None:
            segment.holds -= 1


class CLikeArgsState(HCQArgsState):
    """Arguments laid out like a C struct: pointers to buffers, then scalars, each at the offset its parameter names.

    `initial` is what the slot starts with where no argument lies.
    """

    __slots__ = ()

    def __init__(
        self,
        prg: HCQProgram,
        ring: FencedRing,
        nbytes: int,
        bufs: Sequence[HCQBuffer],
        vals: Sequence[Any],
        initial: bytes = b"",
    ) -> None:
        super().__init__(prg, ring, nbytes)
        start = self.offset
        self.mv[start : start + len(initial)] = initial
        for param, value in zip(prg.params_for(len(bufs), len(vals)), (*(b.va_addr for b in bufs), *vals), strict=True):
            place = start + prg.param_base + param.offset
            if isinstance(value, (Symbol, ForeignSymbol)):
                self.patches.append(MemoryPatch(self.mv, place, item_format(param), value, None))
            else:
                try:
                    bits = scalar_bits(value, param.size)
                except LaunchError as error:
                    raise LaunchError(f"{prg.name}: {error}") from None
                struct.pack_into(f"<{item_format(param)}", self.mv, place, bits)


def item_format(param: Param) -> str:
    """struct format of one parameter; what is no scalar is a C struct and given as bytes."""
    return UNSIGNED.get(param.size, f"{param.size}s")


UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
FLOATS = {2: "e", 4: "f", 8: "d"}


def scalar_bits(value: Any, nbytes: int) -> Any:
    """An argument as the bits of its parameter, struct parameters as bytes. Raises LaunchError when it does not fit."""
    if nbytes not in UNSIGNED:
        if not isinstance(value, (bytes, bytearray)) or len(value) != nbytes:
            raise LaunchError(f"argument {value!r}: the parameter is a struct, pass its {nbytes} bytes")
        return bytes(value)
    if isinstance(value, float):
        if nbytes not in FLOATS:
            raise LaunchError(f"argument {value!r}: the parameter has {nbytes} bytes, no float has; pass an integer")
        try:
            return int.from_bytes(struct.pack(f"<{FLOATS[nbytes]}", value), "little")
        except OverflowError:
            raise LaunchError(f"argument {value!r} is beyond what a float of {nbytes} bytes holds") from None
    bits = 8 * nbytes
    if not hasattr(value, "__index__"):
        if hasattr(value, "__float__") and not isinstance(value, float):  # NumPy's floats of 16 and 32 bits
            return scalar_bits(float(value), nbytes)
        raise LaunchError(f"argument {value!r} is neither an integer nor a float; convert it first")
    number = int(value.__index__())
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise LaunchError(f"argument {number} does not fit its parameter of {nbytes} bytes")
    return number & (1 << bits) - 1


class HCQProgram(ABC):
    """A kernel on a device. Vendor programs load the code and know how it is launched."""

    dev: HCQDevice
    name: str
    arch: str
    resources: Resources
    params: tuple[Param, ...] | None  # None: the file says nothing of them
    param_base: int  # where parameters start in the argument slot, bytes
    closed = False
    _memory: Any = None  # the code's, once loaded

    def __init__(self) -> None:
        self._launches: dict[tuple[Sequence[int], Sequence[int], int], Launch] = {}
        self.templates: dict[tuple[Any, Any, int], Any] = {}  # what vendor programs keep of a shape

    def __call__(
        self,
        *bufs: HCQBuffer,
        vals: Sequence[Any] = (),
        global_size: Sequence[int] = (1, 1, 1),
        local_size: Sequence[int] = (1, 1, 1),
        dynamic_shared: int = 0,
        wait: bool = False,
    ) -> float | None:
        """Launch. `global_size` counts workgroups, `local_size` threads of each.

        Returns:
            The kernel's time in seconds when `wait`, else None at once.
        Raises:
            LaunchError: a limit, or the number, size or device of the arguments. Nothing was submitted.
            DeviceFault: the device has faulted, now or earlier.
        """
        try:
            launch = self._launches[global_size, local_size, dynamic_shared]
        except (KeyError, TypeError):
            launch = self._remember_launch(tuple(global_size), tuple(local_size), dynamic_shared)
        if wait:
            return self._timed(bufs, vals, tuple(global_size), tuple(local_size), dynamic_shared)
        launch(bufs, vals)
        return None

    def _remember_launch(
        self, global_size: tuple[int, ...], local_size: tuple[int, ...], dynamic_shared: int
    ) -> Launch:
        self._live()
        launch = self.prepare(three(global_size, "global_size"), three(local_size, "local_size"), dynamic_shared)
        if len(self._launches) >= 64:  # shapes that change with every call must not collect
            self._launches.clear()
        self._launches[global_size, local_size, dynamic_shared] = launch
        return launch

    def _timed(
        self,
        bufs: Sequence[HCQBuffer],
        vals: Sequence[Any],
        global_size: Sequence[int],
        local_size: Sequence[int],
        shared: int,
    ) -> float:
        """The straight line, with the GPU's clock read before and after."""
        dev = self.dev
        with dev.lock:
            args = self.fill_kernargs(bufs, vals)
            if args.patches:
                raise LaunchError(f"{self.name}: an argument is a symbol; build a queue and submit it with values")
            start, end = dev.new_signal(), dev.new_signal()
            value = dev.upcoming()
            queue = dev.compute_queue().wait(dev.timeline_signal, value - 1 & MASK64).memory_barrier().timestamp(start)
            queue.exec(self, args, global_size, local_size, shared)
            dev.submit_to(queue.timestamp(end).signal(dev.timeline_signal, value), value)
        dev.timeline_signal.wait(value)
        seconds = float(end.timestamp - start.timestamp) / 1e6
        start.close()  # only now: after an error the GPU may still write to both
        end.close()
        return seconds

    @abstractmethod
    def prepare(self, global_size: Size, local_size: Size, dynamic_shared: int) -> Launch:
        """Check the limits and return what launches this shape with given arguments."""

    @abstractmethod
    def fill_kernargs(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any] = ()) -> HCQArgsState:
        """Write the arguments to a slot of the kernel-argument ring; symbols are written at submission."""

    def close(self) -> None:
        """Free the code once the device no longer uses it. Twice is fine."""
        if not self.closed:
            self.closed = True
            self._launches.clear()
            self.templates.clear()
            self.dev.disown(self)
            self.dev.free(self._memory)

    def __del__(self) -> None:
        memory = getattr(self, "_memory", None)
        if memory is not None and not self.closed:
            self.dev.drop(memory)  # programs come and go with the compiler's cache: dropping one is normal use

    def params_for(self, buf_count: int, val_count: int) -> Sequence[Param]:
        """Where `buf_count` pointers and `val_count` scalars go. Raises LaunchError when the kernel takes others."""
        if self.params is None:  # no metadata: pointers of 8 bytes, then scalars of 4, naturally aligned
            return [
                *(Param(8 * i, 8) for i in range(buf_count)),
                *(Param(8 * buf_count + 4 * i, 4) for i in range(val_count)),
            ]
        given = buf_count + val_count
        if given != len(self.params):
            raise LaunchError(
                f"{self.name} takes {len(self.params)} arguments, {given} were given "
                f"({buf_count} buffers, {val_count} values)"
            )
        for index, param in enumerate(self.params[:buf_count]):
            if param.size != 8:
                raise LaunchError(
                    f"{self.name}: argument {index} has {param.size} bytes and is no pointer; pass it in vals"
                )
        return self.params

    def check_buffers(self, bufs: Sequence[HCQBuffer]) -> None:
        """Raise LaunchError for a buffer that is closed, not a buffer, or another device's."""
        for index, buf in enumerate(bufs):
            owner = getattr(buf, "dev", self)
            if owner is self:
                raise LaunchError(
                    f"{self.name}: argument {index} is {type(buf).__name__}, not a buffer; scalars go in vals"
                )
            if owner is None and not is_symbolic(buf.va_addr):
                raise LaunchError(f"{self.name}: argument {index} is a buffer that was closed")
            if owner is not None and owner is not self.dev:
                raise LaunchError(
                    f"{self.name}: argument {index} is a buffer of {owner.name}, the kernel is on {self.dev.name}"
                )

    def _live(self) -> None:
        if self.closed:
            raise HCQError(f"program {self.name} was closed; load it again")


def three(size: Sequence[Any], what: str) -> tuple[Any, Any, Any]:
    """A size as three axes; missing ones are 1."""
    if not 1 <= len(size) <= 3:
        raise LaunchError(f"{what} {tuple(size)} has {len(size)} axes; give 1 to 3")
    x, y, z = (*size, 1, 1)[:3]
    return x, y, z
