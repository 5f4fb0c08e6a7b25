"""Global memory for arrays of addresses: bounds by table search, whole-vector loads and stores, an undo log."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .rounding import I64, U32, U64, Array, Bool

Bytes = npt.NDArray[np.uint8]


def host_bytes(pointer: int, nbytes: int) -> Bytes:
    """The bytes at a host address as an array that owns nothing."""
    if nbytes == 0:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(pointer))


class Place:
    """One access of a vector of lanes that lies in one mapping: offsets into it and, if they are, their run."""

    __slots__ = ("offset", "run", "view")

    def __init__(self, view: Bytes, offset: I64, nbytes: int):
        self.view, self.offset = view, offset
        n = offset.size
        first = int(offset[0])
        dense = int(offset[-1]) - first == (n - 1) * nbytes
        if dense and n > 2:
            dense = bool((offset[1:] - offset[:-1] == nbytes).all())
        self.run = first if dense else -1

    def one(self, index: int, nbytes: int) -> Place:
        """The access of a single lane."""
        return Place(self.view, self.offset[index : index + 1], nbytes)

    def host_span(self, nbytes: int) -> tuple[int, int]:
        """The host addresses between the lowest and the highest access."""
        base = int(self.view.ctypes.data)
        if self.run >= 0:
            return base + self.run, base + self.run + self.offset.size * nbytes
        return base + int(self.offset.min()), base + int(self.offset.max()) + nbytes

    def host_addresses(self) -> I64:
        return self.offset + int(self.view.ctypes.data)

    def load(self, nbytes: int) -> list[U32]:
        """The value of each lane as words, lowest first; 1 and 2 bytes are zero-extended."""
        dtype: Any = {1: np.uint8, 2: np.uint16}.get(nbytes, np.uint32)
        words = max(nbytes // 4, 1)
        if self.run >= 0:
            part: Array = self.view[self.run : self.run + self.offset.size * nbytes].view(dtype)
            if words == 1:
                return [part.astype(np.uint32)]
            table = part.reshape(-1, words)
            return [table[:, k].copy() for k in range(words)]
        cells = self._cells(dtype)
        index = self.offset // dtype().itemsize
        return [cells.take(index + k).astype(np.uint32, copy=False) for k in range(words)]

    def store(self, nbytes: int, words: Sequence[U32]) -> None:
        """Write the lanes in order: of lanes at one address the last wins."""
        dtype: Any = {1: np.uint8, 2: np.uint16}.get(nbytes, np.uint32)
        if self.run >= 0:
            part: Array = self.view[self.run : self.run + self.offset.size * nbytes].view(dtype)
            if len(words) == 1:
                part[...] = words[0].astype(dtype, copy=False)
            else:
                table = part.reshape(-1, len(words))
                for k, word in enumerate(words):
                    table[:, k] = word
            return
        cells = self._cells(dtype)
        index = self.offset // dtype().itemsize
        for k, word in enumerate(words):
            cells[index + k] = word.astype(dtype, copy=False)

    def _cells(self, dtype: Any) -> Array:
        size = dtype().itemsize
        return self.view[: self.view.size // size * size].view(dtype)


class RangeTable:
    """The launch's mappings, sorted by address. Source of the rows: `GpuMemory.ranges()`."""

    def __init__(self, rows: Sequence[tuple[int, int, int, bool, bool]]):
        self.rows = sorted(rows)
        if any(va % 16 for va, *_ in self.rows):
            raise ValueError("a mapping does not start at a multiple of 16")
        self.start: U64 = np.array([row[0] for row in self.rows], np.uint64)
        self.end: U64 = np.array([row[0] + row[1] for row in self.rows], np.uint64)
        self.writable: Bool = np.array([row[3] for row in self.rows], np.bool_)
        self.atomic: Bool = np.array([row[4] for row in self.rows], np.bool_)
        self._views: dict[int, Bytes] = {}

    def find(self, address: U64, nbytes: int) -> Array:
        """The row of each access, -1 where an access is not wholly inside one mapping."""
        row = np.searchsorted(self.start, address, side="right").astype(np.int64) - 1
        safe = np.maximum(row, 0)
        if not self.rows:
            return row
        room = self.end[safe] - address
        inside = (row >= 0) & (address < self.end[safe]) & (room >= np.uint64(nbytes))
        return np.where(inside, row, -1)

    def single(self, low: int, high: int, nbytes: int) -> int:
        """The row that holds both the lowest and the highest access of a vector, or -1."""
        row = int(np.searchsorted(self.start, np.uint64(low), side="right")) - 1
        if row < 0 or high + nbytes > int(self.end[row]):
            return -1
        return row

    def place(self, row: int, address: U64, nbytes: int) -> Place:
        """The accesses of lanes that all lie in one mapping."""
        view = self._views.get(row)
        if view is None:
            view = self._views[row] = host_bytes(self.rows[row][2], self.rows[row][1])
        return Place(view, (address - self.start[row]).astype(np.int64), nbytes)
