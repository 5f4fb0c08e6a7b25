"""Shared memory of many blocks at once, with a shadow that notices warps that meet between two barriers."""

from __future__ import annotations

import numpy as np

from .rounding import I64, Array
from .unit import TooOrdered

_NOBODY, _MANY = -1, -2


class SharedShadow:
    """Who wrote and who read each word since the block's last barrier, by warp.

    Lanes of one warp run in lock step in every kind of run, so only warps can tell the order of a wide run from that of
    the contract. Words are 4 bytes: two warps in one word count as meeting even if their bytes differ.
    """

    def __init__(self, blocks: int, block_bytes: int):
        self.words = -(-block_bytes // 4)
        self.writer = np.full((blocks, self.words), _NOBODY, np.int32)
        self.reader = np.full((blocks, self.words), _NOBODY, np.int32)

    def load(self, offset: I64, nbytes: int, warp: Array) -> None:
        writer, reader = self.writer.reshape(-1), self.reader.reshape(-1)
        for k in range(max(nbytes // 4, 1)):
            cell = (offset >> 2) + k
            before = writer[cell]
            if ((before != _NOBODY) & (before != warp)).any():
                raise TooOrdered("a warp reads what another wrote, without a barrier between")
            earlier = reader[cell]
            reader[cell] = warp
            several = (reader[cell] != warp) | ((earlier != _NOBODY) & (earlier != warp))
            reader[cell[several]] = _MANY

    def store(self, offset: I64, nbytes: int, warp: Array) -> None:
        writer, reader = self.writer.reshape(-1), self.reader.reshape(-1)
        for k in range(max(nbytes // 4, 1)):
            cell = (offset >> 2) + k
            for other in (writer[cell], reader[cell]):
                if ((other != _NOBODY) & (other != warp)).any():
                    raise TooOrdered("a warp writes what another used, without a barrier between")
            writer[cell] = warp
            if (writer[cell] != warp).any():
                raise TooOrdered("two warps write one word at once")

    def barrier(self, blocks: Array) -> None:
        """These blocks (by index or mask) have passed a barrier."""
        self.writer[blocks] = _NOBODY
        self.reader[blocks] = _NOBODY
