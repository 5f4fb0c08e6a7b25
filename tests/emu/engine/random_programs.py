"""Random micro-op programs over every operation, with launches of them: the same seed gives the same case.

A program computes on registers 8-39 (pairs at even numbers), predicates 0-6 and uniform registers from 264, branches
forwards (in warps of 32 lanes inside BSSY regions), loops a few times, uses all memory spaces mostly within bounds, and
stores every register at its end. Some cases fault on purpose; the fault is then part of what two cores must agree on.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from uop_programs import Buffers, const, imm, launch, operands, program, reg

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.launch import Launch
from hcqrt.emu.engine.uops import CONST, FULL, IMM, REG, Program, record
from hcqrt.emu.engine.verify import ONE_WORD

FIRST_REGISTER, LAST_REGISTER = 8, 40
BUFFER_WORDS = 4096
SHARED_BYTES = 1024
THREAD_BYTES = 4 * (LAST_REGISTER - FIRST_REGISTER + 1)
EDGES = (
    0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x3C00, 0x7C00, 0xFC00, 0x7E00, 0x03FF,
    0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x3F000000, 0x00800000, 0x007FFFFF, 0x80000001,
    0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0xFFC12345, 0x7F812345, 0x4B000000, 0x4F000000, 0x5F000000,
    0x3FF00000, 0x7FF00000, 0xFFF80000, 0x00100000, 0x000FFFFF, 0x43E00000, 0x3E800000, 0x3C003C00, 0x7BFF0001,
)  # fmt: skip

INV = uops.INV_A | uops.INV_B | uops.INV_C
SIGNS = uops.NEG_A | uops.NEG_B | uops.NEG_C | uops.ABS_A | uops.ABS_B | uops.ABS_C
ROUND = uops.RZ << uops.ROUND_SHIFT
SINGLE = SIGNS | uops.FTZ | uops.SAT | ROUND
HALF_OPS = SINGLE | uops.BF16

# name -> (sources, letters: p pair sources, d pair destination, flags that may be set, mods, imms)
Spec = tuple[int, str, int, Callable[[random.Random], int], Callable[[random.Random], int]]


def _none(draw: random.Random) -> int:
    return 0


def _below(n: int) -> Callable[[random.Random], int]:
    return lambda draw: draw.randrange(n)


def _one_of(*values: int) -> Callable[[random.Random], int]:
    return lambda draw: draw.choice(values)


def _float_compare(draw: random.Random) -> int:
    return draw.randrange(16) | draw.randrange(3) << uops.BOOL_SHIFT


def _half_compare(draw: random.Random) -> int:
    choices = sum(draw.choice((0, 2, 3)) << shift for shift in (0, 2))
    return choices | draw.randrange(16) << 8 | draw.randrange(3) << 12 | draw.randrange(2) << 14


def _half_choice(draw: random.Random) -> int:
    return sum(draw.choice((0, 2, 3)) << shift for shift in (0, 2, 4))


SPECS: dict[str, Spec] = {
    "NOP": (0, "", 0, _none, _none),
    "MOV": (1, "", 0, _none, _none),
    "SEL": (2, "", 0, _none, _none),
    "ADD3": (3, "", INV, _none, _one_of(0, 0, 1, 2)),
    "LEA": (3, "", uops.INV_A | uops.INV_B | uops.HI | uops.SX_A, _below(3), _below(32)),
    "LOP3": (3, "", 0, _below(256), _none),
    "PRMT": (3, "", 0, _one_of(0, 0, 0, 0, 1, 2, 3, 4, 5, 6), _none),
    "SHF": (3, "", uops.WRAP | uops.WIDE | uops.RIGHT | uops.SIGNED | uops.HI, _none, _none),
    "MAD": (3, "", uops.INV_C, _none, _one_of(0, 0, 1, 2)),
    "MADW": (3, "cd", uops.SIGNED, _none, _none),
    "MADH": (3, "c", uops.SIGNED, _none, _none),
    "IMNMX": (2, "", uops.SIGNED, _none, _none),
    "IABS": (1, "", 0, _none, _none),
    "ISETP": (2, "", uops.SIGNED | uops.EX, lambda draw: draw.randrange(8) | draw.randrange(3) << 4, _none),
    "POPC": (1, "", uops.INV_A, _none, _none),
    "BREV": (1, "", 0, _none, _none),
    "FLO": (1, "", uops.INV_A | uops.SIGNED | uops.SH, _none, _none),
    "BMSK": (2, "", uops.WRAP, _none, _none),
    "SGXT": (2, "", uops.WRAP | uops.SIGNED, _none, _none),
    "PLOP3": (0, "", 0, _below(1 << 16), _none),
    "P2R": (1, "", 0, _none, _below(128)),
    "R2P": (1, "", 0, _none, _below(128)),
    "FADD": (2, "", SINGLE, _none, _none),
    "FMUL": (2, "", SINGLE, _none, _one_of(0, 0, 0, -3, -2, -1, 1, 2, 3)),
    "FFMA": (3, "", SINGLE, _none, _none),
    "FMNMX": (2, "", SIGNS | uops.FTZ | uops.NAN_WINS, _none, _none),
    "FSETP": (2, "", SIGNS | uops.FTZ, _float_compare, _none),
    "FSET": (2, "", SIGNS | uops.FTZ | uops.SAT, _float_compare, _none),
    "MUFU": (1, "", SIGNS | uops.FTZ | uops.SAT, _one_of(0, 1, 2, 3, 4, 5, 8, 9), _none),
    "DADD": (2, "abd", SIGNS | ROUND, _none, _none),
    "DMUL": (2, "abd", SIGNS | ROUND, _none, _none),
    "DFMA": (3, "abcd", SIGNS | ROUND, _none, _none),
    "DSETP": (2, "ab", SIGNS, _float_compare, _none),
    "DMNMX": (2, "abd", SIGNS | uops.NAN_WINS, _none, _none),
    "HADD2": (2, "", HALF_OPS | uops.F32_RESULT, _half_choice, _none),
    "HMUL2": (2, "", HALF_OPS, _half_choice, _none),
    "HFMA2": (3, "", HALF_OPS, _half_choice, _none),
    "HMNMX2": (2, "", HALF_OPS & ~uops.SAT | uops.NAN_WINS, _half_choice, _none),
    "HSETP2": (2, "", SIGNS | uops.FTZ | uops.BF16, _half_compare, _none),
    "F2F": (1, "ad", SIGNS | uops.FTZ | ROUND, lambda draw: draw.randrange(4) | draw.randrange(4) << 4, _below(2)),
    "F2I": (1, "ad", SIGNS | uops.FTZ | ROUND, lambda draw: draw.randrange(4, 12) | draw.randrange(4) << 4, _below(2)),
    "I2F": (1, "ad", ROUND, lambda draw: draw.randrange(4) | draw.randrange(4, 12) << 4, _below(2)),
    "FRND": (1, "ad", SIGNS | uops.FTZ | ROUND, lambda draw: draw.randrange(4) * 17, _none),
    "F2FP": (2, "", SIGNS | uops.FTZ | uops.BF16 | ROUND, _none, _none),
}
CROSSING: dict[str, Spec] = {
    "BCAST": (1, "", 0, _none, _none),
    "VOTE": (0, "", 0, _below(3), _below(4)),
    "SHFL": (3, "", 0, _below(4), _none),
    "MATCH": (1, "", 0, _none, _none),
    "REDUX": (1, "", uops.SIGNED, _below(6), _none),
}
LANE_MASKS = range(uops.SR_MASK_EQ, uops.SR_MASK_GE + 1)
# blocks and threads of a launch by the lanes of a warp
SHAPES = {
    32: ((1, 32), (2, 32), (2, 70), (3, 48), (1, 96)),
    64: ((1, 64), (2, 100), (3, 70), (2, 128), (1, 200)),
    128: ((1, 128), (2, 100), (3, 70), (1, 250), (1, 160)),
}


class Writer:
    """Makes the records of one program."""

    def __init__(self, seed: int, lanes: int):
        self.draw = random.Random(seed)
        self.masks = lanes == 32  # whether a register holds the mask of a warp
        self.crossing = self.draw.random() < 0.5  # else nothing keeps the program from going wide
        self.ordered = self.crossing and self.draw.random() < 0.5  # with what only one warp after the other can do
        self.faulty = self.draw.random() < 0.1
        self.records: list[Any] = []
        self.depth = 0

    def _register(self, pair: bool = False) -> int:
        number = self.draw.randrange(FIRST_REGISTER, LAST_REGISTER)
        return number & ~1 if pair else number

    def _source(self, pair: bool) -> tuple[int, int]:
        kind = self.draw.choice((REG, REG, REG, REG, REG, IMM, CONST, uops.ZERO))
        if kind == REG:
            uniform = self.draw.random() < 0.1
            return REG, self.draw.randrange(264, 268) if uniform else self._register(pair)
        if kind == IMM:
            return imm(self.draw.choice(EDGES) if self.draw.random() < 0.7 else self.draw.getrandbits(32))
        return const(self.draw.randrange(8) * 8 + 32) if kind == CONST else (uops.ZERO, 0)

    def _predicates(self) -> dict[str, int]:
        fields = {}
        for name in ("p", "p2", "p3"):
            if self.draw.random() < 0.6:
                fields[name] = self.draw.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15))
                fields[name + "_neg"] = self.draw.randrange(2)
        for name in ("pd", "pd2"):
            if self.draw.random() < 0.5:
                fields[name] = self.draw.randrange(8)
        return fields

    def _guard(self) -> dict[str, int]:
        if self.draw.random() < 0.75:
            return {}
        return {"guard": self.draw.randrange(7), "guard_neg": self.draw.randrange(2)}

    def operation(self, name: str, spec: Spec) -> None:
        count, pairs, allowed, mods, imms = spec
        mask = self.draw.getrandbits(32) & self.draw.getrandbits(32)
        flags = allowed & (mask | ROUND if self.draw.random() < 0.2 else mask)
        if name in ("MOV", "SEL", "ISETP") and self.draw.random() < 0.3:
            flags, pairs = flags & ~uops.EX | uops.WIDE, "abd"
        if self.draw.random() < 0.2:
            flags |= uops.SX_IMM
        sources = [self._source("abc"[slot] in pairs) for slot in range(count)]
        fields = {"d": self._register("d" in pairs), "flags": flags, "mod": mods(self.draw), "imm": imms(self.draw)}
        if self.draw.random() < 0.05:
            fields["d"] = uops.NO_REG
        self.records.append(record(name, **fields, **operands(*sources), **self._predicates(), **self._guard()))

    def uniform(self) -> None:
        """An operation of the uniform datapath: on uniform registers alone, without a divergent guard."""
        source = [
            self.draw.choice((reg(self.draw.randrange(264, 268)), const(32), imm(self.draw.choice(EDGES))))
            for _ in range(3)
        ]
        if self.draw.random() < 0.2:
            fields = {"width": uops.W_32, "space": uops.S_CONST, "imm": 4 * self.draw.randrange(8, 32), "flags": FULL}
            self.records.append(record("LD", d=self.draw.randrange(264, 268), **fields, **operands(None, None, imm(0))))
            return
        name = self.draw.choice(("ADD3", "LOP3", "PRMT", "MAD"))
        mod = self.draw.randrange(256) if name == "LOP3" else 0
        self.records.append(record(name, d=self.draw.randrange(264, 268), flags=FULL, mod=mod, **operands(*source)))

    def special_register(self) -> None:
        choices: Sequence[int] = range(uops.SR_TID_X, uops.SR_NCTAID_Z + 1)
        if self.ordered:
            choices = [n for n in range(30) if n != uops.SR_WARP_ID and (self.masks or n not in LANE_MASKS)]
        self.records.append(record("S2R", d=self._register(), imm=self.draw.choice(choices), **self._guard()))

    def numbered(self) -> None:
        """A register that a lane names by number: 8 to 23; in faulty programs some of them are refused."""
        number = self._register()
        self.records.append(record("LOP3", d=number, mod=0xC0, **operands(reg(self._register()), imm(15))))
        last = FIRST_REGISTER + (13 if self.faulty else 20)
        name = self.draw.choice(("RGET", "RPUT"))
        fields = {"d": self._register(), "mod": FIRST_REGISTER | last << 16, "imm": FIRST_REGISTER}
        self.records.append(record(name, **fields, **operands(reg(number), self._source(False)), **self._guard()))

    def memory(self) -> None:
        width = self.draw.randrange(7)
        size = (1, 1, 2, 2, 4, 8, 16)[width]
        space = self.draw.choice((uops.S_GLOBAL, uops.S_GLOBAL, uops.S_LOCAL, uops.S_CONST, uops.S_SHARED))
        if space == uops.S_SHARED and not self.crossing:
            space = uops.S_GLOBAL
        offset = self.draw.randrange(64 // size) * size
        if self.faulty and self.draw.random() < 0.1:
            offset += self.draw.choice((1, 2, 1 << 20, -(1 << 20)))
        data = self._register() & ~3
        common = {"width": width, "space": space, "imm": offset, **self._guard()}
        value = reg(data)
        if space == uops.S_GLOBAL:
            base = self.draw.choice((2, 4)) if self.crossing or self.draw.random() < 0.8 else 4
            common["flags"] = uops.A64
        else:
            base = 6 if space == uops.S_SHARED else 7
        if space == uops.S_CONST or self.draw.random() < 0.5:
            self.records.append(record("LD", d=data, **common, **operands(reg(base), None, (IMM, 0))))
        else:
            where = reg(4) if space == uops.S_GLOBAL and self.draw.random() < 0.9 else reg(base)
            self.records.append(record("ST", **common, **operands(where, None, value)))

    def atomic(self) -> None:
        kind = self.draw.randrange(5)
        operation = uops.AT_ADD if kind == uops.AT_F32 else self.draw.randrange(10)
        space = self.draw.choice((uops.S_GLOBAL, uops.S_SHARED))
        base, flags = (reg(4), uops.A64) if space == uops.S_GLOBAL else (reg(6), 0)
        sources = operands(base, None, reg(self._register(True)), reg(self._register(True)))
        fields = {"d": self._register(True), "mod": operation | kind << uops.ATOMIC_TYPE_SHIFT, "space": space}
        self.records.append(
            record("ATOM", **fields, flags=flags, imm=self.draw.randrange(4) * 8, **sources, **self._guard())
        )

    def branch(self) -> None:
        """if / else around a few operations, joined by a barrier register, sometimes left by BREAK or EXIT."""
        self.depth += 1
        number = self.depth
        self.reconvergence("BSSY", number)
        fork = len(self.records)
        guard = {"guard": self.draw.randrange(7), "guard_neg": self.draw.randrange(2)}
        self.records.append(record("BRA", **guard))
        self.body(self.draw.randrange(1, 4))
        if self.draw.random() < 0.1:
            self.reconvergence("BREAK", number, **self._guard())
        jump = len(self.records)
        self.records.append(record("BRA"))
        self.records[fork]["target"] = len(self.records)
        self.body(self.draw.randrange(1, 4))
        if self.draw.random() < 0.05:
            self.records.append(record("EXIT", guard=self.draw.randrange(7)))
        self.records[jump]["target"] = len(self.records)
        self.reconvergence("BSYNC", number)
        self.depth -= 1

    def reconvergence(self, name: str, number: int, **guard: int) -> None:
        """Without barrier registers lanes join because the smallest position runs first."""
        if self.masks:
            self.records.append(record(name, imm=number, **guard))

    def loop(self) -> None:
        """A loop whose lanes leave after 1 to 4 turns, each by its own count in register 1."""
        self.reconvergence("BSSY", 8 + self.depth)
        self.records.append(record("LOP3", d=1, mod=0xC0, **operands(reg(self._register()), imm(3))))
        start = len(self.records)
        self.body(2)
        self.records.append(record("ADD3", d=1, **operands(reg(1), imm(-1))))
        self.records.append(record("ISETP", pd=6, mod=uops.C_GE, flags=uops.SIGNED, p=7, p_neg=0, **operands(reg(1))))
        self.records.append(record("BRA", guard=6, target=start))
        self.reconvergence("BSYNC", 8 + self.depth)

    def rare(self) -> None:
        """The operations that move lanes without a region of their own."""
        name = self.draw.choice(("BCLR", "YIELD", "WARPSYNC", "BRX", "TRAP", "ILLEGAL"))
        if name == "BCLR":
            self.reconvergence("BCLR", 15, **self._guard())
        elif name == "WARPSYNC" and self.depth == 0 and self.masks:
            self.records.append(record("WARPSYNC", **operands(imm(-1))))
        elif name == "BRX":
            target = 0x1000 + 16 * (len(self.records) + 3)
            self.records.append(record("MOV", d=38, flags=uops.WIDE, **operands(imm(target - 16))))
            self.records.append(record("BRX", imm=16, **operands(reg(38)), **self._guard()))
            self.operation("FADD", SPECS["FADD"])
        elif name in ("TRAP", "ILLEGAL") and self.faulty:
            self.records.append(record(name, guard=self.draw.randrange(7), guard_neg=self.draw.randrange(2)))
        elif name == "YIELD":
            self.records.append(record("YIELD", **self._guard()))

    def body(self, count: int) -> None:
        for _ in range(count):
            kind = self.draw.random()
            if kind < 0.03:
                self.rare()
            elif kind < 0.05:
                self.numbered()
            elif kind < 0.62:
                self.operation(*self.draw.choice(list(SPECS.items())))
            elif kind < 0.80:
                self.memory()
            elif kind < 0.86:
                self.special_register()
            elif kind < 0.90 and self.depth < 3:
                self.branch()
            elif kind < 0.92 and self.depth == 0:
                self.loop()
            elif self.depth == 0 and kind < 0.95:
                self.uniform()
            elif self.crossing and kind < 0.98:
                names = list(CROSSING) if self.ordered else ["BCAST", "VOTE", "SHFL"]
                name = self.draw.choice([name for name in names if self.masks or name not in ONE_WORD])
                self.operation(name, CROSSING[name])
            elif self.ordered:
                self.atomic()
            else:
                self.operation(*self.draw.choice(list(SPECS.items())))

    def whole(self, threads: int) -> list[Any]:
        self.records += [
            record("S2R", d=1, imm=uops.SR_TID_X),
            record("S2R", d=264, imm=uops.SR_CTAID_X, flags=FULL),
            record("MAD", d=0, **operands(reg(264), imm(threads), reg(1))),
            record("MAD", d=6, **operands(reg(1), imm(8), imm(0))),
            record("LOP3", d=6, mod=0xC0, **operands(reg(6), imm(SHARED_BYTES // 2 - 16))),
            record("MADW", d=2, **operands(reg(0), imm(64), const(0))),
            record("MADW", d=4, **operands(reg(0), imm(THREAD_BYTES + 64 & ~15), const(8))),
        ]
        for number in range(FIRST_REGISTER, LAST_REGISTER, 4):
            offset = 4 * (number - FIRST_REGISTER) % 64
            self.records.append(
                record("LD", d=number, flags=uops.A64, width=uops.W_128, imm=offset, **operands(reg(2)))
            )
        for number in range(265, 268):
            self.records.append(record("MOV", d=number, flags=FULL, **operands(const(8 * number - 2080))))
        for part in range(4):
            self.body(self.draw.randrange(4, 14))
            if self.crossing and part == 1:
                self.records.append(record("BAR"))
        for number in range(FIRST_REGISTER, LAST_REGISTER, 4):
            fields = {"width": uops.W_128, "flags": uops.A64, "imm": 4 * (number - FIRST_REGISTER)}
            self.records.append(record("ST", **fields, **operands(reg(4), None, reg(number))))
        return [*self.records, record("EXIT")]


def random_words(draw: random.Random, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    values = [draw.choice(EDGES) if draw.random() < 0.5 else draw.getrandbits(32) for _ in range(count)]
    return np.array(values, np.uint32)


def random_case(seed: int, lanes: int = 32) -> tuple[Program, Callable[[], tuple[Launch, Buffers]]]:
    """A program and a function that makes a fresh launch of it: input, output (to be compared) and constants."""
    draw = random.Random(~seed)
    blocks, threads = draw.choice(SHAPES[lanes])
    code = replace(program(*Writer(seed, lanes).whole(threads)), patience=draw.choice((0, 0, 2, 50)))
    source = random_words(draw, BUFFER_WORDS)
    literals = random_words(draw, 32)

    def make() -> tuple[Launch, Buffers]:
        buffers = Buffers(source.copy(), np.zeros(4 * BUFFER_WORDS, np.uint32))
        constants = struct.pack("<QQ", *buffers.va) + bytes(16) + literals.tobytes()
        windows = {"shared_window_va": 0xFE000000, "local_window_va": 0xFF000000}
        sizes = {"shared_bytes": SHARED_BYTES, "local_low_bytes": 512, "local_high_bytes": 64, "lanes": lanes}
        return launch(buffers, constants, (blocks,), (threads,), budget=400_000, **sizes, **windows), buffers

    return code, make
