"""What the dispatch puts into registers before a program starts, as records in front of its first instruction."""

from __future__ import annotations

from typing import Any

from .. import uops as u
from ..launch import Ir3Setup
from ..lowering import Emitter, Source, immediate
from .registers import SCRATCH, SHARED

ABSENT = 0xFC
MAX_VECTORS = 48  # r0 to r47
LOCAL = (u.SR_TID_X, u.SR_TID_Y, u.SR_TID_Z)
GROUP = (u.SR_CTAID_X, u.SR_CTAID_Y, u.SR_CTAID_Z)
SIZE = (u.SR_NTID_X, u.SR_NTID_Y, u.SR_NTID_Z)


class Start(Emitter[object]):
    """Records outside of any instruction: none of them is counted."""

    scratch_registers = SCRATCH

    def __init__(self, setup: Ir3Setup, pc: int) -> None:
        super().__init__({}, {}, f"the start of the program at {pc:#x}", pc, (u.PT, False))
        self.setup = setup

    def special(self, number: int) -> Source:
        d, value = self.temporary()
        self.emit("S2R", d, imm=number)
        return value

    def group(self, place: int, axis: int) -> None:
        """The group's number in the whole grid."""
        first = self.setup.first_group[axis]
        if first:
            self.emit("MAD", place, self.special(GROUP[axis]), immediate(1), immediate(first))
        else:
            self.emit("S2R", place, imm=GROUP[axis])

    def vector(self, first: int, names: tuple[int, ...]) -> None:
        for place, name in self.places(first, names):
            self.emit("S2R", place, imm=name)

    def places(self, first: int, names: tuple[int, ...]) -> list[tuple[int, int]]:
        """Registers with what belongs there. Those beyond the footprint are left out: no instruction can read them."""
        if first not in SHARED and first >= SHARED.start:
            raise self.refuse(f"register number {first:#x} cannot hold an id")
        if first in SHARED and first + len(names) > SHARED.stop:
            raise self.refuse(f"an id at register {first:#x} leaves the shared registers")
        limit = SHARED.stop if first in SHARED else 4 * self.setup.full_regs
        return [(first + k, name) for k, name in enumerate(names) if first + k < limit]


def prologue(setup: Ir3Setup, pc: int) -> list[Any]:
    """Group numbers below r48 are no registers (a front end writes the number of a constant there): nothing happens."""
    start = Start(setup, pc)
    if max(setup.full_regs, setup.half_regs) > MAX_VECTORS:
        raise start.refuse(
            f"footprints of {setup.full_regs} full and {setup.half_regs} half vectors: {MAX_VECTORS} exist"
        )
    if setup.local_id != ABSENT:
        start.vector(setup.local_id, LOCAL)
    if setup.group_id >= SHARED.start and setup.group_id != ABSENT:
        for axis, (place, _) in enumerate(start.places(setup.group_id, GROUP)):
            start.group(place, axis)
    if setup.group_size >= SHARED.start and setup.group_size != ABSENT:
        start.vector(setup.group_size, SIZE)
    if setup.group_offset >= SHARED.start and setup.group_offset != ABSENT:
        if any(setup.first_group):
            raise start.refuse("the offset of a group in a launch that is a part of a grid is not modelled")
        for (place, group), size in zip(start.places(setup.group_offset, GROUP), SIZE, strict=False):
            start.emit("MAD", place, start.special(group), start.special(size))
    if setup.linear_id != ABSENT:
        for place, _ in start.places(setup.linear_id, (0,)):
            linear(start, place)
    for one in start.records:
        one["flags"] &= 0xFFFFFFFF ^ u.FIRST
    return start.records


def linear(start: Start, place: int) -> None:
    """x + size x * (y + size y * z)."""
    x, y, z = (start.special(name) for name in LOCAL)
    size_x, size_y = (start.special(name) for name in SIZE[:2])
    d, row = start.temporary()
    start.emit("MAD", d, z, size_y, y)
    start.emit("MAD", place, row, size_x, x)
