"""HCQBuffer: a range of memory that a device's queues may name."""

from __future__ import annotations

import operator
import warnings
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from hcqrt.core import interop
from hcqrt.core.peers import copy_between
from hcqrt.core.sints import as_sint
from hcqrt.errors import HCQError
from hcqrt.mmio import MMIOInterface

if TYPE_CHECKING:
    from typing_extensions import Self

    from hcqrt.core.device import HCQDevice
    from hcqrt.core.sints import Sint


class Rows(Protocol):
    """How an image lies in memory: `height` rows of `row_bytes`, which start `pitch` bytes apart."""

    @property
    def height(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    @property
    def pitch(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Of the whole, gaps included."""


class HCQBuffer:
    """`size` bytes at GPU address `va_addr`.

    `dev` is the device whose queues may use it, None once closed. A buffer that `offset` made shares its parent's
    memory, keeps the parent alive and is closed with it; closing it frees nothing.
    """

    __slots__ = ("__weakref__", "_parent", "_parts", "dev", "image", "memory", "size", "va_addr")

    def __init__(
        self,
        va_addr: Any,
        size: Any,
        dev: HCQDevice | None = None,
        memory: Any = None,
        parent: HCQBuffer | None = None,
        image: Rows | None = None,
    ) -> None:
        self.va_addr: Any = va_addr  # an int, or a symbol in a queue that is submitted with values
        self.size: Any = size
        self.dev, self.memory, self._parent = dev, memory, parent
        self._parts: weakref.WeakSet[HCQBuffer] | None = None
        self.image: Any = image  # how an image's rows lie in memory; `size` counts its texels alone

    def _live(self) -> HCQDevice:
        if self.dev is None:
            raise HCQError(f"the buffer of {self.size} bytes at {self.va_addr:#x} was closed; allocate another")
        return self.dev

    def _placed(self) -> HCQDevice:
        """As `_live`, for what the host does with the memory itself."""
        dev = self._live()
        if type(self.va_addr) is not int or type(self.size) is not int:
            raise HCQError(f"{self!r}: its place is a symbol, which only a queue that is submitted with values knows")
        return dev

    def cpu_view(self) -> MMIOInterface:
        """Its memory as the host sees it, with the gaps between an image's rows.

        Raises HCQError for memory allocated without cpu_access or host.
        """
        dev = self._placed()
        view: MMIOInterface | None = self.memory.cpu if self.memory is not None else None
        if view is None:
            dev.check_usable()
            raise HCQError(
                f"the buffer at {self.va_addr:#x} is not mapped for the host: alloc(cpu_access=True), or copyout()"
            )
        nbytes = self.size if self.image is None else self.image.nbytes
        return view.view(self.va_addr - self.memory.va, nbytes, "B")

    def copyin(self, data: Any) -> None:
        """Copy host bytes into the buffer's start. The data may be changed as soon as the call returns.

        Another buffer, of this device or of any other, is copied as a whole, after the earlier work of its device.
        """
        if isinstance(data, HCQBuffer):
            copy_between(self, data)
            return
        dev = self.dev
        if dev is None or type(self.va_addr) is not int or type(self.size) is not int:
            dev = self._placed()  # words why not
        dev.copyin(self, interop.byte_view(data))

    def copyout(self, into: Any = None) -> Any:
        """Wait for earlier work, then copy the start into `into` (writable, at most `size` bytes) or new bytes."""
        dev = self._placed()
        target = bytearray(self.size) if into is None else into
        view = interop.byte_view(target)
        if view.readonly:
            raise ValueError("copyout needs writable memory")
        dev.copyout(view, self)
        return target

    def fill(self, byte: int) -> None:
        """Set every byte, on the device."""
        value = operator.index(byte)
        if not 0 <= value <= 0xFF:
            raise ValueError(f"fill value {byte} is not a byte")
        self._placed().fill(self, value)

    def offset(self, offset: Sint, size: Sint | None = None) -> HCQBuffer:
        """A part of this buffer. Raises ValueError when it leaves the buffer; symbols are checked at submission."""
        self._live()
        if self.image is not None:
            raise ValueError(f"{self!r} is an image, whose rows do not follow each other; it has no parts")
        start = as_sint(offset)
        length = self.size - start if size is None else as_sint(size)
        known = all(isinstance(value, int) for value in (start, length, self.size))
        if known and not (0 <= start <= start + length <= self.size):
            raise ValueError(f"[{start}, +{length}) leaves the buffer of {self.size} bytes")
        part = HCQBuffer(self.va_addr + start, length, self.dev, self.memory, self)
        if self._parts is None:
            self._parts = weakref.WeakSet()
        self._parts.add(part)
        return part

    def as_numpy(self, dtype: Any, shape: tuple[int, ...]) -> Any:
        """A NumPy array on the buffer's memory (host-visible buffers only); synchronize() before reading."""
        return interop.as_numpy(self, dtype, shape)

    def __dlpack__(self, **options: Any) -> Any:
        return interop.dlpack(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return interop.DLPACK_CPU

    def close(self) -> None:
        """Free the memory once the device no longer uses it. Twice is fine."""
        dev, self.dev = self.dev, None
        memory, self.memory = self.memory, None
        for part in self._parts or ():
            part.close()
        if dev is not None and memory is not None and self._parent is None:
            dev.free(memory)

    def __del__(self) -> None:
        memory = getattr(self, "memory", None)
        if memory is not None and self._parent is None and self.dev is not None and not self.dev.closed:
            warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, source=self, stacklevel=2)
            self.dev.drop(memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = f"{self.va_addr:#x}" if isinstance(self.va_addr, int) else repr(self.va_addr)
        return f"<HCQBuffer {self.size} bytes at {where}{'' if self.dev else ', closed'}>"
