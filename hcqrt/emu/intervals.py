"""A map from half-open address ranges to values, where a new range replaces what it covers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Interval(NamedTuple):
    """`value` covers [start, end). A range that was cut keeps its value, so values hold their own origin."""

    start: int
    end: int
    value: Any  # of the map's own type; Python 3.10 has no generic named tuples


class IntervalMap(Generic[T]):
    """Disjoint ranges in address order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._items: list[Interval] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._items)

    def find(self, address: int) -> Interval | None:
        """The range that holds `address`."""
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._items[index].end:
            return self._items[index]
        return None

    def overlapping(self, start: int, end: int) -> list[Interval]:
        """Whole ranges that share at least one address with [start, end)."""
        first, last = self._span(start, end)
        return self._items[first:last]

    def put(self, start: int, end: int, value: T) -> list[Interval]:
        """Cover [start, end) with `value`; returns the pieces that it replaced."""
        if end <= start:
            raise ValueError(f"range [{start:#x}, {end:#x}) is empty")
        replaced = self.cut(start, end)
        index = bisect_right(self._starts, start)
        self._starts.insert(index, start)
        self._items.insert(index, Interval(start, end, value))
        return replaced

    def cut(self, start: int, end: int) -> list[Interval]:
        """Clear [start, end); returns the pieces that were there, clipped to it."""
        first, last = self._span(start, end)
        kept: list[Interval] = []
        removed: list[Interval] = []
        for item in self._items[first:last]:
            if item.start < start:
                kept.append(Interval(item.start, start, item.value))
            if item.end > end:
                kept.append(Interval(end, item.end, item.value))
            removed.append(Interval(max(item.start, start), min(item.end, end), item.value))
        self._items[first:last] = kept
        self._starts[first:last] = [item.start for item in kept]
        return removed

    def clear(self) -> None:
        self._starts.clear()
        self._items.clear()

    def _span(self, start: int, end: int) -> tuple[int, int]:
        first = bisect_right(self._starts, start) - 1
        if first < 0 or self._items[first].end <= start:
            first += 1
        last = first
        while last < len(self._items) and self._items[last].start < end:
            last += 1
        return first, last
