"""Textures and images of ir3: each format both ways, coordinates, what lies outside, swizzles, swaps, raw buffers."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cores import CORES
from ir3 import SAMPLER, Banks, Image
from ir3_wave import launch, run
from nak import BUFFERS_VA

from hcqrt.emu.engine.launch import ImageShape
from hcqrt.isa.ir3 import assemble, pack

RNG = np.random.default_rng(9)
FIBRE = np.arange(64)
# Number, kind, bits of the components from the lowest: the list of the engineering reference.
FORMATS = {
    0x03: ("unorm", (8,)), 0x05: ("uint", (8,)), 0x06: ("sint", (8,)), 0x15: ("unorm", (16,)), 0x17: ("float", (16,)),
    0x18: ("uint", (16,)), 0x19: ("sint", (16,)), 0x30: ("unorm", (8,) * 4), 0x33: ("uint", (8,) * 4),
    0x34: ("sint", (8,) * 4), 0x36: ("unorm", (10, 10, 10, 2)), 0x42: ("small", (11, 11, 10)),
    0x45: ("float", (16,) * 2),
    0x4A: ("float", (32,)), 0x4B: ("uint", (32,)), 0x4C: ("sint", (32,)), 0x60: ("unorm", (16,) * 4),
    0x62: ("float", (16,) * 4), 0x63: ("uint", (16,) * 4), 0x64: ("sint", (16,) * 4), 0x67: ("float", (32,) * 2),
    0x74: ("float", (32,) * 3), 0x82: ("float", (32,) * 4), 0x83: ("uint", (32,) * 4), 0x84: ("sint", (32,) * 4),
}  # fmt: skip
WIDTH, HEIGHT = 9, 5
X, Y = FIBRE % 13 - 2, FIBRE // 9 - 1  # in range, left, right, above and below
INSIDE = (X >= 0) & (X < WIDTH) & (Y >= 0) & (Y < HEIGHT)


def data_va(rows: int, results: int) -> int:
    """Where `run` puts its data: behind the inputs and the outputs."""
    return BUFFERS_VA + 256 * (max(rows, 1) + max(results, 1)) + 2 * 0x1000


def shape(
    number: int, kind: str = "2d", swap: int = 0, swizzle: tuple[int, int, int, int] = (0, 1, 2, 3)
) -> ImageShape:
    return ImageShape(number, kind, swizzle, swap, False)


def texel_bytes(number: int) -> int:
    return sum(FORMATS[number][1]) // 8


def parts(number: int, word: int) -> list[int]:
    """The components' bits of a texel."""
    found = []
    for width in FORMATS[number][1]:
        found.append(word & ((1 << width) - 1))
        word >>= width
    return found


