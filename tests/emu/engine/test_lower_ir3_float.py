"""Float instructions and conversions of ir3 against NumPy: everything rounded once, bit for bit."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ir3_wave import run

RNG = np.random.default_rng(11)
SPECIAL = [
    0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x3F800000,
    0xBF800000, 0x3F000000, 0x3EFFFFFF, 0x40200000, 0x4B000001, 0x477FE000, 0x33800000, 0x38800000,
]  # fmt: skip
SPECIAL16 = [
    0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 1, 0x83FF, 0x0400, 0x7BFF, 0x3C00, 0xBC00, 0x3800, 0x37FF, 0x4100,
    0x6401,
]  # fmt: skip


def column(turn: int, half: bool) -> npt.NDArray[Any]:
    """Special values, any bits, and numbers near one, so that sums do not all lose an operand."""
    special = np.roll(SPECIAL16 if half else SPECIAL, turn)
    kind: Any = np.float16 if half else np.float32
    near = RNG.uniform(-4, 4, 20).astype(kind).view(np.uint16 if half else np.uint32)
    rest = RNG.integers(0, 1 << (16 if half else 32), 64 - len(special) - len(near))
    return np.array([*special, *near, *rest], np.uint64)


FULL = {f"r{k + 1}.x": column(5 * k, False) for k in range(3)}
HALF = {f"hr{k + 1}.x": column(3 * k, True) for k in range(3)}
Float = npt.NDArray[Any]
Function = Callable[[Float, Float, Float], Float]


def floats(bits: npt.NDArray[Any], half: bool) -> Float:
    """As numbers, denormals as zeros."""
    found: Float = bits.astype(np.uint16).view(np.float16) if half else bits.astype(np.uint32).view(np.float32)
    return flush(found)


def flush(x: Float) -> Float:
    with np.errstate(invalid="ignore"):
        small = np.abs(x) < np.finfo(x.dtype).tiny
    return np.where(small, np.copysign(x.dtype.type(0), x), x)


def pattern(x: Float) -> list[int]:
    """The bits; every NaN as the one that arithmetic gives."""
    half = x.dtype == np.float16
    x = flush(x)
    bits = x.view(np.uint16 if half else np.uint32)
    return [int(b) for b in np.where(np.isnan(x), 0x7FFF if half else 0x7FFFFFFF, bits)]


def check(text: str, expected: Function, half: bool = False, result_half: bool | None = None) -> None:
    out = half if result_half is None else result_half
    sources, name = (HALF, "hr") if half else (FULL, "r")
    d = "hr8.x" if out else "r8.x"
    text = text.format(a=f"{name}1.x", b=f"{name}2.x", c=f"{name}3.x", d=d)
    (got,) = run(text + "\n", sources, [d])
    with np.errstate(all="ignore"):
        wanted = expected(*(floats(bits, half) for bits in sources.values()))
    assert [hex(int(x)) for x in got] == [hex(x) for x in pattern(wanted)]


def sat(x: Float) -> Float:
    return np.where(np.isnan(x), x.dtype.type(0), np.clip(x, x.dtype.type(0), x.dtype.type(1))) + x.dtype.type(0)


def least(a: Float, b: Float) -> Float:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.where((a < b) | np.signbit(a) & (a == b), a, b)))


def most(a: Float, b: Float) -> Float:
    return -least(-a, -b)


def away(x: Float) -> Float:
    cut = np.trunc(x)
    return np.where(np.abs(x - cut) >= 0.5, cut + np.copysign(x.dtype.type(1), x), cut)


BOTH: dict[str, Function] = {
    "add.f {d}, {a}, {b}": lambda a, b, c: a + b,
    "add.f {d}, (neg){a}, (abs){b}": lambda a, b, c: np.abs(b) - a,
    "(sat)add.f {d}, {a}, {b}": lambda a, b, c: sat(flush(a + b)),
    "mul.f {d}, {a}, {b}": lambda a, b, c: a * b,
    "mul.f {d}, (neg){a}, {b}": lambda a, b, c: -a * b,
    "(sat)mul.f {d}, (absneg){a}, {b}": lambda a, b, c: sat(flush(-np.abs(a) * b)),
    "mad.f {d}, {a}, {b}, {c}": lambda a, b, c: flush(a * b) + c,
    "mad.f {d}, (neg){a}, {b}, (neg){c}": lambda a, b, c: flush(-a * b) - c,
    "(sat)mad.f {d}, {a}, {b}, {c}": lambda a, b, c: sat(flush(flush(a * b) + c)),
    "min.f {d}, {a}, {b}": lambda a, b, c: least(a, b),
    "max.f {d}, {a}, (neg){b}": lambda a, b, c: most(a, -b),
    "(sat)max.f {d}, {a}, {b}": lambda a, b, c: sat(most(a, b)),
    "floor.f {d}, {a}": lambda a, b, c: np.floor(a),
    "ceil.f {d}, {a}": lambda a, b, c: np.ceil(a),
    "rndne.f {d}, (neg){a}": lambda a, b, c: np.rint(-a),
    "rndaz.f {d}, {a}": lambda a, b, c: away(a),
    "trunc.f {d}, (abs){a}": lambda a, b, c: np.trunc(np.abs(a)),
    "sign.f {d}, {a}": lambda a, b, c: np.where(a == 0, a.dtype.type(0), np.sign(a)),
}


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("text", BOTH)
def test_arithmetic(text: str, half: bool) -> None:
    check(text.replace("mad.f", "mad.f16" if half else "mad.f32"), BOTH[text], half)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mul.f {d}, {a}, {b}", lambda a, b, c: a * b),
        ("add.f {d}, {a}, {b}", lambda a, b, c: a + b),
        ("max.f {d}, {a}, {b}", most),
    ],
)
def test_a_destination_of_the_other_width_rounds_again(text: str, expected: Any, half: bool) -> None:
    other: Any = np.float32 if half else np.float16
    check(
        text,
        lambda a, b, c: flush(expected(a, b, c) if "max" not in text else most(a, b)).astype(other),
        half,
        not half,
    )


@pytest.mark.parametrize(("half", "sign"), [(False, 0x80000000), (True, 0x8000)])
def test_absneg_changes_the_sign_bit_only(half: bool, sign: int) -> None:
    sources, name = (HALF, "hr") if half else (FULL, "r")
    text = "".join(
        f"absneg.f {name}8.{c}, ({m}){name}1.x\n" for c, m in zip("xyz", ("neg", "abs", "absneg"), strict=True)
    )
    got = run(text, sources, [f"{name}8.{c}" for c in "xyz"])
    bits = next(iter(sources.values()))
    for row, wanted in zip(got, (bits ^ np.uint64(sign), bits & ~np.uint64(sign), bits | np.uint64(sign)), strict=True):
        assert np.array_equal(row, wanted)


CONDITIONS: dict[str, Callable[[Float, Float], Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_comparisons_are_ordered_but_for_ne(condition: str, half: bool) -> None:
    sources, name = (HALF, "hr") if half else (FULL, "r")
    text = f"cmps.f.{condition} hr8.x, {name}1.x, {name}2.x\ncmps.f.{condition} p0.y, (neg){name}1.x, (0.5)\n"
    text = text.replace("(0.5)", "h(0.5)") if half else text
    got = run(text, sources, ["hr8.x", "p0.y"])
    a, b, _ = (floats(bits, half) for bits in sources.values())
    assert np.array_equal(got[0], CONDITIONS[condition](a, b))
    assert np.array_equal(got[1], CONDITIONS[condition](-a, a.dtype.type(0.5)))


TABLE = {
    "0.0": 0.0, "0.5": 0.5, "1.0": 1.0, "2.0": 2.0, "e": math.e, "pi": math.pi, "1/pi": 1 / math.pi,
    "1/log2(e)": 1 / math.log2(math.e), "log2(e)": math.log2(math.e), "1/log2(10)": 1 / math.log2(10),
    "log2(10)": math.log2(10), "4.0": 4.0,
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_float_table(name: str) -> None:
    got = run(
        f"add.f r8.x, r1.x, ({name})\nadd.f hr8.x, hr1.x, h({name})\n", {"r1.x": 0, "hr1.x": 0}, ["r8.x", "hr8.x"]
    )
    (full,) = struct.unpack("<I", struct.pack("<f", TABLE[name]))
    (half,) = struct.unpack("<H", struct.pack("<e", TABLE[name]))
    assert (got[0] == full).all()
    assert (got[1] == half).all()


CURVES: dict[str, tuple[Callable[[Float], Float], float, float]] = {
    "rcp": (lambda x: 1 / x, -50, 50), "rsq": (lambda x: 1 / np.sqrt(x), 0.01, 50), "sqrt": (np.sqrt, 0, 50),
    "log2": (np.log2, 0.01, 50), "exp2": (np.exp2, -10, 10), "sin": (np.sin, -math.pi, math.pi),
    "cos": (np.cos, -math.pi, math.pi),
}  # fmt: skip


@pytest.mark.parametrize("name", CURVES)
def test_special_functions(name: str) -> None:
    function, low, high = CURVES[name]
    x = RNG.uniform(low, high, 64).astype(np.float32)
    bits = x.view(np.uint32)
    (got,) = run(f"{name} r8.x, r1.x\n", {"r1.x": bits}, ["r8.x"])
    assert np.allclose(got.view(np.float32), function(x.astype(np.float64)), rtol=1e-6, atol=3e-7)
    (got,) = run(f"{name} r8.x, (neg)r1.x\n", {"r1.x": bits ^ np.uint32(0x80000000)}, ["r8.x"])
    assert np.allclose(got.view(np.float32), function(x.astype(np.float64)), rtol=1e-6, atol=3e-7)


@pytest.mark.parametrize(("name", "curve"), [("hrsq", "rsq"), ("hlog2", "log2"), ("hexp2", "exp2"), ("rcp", "rcp")])
def test_special_functions_of_halves(name: str, curve: str) -> None:
    function, low, high = CURVES[curve]
    x = RNG.uniform(low, high, 64).astype(np.float16)
    (got,) = run(f"{name} hr8.x, hr1.x\n", {"hr1.x": x.view(np.uint16)}, ["hr8.x"])
    found = got.astype(np.uint16).view(np.float16)
    assert np.allclose(found.astype(np.float64), function(x.astype(np.float64)), rtol=1e-3, atol=1e-3)


TYPES: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32,
    "u8": np.int8,  # from 8 bits: by the sign
}  # fmt: skip
NARROW = ("f16", "u16", "s16", "u8")
PAIRS = [(a, b) for a, b in itertools.permutations(TYPES, 2)]


def converted(bits: npt.NDArray[Any], origin: str, target: str, round_to: Callable[[Any], Any]) -> list[int]:
    kind, goal = np.dtype(TYPES[origin]), np.dtype(TYPES[target])
    raw = (bits & np.uint64((1 << 8 * kind.itemsize) - 1)).astype(f"<u{kind.itemsize}").view(kind)
    if goal.kind == "f":
        wide = flush(raw).astype(np.float64) if kind.kind == "f" else raw.astype(np.float64)
        return pattern(wide.astype(goal))
    mask = 0xFF if target == "u8" else (1 << 8 * goal.itemsize) - 1
    if kind.kind != "f":
        return [int(x) & mask for x in raw]
    info = np.iinfo(np.int16 if target == "u8" else goal)
    found = []
    for x in flush(raw).astype(np.float64):
        whole = 0 if math.isnan(x) else info.max if x == math.inf else info.min if x == -math.inf else int(round_to(x))
        found.append(min(max(whole, info.min), info.max) & mask)
    return found


@pytest.mark.parametrize(("origin", "target"), PAIRS)
def test_conversions(origin: str, target: str) -> None:
    source = {"hr1.x": HALF["hr1.x"]} if origin in NARROW else {"r1.x": FULL["r1.x"]}
    if origin in ("u8", "u16", "s16"):
        source = {"hr1.x": RNG.integers(0, 1 << 16, 64).astype(np.uint64)}
    d = "hr8.x" if target in NARROW else "r8.x"
    (got,) = run(f"cov.{origin}{target} {d}, {next(iter(source))}\n", source, [d])
    with np.errstate(all="ignore"):
        wanted = converted(next(iter(source.values())), origin, target, math.trunc)
    assert [hex(int(x)) for x in got] == [hex(x) for x in wanted]


@pytest.mark.parametrize(
    ("name", "round_to"), [("even", round), ("pos_infinity", math.ceil), ("neg_infinity", math.floor)]
)
@pytest.mark.parametrize("target", ["s32", "u16"])
@pytest.mark.parametrize("origin", ["f32", "f16"])
def test_rounding_of_a_float_to_an_integer(origin: str, target: str, name: str, round_to: Callable[[Any], Any]) -> None:
    source = {"hr1.x": HALF["hr1.x"]} if origin == "f16" else {"r1.x": FULL["r1.x"]}
    d = "hr8.x" if target == "u16" else "r8.x"
    (got,) = run(f"cov.{origin}{target} ({name}){d}, {next(iter(source))}\n", source, [d])
    with np.errstate(all="ignore"):
        wanted = converted(next(iter(source.values())), origin, target, round_to)
    assert [hex(int(x)) for x in got] == [hex(x) for x in wanted]


@pytest.mark.parametrize(("name", "down"), [("pos_infinity", False), ("neg_infinity", True)])
def test_rounding_of_a_float_to_half(name: str, down: bool) -> None:
    """The half above or below: the nearest one, and its neighbour where that lies on the wrong side."""
    x = RNG.uniform(-100, 100, 64).astype(np.float32)
    (got,) = run(f"cov.f32f16 ({name})hr8.x, r1.x\n", {"r1.x": x.view(np.uint32)}, ["hr8.x"])
    nearest = x.astype(np.float16)
    limit = np.float16(-math.inf if down else math.inf)
    wrong = nearest.astype(np.float32) > x if down else nearest.astype(np.float32) < x
    assert np.array_equal(got, np.where(wrong, np.nextafter(nearest, limit), nearest).view(np.uint16))
