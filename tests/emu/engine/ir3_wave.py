"""Runs ir3 assembly on one wave: registers loaded from arrays before it, named results stored after it.

The instructions around the tested ones use r45 to r47 and the constants below c8.x only.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cores import CORES, execute
from ir3 import CODE_VA, Banks, Image, setup
from nak import ArrayMemory

from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.isa.ir3 import assemble, pack

Words = npt.NDArray[np.uint32]
LANES = 64
ROW_BYTES = 4 * LANES
CONSTANTS_AT = 16 * 8
SHARED_BYTES, PRIVATE_BYTES = 2048, 512
START = """
shl.b r46.x, r0.x, 2
add.u r46.y, r46.x, c0.x
mov.u32u32 r46.z, c0.y
"""
END = """
shl.b r46.x, r0.x, 2
add.u r46.y, r46.x, c0.z
mov.u32u32 r46.z, c0.w
"""


def load(name: str, row: int) -> str:
    at = f"g[r46.y+{row * ROW_BYTES}]" if row else "g[r46.y]"
    if name.startswith("p0"):
        return f"ldg.u32 r45.y, {at}, 1\ncmps.s.ne {name}, r45.y, 0\n"
    return f"ldg.{'u16' if name.startswith('h') else 'u32'} {name}, {at}, 1\n"


def save(name: str, row: int) -> str:
    at = f"g[r46.y+{row * ROW_BYTES}]" if row else "g[r46.y]"
    if name.startswith("p0"):
        return f"mov.u32u32 r45.y, 1\nbr {name}, #2\nmov.u32u32 r45.y, 0\nstg.u32 {at}, r45.y, 1\n"
    if name.startswith("h"):  # all 32 bits of what holds it: those above must be zero
        return f"cov.u16u32 r45.y, {name}\nstg.u32 {at}, r45.y, 1\n"
    return f"stg.u32 {at}, {name}, 1\n"


def launch(
    code: bytes,
    arrays: Sequence[npt.NDArray[Any]],
    core: str,
    banks: Banks,
    *,
    lanes: int = LANES,
    block: tuple[int, int, int] = (LANES, 1, 1),
    grid: tuple[int, int, int] = (1, 1, 1),
    budget: int = 1_000_000,
    **state: Any,
) -> Result:
    memory = ArrayMemory(list(arrays))
    for index, va in enumerate(memory.addresses):
        struct.pack_into("<Q", banks.constants, 8 * index, va)
    made = Launch(
        fetch=lambda va, nbytes: code[va - CODE_VA : va - CODE_VA + nbytes],
        entry_va=CODE_VA,
        memory=memory,
        grid=grid,
        block=block,
        isa="ir3",
        shared_bytes=SHARED_BYTES,
        local_low_bytes=PRIVATE_BYTES,
        constants=banks.pointers(),
        budget=budget,
        lanes=lanes,
        setup=setup(banks, **{"local_id": 0, **state}),
    )
    return execute(made, core)


def run(
    text: str,
    inputs: Mapping[str, Any],
    results: Sequence[str],
    *,
    constants: Sequence[int] = (),
    data: npt.NDArray[Any] | None = None,
    textures: Sequence[Image] = (),
    images: Sequence[Image] = (),
    ubos: Sequence[tuple[int, int]] = (),
    **state: Any,
) -> list[Words]:
    """The results by lane, the same on every core. From c8.x on lie `constants`, in c1.xy the address of `data`."""
    head = "".join(load(name, row) for row, name in enumerate(inputs))
    tail = "".join(save(name, row) for row, name in enumerate(results))
    code = pack(assemble(START + head + text + END + tail + "end\n"))
    words = np.zeros((max(len(inputs), 1), LANES), np.uint32)
    for row, value in zip(words, inputs.values(), strict=False):
        row[:] = np.broadcast_to(np.asarray(value).astype(np.int64) & 0xFFFFFFFF, LANES).astype(np.uint32)
    before = np.zeros(1, np.uint32) if data is None else data.copy()
    outcome: list[tuple[bytes, bytes]] = []
    for core in CORES:
        memory, out = before.copy(), np.zeros((max(len(results), 1), LANES), np.uint32)
        banks = Banks(textures=list(textures), images=list(images), ubos=list(ubos))
        struct.pack_into(f"<{len(constants)}I", banks.constants, CONSTANTS_AT, *(c & 0xFFFFFFFF for c in constants))
        result = launch(code, [words, out, memory], core, banks, **state)
        assert result.fault is None, result.fault
        outcome.append((out.tobytes(), memory.tobytes()))
        if data is not None:
            data[...] = memory
    assert all(one == outcome[0] for one in outcome), "the cores differ"
    rows = np.frombuffer(outcome[0][0], np.uint32).reshape(-1, LANES)
    return list(rows[: len(results)])
