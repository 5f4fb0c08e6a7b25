"""What a wide run read and wrote in global memory: proof that order did not matter, and the way back if it did."""

from __future__ import annotations

import numpy as np

from .memory import Place
from .rounding import I64, U32, Array
from .unit import TooOrdered

Span = tuple[int, int]  # host addresses, half open

# More than this many single accesses are not worth proving apart.
_TRACKED_LIMIT = 1 << 22


def _overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


class Journal:
    """Of one chunk of blocks. All addresses are host addresses, so that two mappings of one page are seen as one.

    First try: each record's loads and stores are hulls, which must not touch a store's hull. With `exact` every access
    is kept with its lane, and `settle` shows at the end that no lane touched what another had written.
    """

    def __init__(self, constants: list[Span], exact: bool):
        self.constants, self.exact = constants, exact
        self._loads: dict[int, Span] = {}
        self._stores: dict[int, Span] = {}
        self._undo: list[tuple[Place, int, list[U32]]] = []
        self._seen: list[tuple[bool, int, Array, Array]] = []
        self._count = 0

    def load(self, record: int, place: Place, nbytes: int, lanes: Array) -> None:
        if self.exact:
            self._keep(False, place, nbytes, lanes)
            return
        span = place.host_span(nbytes)
        for other in self._stores.values():
            if _overlap(span, other):
                raise TooOrdered("a load near a store")
        self._loads[record] = _hull(self._loads.get(record), span)

    def store(self, record: int, place: Place, nbytes: int, lanes: Array) -> None:
        """To be called before the store itself."""
        span = place.host_span(nbytes)
        if any(_overlap(span, bank) for bank in self.constants):
            raise TooOrdered("a store to a constant bank")
        if self.exact:
            self._keep(True, place, nbytes, lanes)
        else:
            for others in (self._loads, self._stores):
                if any(_overlap(span, other) for other in others.values()):
                    raise TooOrdered("a store near another access")
            self._stores[record] = _hull(self._stores.get(record), span)
        self._undo.append((place, nbytes, place.load(nbytes)))

    def _keep(self, writes: bool, place: Place, nbytes: int, lanes: Array) -> None:
        self._count += lanes.size
        if self._count > _TRACKED_LIMIT:
            raise TooOrdered("too many accesses to prove apart")
        self._seen.append((writes, nbytes, place.host_addresses(), lanes))

    def settle(self) -> None:
        """Raise TooOrdered unless every byte that was written was touched by one lane only."""
        if not self.exact or not any(writes for writes, *_ in self._seen):
            return
        unit = min(nbytes for _, nbytes, _, _ in self._seen)
        cells: list[I64] = []
        owners: list[Array] = []
        written: list[Array] = []
        for writes, nbytes, address, lanes in self._seen:
            for k in range(nbytes // unit):
                cells.append(address // unit + k)
                owners.append(lanes)
                written.append(np.full(lanes.size, writes))
        cell, owner, write = np.concatenate(cells), np.concatenate(owners), np.concatenate(written)
        order = np.argsort(cell, kind="stable")
        cell, owner, write = cell[order], owner[order], write[order]
        starts = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
        alone = np.minimum.reduceat(owner, starts) == np.maximum.reduceat(owner, starts)
        if (np.logical_or.reduceat(write, starts) & ~alone).any():
            raise TooOrdered("two threads meet in memory")

    def roll_back(self) -> None:
        for place, nbytes, words in reversed(self._undo):
            place.store(nbytes, words)


def _hull(a: Span | None, b: Span) -> Span:
    return b if a is None else (min(a[0], b[0]), max(a[1], b[1]))
