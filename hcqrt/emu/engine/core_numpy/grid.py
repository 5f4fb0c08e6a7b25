"""Runs a grid: wide chunks of blocks while that is provably the same, else block by block and warp by warp."""

from __future__ import annotations

import functools

import numpy as np

from .. import uops
from ..launch import EngineFault, Launch, Result
from ..verify import check_lanes, verify
from . import ops_control, ops_float, ops_half, ops_integer, ops_memory, ops_warp
from .access import Memory
from .journal import Journal
from .memory import RangeTable
from .ops_warp import CLOCKS
from .records import Rec
from .rounding import U32, Bool
from .unit import BAR, DEAD, RUN, Counter, Setting, Stop, TooOrdered, Unit

# Lanes that run as one array: large enough to hide the cost of a NumPy call, small enough for the cache.
CHUNK_LANES = 32768
HEAP_BYTES = 512 * CHUNK_LANES  # below the 32 MiB from where glibc heeds it no more
# How far the run has had to retreat: hulls of accesses, every access, no wide run.
_HULLS, _EXACT, _NARROW = range(3)

_ORDERED = {"ATOM", "MATCH", "REDUX"}
_CROSSING = {"BCAST", "VOTE", "SHFL"}
HANDLER_MODULES = (ops_control, ops_float, ops_half, ops_integer, ops_memory, ops_warp)


def can_go_wide(records: list[Rec]) -> bool:
    """Whether threads of different warps can only meet in global or shared memory, which a wide run watches."""
    for r in records:
        if r.name in _ORDERED or (r.name == "S2R" and r.imm in CLOCKS):
            return False
        if r.name in ("LD", "ST") and r.space == uops.S_GENERIC:
            return False
    return True


def decode(program: uops.Program) -> list[Rec]:
    kept = program.detail.get("core_numpy")
    if kept is None:
        verify(program)
        kept = program.detail["core_numpy"] = [Rec(index, raw) for index, raw in enumerate(program.records)]
    records: list[Rec] = kept
    return records


