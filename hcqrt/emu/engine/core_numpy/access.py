"""Loads, stores and atomics of a vector of lanes in every space: addresses, faults in lane order, then the access."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import uops
from ..launch import Launch
from .journal import Journal
from .memory import Bytes, Place, RangeTable, host_bytes
from .records import Rec
from .rounding import I64, U32, U64, Array, Bool
from .shared import SharedShadow
from .unit import Stop, TooOrdered, Unit

SIZES = (1, 1, 2, 2, 4, 8, 16)  # by W_*
APERTURE = 1 << 24  # a window, and the local memory of a thread: 16 MiB
_SPACE_NAMES = {uops.S_GLOBAL: "global", uops.S_SHARED: "shared", uops.S_LOCAL: "local", uops.S_CONST: "constant"}
Part = tuple["Array | None", Place, int]  # which of the running lanes, where, space


class Memory:
    """The memory that the lanes of one block, or of one wide chunk of blocks, see."""

    def __init__(
        self,
        launch: Launch,
        table: RangeTable,
        positions: dict[int, int],
        journal: Journal | None = None,
        blocks: int = 1,
    ):
        self.launch, self.table, self.journal, self.positions = launch, table, journal, positions
        self.banks = {bank: host_bytes(pointer, nbytes) for bank, (pointer, nbytes) in launch.constants.items()}
        # Blocks of a wide chunk lie one after the other.
        self.shared_stride = launch.shared_bytes + 15 & ~15
        self.shared: Bytes = np.zeros(blocks * self.shared_stride, np.uint8)
        self.shadow = None if journal is None else SharedShadow(blocks, self.shared_stride)
        self.low, self.high = launch.local_low_bytes, launch.local_high_bytes
        # Where a lane's upper region and the next lane begin, so that aligned addresses stay aligned.
        self.upper_slot = self.low + 15 & ~15
        self.stride = self.upper_slot + (self.high + 15 & ~15)

    def bank(self, number: int) -> Bytes:
        found = self.banks.get(number)
        return np.zeros(0, np.uint8) if found is None else found

    def constant(self, u: Unit, r: Rec, source: int, size: int) -> int:
        """An operand in a constant bank, the same for all lanes."""
        bank, offset = self.bank(source >> 16), source & 0xFFFF
        kind = "misaligned" if offset % size else "constant" if offset + size > bank.size else ""
        if kind:
            lane = u.first_lane() if u.passing is None else int(u.passing[0])
            raise Stop(kind, lane, r.pc, offset, "read", f"{size} bytes of bank {source >> 16}")
        return int.from_bytes(bank[offset : offset + size].tobytes(), "little")

    def local(self, u: Unit) -> Bytes:
        if u.local is None:
            u.local = np.zeros(u.n * self.stride, np.uint8)
        return u.local

    def parts(self, u: Unit, r: Rec, access: str, nbytes: int) -> list[Part]:
        """Where the running lanes access memory; the first faulty lane, in lane order, stops the unit."""
        if u.run is None and not u.all_live and not r.full:
            u.run = u.lanes()
            u.k = u.run.size
        if r.space == uops.S_GENERIC:
            return self._generic(u, r, access, nbytes)
        if r.space == uops.S_GLOBAL:
            return self._global(u, r, access, nbytes, _address64(u, r))
        address = _address32(u, r)
        view, offset, inside = self._banked(u, r, r.space, address, nbytes)
        odd = (address & np.uint32(nbytes - 1)) != 0
        if not inside.all() or odd.any():
            _stop_first(u, r, access, address, [("misaligned", odd), (_SPACE_NAMES[r.space], ~inside)])
        return [(None, Place(view, offset, nbytes), r.space)]

    def _banked(self, u: Unit, r: Rec, space: int, address: U32, nbytes: int) -> tuple[Bytes, I64, Bool]:
        """Shared, local and constant memory: the bytes, the offsets in them, which lanes are inside."""
        offset = address.astype(np.int64)
        inside: Bool
        if space == uops.S_SHARED:
            inside = offset + nbytes <= self.launch.shared_bytes
            if u.wide:
                offset = offset + u.block_slot[u.lanes()] * self.shared_stride
            return self.shared, offset, inside
        if space == uops.S_CONST:
            bank = self.bank(r.src[2])
            return bank, offset, offset + nbytes <= bank.size
        top = APERTURE - self.high
        upper = (offset >= top) & (offset + nbytes <= APERTURE)
        inside = upper | (offset + nbytes <= self.low)
        slot = np.where(upper, offset - (APERTURE - self.stride + self.upper_slot) + self.upper_slot, offset)
        lane = np.arange(u.n) if u.run is None else u.run
        return self.local(u), slot + lane * self.stride, inside

    def _global(self, u: Unit, r: Rec, access: str, nbytes: int, address: U64) -> list[Part]:
        row = self.table.single(int(address.min()), int(address.max()), nbytes)
        odd = (address & np.uint64(nbytes - 1)) != 0
        if row >= 0 and not odd.any() and self._allowed(row, access):
            return [(None, self.table.place(row, address, nbytes), uops.S_GLOBAL)]
        rows = self.table.find(address, nbytes)
        faults = [("misaligned", odd), ("global", rows < 0), *self._denied(rows, access)]
        _stop_first(u, r, access, address, faults)
        return self._by_row(rows, address, nbytes)

    def _by_row(self, rows: Array, address: U64, nbytes: int) -> list[Part]:
        parts: list[Part] = []
        for row in np.unique(rows):
            at = np.flatnonzero(rows == row)
            parts.append((at, self.table.place(int(row), address[at], nbytes), uops.S_GLOBAL))
        return parts

    def _allowed(self, row: int, access: str) -> bool:
        return access == "read" or (
            bool(self.table.writable[row]) and (access == "write" or bool(self.table.atomic[row]))
        )

    def _denied(self, rows: Array, access: str) -> list[tuple[str, Bool]]:
        if access == "read" or not self.table.rows:
            return []
        safe = np.maximum(rows, 0)
        denied = [("read_only", ~self.table.writable[safe])]
        return [*denied, ("atomic", ~self.table.atomic[safe])] if access == "atomic" else denied

    def _generic(self, u: Unit, r: Rec, access: str, nbytes: int) -> list[Part]:
        if u.wide:
            raise TooOrdered("generic memory")
        address = _address64(u, r)
        shared = address - np.uint64(self.launch.shared_window_va) < APERTURE
        local = (address - np.uint64(self.launch.local_window_va) < APERTURE) & ~shared
        rows = self.table.find(address, nbytes)
        outside: Bool = ~(shared | local)
        faults = [("misaligned", (address & np.uint64(nbytes - 1)) != 0), ("global", outside & (rows < 0))]
        faults += [(kind, outside & where) for kind, where in self._denied(rows, access)]
        parts: list[Part] = []
        windows = (
            (uops.S_SHARED, shared, self.launch.shared_window_va),
            (uops.S_LOCAL, local, self.launch.local_window_va),
        )
        for space, where, base in windows:
            inner = (address - np.uint64(base)).astype(np.uint32)
            view, offset, inside = self._banked(u, r, space, inner, nbytes)
            faults.append((_SPACE_NAMES[space], where & ~inside))
            at = np.flatnonzero(where)
            if at.size and inside[at].all():
                parts.append((at, Place(view, offset[at], nbytes), space))
        _stop_first(u, r, access, address, faults)
        at = np.flatnonzero(outside)
        if at.size:
            parts += [(at[some], place, space) for some, place, space in self._by_row(rows[at], address[at], nbytes)]
        return parts


def _address64(u: Unit, r: Rec) -> U64:
    total: U64 = u.pair(r, 0) if r.has(uops.A64) else u.word(r, 0).astype(np.uint64)
    if r.kind[1] != uops.ZERO:
        total = total + (u.pair(r, 1) if r.has(uops.B64) else u.word(r, 1).astype(np.uint64))
    return total + np.uint64(r.imm & (1 << 64) - 1) if r.imm else total


def _address32(u: Unit, r: Rec) -> U32:
    total: U32 = u.word(r, 0)
    if r.space != uops.S_CONST and r.kind[1] != uops.ZERO:
        total = total + u.word(r, 1)
    total = total + np.uint32(r.imm & 0xFFFFFFFF)
    return total


def _stop_first(u: Unit, r: Rec, access: str, address: Array, faults: Sequence[tuple[str, Bool]]) -> None:
    """Stop at the lowest lane with a fault; of its faults the first in the list counts."""
    any_fault = np.logical_or.reduce([where for _, where in faults])
    if not any_fault.any():
        return
    at = int(np.argmax(any_fault))
    kind = next(kind for kind, where in faults if where[at])
    lane = at if u.run is None else int(u.run[at])
    raise Stop(kind, lane, r.pc, int(address[at]), access)
