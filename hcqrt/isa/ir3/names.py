"""Names of field values, and the table of float immediates."""

from __future__ import annotations

import math

# Source: Mesa's ISA description of ir3; all confirmed against its disassembler.
TYPES = {0: "f16", 1: "f32", 2: "u16", 3: "u32", 4: "s16", 5: "s32", 6: "u8", 7: "u8_32"}
HALF_TYPES = frozenset(("f16", "u16", "s16", "u8"))
HALF_MOVE_TYPES = HALF_TYPES | {"u8_32"}  # moves keep the wide byte in a half register too

# log2 of the bytes of an element in memory, where it is not 2.
ELEMENT_SHIFTS = {"f16": 1, "u16": 1, "s16": 1, "u8": 0, "u8_32": 0}

ENUMS: dict[str, dict[int, str]] = {
    "type": TYPES,
    "atomic": {**TYPES, 6: "u64"},
    "cond": {0: "lt", 1: "le", 2: "gt", 3: "ge", 4: "eq", 5: "ne"},
    "round": {0: "", 1: "even", 2: "pos_infinity", 3: "neg_infinity"},
    "sign": {0: "unsigned", 1: "mixed"},
    "pack": {0: "low", 1: "high"},
    "typed": {0: "untyped", 1: "typed"},
    "mode": {0: "imm", 1: "uniform", 2: "nonuniform"},
    "indirect": {0: "uniform", 4: "nonuniform"},  # descriptor numbers from a half register
    "bindless": {2: "nonuniform", 5: "uniform"},
    "bindless_a1": {1: "uniform_a1", 3: "nonuniform_a1"},  # the sampler's base is in a1.x
    "shuffle": {1: "xor", 2: "up", 3: "down", 6: "rup", 7: "rdown"},
    "duration": {0: "s", 1: "l"},
    "scope": {0: "shr", 1: "all"},
}

WRITE_MASKS = tuple("".join(c for bit, c in enumerate("xyzw") if mask >> bit & 1) for mask in range(16))

# Floats of the 16-bit source operand, by index, as the text names them.
FLOAT_NAMES = (
    "0.0", "0.5", "1.0", "2.0", "e", "pi", "1/pi", "1/log2(e)", "log2(e)", "1/log2(10)", "log2(10)", "4.0",
)  # fmt: skip
FLOAT_TABLE = (
    0.0, 0.5, 1.0, 2.0, math.e, math.pi, 1 / math.pi, 1 / math.log2(math.e), math.log2(math.e),
    1 / math.log2(10), math.log2(10), 4.0,
)  # fmt: skip

# How a set flag prints, where it is not `.name`.
FLAG_TEXTS = {name: f"({name})" for name in ("sy", "ss", "jp", "ul", "eq", "sat", "ei")}
