"""From machine code in GPU memory to a program: finds what can be reached, lowers it, remembers it by content."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.front_end import FrontEnd
from hcqrt.emu.engine.launch import Launch
from hcqrt.emu.engine.lower_ir3.front_end import Ir3FrontEnd
from hcqrt.emu.engine.lower_sass.front_end import SassFrontEnd
from hcqrt.emu.engine.uops import NUMBERS, Program, record
from hcqrt.emu.engine.verify import verify
from hcqrt.emu.memory import MmuFault
from hcqrt.errors import HCQError

FRONT_ENDS: dict[str, FrontEnd] = {"sass": SassFrontEnd(), "ir3": Ir3FrontEnd()}
CHUNK_BYTES = 4096
KEPT_PROGRAMS = 256
BRA, BRX, EXIT, TRAP, ILLEGAL = (NUMBERS[name] for name in ("BRA", "BRX", "EXIT", "TRAP", "ILLEGAL"))
MAX_INSTRUCTIONS = 1 << 18  # far beyond any kernel; garbage that decodes must not be followed for ever


class CodeReader:
    """Instructions by address, fetched in chunks; code that is not mapped has none."""

    def __init__(self, fetch: Callable[[int, int], bytes], instruction_bytes: int) -> None:
        self._fetch = fetch
        self._nbytes = instruction_bytes
        self._chunks: dict[int, bytes] = {}  # by first address; empty where a chunk is not mapped as a whole

    def code(self, pc: int) -> bytes | None:
        base = pc - pc % CHUNK_BYTES
        if base not in self._chunks:
            self._chunks[base] = self.read(base, CHUNK_BYTES)
        chunk, offset = self._chunks[base], pc - base
        if offset + self._nbytes > len(chunk):
            chunk, offset = self.read(pc, self._nbytes), 0
        return chunk[offset : offset + self._nbytes] or None

    def read(self, va: int, nbytes: int) -> bytes:
        try:
            return bytes(self._fetch(va, nbytes))
        except MmuFault:
            return b""


@dataclass
class Lowered:
    """A program, and the stretches of code it was made from, by their distance from the entry."""

    code: list[tuple[int, bytes]]
    program: Program
    entry_va: int

    def still_there(self, reader: CodeReader, entry: int) -> bool:
        return all(reader.read(entry + offset, len(code)) == code for offset, code in self.code)

    def at(self, entry: int) -> Program:
        """The program with the addresses of `entry`."""
        move = entry - self.entry_va
        if not move:
            return self.program
        records = self.program.records.copy()
        records["pc"] += np.uint64(move % (1 << 64))
        positions = {pc + move: position for pc, position in self.program.positions.items()}
        reasons = {pc + move: text for pc, text in self.program.reasons.items()}
        return replace(self.program, records=records, positions=positions, reasons=reasons, detail={})


class ProgramCache:
    """Programs by content. The same code at another address, or in another module, is lowered once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[Lowered]] = {}
        self._placed: dict[int, tuple[int, Program]] = {}
        self._count = 0

    def get(self, launch: Launch) -> Program:
        """The program of a launch. Its code may be any bytes: what has no meaning faults when it is reached."""
        front = FRONT_ENDS[launch.isa]
        reader = CodeReader(launch.fetch, front.instruction_bytes)
        entry = launch.entry_va
        key = (launch.isa, front.key(launch), reader.code(entry))
        for known in self._known.get(key, ()):
            if known.still_there(reader, entry):
                return self._place(known, entry)
        found = discover(launch, reader)
        if self._count >= KEPT_PROGRAMS:
            self._known.clear()
            self._placed.clear()
            self._count = 0
        self._known.setdefault(key, []).append(found)
        self._count += 1
        return found.program

    def _place(self, known: Lowered, entry: int) -> Program:
        last = self._placed.get(id(known))
        if last is None or last[0] != entry:
            last = self._placed[id(known)] = (entry, known.at(entry))
        return last[1]


