"""Small micro-op programs written by hand, and launches of them over NumPy buffers."""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.engine.uops import CONST, IMM, REG, Program, record
from hcqrt.emu.engine.verify import verify

BASE = 0x7F0000000000  # va of the first buffer
STEP = 0x10000000


class Buffers:
    """Host arrays shown to the GPU, each in a mapping of its own."""

    def __init__(self, *arrays: np.ndarray[Any, Any], writable: Sequence[bool] = ()):
        self.arrays = arrays
        self.va = [BASE + STEP * i for i in range(len(arrays))]
        flags = [*writable, *[True] * (len(arrays) - len(writable))]
        self.rows = [
            (va, array.nbytes, array.ctypes.data, flag, flag)
            for va, array, flag in zip(self.va, arrays, flags, strict=True)
        ]

    def ranges(self) -> list[tuple[int, int, int, bool, bool]]:
        return self.rows


def operands(*sources: tuple[int, int] | None) -> dict[str, Any]:
    """The `kind` and `src` fields of up to four sources, None for zero."""
    pairs = [source or (uops.ZERO, 0) for source in sources] + [(uops.ZERO, 0)] * (4 - len(sources))
    return {"kind": [kind for kind, _ in pairs], "src": [value for _, value in pairs]}


def reg(number: int) -> tuple[int, int]:
    return REG, number


def imm(value: int) -> tuple[int, int]:
    return IMM, value & 0xFFFFFFFF


def const(offset: int, bank: int = 0) -> tuple[int, int]:
    return CONST, bank << 16 | offset


def program(*records: Any) -> Program:
    """Every record is an instruction of its own, 16 bytes apart from address 0x1000."""
    array = np.array(list(records), uops.RECORD)
    for index, row in enumerate(array):
        row["pc"] = 0x1000 + 16 * index
        row["flags"] |= uops.FIRST
    made = Program(array, {0x1000 + 16 * i: i for i in range(len(array))})
    verify(made)
    return made


def launch(buffers: Buffers, constants: bytes, grid: Sequence[int], block: Sequence[int], **more: Any) -> Launch:
    bank = np.frombuffer(constants.ljust(16, b"\0"), np.uint8)
    made = Launch(
        fetch=lambda va, nbytes: b"\0" * nbytes,
        entry_va=0x1000,
        memory=buffers,
        grid=(*grid, 1, 1)[:3],  # type: ignore[arg-type]  # a tuple of three
        block=(*block, 1, 1)[:3],  # type: ignore[arg-type]  # a tuple of three
        constants={0: (bank.ctypes.data, bank.size)},
        **more,
    )
    object.__setattr__(made, "_keeps", bank)  # the launch holds only its address
    return made


def vector_add() -> Program:
    """c[i] = a[i] + b[i] for i < n; bank 0 holds a, b, c and n. The block size is 256."""
    return program(
        record("S2R", d=0, imm=uops.SR_TID_X),
        record("S2R", d=264, imm=uops.SR_CTAID_X, flags=uops.FULL),
        record("MAD", d=0, **operands(reg(264), imm(256), reg(0))),
        record("ISETP", pd=0, mod=uops.C_GE, **operands(reg(0), const(24)), p=uops.PT, p_neg=0),
        record("EXIT", guard=0),
        record("MADW", d=2, **operands(reg(0), imm(4), const(0))),
        record("MADW", d=4, **operands(reg(0), imm(4), const(8))),
        record("LD", d=6, flags=uops.A64, width=uops.W_32, **operands(reg(2))),
        record("LD", d=7, flags=uops.A64, width=uops.W_32, **operands(reg(4))),
        record("MADW", d=2, **operands(reg(0), imm(4), const(16))),
        record("FADD", d=6, flags=uops.FTZ, **operands(reg(6), reg(7))),
        record("ST", flags=uops.A64, width=uops.W_32, **operands(reg(2), None, reg(6))),
        record("EXIT"),
    )


def engine_ns(run: Callable[[Program, Launch], Result], n: int = 1 << 20, repeats: int = 5) -> float:
    """The median CPU time of a core per executed thread-instruction of vector_add, in ns."""
    code, times = vector_add(), []
    for _ in range(repeats):
        described, _buffers = vector_add_launch(n)
        start = time.process_time()
        result = run(code, described)
        times.append((time.process_time() - start) / result.instructions * 1e9)
    return statistics.median(times)


def vector_add_launch(n: int, in_place: bool = False) -> tuple[Launch, Buffers]:
    draw = np.random.default_rng(n)
    a, b, c = draw.random(n, np.float32), draw.random(n, np.float32), np.zeros(n, np.float32)
    buffers = Buffers(a, b, c)
    target = buffers.va[0] if in_place else buffers.va[2]
    constants = struct.pack("<QQQI", buffers.va[0], buffers.va[1], target, n)
    return launch(buffers, constants, (-(-n // 256),), (256,)), buffers
