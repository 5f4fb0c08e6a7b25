"""Float instructions and conversions, executed and compared with NumPy or with exact fractions lane by lane."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sass_warp import P, R, Warp, ins, run

from hcqrt.isa.sass import Imm, Instruction, Pred, Reg

RNG = np.random.default_rng(2)
LANES = 32
F32 = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, *RNG.normal(0, 100, 24)], np.float32)
G32 = np.array([1.0, 0.0, np.inf, 2.5, 3.0, np.inf, 1.0, -2.0, *RNG.normal(0, 3, 24)], np.float32)
H32 = np.array([-0.0, 0.0, 1.0, np.nan, 3.0, 1.0, 1.0, 1e-41, *RNG.normal(0, 50, 24)], np.float32)
COMPARES: dict[str, Callable[[float, float], bool]] = {
    "F": lambda a, b: False,
    "LT": lambda a, b: a < b,
    "EQ": lambda a, b: a == b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "NE": lambda a, b: a < b or a > b,
    "GE": lambda a, b: a >= b,
    "NUM": lambda a, b: not (math.isnan(a) or math.isnan(b)),
    "NAN": lambda a, b: math.isnan(a) or math.isnan(b),
    "LTU": lambda a, b: not a >= b,
    "EQU": lambda a, b: not (a < b or a > b),
    "LEU": lambda a, b: not a > b,
    "GTU": lambda a, b: not a <= b,
    "NEU": lambda a, b: a != b,
    "GEU": lambda a, b: not a < b,
    "T": lambda a, b: True,
}


def flushed(x: Any) -> Any:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x).astype(np.float32)


def bits(x: Any) -> Any:
    """f32 values as words, every NaN the canonical one."""
    x = np.asarray(x, np.float32)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), x.view(np.uint32))


def halves(low: Any, high: Any) -> Any:
    low, high = (np.asarray(x, np.float16) for x in (low, high))
    words = [np.where(np.isnan(x), np.uint16(0x7FFF), x.view(np.uint16)).astype(np.uint32) for x in (low, high)]
    return words[0] | words[1] << 16


def words(x: Any) -> Any:
    """f64 values as (low, high) words."""
    raw = np.ascontiguousarray(x, np.float64).view(np.uint64)
    return (raw & 0xFFFFFFFF).astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)


def nearest(value: Fraction) -> float:
    return float(np.float32(value.numerator / value.denominator)) if abs(value) < 2**120 else float(value)


def one(instruction: Instruction, warp: Warp) -> Any:
    return run(warp, [instruction], [instruction.args["d"]])[0]


THREE = Warp({2: F32.view(np.uint32), 3: G32.view(np.uint32), 4: H32.view(np.uint32)}, {0: np.arange(32) % 3 == 0})


@pytest.mark.parametrize("ftz", [False, True])
def test_fadd_and_fmul_round_once(ftz: bool) -> None:
    f, g = (flushed(F32), flushed(G32)) if ftz else (F32, G32)
    end: Callable[[Any], Any] = flushed if ftz else lambda x: x
    with np.errstate(all="ignore"):
        assert np.array_equal(one(ins("FADD", 0x221, d=R[8], a=R[2], b=R[3], FTZ=ftz), THREE), bits(end(f + g)))
        got = one(ins("FADD", 0x221, d=R[8], a=Reg(2, abs=True), b=Reg(3, neg=True), FTZ=ftz), THREE)
        assert np.array_equal(got, bits(end(np.abs(f) - g)))
        got = one(ins("FADD", 0x221, d=R[8], a=Reg(255, neg=True), b=R[2], FTZ=ftz), THREE)
        assert np.array_equal(got, bits(end(np.float32(-0.0) + f)))
        assert np.array_equal(one(ins("FMUL", 0x220, d=R[8], a=R[2], b=R[3], FTZ=ftz), THREE), bits(end(f * g)))
        got = one(ins("FMUL", 0x820, d=R[8], a=Reg(2, neg=True), b=Imm(0x40490FDB, "f32"), FTZ=ftz), THREE)
        assert np.array_equal(got, bits(end(-f * np.float32(np.pi))))


def test_sat_clamps_and_makes_nan_zero() -> None:
    with np.errstate(all="ignore"):
        total = F32 + G32
    wanted = np.where(np.isnan(total), 0, np.clip(total, 0, 1)).astype(np.float32)
    wanted = np.where(wanted == 0, np.float32(0), wanted)
    got = one(ins("FADD", 0x221, d=R[8], a=R[2], b=R[3], SAT=True), THREE)
    assert np.array_equal(got, bits(wanted))


def test_fmul_scales_before_rounding() -> None:
    for name, factor in (("D2", 0.5), ("D4", 0.25), ("D8", 0.125), ("M2", 2.0), ("M4", 4.0), ("M8", 8.0)):
        got = one(ins("FMUL", 0x220, d=R[8], a=R[2], b=R[3], scale=name), THREE)
        with np.errstate(all="ignore"):
            wanted = (F32.astype(np.float64) * G32 * factor).astype(np.float32)
        assert np.array_equal(got, bits(wanted)), name


def test_ffma_rounds_the_exact_sum() -> None:
    a = RNG.uniform(1, 2, LANES).astype(np.float32)
    b = RNG.uniform(1, 2, LANES).astype(np.float32)
    c = -(a * b)  # what is left is the rounding error of the product
    warp = Warp({2: a.view(np.uint32), 3: b.view(np.uint32), 4: c.view(np.uint32)})
    exact = [
        nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in zip(a, b, c, strict=True)
    ]
    assert np.array_equal(one(ins("FFMA", 0x223, d=R[8], a=R[2], b=R[3], c=R[4]), warp), bits(exact))
    negated = one(ins("FFMA", 0x223, d=R[8], a=Reg(2, neg=True), b=R[3], c=Reg(4, neg=True)), warp)
    assert np.array_equal(negated, bits([-x for x in exact]))


@pytest.mark.parametrize(("mode", "step"), [("RM", -math.inf), ("RP", math.inf), ("RZ", 0.0)])
def test_directed_rounding(mode: str, step: float) -> None:
    a, b = RNG.normal(0, 10, LANES).astype(np.float32), RNG.normal(0, 10, LANES).astype(np.float32)
    warp = Warp({2: a.view(np.uint32), 3: b.view(np.uint32)})
    for mnemonic, opcode, exact in (
        ("FADD", 0x221, a.astype(np.float64) + b),
        ("FMUL", 0x220, a.astype(np.float64) * b),
    ):
        near = exact.astype(np.float32)
        toward = np.float32(step)
        over = np.abs(near.astype(np.float64)) > np.abs(exact) if mode == "RZ" else (
            near > exact if mode == "RM" else near < exact
        )  # fmt: skip
        wanted = np.where(over, np.nextafter(near, toward), near)
        assert np.array_equal(one(ins(mnemonic, opcode, d=R[8], a=R[2], b=R[3], round=mode), warp), bits(wanted))


@pytest.mark.parametrize("cmp", COMPARES)
@pytest.mark.parametrize("combine", ["AND", "OR", "XOR"])
def test_fsetp_has_sixteen_conditions(cmp: str, combine: str) -> None:
    step = ins("FSETP", 0x20B, pd=P[1], pd2=P[2], a=R[2], b=R[4], ps=P[0], cmp=cmp, bool=combine)
    got = run(THREE, [step], [P[1], P[2]])
    join = {"AND": bool.__and__, "OR": bool.__or__, "XOR": bool.__xor__}[combine]
    for lane in range(LANES):
        holds = COMPARES[cmp](float(F32[lane]), float(H32[lane]))
        p = lane % 3 == 0
        assert [bool(row[lane]) for row in got] == [join(holds, p), join(not holds, p)], lane


def test_fset_and_fsel() -> None:
    got = one(ins("FSET", 0x20A, d=R[8], a=R[2], b=R[3], cmp="GT"), THREE)
    assert np.array_equal(got, bits((F32 > G32).astype(np.float32)))
    got = one(ins("FSEL", 0x208, d=R[8], a=Reg(2, neg=True), b=Reg(3, abs=True), ps=P[0]), THREE)
    wanted = np.where(np.arange(32) % 3 == 0, F32.view(np.uint32) ^ 0x80000000, G32.view(np.uint32) & 0x7FFFFFFF)
    assert np.array_equal(got, wanted)


def test_fmnmx_drops_a_nan_operand() -> None:
    got = one(ins("FMNMX", 0x209, d=R[8], a=R[2], b=R[3], ps=Pred(7, True)), THREE)
    assert np.array_equal(got, bits(np.fmax(F32, G32)))
    got = one(ins("FMNMX", 0x209, d=R[8], a=R[2], b=R[3]), THREE)
    smaller = np.where((F32 == 0) & (G32 == 0), np.float32(-0.0), np.fmin(F32, G32))  # lane 1: -0 is below +0
    assert np.array_equal(got, bits(smaller))
    got = one(ins("FMNMX", 0x209, d=R[8], a=R[2], b=R[3], NAN=True), THREE)
    assert np.array_equal(got, bits(np.where(smaller == 0, smaller, np.minimum(F32, G32))))


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("EX2", np.exp2), ("LG2", np.log2), ("RCP", lambda x: 1 / x), ("RSQ", lambda x: 1 / np.sqrt(x)),
        ("SQRT", np.sqrt), ("SIN", lambda x: np.sin(2 * np.pi * x)), ("COS", lambda x: np.cos(2 * np.pi * x)),
        ("TANH", np.tanh),
    ],
)  # fmt: skip
def test_mufu(op: str, function: Callable[[Any], Any]) -> None:
    x = RNG.uniform(0.05, 8, LANES).astype(np.float32)
    got = one(ins("MUFU", 0x308, d=R[8], b=R[2], op=op), Warp({2: x.view(np.uint32)}))
    assert np.allclose(got.view(np.float32), function(x.astype(np.float64)), rtol=1e-6, atol=1e-7)
    negated = one(ins("MUFU", 0x308, d=R[8], b=Reg(2, abs=True), op=op), Warp({2: (-x).view(np.uint32)}))
    assert np.array_equal(got, negated)


D = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, 1e-310, *RNG.normal(0, 1e5, 25)])
E = np.array([1.0, 0.0, 3.0, 2.5, 3.0, 5.0, 2.0, *RNG.normal(0, 3, 25)])
PAIRS = Warp({2: words(D)[0], 3: words(D)[1], 4: words(E)[0], 5: words(E)[1]}, {0: np.arange(32) % 3 == 0})


def pair(instruction: Instruction, warp: Warp = PAIRS) -> Any:
    low, high = run(warp, [instruction], [R[8], R[9]])
    return (low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)).view(np.float64)


def test_doubles() -> None:
    with np.errstate(all="ignore"):
        assert np.array_equal(pair(ins("DADD", 0x229, d=R[8], a=R[2], b=Reg(4, neg=True))), D - E, equal_nan=True)
        assert np.array_equal(pair(ins("DMUL", 0x228, d=R[8], a=R[2], b=R[4])), D * E, equal_nan=True)
        got = pair(ins("DADD", 0x429, d=R[8], a=Reg(2, abs=True), b=Imm(0xBFF00000, "f64")))
        assert np.array_equal(got, np.abs(D) - 1.0, equal_nan=True)
    a, b = RNG.uniform(1, 2, LANES), RNG.uniform(1, 2, LANES)
    c = -(a * b)
    low = {2: a, 4: b, 6: c}
    warp = Warp({r + i: words(x)[i] for r, x in low.items() for i in range(2)})
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert np.array_equal(pair(ins("DFMA", 0x22B, d=R[8], a=R[2], b=R[4], c=R[6]), warp), exact)


@pytest.mark.parametrize("cmp", ["LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "NEU", "GEU"])
def test_dsetp(cmp: str) -> None:
    got = run(PAIRS, [ins("DSETP", 0x22A, pd=P[1], a=R[2], b=R[4], ps=P[0], cmp=cmp)], [P[1]])[0]
    wanted = [COMPARES[cmp](float(D[i]), float(E[i])) and i % 3 == 0 for i in range(LANES)]
    assert [bool(x) for x in got] == wanted


X = RNG.normal(0, 4, (3, 2, LANES)).astype(np.float16)
X[0, 0, :3], X[1, 1, :3] = [np.inf, np.nan, -0.0], [1.0, np.nan, 0.0]
PACKED = Warp({2 + i: halves(X[i, 0], X[i, 1]) for i in range(3)}, {0: np.arange(32) % 3 == 0})


def test_packed_halves() -> None:
    (al, ah), (bl, bh), (_, ch) = X
    with np.errstate(all="ignore"):
        got = one(ins("HADD2", 0x230, d=R[8], a=R[2], b=R[3]), PACKED)
        assert np.array_equal(got, halves(al + bl, ah + bh))
        got = one(ins("HADD2", 0x230, d=R[8], a=Reg(2, half="H0_H0"), b=Reg(3, half="H1_H1", neg=True)), PACKED)
        assert np.array_equal(got, halves(al - bh, al - bh))
        got = one(ins("HADD2", 0x430, d=R[8], a=Reg(2, abs=True), b=Imm(0x3C00BC00, "f16")), PACKED)
        assert np.array_equal(got, halves(abs(al) - np.float16(1), abs(ah) + np.float16(1)))
        got = one(ins("HMUL2", 0x232, d=R[8], a=R[2], b=R[3]), PACKED)
        assert np.array_equal(got, halves(al * bl, ah * bh))
        got = one(ins("HFMA2", 0x231, d=R[8], a=R[2], b=R[3], c=Reg(4, half="H1_H1")), PACKED)
        wide = [x.astype(np.float64) * y + ch for x, y in ((al, bl), (ah, bh))]
        assert np.array_equal(got, halves(*[w.astype(np.float16) for w in wide]))
        got = one(ins("HMNMX2", 0x240, d=R[8], a=R[2], b=R[3], ps=Pred(7, True)), PACKED)
        assert np.array_equal(got, halves(np.fmax(al, bl), np.fmax(ah, bh)))
        got = one(ins("HADD2", 0x230, d=R[8], a=Reg(255, neg=True), b=Reg(2, half="H1_H1"), F32=True), PACKED)
        assert np.array_equal(got, bits(ah.astype(np.float32)))


@pytest.mark.parametrize("cmp", ["LT", "EQ", "NEU", "GE"])
def test_hsetp2_gives_a_predicate_for_each_half(cmp: str) -> None:
    got = run(PACKED, [ins("HSETP2", 0x234, pd=P[1], pd2=P[2], a=R[2], b=R[3], ps=P[0], cmp=cmp)], [P[1], P[2]])
    for half in range(2):
        wanted = [COMPARES[cmp](float(X[0, half, i]), float(X[1, half, i])) and i % 3 == 0 for i in range(LANES)]
        assert [bool(x) for x in got[half]] == wanted


def test_f2f_changes_the_format() -> None:
    small = RNG.normal(0, 10, LANES).astype(np.float32)
    warp = Warp(
        {2: small.view(np.uint32), 4: words(small * np.pi)[0], 5: words(small * np.pi)[1], 6: halves(small, small)}
    )
    got = one(ins("F2F", 0x304, d=R[8], b=R[2], format="F16.F32"), warp)
    assert np.array_equal(got, small.astype(np.float16).view(np.uint16).astype(np.uint32))
    got = one(ins("F2F", 0x304, d=R[8], b=Reg(6, neg=True), format="F32.F16"), warp)
    assert np.array_equal(got, bits(-small.astype(np.float16).astype(np.float32)))
    got = one(ins("F2F", 0x310, d=R[8], b=R[4], format="F32.F64"), warp)
    assert np.array_equal(got, bits((small * np.pi).astype(np.float64).astype(np.float32)))
    assert np.array_equal(pair(ins("F2F", 0x310, d=R[8], b=R[2], format="F64.F32"), warp), small.astype(np.float64))
    got = one(ins("F2F", 0x310, d=R[8], b=R[4], format="F16.F64"), warp)
    assert np.array_equal(got, (small * np.pi).astype(np.float64).astype(np.float16).view(np.uint16).astype(np.uint32))
    wanted = small.astype(np.float16).astype(np.float64)
    assert np.array_equal(pair(ins("F2F", 0x310, d=R[8], b=R[6], format="F64.F16"), warp), wanted)


@pytest.mark.parametrize(
    ("rounding", "function"), [("TRUNC", math.trunc), ("FLOOR", math.floor), ("CEIL", math.ceil), ("", round)]
)
def test_f2i_saturates_and_makes_nan_zero(rounding: str, function: Callable[[float], int]) -> None:
    x = np.array([0.5, -0.5, 1.5, -1.5, np.nan, np.inf, -np.inf, 1e20, -1e20, 300, -300, 2**31, *RNG.normal(0, 90, 20)])
    warp = Warp({2: x.astype(np.float32).view(np.uint32), 4: words(x)[0], 5: words(x)[1]})
    limits = {
        "": (-(2**31), 2**31 - 1),
        "U32": (0, 2**32 - 1),
        "S8": (-128, 127),
        "U8": (0, 255),
        "S16": (-(2**15), 2**15 - 1),
    }

    def wanted(values: Any, low: int, high: int) -> list[int]:
        return [
            0 if math.isnan(v) else (high if v > 0 else low) if math.isinf(v) else min(max(function(v), low), high)
            for v in map(float, values)
        ]

    for name, (low, high) in limits.items():
        got = one(ins("F2I", 0x305, d=R[8], b=R[2], dst=name, round=rounding), warp)
        assert [int(v) for v in got] == [w & 0xFFFFFFFF for w in wanted(x.astype(np.float32), low, high)], name
        got = one(ins("F2I", 0x311, d=R[8], b=R[4], dst=name, src="F64", round=rounding), warp)
        assert [int(v) for v in got] == [w & 0xFFFFFFFF for w in wanted(x, low, high)], name
    for name, low, high in (("S64", -(2**63), 2**63 - 1), ("U64", 0, 2**64 - 1)):
        for source, values, src in ((R[2], x.astype(np.float32), ""), (R[4], x, "F64")):
            parts = run(warp, [ins("F2I", 0x311, d=R[8], b=source, dst=name, src=src, round=rounding)], [R[8], R[9]])
            got64 = [int(hi) << 32 | int(lo) for lo, hi in zip(*parts, strict=True)]
            assert got64 == [w & (2**64 - 1) for w in wanted(values, low, high)], (name, src)


def test_i2f_rounds_once() -> None:
    n = np.array([0, 1, -1, 0x7FFFFFFF, -(2**31), 0x1000001, 255, 128, *RNG.integers(-(2**31), 2**31, 24)], np.int64)
    big = n * 0x123456789
    warp = Warp({2: n, 4: big & 0xFFFFFFFF, 5: big >> 32})
    cast: dict[str, Any] = {
        "": np.int32,
        "U32": np.uint32,
        "S16": np.int16,
        "U16": np.uint16,
        "S8": np.int8,
        "U8": np.uint8,
    }
    for name, kind in cast.items():
        values = n.astype(kind)
        got = one(ins("I2F", 0x306, d=R[8], b=R[2], src=name), warp)
        assert np.array_equal(got, bits(values.astype(np.float32))), name
        assert np.array_equal(
            pair(ins("I2F", 0x312, d=R[8], b=R[2], src=name, dst="F64"), warp), values.astype(np.float64)
        ), name
        with np.errstate(over="ignore"):
            wanted = values.astype(np.float64).astype(np.float16).view(np.uint16).astype(np.uint32)
        assert np.array_equal(one(ins("I2F", 0x306, d=R[8], b=R[2], src=name, dst="F16"), warp), wanted), name
    for name, values64 in (("S64", big), ("U64", big.view(np.uint64))):
        got = one(ins("I2F", 0x312, d=R[8], b=R[4], src=name, dst=""), warp)
        exact = [np.float32(int(v)) if abs(int(v)) < 2**24 else _float32(int(v)) for v in values64]
        assert np.array_equal(got, bits(exact)), name
        got = pair(ins("I2F", 0x312, d=R[8], b=R[4], src=name, dst="F64"), warp)
        assert np.array_equal(got, [float(int(v)) for v in values64]), name


def _float32(value: int) -> Any:
    """An integer to f32, to nearest even, in one rounding."""
    drop = max(abs(value).bit_length() - 24, 0)
    kept, rest, half = abs(value) >> drop, abs(value) & (1 << drop) - 1, 1 << drop >> 1
    kept += rest > half or (rest == half and kept & 1)
    return np.float32(math.copysign(math.ldexp(kept, drop), value))


@pytest.mark.parametrize(
    ("rounding", "function"), [("TRUNC", np.trunc), ("FLOOR", np.floor), ("CEIL", np.ceil), ("", np.rint)]
)
def test_frnd_rounds_to_integral(rounding: str, function: Callable[[Any], Any]) -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -0.0, np.inf, -np.inf, 1e20, *RNG.normal(0, 90, 24)])
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    warp = Warp({2: x.astype(np.float32).view(np.uint32), 4: words(x)[0], 5: words(x)[1], 6: halves(half, half)})
    got = one(ins("FRND", 0x307, d=R[8], b=R[2], round=rounding), warp)
    assert np.array_equal(got, bits(function(x.astype(np.float32))))
    got = one(ins("FRND", 0x307, d=R[8], b=R[6], format="F16", round=rounding), warp)
    assert np.array_equal(got, function(half).view(np.uint16).astype(np.uint32))
    got64 = pair(ins("FRND", 0x313, d=R[8], b=R[4], round=rounding), warp)
    assert np.array_equal(got64.view(np.uint64), function(x).view(np.uint64))


def test_f2fp_packs_two_halves() -> None:
    a, b = RNG.normal(0, 10, LANES).astype(np.float32), RNG.normal(0, 10, LANES).astype(np.float32)
    got = one(ins("F2FP", 0x23E, d=R[8], a=R[2], b=R[3]), Warp({2: a.view(np.uint32), 3: b.view(np.uint32)}))
    assert np.array_equal(got, halves(b, a))
