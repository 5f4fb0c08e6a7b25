"""Typed views on mapped memory, and the store fence."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

FORMAT_BYTES = {"B": 1, "H": 2, "I": 4, "Q": 8}


class MMIOInterface:
    """`nbytes` of memory at host address `addr`, indexed as items of `fmt` ("B", "H", "I", "Q"; little endian).

    Holds `owner` alive. A store of one item is one store of that width. Slices work for every format.
    """

    __slots__ = ("addr", "fmt", "mv", "nbytes", "owner")

    def __init__(self, addr: int, nbytes: int, fmt: str = "B", owner: Any = None) -> None:
        if fmt not in FORMAT_BYTES:
            raise ValueError(f"format {fmt!r} is not one of {', '.join(FORMAT_BYTES)}")
        if addr <= 0 or nbytes < 0 or nbytes % FORMAT_BYTES[fmt] or addr % FORMAT_BYTES[fmt]:
            raise ValueError(f"view of {nbytes} bytes at {addr:#x}: not whole aligned items of format {fmt!r}")
        self.addr, self.nbytes, self.fmt, self.owner = addr, nbytes, fmt, owner
        raw = memoryview((ctypes.c_char * nbytes).from_address(addr)).cast("B")
        self.mv: memoryview = raw if fmt == "B" else raw.cast(fmt)  # type: ignore[call-overload]  # fmt is checked above

    def __len__(self) -> int:
        return self.nbytes // FORMAT_BYTES[self.fmt]

    def __getitem__(self, index: Any) -> Any:
        return self.mv[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.mv[index] = value

    @property
    def words(self) -> Any:
        """What indexes this memory as 32-bit words with the least cost: keep it, don't ask twice."""
        return self.view(fmt="I").mv

    def view(self, offset: int = 0, nbytes: int | None = None, fmt: str | None = None) -> MMIOInterface:
        """A part of this memory, `offset` and `nbytes` in bytes; raises ValueError when it leaves this view."""
        size = self.nbytes - offset if nbytes is None else nbytes
        if offset < 0 or size < 0 or offset + size > self.nbytes:
            raise ValueError(f"view [{offset:#x}, +{size:#x}) leaves the {self.nbytes:#x} bytes at {self.addr:#x}")
        return MMIOInterface(self.addr + offset, size, fmt or self.fmt, self.owner)

    def tobytes(self) -> bytes:
        return self.mv.tobytes()


class HookedMMIO(MMIOInterface):
    """Memory whose owner wants to know of stores: `on_write(byte_offset, nbytes)` runs after each one."""

    __slots__ = ("base_offset", "on_write")

    def __init__(
        self,
        addr: int,
        nbytes: int,
        fmt: str = "B",
        owner: Any = None,
        *,
        on_write: Callable[[int, int], None],
        base_offset: int = 0,
    ) -> None:
        super().__init__(addr, nbytes, fmt, owner)
        self.on_write, self.base_offset = on_write, base_offset

    def __setitem__(self, index: Any, value: Any) -> None:
        self.mv[index] = value
        width = FORMAT_BYTES[self.fmt]
        items: Iterable[int] = range(len(self))[index] if isinstance(index, slice) else (range(len(self))[index],)
        for item in items:
            self.on_write(self.base_offset + item * width, width)

    @property
    def words(self) -> Any:
        return self.view(fmt="I")

    def view(self, offset: int = 0, nbytes: int | None = None, fmt: str | None = None) -> HookedMMIO:
        plain = super().view(offset, nbytes, fmt)
        return HookedMMIO(
            plain.addr,
            plain.nbytes,
            plain.fmt,
            plain.owner,
            on_write=self.on_write,
            base_offset=self.base_offset + offset,
        )