class Grid:
    """One launch."""

    def __init__(self, program: uops.Program, launch: Launch):
        self.launch, self.program = launch, program
        check_lanes(program, launch.lanes)
        self.records = decode(program)
        self.table = RangeTable(launch.memory.ranges())
        self.counter = Counter(0, launch.budget)
        self._kept_threads: dict[tuple[int, int], tuple[list[U32], U32, Bool]] = {}
        self.threads = launch.block[0] * launch.block[1] * launch.block[2]
        self.warps = -(-self.threads // launch.lanes)
        self.blocks = launch.grid[0] * launch.grid[1] * launch.grid[2] if self.threads else 0
        self.constants = [(pointer, pointer + nbytes) for pointer, nbytes in launch.constants.values()]
        crosses = any(r.full or r.name in _CROSSING or r.space == uops.S_SHARED for r in self.records)
        of_program = (program.entry, program.instruction_bytes, program.patience)
        self.setting = Setting(self.records, launch, self.counter, *of_program, crosses)

    def run(self) -> Result:
        retreat = _HULLS if self.blocks * self.warps > 1 and can_go_wide(self.records) else _NARROW
        chunk = max(1, CHUNK_LANES // max(1, self.warps * self.launch.lanes))
        first = 0
        while first < self.blocks:
            last = min(first + (1 if retreat == _NARROW else chunk), self.blocks)
            if retreat != _NARROW:
                done = self._wide(first, last, retreat == _EXACT)
                if done:
                    first = last
                else:
                    retreat += 1
                continue
            fault = self._narrow(first)
            if fault is not None:
                return Result(self.counter.executed, fault)
            first = last
        return Result(self.counter.executed, None)

    def _wide(self, first: int, last: int, exact: bool) -> bool:
        """Run blocks as one array; False (and no trace) when the order of threads might show, or one faults."""
        executed = self.counter.executed
        journal = Journal(self.constants, exact)
        memory = Memory(self.launch, self.table, self.program.positions, journal, last - first)
        coordinates, live = self._lanes(first, last, 0, self.warps)
        unit = Unit(self.setting, memory, coordinates, live, True)
        try:
            unit.step_until_blocked()
            journal.settle()
            ended = not unit.live.any()
        except (Stop, TooOrdered):
            ended = False
        if not ended:
            journal.roll_back()
            self.counter.executed = executed
        return ended

    def _narrow(self, block: int) -> EngineFault | None:
        memory = Memory(self.launch, self.table, self.program.positions)
        units = []
        for warp in range(self.warps):
            coordinates, live = self._lanes(block, block + 1, warp, warp + 1)
            units.append(Unit(self.setting, memory, coordinates, live, False))
            units[-1].expected = units[0].expected
        while any(unit.live.any() for unit in units):
            moved = False
            for unit in units:
                unit.executed_any = False
                try:
                    unit.step_until_blocked()
                except Stop as stop:
                    return self._fault(unit, stop)
                moved |= unit.executed_any
            if not release(units) and not moved:
                return self._deadlock(units)
        return None

    def _deadlock(self, units: list[Unit]) -> EngineFault:
        for unit in units:
            waiting = np.flatnonzero(unit.live & (unit.status != DEAD))
            if waiting.size:
                lane = int(waiting[0])
                where = unit.here if unit.together else int(unit.position[lane])
                return self._fault(unit, Stop("deadlock", lane, self.records[where].pc))
        raise AssertionError("no lane waits")

    def _fault(self, unit: Unit, stop: Stop) -> EngineFault:
        place = [int(values[stop.lane]) for values in unit.coordinates]
        thread, block = (place[0], place[1], place[2]), (place[3], place[4], place[5])
        return EngineFault(stop.kind, stop.pc, stop.address, stop.access, block, thread, stop.detail)

    def _lanes(self, first: int, last: int, first_warp: int, last_warp: int) -> tuple[list[U32], Bool]:
        """Coordinates (tid, ctaid, warp) and liveness of the lanes of some warps of some blocks."""
        tid, warp, live = self._threads(first_warp, last_warp)
        gx, gy, _ = self.launch.grid
        block = np.arange(first, last)
        ctaid = [axis.astype(np.uint32) for axis in (block % gx, block // gx % gy, block // (gx * gy))]
        inner = [np.tile(axis, block.size) for axis in (*tid, warp)]
        outer = [np.repeat(axis, warp.size) for axis in ctaid]
        return [*inner[:3], *outer, inner[3]], np.tile(live, block.size)

    def _threads(self, first_warp: int, last_warp: int) -> tuple[list[U32], U32, Bool]:
        """Of the lanes of some warps of a block: place in it, warp, whether there is such a thread."""
        kept = self._kept_threads.get((first_warp, last_warp))
        if kept is None:
            bx, by, _ = self.launch.block
            thread = np.arange(first_warp * self.launch.lanes, last_warp * self.launch.lanes)
            axes = (thread % bx, thread // bx % by, thread // (bx * by), thread // self.launch.lanes)
            tid = [axis.astype(np.uint32) for axis in axes]
            kept = self._kept_threads[first_warp, last_warp] = tid[:3], tid[3], thread < self.threads
        return kept


def release(units: list[Unit]) -> bool:
    """Let go of every block barrier that is complete."""
    released = False
    for number in range(uops.BARRIER_REGISTERS):
        if not any(unit.arrivals[number].any() for unit in units):
            continue
        living = [unit for unit in units if unit.live.any()]
        complete = [unit for unit in living if unit.arrivals[number][unit.live].all()]
        expected = units[0].expected.get(number, 0)
        # Of a count of threads, a warp that arrived and has ended is part.
        met = [unit for unit in units if unit.arrivals[number].any() and unit.arrivals[number][unit.live].all()]
        if units[0].wave * len(met) < expected if expected else len(complete) < len(living):
            continue
        for unit in units:
            held = (unit.status == BAR) & (unit.waits_on == number)
            unit.status[held] = RUN
            unit.position[held] += 1
            unit.arrivals[number] = False
        released = True
    return released


@functools.cache
def keep_heap() -> None:
    """glibc gives freed arrays back to the system, and takes the page faults of each new one, until one as large has
    been freed before. With this the core is fast, whatever else the process has done."""
    _ = np.empty(HEAP_BYTES, np.uint8)


def run(program: uops.Program, launch: Launch) -> Result:
    """Run a lowered program over the whole grid. The result and all memory are the same as those of the C core."""
    keep_heap()
    with np.errstate(all="ignore"):
        return Grid(program, launch).run()
