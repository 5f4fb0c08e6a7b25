"""From machine code in GPU memory to a program: finds what can be reached, lowers it, remembers it by content."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.launch import Launch
from hcqrt.emu.engine.lower_sass import lower
from hcqrt.emu.engine.uops import NUMBERS, Program, record
from hcqrt.emu.engine.verify import verify
from hcqrt.emu.memory import MmuFault
from hcqrt.errors import HCQError
from hcqrt.isa.sass import SassError, decode

INSTRUCTION_BYTES = 16
CHUNK_BYTES = 4096
KEPT_PROGRAMS = 256
BRA, BRX, EXIT, TRAP, ILLEGAL = (NUMBERS[name] for name in ("BRA", "BRX", "EXIT", "TRAP", "ILLEGAL"))
MAX_INSTRUCTIONS = 1 << 18  # far beyond any kernel; garbage that decodes must not be followed for ever


class CodeReader:
    """Instruction words by address, fetched in chunks; code that is not mapped has no words."""

    def __init__(self, fetch: Callable[[int, int], bytes]) -> None:
        self._fetch = fetch
        self._chunks: dict[int, bytes] = {}  # by first address; empty where a chunk is not mapped as a whole

    def words(self, pc: int) -> tuple[int, int] | None:
        base = pc - pc % CHUNK_BYTES
        if base not in self._chunks:
            self._chunks[base] = self._read(base, CHUNK_BYTES)
        chunk, offset = self._chunks[base], pc - base
        if offset + INSTRUCTION_BYTES > len(chunk):
            chunk, offset = self._read(pc, INSTRUCTION_BYTES), 0
        if not chunk:
            return None
        lo, hi = struct.unpack_from("<QQ", chunk, offset)
        return lo, hi

    def _read(self, va: int, nbytes: int) -> bytes:
        try:
            return bytes(self._fetch(va, nbytes))
        except MmuFault:
            return b""


@dataclass
class Lowered:
    """A program, and the words it was made from, by their distance from the entry."""

    words: dict[int, tuple[int, int]]
    program: Program
    entry_va: int

    def still_there(self, reader: CodeReader, entry: int) -> bool:
        return all(reader.words(entry + offset) == words for offset, words in self.words.items())

    def at(self, entry: int) -> Program:
        """The program with the addresses of `entry`."""
        move = entry - self.entry_va
        if not move:
            return self.program
        records = self.program.records.copy()
        records["pc"] += np.uint64(move % (1 << 64))
        positions = {pc + move: position for pc, position in self.program.positions.items()}
        reasons = {pc + move: text for pc, text in self.program.reasons.items()}
        return Program(records, positions, self.program.entry, self.program.independent, reasons)


class ProgramCache:
    """Programs by content. The same code at another address, or in another module, is lowered once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int, tuple[int, int] | None], list[Lowered]] = {}
        self._placed: dict[int, tuple[int, Program]] = {}
        self._count = 0

    def get(self, launch: Launch) -> Program:
        """The program of a launch. Its code may be any bytes: what has no meaning faults when it is reached."""
        reader = CodeReader(launch.fetch)
        entry = launch.entry_va
        key = (launch.isa, launch.sm, launch.registers, reader.words(entry))
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


def discover(launch: Launch, reader: CodeReader) -> Lowered:
    """Lower everything reachable from the entry."""
    entry = launch.entry_va
    instructions: dict[int, list[Any]] = {}
    words: dict[int, tuple[int, int]] = {}
    reasons: dict[int, str] = {}
    todo = [entry]
    while todo and len(instructions) < MAX_INSTRUCTIONS:
        pc = todo.pop()
        while pc not in instructions:
            found = reader.words(pc)
            if found is not None:
                words[pc - entry] = found
            records = lower_words(found, pc, launch, reasons)
            instructions[pc] = records
            todo += branch_targets(records)
            if ends(records) or len(instructions) >= MAX_INSTRUCTIONS:
                todo += () if ends(records) else (pc + INSTRUCTION_BYTES,)
                break
            pc += INSTRUCTION_BYTES
    for pc in todo:  # not followed: the program is longer than any kernel
        if pc not in instructions:
            reasons[pc] = f"more than {MAX_INSTRUCTIONS} instructions are reachable"
            instructions[pc] = [record("ILLEGAL", pc=pc, flags=uops.FIRST)]
    return Lowered(words, assemble(instructions, entry, reasons), entry)


def lower_words(words: tuple[int, int] | None, pc: int, launch: Launch, reasons: dict[int, str]) -> list[Any]:
    """The records of one instruction; what cannot be decoded or lowered becomes ILLEGAL with the reason kept."""
    if words is None:
        reasons[pc] = f"no code is mapped at {pc:#x}"
    elif pc % INSTRUCTION_BYTES:
        reasons[pc] = f"pc {pc:#x} is not a multiple of {INSTRUCTION_BYTES}"
    else:
        try:
            return list(lower(decode(*words, launch.sm), pc, launch.registers))
        except (SassError, HCQError) as error:
            reasons[pc] = str(error)
    return [record("ILLEGAL", pc=pc, flags=uops.FIRST)]


def branch_targets(records: list[Any]) -> Iterator[int]:
    return (int(r["imm"]) for r in records if r["op"] == BRA)


def ends(records: list[Any]) -> bool:
    """Whether no lane goes on behind these records."""
    last = records[-1]
    always = last["guard"] in (uops.PT, uops.UPT) and not last["guard_neg"]
    return bool(always and last["op"] in (BRA, BRX, EXIT, TRAP, ILLEGAL))


def assemble(instructions: dict[int, list[Any]], entry: int, reasons: dict[int, str]) -> Program:
    """Put the records in order of address and resolve branches."""
    positions: dict[int, int] = {}
    flat: list[Any] = []
    for pc in sorted(instructions):
        positions[pc] = len(flat)
        flat += instructions[pc]
    records = np.array(flat, uops.RECORD)
    for index in np.flatnonzero(records["op"] == BRA):
        records["target"][index] = positions[int(records["imm"][index])]
    program = Program(records, positions, positions[entry], reasons=dict(reasons))
    verify(program)
    return program
