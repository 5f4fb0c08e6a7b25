"""Integer instructions of ir3, executed and compared with Python's integers fibre by fibre."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ir3_wave import run

RNG = np.random.default_rng(7)
EDGES = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x10000, 0x8000, 0x7FFF, 0xFF, 0x80, 31, 32, 0x12345678]
A, B, C = (
    np.array([*np.roll(EDGES, turn), *RNG.integers(0, 1 << 32, 64 - len(EDGES))], np.uint64) for turn in (0, 4, 9)
)
FULL = {"r1.x": A, "r2.x": B, "r3.x": C}
HALF = {"hr1.x": A & 0xFFFF, "hr2.x": B & 0xFFFF, "hr3.x": C & 0xFFFF}
Function = Callable[[int, int, int], int]


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (x >> (bits - 1) << bits)


def check(text: str, expected: Function, bits: int = 32, result_bits: int | None = None) -> None:
    """`expected` of the sources as unsigned numbers of `bits`; the result has as many, or `result_bits`."""
    half, out = bits == 16, result_bits or bits
    sources, name = (HALF, "hr") if half else (FULL, "r")
    text = text.format(a=f"{name}1.x", b=f"{name}2.x", c=f"{name}3.x", d="hr8.x" if out == 16 else "r8.x")
    (got,) = run(text + "\n", sources, ["hr8.x" if out == 16 else "r8.x"])
    columns = [[int(x) for x in column] for column in sources.values()]
    wanted = [expected(*values) & ((1 << out) - 1) for values in zip(*columns, strict=True)]
    assert [hex(int(x)) for x in got] == [hex(x) for x in wanted]


def bits_of(x: int, n: int) -> int:
    return x & ((1 << n) - 1)


def reverse(x: int, bits: int) -> int:
    return int(f"{x:0{bits}b}"[::-1], 2)


def zeros_above(x: int, bits: int) -> int:
    return bits - x.bit_length() if x else -1


def sign_copies(x: int, bits: int) -> int:
    """Bits above the highest that differs from the sign."""
    s = signed(x, bits)
    return zeros_above(s if s >= 0 else ~s, bits)


BOTH: dict[str, Callable[[int], Function]] = {
    "add.u {d}, {a}, {b}": lambda n: lambda a, b, c: a + b,
    "add.s {d}, {a}, (neg){b}": lambda n: lambda a, b, c: a - b,
    "add.s {d}, (neg){a}, (abs){b}": lambda n: lambda a, b, c: abs(signed(b, n)) - signed(a, n),
    "add.s {d}, (absneg){a}, {b}": lambda n: lambda a, b, c: b - abs(signed(a, n)),
    "add.u {d}, {a}, -5": lambda n: lambda a, b, c: a - 5,
    "sub.u {d}, {a}, {b}": lambda n: lambda a, b, c: a - b,
    "sub.s {d}, {a}, (neg){b}": lambda n: lambda a, b, c: a + b,
    "min.u {d}, {a}, {b}": lambda n: lambda a, b, c: min(a, b),
    "max.u {d}, {a}, {b}": lambda n: lambda a, b, c: max(a, b),
    "min.s {d}, {a}, {b}": lambda n: lambda a, b, c: min(signed(a, n), signed(b, n)),
    "max.s {d}, {a}, {b}": lambda n: lambda a, b, c: max(signed(a, n), signed(b, n)),
    "absneg.s {d}, (neg){a}": lambda n: lambda a, b, c: -a,
    "absneg.s {d}, (abs){a}": lambda n: lambda a, b, c: abs(signed(a, n)),
    "and.b {d}, {a}, {b}": lambda n: lambda a, b, c: a & b,
    "and.b {d}, {a}, (neg){b}": lambda n: lambda a, b, c: a & ~b,
    "or.b {d}, (neg){a}, {b}": lambda n: lambda a, b, c: ~a | b,
    "xor.b {d}, {a}, (neg){b}": lambda n: lambda a, b, c: a ^ ~b,
    "not.b {d}, {a}": lambda n: lambda a, b, c: ~a,
    "shl.b {d}, {a}, {b}": lambda n: lambda a, b, c: a << (b & 31),
    "shr.b {d}, {a}, {b}": lambda n: lambda a, b, c: a >> (b & 31),
    "ashr.b {d}, {a}, {b}": lambda n: lambda a, b, c: signed(a, n) >> (b & 31),
    "ashr.b {d}, (neg){a}, 3": lambda n: lambda a, b, c: signed(~a, n) >> 3,
    "bfrev.b {d}, {a}": lambda n: lambda a, b, c: reverse(a, n),
    "cbits.b {d}, {a}": lambda n: lambda a, b, c: bin(a).count("1"),
    "clz.b {d}, {a}": lambda n: lambda a, b, c: zeros_above(a, n),
    "clz.s {d}, {a}": lambda n: lambda a, b, c: sign_copies(a, n),
    "shrg {d}, {a}, {b}, {c}": lambda n: lambda a, b, c: (b >> (a & 31)) | c,
    "shlg {d}, {a}, {b}, {c}": lambda n: lambda a, b, c: (b << (a & 31)) | c,
    "shrm {d}, {a}, {b}, {c}": lambda n: lambda a, b, c: (b >> (a & 31)) & c,
    "shlm {d}, 5, {b}, {c}": lambda n: lambda a, b, c: (b << 5) & c,
    "andg {d}, {a}, {b}, {c}": lambda n: lambda a, b, c: (a & b) | c,
    "shrg {d}, 5, (neg){b}, (neg){c}": lambda n: lambda a, b, c: (bits_of(~b, n) >> 5) | ~c,
}


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("text", BOTH)
def test_operations_of_either_width(text: str, bits: int) -> None:
    if bits == 16:
        text = text.replace("-5", "h(-5)").replace(", 3", ", h(3)").replace(" 5,", " h(5),")
    check(text, BOTH[text.replace("h(-5)", "-5").replace("h(3)", "3").replace("h(5)", "5")](bits), bits)


WIDE: dict[str, Function] = {
    "mull.u {d}, {a}, {b}": lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF),
    "mul.u24 {d}, {a}, {b}": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mul.s24 {d}, {a}, {b}": lambda a, b, c: signed(a, 24) * signed(b, 24),
    "mad.u24 {d}, {a}, {b}, {c}": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "mad.s24 {d}, {a}, {b}, {c}": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
    "madsh.m16 {d}, {a}, {b}, {c}": lambda a, b, c: (((a & 0xFFFF) * (b >> 16)) << 16) + c,
    "sad.s32 {d}, {a}, {b}, {c}": lambda a, b, c: a + b + c,
    "sel.b32 {d}, {a}, {b}, {c}": lambda a, b, c: a if b else c,
}


@pytest.mark.parametrize("text", WIDE)
def test_operations_on_full_registers(text: str) -> None:
    check(text, WIDE[text])


NARROW: dict[str, Function] = {
    "mul.s24 {d}, {a}, {b}": lambda a, b, c: a * b,
    "mul.u24 {d}, {a}, {b}": lambda a, b, c: a * b,
    "mad.u16 {d}, {a}, {b}, {c}": lambda a, b, c: a * b + c,
    "mad.s16 {d}, {a}, {b}, {c}": lambda a, b, c: a * b + c,
    "sad.s16 {d}, {a}, {b}, {c}": lambda a, b, c: a + b + c,
    "sel.b16 {d}, {a}, {b}, {c}": lambda a, b, c: a if b else c,
}


@pytest.mark.parametrize("text", NARROW)
def test_operations_on_half_registers(text: str) -> None:
    check(text, NARROW[text], 16)


def test_a_multiplication_in_three_instructions() -> None:
    """As compilers write it: any order of a wrong cross term shows."""
    check("mull.u r4.x, {a}, {b}\nmadsh.m16 r4.x, {a}, {b}, r4.x\nmadsh.m16 {d}, {b}, {a}, r4.x", lambda a, b, c: a * b)


CONVERTED: dict[str, tuple[int, int, Function]] = {
    "add.u {d}, {a}, {b} ": (16, 32, lambda a, b, c: bits_of(a + b, 16)),
    "add.s {d}, {a}, {b} ": (16, 32, lambda a, b, c: signed(a + b, 16)),
    "and.b {d}, {a}, (neg){b} ": (16, 32, lambda a, b, c: a & ~b),
    "mul.s24 {d}, {a}, {b} ": (16, 32, lambda a, b, c: signed(a, 16) * signed(b, 16)),
    "mul.u24 {d}, {a}, {b} ": (16, 32, lambda a, b, c: a * b),
    "add.u {d}, {a}, {b}": (32, 16, lambda a, b, c: a + b),
    "shr.b {d}, {a}, 24": (32, 16, lambda a, b, c: a >> 24),
    "andg {d}, {a}, {b}, {c} ": (16, 32, lambda a, b, c: (a & b) | c),
}


@pytest.mark.parametrize("text", CONVERTED)
def test_a_destination_of_the_other_width_converts(text: str) -> None:
    bits, result_bits, expected = CONVERTED[text]
    check(text, expected, bits, result_bits)


CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_comparisons(condition: str, kind: str, bits: int) -> None:
    sources, name = (HALF, "hr") if bits == 16 else (FULL, "r")
    a, b = f"{name}1.x", f"{name}2.x"
    text = "".join(
        f"cmps.{kind}.{condition} {d}, {a}, {b}\n" for d in ("hr8.x", "p0.y", "r8.x")[: 2 if bits == 16 else 3]
    )
    results = ["hr8.x", "p0.y", "r8.x"][: 2 if bits == 16 else 3]
    for row in run(text, {**sources, name + "4.x": 0}, results):
        for got, x, y in zip(row, *list(sources.values())[:2], strict=True):
            x, y = (int(x), int(y)) if kind == "u" else (signed(int(x), bits), signed(int(y), bits))
            assert got == CONDITIONS[condition](x, y)


def test_bit_operations_make_predicates() -> None:
    text = "and.b p0.x, hr1.x, hr2.x\nor.b p0.z, hr1.x, hr2.x\nnot.b p0.w, hr1.x\n"
    ones = [RNG.integers(0, 2, 64) for _ in range(2)]
    got = run(text, {"hr1.x": ones[0], "hr2.x": ones[1]}, ["p0.x", "p0.z", "p0.w"])
    assert np.array_equal(got[0], ones[0] & ones[1])
    assert np.array_equal(got[1], ones[0] | ones[1])
    assert got[2].all()  # the inverse of 0 and of 1 in 16 bits


@pytest.mark.parametrize("demotion", [True, False])
def test_constants(demotion: bool) -> None:
    text = "add.u r8.x, r1.x, c8.y\nadd.u hr8.x, hr1.x, hc8.y\nmad.f16 hr8.y, hr2.x, hr2.x, hc8.z\n"
    words = [0x11112222, 0x33334444, 0x3F800000, 0]
    sources = {"r1.x": A, "hr1.x": A & 0xFFFF, "hr2.x": 0x3C00}  # 1.0
    got = run(text, sources, ["r8.x", "hr8.x", "hr8.y"], constants=words, constant_demotion=demotion)
    assert np.array_equal(got[0], (A + np.uint64(0x33334444)) & np.uint64(0xFFFFFFFF))
    # Without demotion hc8.y is half 33 of the file, the upper half of c4.x, which is zero; hc8.z likewise.
    assert np.array_equal(got[1], (A + np.uint64(0x4444 if demotion else 0)) & np.uint64(0xFFFF))
    assert (got[2] == (0x4000 if demotion else 0x3C00)).all()


def test_half_constants_without_demotion_are_halves_of_words() -> None:
    text = "add.u hr8.x, hr1.x, hc16.x\nadd.u hr8.y, hr1.x, hc16.y\nadd.u hr8.z, hr1.x, hc16.w\n"
    words = [0x11112222, 0x33334444]  # c8.x, c8.y: halves 64 to 67 are hc16.x to hc16.w
    got = run(text, {"hr1.x": 1}, ["hr8.x", "hr8.y", "hr8.z"], constants=words, constant_demotion=False)
    assert [int(row[0]) for row in got] == [0x2223, 0x1112, 0x3334]
