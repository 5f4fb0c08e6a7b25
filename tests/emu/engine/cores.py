"""The one place where the tests of lowering start a launch, on each core that this machine has."""

from __future__ import annotations

import struct

import numpy as np

from hcqrt.emu.engine import core_numpy, uops
from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.engine.lower_sass import lower
from hcqrt.isa.sass import decode

CORES = ("numpy",)


def program_of(code: bytes, va: int, sm: int, registers: int) -> uops.Program:
    records, positions = [], {}
    for offset in range(0, len(code), 16):
        positions[va + offset] = len(records)
        records += lower(decode(*struct.unpack_from("<QQ", code, offset), sm), va + offset, registers)
    for record in records:
        if uops.NAMES[record["op"]] == "BRA":
            record["target"] = positions[int(record["imm"])]
    program = uops.Program(np.array(records), positions)
    uops.verify(program)
    return program


def execute(code: bytes, launch: Launch, core: str) -> Result:
    return core_numpy.run(program_of(code, launch.entry_va, launch.sm, launch.registers), launch)
