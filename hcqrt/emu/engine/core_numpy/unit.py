"""Lanes that run together: registers and predicates as lists of arrays, and the loop that picks a group and runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import uops
from ..launch import Launch
from .records import Rec
from .rounding import F64, I64, U32, U64, Array, Bool

if TYPE_CHECKING:
    from .access import Memory

RUN, DEAD, SYNC, WARP, BAR = range(5)
_TRUE = (uops.PT, uops.UPT)


class Stop(Exception):
    """A lane cannot go on; `lane` is its index in the unit."""

    def __init__(self, kind: str, lane: int, pc: int, address: int = 0, access: str = "", detail: str = ""):
        super().__init__(kind)
        self.kind, self.lane, self.pc, self.address, self.access, self.detail = kind, lane, pc, address, access, detail


class TooOrdered(Exception):
    """A wide run met something whose result may depend on the order of threads."""


@dataclass
class Counter:
    """Thread-instructions of the launch so far."""

    executed: int
    budget: int


@dataclass
class Setting:
    """What all units of a launch share."""

    records: list[Rec]
    launch: Launch
    counter: Counter
    entry: int
    instruction_bytes: int
    patience: int
    crosses_lanes: bool  # whether the program has operations over whole warps


class Unit:
    """`warps` warps in lock step. Narrow: one warp, the exact order of the contract. Wide: many warps whose lanes do
    not see each other; the registers of dead lanes are then undefined and any need for order raises TooOrdered."""

    def __init__(self, setting: Setting, memory: Memory, coordinates: list[U32], live: Bool, wide: bool):
        self.n, self.wide = live.size, wide
        self.records, self.launch, self.counter = setting.records, setting.launch, setting.counter
        self.instruction_bytes, self.patience = setting.instruction_bytes, setting.patience
        self.turns = 0  # branches backwards since lanes sat out for one
        self.wave = setting.launch.lanes  # of a warp
        self.block_lanes = -(-int(np.prod(setting.launch.block)) // self.wave) * self.wave
        self.block_slot: I64 = np.arange(self.n) // self.block_lanes  # of a wide run
        self.crosses_lanes, self.memory = setting.crosses_lanes, memory
        self.coordinates = coordinates  # tid x y z, ctaid x y z, warp in block
        self.live = live
        self.all_live = bool(live.all())
        zeros: U32 = np.zeros(self.n, np.uint32)
        self.registers: list[U32] = [zeros] * uops.REGISTERS
        self.predicates: list[Bool] = [np.zeros(self.n, np.bool_)] * uops.PREDICATES
        self.barriers: list[U32] = [zeros] * uops.BARRIER_REGISTERS
        self.status = np.where(live, RUN, DEAD).astype(np.uint8)
        self.waits_on = np.zeros(self.n, np.uint8)
        self.position: I64 = np.zeros(self.n, np.int64)
        self.together = True  # all live lanes run, at `here`
        self.here = setting.entry
        self.skip: Bool | None = None  # lanes that sit out the next pick
        self.wait_mask: U32 | None = None  # of WARPSYNC
        self.arrivals: Bool = np.zeros((uops.BARRIER_REGISTERS, self.n), np.bool_)
        self.expected: dict[int, int] = {}  # threads that a numbered barrier waits for, 0: all
        self.run: Array | None = None
        self.group: Array | None = None
        self.k = self.n
        self.passing: Array | None = None  # the running lanes before FULL widened them
        self.local: Array | None = None
        self._filled: dict[int, U32] = {}
        self.executed_any = False

    # Operands of the running lanes.

    def full(self, value: int) -> U32:
        filled = self._filled.get(value)
        if filled is None:
            filled = self._filled[value] = np.full(self.n, value, np.uint32)
        return filled[: self.k]

    def register(self, number: int) -> U32:
        return self.registers[number] if self.run is None else self.registers[number][self.run]

    def word(self, r: Rec, slot: int) -> U32:
        kind = r.kind[slot]
        if kind == uops.REG:
            return self.register(r.src[slot])
        if kind == uops.CONST:
            return self.full(self.memory.constant(self, r, r.src[slot], 4))
        return self.full(r.src[slot] if kind == uops.IMM else 0)

    def pair(self, r: Rec, slot: int) -> U64:
        kind, source = r.kind[slot], r.src[slot]
        if kind == uops.REG:
            joined: U64 = self.register(source + 1).astype(np.uint64) << np.uint64(32)
            joined |= self.register(source)
            return joined
        value = 0
        if kind == uops.CONST:
            value = self.memory.constant(self, r, source, 8)
        elif kind == uops.IMM:
            value = source | (0xFFFFFFFF << 32 if r.has(uops.SX_IMM) and source >> 31 else 0)
        return np.full(self.k, value, np.uint64)

    def inverted(self, r: Rec, slot: int) -> U32:
        return ~self.word(r, slot) if r.flags >> (3 + slot) & 1 else self.word(r, slot)

    def single(self, r: Rec, slot: int) -> U32:
        """An f32 source as bits, |x| and -x applied."""
        bits = self.word(r, slot)
        if r.flags >> (9 + slot) & 1:
            bits = bits & np.uint32(0x7FFFFFFF)
        return bits ^ np.uint32(0x80000000) if r.flags >> (6 + slot) & 1 else bits

    def double(self, r: Rec, slot: int) -> F64:
        bits = self.pair(r, slot)
        if r.flags >> (9 + slot) & 1:
            bits = bits & np.uint64((1 << 63) - 1)
        return (bits ^ np.uint64(1 << 63) if r.flags >> (6 + slot) & 1 else bits).view(np.float64)

    def predicate(self, number: int, negated: bool) -> Bool:
        if number in _TRUE:
            return np.full(self.k, not negated, np.bool_)
        held = self.predicates[number] if self.run is None else self.predicates[number][self.run]
        return ~held if negated else held

    def carry(self, number: int, negated: bool) -> Array | None:
        """A carry-in, None when it is absent."""
        return None if number in _TRUE and negated else self.predicate(number, negated)

    # Results of the running lanes. Arrays are never changed in place, so a register may share its array with others.

    def put(self, number: int, values: U32) -> None:
        if number == uops.NO_REG:
            return
        if self.run is not None:
            whole = self.registers[number].copy()
            whole[self.run] = values
            values = whole
        self.registers[number] = values

    def put_pair(self, number: int, values: U64) -> None:
        if number != uops.NO_REG:
            self.put(number, values.astype(np.uint32))
            self.put(number + 1, (values >> np.uint64(32)).astype(np.uint32))

    def put_predicate(self, number: int, values: Bool) -> None:
        if number in _TRUE:
            return
        if self.run is not None:
            whole = self.predicates[number].copy()
            whole[self.run] = values
            values = whole
        self.predicates[number] = values

    def first_lane(self) -> int:
        """The lowest running lane."""
        return int(np.argmax(self.live)) if self.run is None else int(self.run[0])

    def lanes(self) -> Array:
        """The running lanes by number; lanes that a wide run carries along dead are left out."""
        if self.run is None:
            return np.arange(self.n) if self.all_live else np.flatnonzero(self.live)
        return self.run

    # The loop.

    def step_until_blocked(self) -> None:
        """Run until no lane can: all are dead or wait."""
        while self._pick():
            if self.here >= len(self.records):
                lane = 0 if self.group is None else int(self.group[0])
                pc = self.records[-1].pc + self.instruction_bytes
                raise Stop("illegal_instruction", lane, pc, 0, "", "ran past the end of the program")
            self._execute(self.records[self.here])

    def _pick(self) -> bool:
        if self.together:
            if self.all_live or (self.wide and self.live.any()):
                self.group = None
                return True
            self.group = np.flatnonzero(self.live)
            return self.group.size > 0
        runnable = self.status == RUN
        if self.skip is not None:
            others = runnable & ~self.skip
            self.skip = None
            if others.any():
                runnable = others
        index = np.flatnonzero(runnable)
        if index.size == 0:
            return False
        positions = self.position[index]
        self.here = int(positions.min())
        self.group = index[positions == self.here]
        if self.group.size == index.size and index.size == int(self.live.sum()):
            self.together = True
            if self.all_live or self.wide:
                self.group = None
        return True

    def _execute(self, r: Rec) -> None:
        group = self.group
        self.executed_any = True
        if r.first:
            size = (self.n if self.all_live else int(self.live.sum())) if group is None else group.size
            if self.counter.executed + size > self.counter.budget:
                raise Stop("budget", 0 if group is None else int(group[0]), r.pc)
            self.counter.executed += size
        self.run, self.k = group, self.n if group is None else group.size
        if r.guard not in _TRUE or r.guard_neg:
            passes = self.predicate(r.guard, r.guard_neg)
            if group is None and not self.all_live:
                passes = passes & self.live
                if not (passes | ~self.live).all():
                    self.run = np.flatnonzero(passes)
            elif not passes.all():
                self.run = np.flatnonzero(passes) if group is None else group[passes]
            if self.run is not None:
                self.k = self.run.size
        self.passing = self.run
        if r.control is not None:
            r.control(self, r)
            return
        if self.k:
            assert r.handler is not None, r.name
            if r.full:
                self.widen(r)
            r.handler(self, r)
        self.advance(r.index + 1)

    def widen(self, r: Rec) -> None:
        """All lanes of each warp that has a running lane run. Cross-lane operations look at the lanes themselves."""
        if self.run is None:
            return
        if not self.wide:
            self.run, self.k = None, self.n
            return
        warps: Bool = np.zeros(self.n, np.bool_)
        warps[self.run] = True
        members = np.repeat(warps.reshape(-1, self.wave).any(axis=1), self.wave)
        # A warp that is apart would run this more than once, in an order that only a narrow run follows.
        if self.group is not None and (members & (self.status != DEAD))[self._outside()].any():
            raise TooOrdered(f"uniform operation of a diverged warp at {r.pc:#x}")
        self.run = np.flatnonzero(members)
        self.k = self.run.size

    def _outside(self) -> Bool:
        outside: Bool = np.ones(self.n, np.bool_)
        outside[self.group] = False
        return outside

    def advance(self, to: int) -> None:
        """The group goes on at `to`."""
        if self.together:
            self.here = to
        else:
            self.position[self.group] = to

    def part(self) -> None:
        """Give each lane its own position: the group is about to split or to wait."""
        if self.together:
            self.position[...] = self.here
            self.together = False
            if self.group is None:
                self.group = np.flatnonzero(self.live)