def f32_bits(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def rounded_f32(x: Fraction) -> int:
    """Bits of the f32 nearest to an exact number in [0, 1]: of the neighbours of a float quotient, the closest."""
    near = np.float32(float(x))
    found = min((np.nextafter(near, np.float32(-1)), near, np.nextafter(near, np.float32(2))),
                key=lambda f: abs(Fraction(float(f)) - x))  # fmt: skip
    return f32_bits(float(found))


def small_float(bits: int, mantissa: int) -> float:
    exponent, rest = bits >> mantissa, bits & ((1 << mantissa) - 1)
    if exponent == 31:
        return math.nan if rest else math.inf
    return (
        math.ldexp(rest, -14 - mantissa)
        if not exponent
        else math.ldexp((1 << mantissa) + rest, exponent - 15 - mantissa)
    )


def value(number: int, bits: int, width: int) -> int:
    """The 32 bits that a shader reads for a component."""
    kind = FORMATS[number][0]
    if kind == "unorm":
        return rounded_f32(Fraction(bits, (1 << width) - 1))
    if kind == "sint":
        return (bits - (bits >> (width - 1) << width)) & 0xFFFFFFFF
    if kind == "small":
        found = small_float(bits, width - 5)
        return 0x7FFFFFFF if math.isnan(found) else f32_bits(found)
    if kind == "float" and width == 16:
        (found,) = struct.unpack("<e", struct.pack("<H", bits))
        return 0x7FFFFFFF if math.isnan(found) else f32_bits(found)
    return bits


def texels(data: Any, number: int, pitch: int) -> list[list[int]]:
    raw, nbytes = data.tobytes(), texel_bytes(number)
    return [[int.from_bytes(raw[y * pitch + x * nbytes : y * pitch + (x + 1) * nbytes], "little") for x in range(WIDTH)]
            for y in range(HEIGHT)]  # fmt: skip


def type_of(number: int) -> str:
    return {"uint": "u32", "sint": "s32"}.get(FORMATS[number][0], "f32")


PITCH = 192
RESULTS = ["r8.x", "r8.y", "r8.z", "r8.w"]


@pytest.mark.parametrize("number", FORMATS)
def test_isam_decodes_every_format(number: int) -> None:
    data = RNG.integers(0, 1 << 32, PITCH * HEIGHT // 4).astype(np.uint32)
    at = Image(shape(number), data_va(2, 4), WIDTH, HEIGHT, PITCH)
    text = f"isam.1d ({type_of(number)})(xyzw)r8.x, r1.x, s#0, t#0\n"
    got = run(text, {"r1.x": X, "r1.y": Y}, RESULTS, data=data, textures=[at])
    kind, widths = FORMATS[number]
    absent = [0, 0, 0, 1 if kind in ("uint", "sint") else f32_bits(1.0)]
    there = texels(data, number, PITCH)
    for fibre in range(64):
        wanted = [0] * 4
        if INSIDE[fibre]:
            found = parts(number, there[Y[fibre]][X[fibre]])
            wanted = [value(number, b, w) for b, w in zip(found, widths, strict=True)] + absent[len(widths) :]
        assert [int(row[fibre]) for row in got] == wanted, (fibre, X[fibre], Y[fibre])


@pytest.mark.parametrize("number", FORMATS)
def test_a_texel_that_is_read_and_written_is_the_same(number: int) -> None:
    """Every value that a format can hold survives; nothing is written outside."""
    kind, widths = FORMATS[number]
    count, nbytes = len(widths), texel_bytes(number)
    before = RNG.integers(0, 1 << 32, PITCH * HEIGHT // 4).astype(np.uint32)
    data = np.concatenate([before, np.zeros_like(before)])
    va = data_va(2, 0)
    source, target = (Image(shape(number), at, WIDTH, HEIGHT, PITCH) for at in (va, va + before.nbytes))
    name = type_of(number)
    text = f"ldib.b.typed.2d.{name}.{count}.imm r8.x, r1.x, 0\nstib.b.typed.2d.{name}.{count}.imm r8.x, r1.x, 1\n"
    run(text, {"r1.x": X, "r1.y": Y}, [], data=data, images=[source, target])
    raw, written = before.tobytes(), data[before.size :].tobytes()
    held = bytearray(before.nbytes)
    for x, y in zip(X[INSIDE], Y[INSIDE], strict=True):
        at = int(y) * PITCH + int(x) * nbytes
        held[at : at + nbytes] = raw[at : at + nbytes]
    if kind in ("float", "small"):
        assert same_floats(bytes(held), written, widths, nbytes)
    else:
        assert bytes(held) == written


def same_floats(wanted: bytes, got: bytes, widths: tuple[int, ...], nbytes: int) -> bool:
    """Equal bits, but for NaNs, which may change theirs where a format is converted."""
    for at in range(0, len(wanted) - nbytes + 1, nbytes if PITCH % nbytes == 0 else 4):
        a, b = (int.from_bytes(one[at : at + nbytes], "little") for one in (wanted, got))
        for width in widths:
            x, y = a & ((1 << width) - 1), b & ((1 << width) - 1)
            mantissa = {10: 5, 11: 6, 16: 10, 32: 23}[width]
            top = ((1 << (8 if width == 32 else 5)) - 1) << mantissa
            if x != y and not all(n & top == top and n & ((1 << mantissa) - 1) for n in (x, y)):
                return False
            a, b = a >> width, b >> width
    return True


def test_unorm_stores_round_the_exact_product_to_even() -> None:
    values = np.array(
        [0, 1, 0.5, 0.25, -1, 2, math.nan, 1 / 255, 0.5 / 255, 1.5 / 255, 2.5 / 255, math.inf, 0.998, 1e-30]
    )
    values = np.resize(np.concatenate([values, RNG.uniform(0, 1, 50)]), 64).astype(np.float32)
    data = np.zeros(64, np.uint32)
    at = Image(shape(0x30, "1d"), data_va(2, 0), 64, 1, 256)
    text = (
        "mov.f32f32 r2.y, r2.x\nmov.f32f32 r2.z, r2.x\nmov.f32f32 r2.w, r2.x\nstib.b.typed.1d.f32.4.imm r2.x, r1.x, 0\n"
    )
    run(text, {"r1.x": FIBRE, "r2.x": values.view(np.uint32)}, [], data=data, images=[at])
    for x, got in zip(values, data, strict=True):
        clamped = 0.0 if math.isnan(x) or x < 0 else min(float(x), 1.0)
        wanted = round(Fraction(clamped) * 255)
        assert int(got) == wanted * 0x01010101


def test_half_types_and_gaps_in_the_mask() -> None:
    data = RNG.uniform(-2, 2, PITCH * HEIGHT // 2).astype(np.float16)
    at = Image(shape(0x62), data_va(2, 4), WIDTH, HEIGHT, PITCH)
    text = "mov.u32u32 r8.y, 5\nisam.1d (f16)(xyzw)hr8.x, r1.x, s#0, t#0\nisam (f32)(xw)r8.x, r1.x, s#0, t#0\n"
    got = run(text, {"r1.x": 3, "r1.y": 2}, ["hr8.z", "r8.x", "r8.y", "r8.w"], data=data, textures=[at])
    texel = data[2 * PITCH // 2 + 3 * 4 :][:4]
    assert int(got[0][0]) == texel.view(np.uint16)[2]
    assert [int(row[0]) for row in got[1:]] == [f32_bits(float(texel[0])), 5, f32_bits(float(texel[3]))]


@pytest.mark.parametrize(("swap", "order"), [(0, "xyzw"), (1, "zyxw"), (2, "wxyz"), (3, "wzyx")])
def test_component_swaps(swap: int, order: str) -> None:
    """`order`: which component lies in each byte, from the lowest."""
    data = np.array([0x44332211], np.uint32)
    at = Image(shape(0x33, swap=swap), data_va(2, 4), 1, 1, 64)
    text = "isam.1d (u32)(xyzw)r8.x, r1.x, s#0, t#0\nstib.b.typed.2d.u32.4.imm r8.x, r1.x, 0\n"
    got = run(text, {"r1.x": 0, "r1.y": 0}, RESULTS, data=data, textures=[at], images=[at])
    assert [int(row[0]) for row in got] == [0x11 * (order.index(c) + 1) for c in "xyzw"]
    assert data[0] == 0x44332211


def test_swizzles() -> None:
    data = np.array([0x44332211], np.uint32)
    at = Image(shape(0x33, swizzle=(2, 5, 4, 0)), data_va(2, 4), 1, 1, 64)
    text = "isam.1d (u32)(xyzw)r8.x, r1.x, s#0, t#0\n"
    got = run(text, {"r1.x": FIBRE % 2, "r1.y": 0}, RESULTS, data=data, textures=[at])
    assert [int(row[0]) for row in got] == [0x33, 1, 0, 0x11]
    assert [int(row[1]) for row in got] == [0, 0, 0, 0]


def test_three_dimensions() -> None:
    data = np.arange(4 * 4 * 16, dtype=np.uint32)
    at = Image(shape(0x4B, "3d"), data_va(3, 1), 3, 4, 64, depth=4, layer=256)
    x, y, z = FIBRE % 4, FIBRE // 4 % 5, FIBRE // 16 + 1
    text = "isam.3d.1d (u32)(x)r8.x, r1.x, s#0, t#0\n"
    (got,) = run(text, {"r1.x": x, "r1.y": y, "r1.z": z}, ["r8.x"], data=data, textures=[at])
    inside = (x < 3) & (y < 4) & (z < 4)
    assert np.array_equal(got, np.where(inside, z * 64 + y * 16 + x, 0))


def test_typed_buffers_count_elements_in_two_fields() -> None:
    data = np.arange(70000, dtype=np.uint32)
    count = 66000
    at = Image(shape(0x4B, "buffer"), data_va(2, 1), count & 0x7FFF, count >> 15, 0)
    index = np.where(FIBRE % 2 == 0, FIBRE * 1031, count - 3 + FIBRE // 10)
    (got,) = run(
        "isam.1d (u32)(x)r8.x, r1.x, s#0, t#0\n", {"r1.x": index, "r1.y": 0}, ["r8.x"], data=data, textures=[at]
    )
    assert np.array_equal(got, np.where(index < count, index, 0))


@pytest.mark.parametrize(("kind", "number", "nbytes"), [("u32", 0x4B, 4), ("u16", 0x18, 2)])
def test_raw_buffers(kind: str, number: int, nbytes: int) -> None:
    """Elements from a start, each checked by itself."""
    data = RNG.integers(0, 1 << 32, 64).astype(np.uint32)
    before = data.copy()
    count = 40
    at = Image(shape(number, "buffer"), data_va(1, 3), count, 0, 0)
    h = "h" if nbytes == 2 else ""
    text = f"ldib.b.untyped.1d.{kind}.3.imm {h}r8.x, r1.x, 0\nadd.u r2.x, r1.x, 1\n"
    text += f"stib.b.untyped.1d.{kind}.1.imm {h}r8.x, r2.x, 0\n"
    got = run(text, {"r1.x": FIBRE - 3}, [f"{h}r8.{c}" for c in "xyz"], data=data, images=[at])
    cells = before.view(np.uint16 if nbytes == 2 else np.uint32)
    for k, row in enumerate(got):
        index = FIBRE - 3 + k
        assert np.array_equal(row, np.where((index >= 0) & (index < count), cells[index % count], 0))
    wanted = cells.copy()
    for fibre in FIBRE:
        if 0 <= fibre - 2 < count:
            wanted[fibre - 2] = got[0][fibre]
    assert np.array_equal(data.view(cells.dtype), wanted)


def test_atomics_on_images_and_raw_buffers() -> None:
    """The operand lies behind the result; a compare-and-swap has the new value first."""
    data = np.zeros(48, np.uint32)
    data[32:] = np.arange(16)
    va = data_va(3, 3)
    flat, raw = Image(shape(0x4B), va, 4, 2, 64), Image(shape(0x4B, "buffer"), va + 128, 16, 0, 0)
    text = """
    atomic.b.add.typed.2d.u32.1.imm r2.x, r1.x, 0
    mov.u32u32 r4.y, 900
    mov.u32u32 r4.z, r0.x
    atomic.b.cmpxchg.untyped.1d.u32.1.imm r4.x, r0.x, 1
    """
    x, y = FIBRE % 5, FIBRE % 3
    got = run(text, {"r1.x": x, "r1.y": y, "r2.y": 3}, ["r2.x", "r4.x", "r4.z"], data=data, images=[flat, raw])
    counts = np.zeros((2, 4), np.uint32)
    for fibre in FIBRE:
        inside = x[fibre] < 4 and y[fibre] < 2
        assert got[0][fibre] == (counts[y[fibre], x[fibre]] if inside else 0)
        if inside:
            counts[y[fibre], x[fibre]] += 3
    assert np.array_equal(data[:32].reshape(2, 16)[:, :4], counts)
    assert np.array_equal(got[1], np.where(FIBRE < 16, FIBRE, 0))
    assert (data[32:] == 900).all()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("text", "change", "reason"),
    [
        ("isam.1d (f32)(x)r8.x, r1.x, s#0, t#1", {}, "texture 1"),
        ("isam.1d (f32)(x)r8.x, r1.x, s#1, t#0", {}, "sampler 1"),
        ("isam.1d (u32)(x)r8.x, r1.x, s#0, t#0", {}, "does not go with image format 0x82"),
        ("isam.a.1d (f32)(x)r8.x, r1.x, s#0, t#0", {}, "modifier a = True"),
        ("isam.3d.1d (f32)(x)r8.x, r1.x, s#0, t#0", {}, "kind 2d"),
        ("isam.1d (f32)(x)r8.x, r1.x, s#0, t#0", {"srgb": True}, "sRGB"),
        ("isam.1d (f32)(x)r8.x, r1.x, s#0, t#0", {"kind": "cube"}, "cube"),
        ("isam.1d (f32)(x)r8.x, r1.x, s#0, t#0", {"format": 0x99}, "format 0x99"),
        ("isam.1d (f32)(x)r8.x, r1.x, s#0, t#0", {"format": 0x36, "swap": 2}, "swap 2"),
        ("sam (f32)(x)r8.x, r1.x, s#0, t#0", {}, "is not implemented"),
        ("stib.b.typed.2d.f32.1.imm r8.x, r1.x, 0", {}, "1 components for image format 0x82"),
        ("ldib.b.untyped.1d.u32.1.imm r8.x, r1.x, 0", {}, "untyped elements of 4 bytes"),
        ("ldib.b.typed.3d.f32.1.imm r8.x, r1.x, 0", {}, "3 coordinates"),
    ],
)
def test_what_is_not_known_of_images_is_refused(text: str, change: dict[str, Any], reason: str, core: str) -> None:
    made = replace(shape(0x82), **change)
    image = Image(made, BUFFERS_VA, 1, 1, 64)
    banks = Banks(textures=[image], images=[image])
    result = launch(pack(assemble(text + "\nend\n")), [np.zeros(16, np.uint32)], core, banks)
    assert result.fault is not None and result.fault.kind == "illegal_instruction"
    assert reason in result.fault.detail


@pytest.mark.parametrize("core", CORES)
def test_isam_in_mode_cl_reads_a_border_and_knows_no_other_wrap(core: str) -> None:
    texel = np.arange(1, 17, dtype=np.uint32)
    banks = Banks(textures=[Image(shape(0x82), BUFFERS_VA, 1, 1, 64)])
    code = pack(assemble("mov.u32u32 r1.x, 0\nmov.u32u32 r1.y, 1\nisam.1d (f32)(x)r8.x, r1.x, s#0, t#0\nend\n"))
    assert launch(code, [texel], core, banks, isam_gl=False).fault is None
    for sampler in (replace(SAMPLER, wrap=(3, 1, 3)), replace(SAMPLER, unnormalized=False)):
        result = launch(code, [texel], core, banks, isam_gl=False, samplers=(sampler,))
        assert result.fault is not None and "sampler 0 in mode CL" in result.fault.detail
