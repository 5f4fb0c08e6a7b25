"""Address ranges of one process on the GPU, as KGSL's MMU code splits them. Source: qcom.md §1.6."""

from __future__ import annotations

import errno as errno_codes

from hcqrt.bits import align_up
from hcqrt.emu.intervals import IntervalMap
from hcqrt.emu.qcom.kgsl.errors import refuse

VA_BITS = 48
SVM = (0x10_0000_0000, 0x40_0000_0000)  # GPU address = CPU address
ORDINARY = (0x40_0000_0000, 0x80_0000_0000)
LOW = (0x0030_0000, 0xF000_0000)  # FORCE_32BIT; the kernel's own mappings lie above
ALL = (LOW, SVM, ORDINARY)

Bounds = tuple[int, int]


class AddressRanges:
    """Which addresses are given out. Freed ones are used again last, so that stale addresses are noticed."""

    def __init__(self) -> None:
        self._used: IntervalMap[object] = IntervalMap()
        self._next: dict[Bounds, int] = {}

    def place(self, nbytes: int, align: int, bounds: Bounds, owner: object) -> int:
        """Take `nbytes` inside of `bounds`. Raises OSError ENOMEM."""
        low, high = bounds
        start = self._next.get(bounds, low)
        for first, last in ((start, high), (low, high)):
            va = align_up(first, align)
            while va + nbytes <= last:
                taken = self._used.overlapping(va, va + nbytes)
                if not taken:
                    self._used.put(va, va + nbytes, owner)
                    self._next[bounds] = va + nbytes
                    return va
                va = align_up(taken[-1].end, align)
        refuse(errno_codes.ENOMEM, f"no {nbytes} bytes of GPU addresses in [{low:#x}, {high:#x})")

    def take(self, va: int, nbytes: int, owner: object) -> None:
        """Take just these addresses. Raises OSError EBUSY when some are given out."""
        if self._used.overlapping(va, va + nbytes):
            refuse(errno_codes.EBUSY, f"GPU addresses [{va:#x}, +{nbytes:#x}) are in use")
        self._used.put(va, va + nbytes, owner)

    def give_back(self, va: int, nbytes: int) -> None:
        self._used.cut(va, va + nbytes)


def in_range(va: int, nbytes: int) -> bool:
    """Whether user memory could lie there: what the driver checks of a command buffer's address."""
    return any(low <= va and va + nbytes <= high for low, high in ALL)
