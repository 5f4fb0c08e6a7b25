"""Runs one micro-op on many lanes with drawn operands and says what each lane found, and what the reference says."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from contract_reference import PAIR, RULES, WORD, Lane, Outcome
from random_programs import CROSSING, EDGES, SPECS
from uop_programs import Buffers, const, imm, launch, operands, program, reg

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.engine.uops import Program, record

Run = Callable[[Program, Launch], Result]
THREADS = 160  # five warps of 32 lanes, two and a half of 64, one and a quarter of 128
SENTINEL = 0xA5A5A5A5
IN_WORDS, OUT_WORDS = 8, 4  # a, b, c in pairs, predicates, nothing; d in a pair, predicates, nothing
BANK_AT = 16  # of the constants that sources read
P, P2, P3, PD, PD2, GUARD = range(6)
# Patterns at the edges of f64 and of 64-bit integers.
EDGES64 = (
    0, 1 << 63, 0x3FF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF0000000000001, 0xFFF8000000000123, 1, PAIR, (1 << 52) - 1,
    1 << 52, (0x7FF << 52) - 1, 0x8000000000000001, 0x3CA0000000000000, 0xBCA0000000000001, 0x4340000000000001,
    0x43E0000000000000, 0xC3E0000000000000, 0x41DFFFFFFFC00000, 0x0360000000000001, 0x2000000000000001,
)  # fmt: skip


class Case:
    """One form of an operation: the record, and per lane its operands."""

    def __init__(self, name: str, seed: int):
        self.draw = random.Random(f"{name} {seed}")
        self.name = name
        count, self.pairs, allowed, mods, imms = {**SPECS, **CROSSING}[name]
        draw = self.draw
        flags = allowed & draw.getrandbits(32) & (draw.getrandbits(32) | -(seed % 2))
        if name in ("MOV", "SEL", "ISETP") and draw.random() < 0.4:
            flags, self.pairs = flags & ~uops.EX | uops.WIDE, "abd"
        self.flags = flags | (uops.SX_IMM if draw.random() < 0.3 else 0)
        self.mod, self.imm = mods(draw), imms(draw)
        self.sources = [self._source("abc"[slot] in self.pairs) for slot in range(count)]
        self.predicates = {column: self._predicate(n) for column, n in (("p", P), ("p2", P2), ("p3", P3))}
        self.guarded = draw.random() < 0.4
        self.lanes = [[self._value() for _ in range(3)] for _ in range(THREADS)]
        if name.startswith("H") and draw.random() < 0.3:  # one half in a register
            self.lanes = [[value & ~0xFFFF0000 for value in values] for values in self.lanes]
        self.held = [draw.randrange(128) for _ in range(THREADS)]
        self.bank = [self._value() for _ in range(3)]

    def _value(self) -> int:
        draw = self.draw
        kind = draw.randrange(8)
        if kind == 0:
            return draw.choice(EDGES64)
        if kind == 1:  # near each other in exponent
            return (draw.randrange(0x3F0, 0x410) | draw.randrange(2) << 11) << 52 | draw.getrandbits(52)
        if kind == 2:  # few significant bits: ties
            return (draw.randrange(1 << 12) << 52 | draw.randrange(8) << draw.randrange(50)) & PAIR
        if kind == 3:
            return draw.getrandbits(64)
        return self._word() | self._word() << 32

    def _word(self) -> int:
        draw = self.draw
        kind = draw.randrange(6)
        if kind < 2:
            return draw.choice(EDGES)
        if kind == 2:  # an f32 near 1 with few bits
            exponent = draw.randrange(0x70, 0x90) | draw.randrange(2) << 8
            return exponent << 23 | draw.randrange(16) << draw.randrange(20)
        if kind == 3:
            return draw.randrange(70)
        return draw.getrandbits(32)

    def _source(self, pair: bool) -> tuple[int, int]:
        kind = self.draw.choice(("register",) * 5 + ("immediate", "constant", "zero"))
        if kind == "immediate":
            return imm(self._word())
        if kind == "constant":
            return const(BANK_AT)  # the offset is the slot's
        return (uops.ZERO, 0) if kind == "zero" else (uops.REG, 0)

    def _predicate(self, number: int) -> tuple[int, int]:
        return (number, self.draw.randrange(2)) if self.draw.random() < 0.7 else (uops.PT, self.draw.randrange(2))

    def placed(self) -> list[tuple[int, int]]:
        """The sources with the register or constant of their slot."""
        where = []
        for slot, (kind, value) in enumerate(self.sources):
            if kind == uops.REG:
                where.append(reg(8 + 2 * slot))
            elif kind == uops.CONST:
                where.append(const(BANK_AT + 8 * slot))
            else:
                where.append((kind, value))
        return where

    def record(self) -> Any:
        fields = {"d": 16, "flags": self.flags, "mod": self.mod, "imm": self.imm, "pd": PD, "pd2": PD2}
        for column, (number, negated) in self.predicates.items():
            fields[column], fields[column + "_neg"] = number, negated
        if self.guarded:
            fields["guard"], fields["guard_neg"] = GUARD, 1
        return record(self.name, **fields, **operands(*self.placed()))

    def run(self, run: Run, lanes: int) -> list[tuple[int, int, int]]:
        """(low word, high word, predicates 0-6) that each thread ends with, in warps of so many lanes."""
        words = np.zeros((THREADS, IN_WORDS), np.uint32)
        for lane, (values, held) in enumerate(zip(self.lanes, self.held, strict=True)):
            words[lane, :6] = [word for value in values for word in (value & WORD, value >> 32)]
            words[lane, 6] = held
        out = np.zeros((THREADS, OUT_WORDS), np.uint32)
        buffers = Buffers(words, out)
        load = {"flags": uops.A64, "width": uops.W_64, **operands(reg(4))}
        code = program(
            record("S2R", d=2, imm=uops.SR_TID_X),
            record("MADW", d=4, **operands(reg(2), imm(4 * IN_WORDS), const(0))),
            record("MADW", d=6, **operands(reg(2), imm(4 * OUT_WORDS), const(8))),
            *[record("LD", d=8 + 2 * slot, imm=8 * slot, **load) for slot in range(4)],
            *[record("MOV", d=16 + k, **operands(imm(SENTINEL))) for k in range(2)],
            record("R2P", imm=0x7F, **operands(reg(14))),
            self.record(),
            record("P2R", d=18, imm=0x7F),
            record("ST", flags=uops.A64, width=uops.W_128, **operands(reg(6), None, reg(16))),
            record("EXIT"),
        )
        constants = struct.pack("<QQ", *buffers.va) + struct.pack("<QQQ", *self.bank)
        result = run(code, launch(buffers, constants, (1,), (THREADS,), lanes=lanes))
        assert result.fault is None, result.fault
        return [(int(row[0]), int(row[1]), int(row[2])) for row in out]

    # What must come out.

    def passes(self, lane: int) -> bool:
        return not (self.guarded and self.held[lane] >> GUARD & 1)

    def operand(self, lane: int, slot: int) -> int:
        if slot >= len(self.sources):
            return 0
        kind, value = self.sources[slot]
        if kind == uops.REG:
            return self.lanes[lane][slot] if lane < THREADS else 0
        if kind == uops.CONST:
            return self.bank[slot]
        extends = kind == uops.IMM and self.flags & uops.SX_IMM and value >> 31
        return value | (WORD << 32 if extends else 0)

    def holds(self, lane: int, column: str) -> bool:
        number, negated = self.predicates[column]
        return bool(negated) != (number == uops.PT or bool(self.held[lane] >> number & 1))

    def view(self, lane: int) -> Lane:
        a, b, c = (self.operand(lane, slot) for slot in range(3))
        p, p2, p3 = (self.holds(lane, column) for column in ("p", "p2", "p3"))
        return Lane(a, b, c, p, p2, p3, self.held[lane], self.flags, self.mod, self.imm)

    def wanted(self) -> list[tuple[int, int, int]]:
        return [self.after(lane, RULES[self.name](self.view(lane))) for lane in range(THREADS)]

    def after(self, lane: int, outcome: Outcome) -> tuple[int, int, int]:
        """What a lane holds after an outcome."""
        low = high = SENTINEL
        held = self.held[lane]
        if not self.passes(lane):
            return low, high, held
        if outcome.d is not None:
            low = outcome.d & WORD
            high = outcome.d >> 32 & WORD if outcome.wide else high
        if outcome.predicates is not None:
            held = outcome.predicates
        for number, value in ((PD, outcome.pd), (PD2, outcome.pd2)):
            if value is not None:
                held = held & ~(1 << number) | value << number
        return low, high, held
