"""The C core: hands a program and a launch to the compiled module and makes a Result of what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hcqrt.emu.engine._core as _core
from hcqrt.emu.engine import core_sources, uops
from hcqrt.emu.engine.launch import FAULT_KINDS, EngineFault, Launch, Range, Result
from hcqrt.emu.engine.uops import InvalidProgram, Program
from hcqrt.emu.engine.verify import check_lanes

ffi, lib = _core.ffi, _core.lib
if ffi.string(lib.hcqrt_digest()).decode() != core_sources.digest():
    raise ImportError("the C core was compiled from other sources: build it again")
ACCESSES = ("", "read", "write", "atomic")
_RANGE = np.dtype([("va", "<u8"), ("nbytes", "<u8"), ("host", "<u8"), ("writable", "<u4"), ("atomic", "<u4")])
_PLACE = np.dtype([("pc", "<u8"), ("position", "<u8")])
KEPT_TABLES = 8


class Prepared:
    """A program as the C core takes it, checked."""

    def __init__(self, program: Program) -> None:
        self.records = np.ascontiguousarray(program.records)
        if self.records.dtype != uops.RECORD or not 0 <= program.entry < len(self.records):
            raise InvalidProgram("no records, or of another type")
        bad = lib.hcqrt_check(_pointer("Record", self.records), len(self.records))
        if bad >= 0:
            raise InvalidProgram(f"record {bad} {self.records[bad]}")
        self.places = np.array(sorted(program.positions.items()), _PLACE)


def _pointer(name: str, array: Any) -> Any:
    return ffi.cast(f"{name} *", array.ctypes.data)


def _prepared(program: Program) -> Prepared:
    kept = program.detail.get("core_c")
    if kept is None:
        kept = program.detail["core_c"] = Prepared(program)
    prepared: Prepared = kept
    return prepared


class RangeTables:
    """Range tables as the C core takes them, by the list they were made of: an address space hands out the same list
    for as long as nothing in it changes."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Sequence[Range], Any]] = {}

    def get(self, rows: Sequence[Range]) -> Any:
        kept = self._kept.get(id(rows))
        if kept is not None and kept[0] is rows and len(kept[1]) == len(rows):
            return kept[1]
        table = np.array(list(rows), _RANGE)
        table.sort(order="va")
        if len(self._kept) >= KEPT_TABLES:
            self._kept.clear()
        self._kept[id(rows)] = rows, table
        return table


_TABLES = RangeTables()


def run(program: Program, launch: Launch) -> Result:
    """Run a lowered program over the whole grid. The result and all memory are the same as those of the NumPy core."""
    prepared = _prepared(program)
    check_lanes(program, launch.lanes)
    ranges = _TABLES.get(launch.memory.ranges())
    banks = ffi.new("Bank[]", [(number, *where) for number, where in launch.constants.items()])
    job = ffi.new("Job *")
    job.records, job.count, job.entry = _pointer("Record", prepared.records), len(prepared.records), program.entry
    job.places, job.place_count = _pointer("Place", prepared.places), len(prepared.places)
    job.ranges, job.range_count = _pointer("Range", ranges), len(ranges)
    job.banks, job.bank_count = banks, len(banks)
    job.shared_bytes, job.shared_window = launch.shared_bytes, launch.shared_window_va
    job.local_low, job.local_high = launch.local_low_bytes, launch.local_high_bytes
    job.local_window, job.budget, job.clock_ns = launch.local_window_va, launch.budget, launch.clock_ns
    job.grid, job.block, job.lanes = launch.grid, launch.block, launch.lanes
    job.instruction_bytes, job.patience = program.instruction_bytes, program.patience
    outcome = ffi.new("Outcome *")
    if lib.hcqrt_run(job, outcome) != 0:
        raise MemoryError(f"no memory for blocks of {launch.block} threads")
    return Result(outcome.executed, _fault(outcome))


def _fault(outcome: Any) -> EngineFault | None:
    if outcome.kind == 0:
        return None
    details = (
        "",
        f"{outcome.detail_a} bytes of bank {outcome.detail_b}",
        "ran past the end of the program",
        f"a jump from {outcome.detail_a:#x} to where no code is",
    )
    return EngineFault(
        FAULT_KINDS[outcome.kind - 1],
        outcome.pc,
        outcome.address,
        ACCESSES[outcome.access],
        tuple(outcome.block),
        tuple(outcome.thread),
        details[outcome.detail],
    )
