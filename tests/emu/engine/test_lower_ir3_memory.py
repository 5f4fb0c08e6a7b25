"""Loads, stores and atomics of ir3: every type, every space, several elements, what lies outside, constant buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cores import CORES
from ir3 import CODE_VA, Banks
from ir3_wave import PRIVATE_BYTES, SHARED_BYTES, launch, run
from nak import BUFFERS_VA

from hcqrt.isa.ir3 import assemble, pack

RNG = np.random.default_rng(5)
FIBRE = np.arange(64)
TYPES = {"u8": 1, "u16": 2, "s16": 2, "f16": 2, "u32": 4, "s32": 4, "f32": 4}
ADDRESS = """
add.u r4.x, r1.x, c1.x
mov.u32u32 r4.y, c1.y
"""


def registers(first: int, count: int, half: bool) -> list[str]:
    return [f"{'hr' if half else 'r'}{n // 4}.{'xyzw'[n % 4]}" for n in range(first, first + count)]


def elements(data: Any, at: Any, nbytes: int, index: int) -> Any:
    """Element `index` from each byte offset of `at` on, little-endian."""
    raw = np.stack(
        [data.view(np.uint8)[at + index * nbytes + k].astype(np.uint64) << np.uint64(8 * k) for k in range(nbytes)]
    )
    return raw.sum(axis=0)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("count", [1, 3, 4])
def test_ldg_reads_elements_and_extends_with_zeros(kind: str, count: int) -> None:
    nbytes, half = TYPES[kind], TYPES[kind] < 4
    data = RNG.integers(0, 1 << 32, 256).astype(np.uint32)
    at = RNG.integers(0, 200, 64) * nbytes
    names = registers(32, count, half)
    got = run(f"{ADDRESS}ldg.{kind} {names[0]}, g[r4.x+8], {count}\n", {"r1.x": at}, names, data=data)
    for k, row in enumerate(got):
        assert np.array_equal(row, elements(data, at + 8, nbytes, k))


def test_a_load_may_cover_its_own_address() -> None:
    data = RNG.integers(0, 1 << 32, 256).astype(np.uint32)
    at = RNG.integers(0, 60, 64) * 4
    text = (
        f"{ADDRESS}mov.u32u32 r5.x, r4.x\nmov.u32u32 r5.y, r4.y\nldg.u32 r5.x, g[r5.x], 4\nldg.u32 r3.w, g[r4.x-4], 4\n"
    )
    got = run(text, {"r1.x": at + 4}, [*registers(20, 4, False), *registers(15, 4, False)], data=data)
    for k in range(4):
        assert np.array_equal(got[k], data[at // 4 + 1 + k])
        assert np.array_equal(got[4 + k], data[at // 4 + k])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("count", [1, 4])
def test_stg_writes_low_bits_of_elements(kind: str, count: int) -> None:
    nbytes, half = TYPES[kind], TYPES[kind] < 4
    names = registers(20, count, half)
    values = [RNG.integers(0, 1 << (16 if half else 32), 64) for _ in names]
    data = np.zeros(512, np.uint32)
    order = RNG.permutation(64)
    at = order * nbytes * count
    text = f"{ADDRESS}stg.{kind} g[r4.x-4], {names[0]}, {count}\n"
    run(text, {"r1.x": at + 4, **dict(zip(names, values, strict=True))}, [], data=data)
    for k, value in enumerate(values):
        assert np.array_equal(elements(data, at, nbytes, k), value & ((1 << 8 * nbytes) - 1))
    assert not data.view(np.uint8)[64 * nbytes * count :].any()


def test_indexed_global_accesses_scale_the_index() -> None:
    data = RNG.integers(0, 1 << 32, 600).astype(np.uint32)
    index = RNG.permutation(64)
    text = (
        "mov.u32u32 r4.x, c1.x\nmov.u32u32 r4.y, c1.y\n"
        "ldg.a.u32 r8.x, g[r4.x+(((r1.x<<1)+3)<<2)], 2\nstg.a.u32 g[r4.x+(((r1.x<<2)+1)<<2)], r8.x, 1\n"
    )
    before = data.copy()
    # Every load of the wave happens before every store of the wave: one instruction after the other.
    got = run(text, {"r1.x": index}, ["r8.x", "r8.y"], data=data)
    assert np.array_equal(got[0], before[index * 2 + 3]) and np.array_equal(got[1], before[index * 2 + 4])
    assert np.array_equal(data[index * 4 + 1], before[index * 2 + 3])


@pytest.mark.parametrize(
    ("letter", "store", "load", "size"), [("l", "stl", "ldl", SHARED_BYTES), ("p", "stp", "ldp", 128)]
)
@pytest.mark.parametrize("kind", TYPES)
def test_workgroup_and_private_memory(letter: str, store: str, load: str, size: int, kind: str) -> None:
    nbytes, half = TYPES[kind], TYPES[kind] < 4
    hidden = "" if half and letter == "l" else "h"
    names = registers(20, 2, half)
    text = f"{store}.{kind} {letter}[r1.x+4], {names[0].replace('h', hidden)}, 2\n"
    text += f"{load}.{kind} {registers(32, 2, half)[0].replace('h', hidden)}, {letter}[r1.x+4], 2\n"
    values = [RNG.integers(0, 1 << (16 if half else 32), 64) for _ in names]
    at = RNG.permutation(64) * 2 * nbytes % (size - 12)
    at = at if letter == "l" else at // nbytes * nbytes
    got = run(text, {"r1.x": at, **dict(zip(names, values, strict=True))}, registers(32, 2, half))
    for row, value in zip(got, values, strict=True):
        assert np.array_equal(row, value & ((1 << 8 * nbytes) - 1))


def test_private_memory_is_each_fibres_own() -> None:
    text = "mov.u32u32 r2.x, 64\nstp.u32 p[r2.x], r1.x, 1\nldp.u32 r8.x, p[r2.x], 1\n"
    (got,) = run(text, {"r1.x": FIBRE * 7}, ["r8.x"])
    assert np.array_equal(got, FIBRE * 7)


def test_memory_of_a_merged_file() -> None:
    data = np.arange(64, dtype=np.uint32) * 0x10003
    text = "shl.b r1.x, r0.x, 2\nadd.u r4.x, r1.x, c1.x\nmov.u32u32 r4.y, c1.y\n"
    text += "ldg.u16 hr10.y, g[r4.x], 2\nstg.u16 g[r4.x], hr10.z, 1\nldg.u16 hr2.x, g[r4.x], 2\n"
    inputs = {"r5.x": 0x1111AAAA, "r5.y": 0x2222BBBB}
    before = data.copy()
    got = run(text, inputs, ["r5.x", "r5.y", "r1.x"], data=data, merged=True, half_regs=0)
    low, high = before & 0xFFFF, before >> 16
    assert np.array_equal(got[0], low << 16 | 0xAAAA) and np.array_equal(got[1], high | 0x22220000)
    assert np.array_equal(data, high << 16 | high)
    assert np.array_equal(got[2], data)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("ldg.u32 r1.x, g[r2.x], 1", "global", 0),
        ("ldg.u32 r1.x, g[r4.x+2], 1", "misaligned", BUFFERS_VA + 2),
        ("mov.u32u32 r1.x, 0x800\nldl.u32 r3.x, l[r1.x], 1", "shared", SHARED_BYTES),
        ("mov.u32u32 r1.x, 0x1fe\nstp.u32 p[r1.x+2], r3.x, 1", "local", PRIVATE_BYTES),
        ("mova a0.x, 1100\nmov.u32u32 r1.x, c<a0.x>", "constant", 4400),
    ],
)
def test_what_lies_outside_faults(text: str, kind: str, address: int, core: str) -> None:
    code = pack(assemble(f"mov.u32u32 r4.x, c0.x\nmov.u32u32 r4.y, c0.y\n{text}\nend\n"))
    result = launch(code, [np.zeros(16, np.uint32)], core, Banks(), block=(1, 1, 1))
    assert result.fault is not None
    assert (result.fault.kind, result.fault.address) == (kind, address)
    assert result.fault.pc >= CODE_VA + 16


ATOMICS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda old, x: old + x, "sub.u32": lambda old, x: old - x, "xchg.u32": lambda old, x: x,
    "min.u32": min, "max.u32": max, "and.u32": lambda old, x: old & x, "or.u32": lambda old, x: old | x,
    "xor.u32": lambda old, x: old ^ x, "min.s32": lambda old, x: min(s32(old), s32(x)),
    "max.s32": lambda old, x: max(s32(old), s32(x)),
}  # fmt: skip


def s32(x: int) -> int:
    x &= 0xFFFFFFFF
    return x - (x >> 31 << 32)


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_in_order_of_the_fibres(name: str) -> None:
    """Global and workgroup memory do the same: old values come back, four cells get sixteen operands each."""
    op, kind = name.split(".")
    text = f"""{ADDRESS}
    shl.b r3.x, r0.x, 30
    shr.b r3.x, r3.x, 28
    stl.u32 l[r3.x], r2.z, 1
    atomic.{op}.untyped.1d.{kind}.1.l r8.y, l[r1.x], r2.x
    atomic.g.{op}.untyped.1d.{kind}.1.g r8.x, r4.x, r2.x
    """
    cells = RNG.integers(0, 1 << 32, 4).astype(np.uint32)
    data, operand = cells.copy(), RNG.integers(0, 1 << 32, 64)
    inputs = {"r1.x": FIBRE % 4 * 4, "r2.x": operand, "r2.z": np.tile(cells, 16)}
    got = run(text, inputs, ["r8.x", "r8.y"], data=data)
    wanted = [int(c) for c in cells]
    for fibre in range(64):
        assert int(got[0][fibre]) == int(got[1][fibre]) == wanted[fibre % 4]
        wanted[fibre % 4] = ATOMICS[name](wanted[fibre % 4], int(operand[fibre])) & 0xFFFFFFFF
    assert data.tolist() == wanted


def test_compare_and_swap_takes_the_new_value_first() -> None:
    text = f"{ADDRESS}atomic.g.cmpxchg.untyped.1d.u32.1.g r8.x, r4.x, r2.x\n"
    data = np.arange(64, dtype=np.uint32)
    compared = np.where(FIBRE % 2 == 0, FIBRE, 999)
    (got,) = run(text, {"r1.x": FIBRE * 4, "r2.x": FIBRE + 500, "r2.y": compared}, ["r8.x"], data=data)
    assert np.array_equal(got, FIBRE)
    assert np.array_equal(data, np.where(FIBRE % 2 == 0, FIBRE + 500, FIBRE))


def test_constant_buffers() -> None:
    """Vectors of 16 bytes from slot 1; past its 96 bytes are zeros, wherever the address goes."""
    data = RNG.integers(1, 1 << 32, 64).astype(np.uint32)
    index = np.where(FIBRE % 9 == 8, 0x10000000, FIBRE % 9)
    text = "ldc.offset2.2.imm r8.x, r1.x, 1\nldc.offset0.1.imm r9.x, 2, 1\n"
    # The data's address: inputs and outputs come first, each 64 words a row, gaps between.
    va = BUFFERS_VA + 2 * (256 + 0x1000) + 2 * 256
    got = run(text, {"r1.x": index}, ["r8.x", "r8.y", "r9.x"], data=data, ubos=[(0, 0), (va, 96)])
    for k in range(2):
        word = np.minimum(index * 4 + 2 + k, 63)
        assert np.array_equal(got[k], np.where(index < 6, data[word], 0))
    assert (got[2] == data[8]).all()