@dataclass
class Discovery:
    """What was reached so far, by address: the records, and the states in which they may run."""

    launch: Launch
    reader: CodeReader
    code: dict[int, bytes] = field(default_factory=dict)
    records: dict[int, list[Any]] = field(default_factory=dict)
    states: dict[int, int] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)

    def news(self, pc: int, state: int) -> bool:
        """Whether nothing reached this instruction yet, or only in other states."""
        return pc not in self.states or bool(state & ~self.states[pc])

    def visit(self, pc: int, state: int) -> int:
        """Lower one instruction for `state` and all that are known; gives the state behind it."""
        self.states[pc] = state = self.states.get(pc, 0) | state
        code = self.reader.code(pc)
        if code is not None:
            self.code[pc - self.launch.entry_va] = code
        self.records[pc], after = self._lower(code, pc, state)
        return after

    def _lower(self, code: bytes | None, pc: int, state: int) -> tuple[list[Any], int]:
        """What cannot be decoded or lowered becomes ILLEGAL with the reason kept."""
        front = FRONT_ENDS[self.launch.isa]
        if code is None:
            self.reasons[pc] = f"no code is mapped at {pc:#x}"
        elif pc % front.instruction_bytes:
            self.reasons[pc] = f"pc {pc:#x} is not a multiple of {front.instruction_bytes}"
        else:
            try:
                return front.lower(code, pc, self.launch, state)
            except HCQError as error:
                self.reasons[pc] = str(error)
        return illegal(pc), state


def discover(launch: Launch, reader: CodeReader) -> Lowered:
    """Lower everything reachable from the entry."""
    front, entry, found = FRONT_ENDS[launch.isa], launch.entry_va, Discovery(launch, reader)
    todo = [(entry, 0)]
    while todo and len(found.records) < MAX_INSTRUCTIONS:
        pc, state = todo.pop()
        while found.news(pc, state):
            state = found.visit(pc, state)
            records = found.records[pc]
            todo += [(target, state) for target in branch_targets(records)]
            if ends(records):
                break
            pc += front.instruction_bytes
            if len(found.records) >= MAX_INSTRUCTIONS:
                todo.append((pc, state))
                break
    for pc, _ in todo:  # not followed: the program is longer than any kernel
        if pc not in found.records:
            found.reasons[pc] = f"more than {MAX_INSTRUCTIONS} instructions are reachable"
            found.records[pc] = illegal(pc)
    program = assemble(found.records, entry, front.prologue(launch))
    program.reasons, program.instruction_bytes, program.patience = (
        found.reasons,
        front.instruction_bytes,
        front.patience,
    )
    return Lowered(stretches(found.code), program, entry)


def stretches(code: dict[int, bytes]) -> list[tuple[int, bytes]]:
    """Instructions by offset as the longest runs without a gap: what is compared at every launch."""
    runs: list[tuple[int, bytearray]] = []
    for offset in sorted(code):
        if not runs or offset != runs[-1][0] + len(runs[-1][1]):
            runs.append((offset, bytearray()))
        runs[-1][1].extend(code[offset])
    return [(offset, bytes(run)) for offset, run in runs]


def illegal(pc: int) -> list[Any]:
    return [record("ILLEGAL", pc=pc, flags=uops.FIRST)]


def branch_targets(records: list[Any]) -> Iterator[int]:
    return (int(r["imm"]) for r in records if r["op"] == BRA)


def ends(records: list[Any]) -> bool:
    """Whether no lane goes on behind these records."""
    last = records[-1]
    always = last["guard"] in (uops.PT, uops.UPT) and not last["guard_neg"]
    return bool(always and last["op"] in (BRA, BRX, EXIT, TRAP, ILLEGAL))


def assemble(instructions: dict[int, list[Any]], entry: int, prologue: list[Any]) -> Program:
    """Put the records in order of address, behind the prologue, and resolve branches."""
    if prologue and entry != min(instructions):
        prologue = [*prologue, record("BRA", imm=entry, pc=entry)]
    positions: dict[int, int] = {}
    flat: list[Any] = list(prologue)
    for pc in sorted(instructions):
        positions[pc] = len(flat)
        flat += instructions[pc]
    records = np.array(flat, uops.RECORD)
    for index in np.flatnonzero(records["op"] == BRA):
        records["target"][index] = positions[int(records["imm"][index])]
    program = Program(records, positions, 0 if prologue else positions[entry])
    verify(program)
    return program
