"""The numeric kernels of the NumPy core against exact arithmetic on Python integers and fractions."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

from hcqrt.emu.engine import special
from hcqrt.emu.engine.core_numpy import convert, doubles, floats, specials
from hcqrt.emu.engine.core_numpy.rounding import BFLOAT, DOUBLE, HALF, RM, RN, RP, RZ, SINGLE, narrow

MODES = (RN, RM, RP, RZ)


def decode(bits, form):
    """Value of a finite pattern as a fraction, with its sign; None for infinities and NaNs."""
    negative = bits >> form.sign_bit & 1
    exponent = bits >> form.mantissa & (1 << form.exponent) - 1
    mantissa = bits & (1 << form.mantissa) - 1
    if exponent == (1 << form.exponent) - 1:
        return None
    if exponent:
        mantissa |= 1 << form.mantissa
    value = Fraction(mantissa) * Fraction(2) ** (max(exponent, 1) - form.bias - form.mantissa)
    return -value if negative else value


def reference_round(value, form, mode, zero_negative=False):
    """Bits of an exact value in a format, by integer division."""
    if value == 0:
        return int(zero_negative) << form.sign_bit
    negative, size = value < 0, abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent, 1 - form.bias)
    unit = Fraction(2) ** (exponent - form.mantissa)
    kept, rest = divmod(size, unit)
    rest /= unit
    half = Fraction(1, 2)
    up = {
        RN: rest > half or (rest == half and kept & 1),
        RM: rest != 0 and negative,
        RP: rest != 0 and not negative,
        RZ: False,
    }[mode]
    kept = int(kept) + int(up)
    bits = ((exponent + form.bias - 1) << form.mantissa) + kept
    if bits >= form.infinity:
        away = mode == RN or (mode == RM and negative) or (mode == RP and not negative)
        bits = form.infinity - (0 if away else 1)
    return bits | int(negative) << form.sign_bit


def interesting(draw, form):
    """A finite pattern, often near an edge."""
    kind = draw.randrange(6)
    mantissa = draw.choice((0, 1, (1 << form.mantissa) - 1, 1 << (form.mantissa - 1), draw.getrandbits(form.mantissa)))
    top = (1 << form.exponent) - 2
    near = form.bias + draw.randrange(-3, 4)
    exponent = (0, top, 1, near, near, draw.randint(0, top))[kind]
    return draw.getrandbits(1) << form.sign_bit | exponent << form.mantissa | mantissa


def close_to(draw, bits, form, factor_exponents):
    """A pattern whose exponent is near the given one, so that sums cancel."""
    exponent = max(0, min(factor_exponents + draw.randrange(-3, 4), (1 << form.exponent) - 2))
    return (bits & ~form.infinity) | exponent << form.mantissa


def exponent_of(bits, form):
    return bits >> form.mantissa & (1 << form.exponent) - 1


def triples(form, count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        a, b, c = (interesting(draw, form) for _ in range(3))
        if draw.random() < 0.5:
            c = close_to(draw, c, form, exponent_of(a, form) + exponent_of(b, form) - form.bias)
        if draw.random() < 0.1:
            c = a
        yield a, b, c


def negative(bits, form):
    return bits >> form.sign_bit & 1


def reference_fma(a, b, c, form, mode):
    product = decode(a, form) * decode(b, form)
    product_negative = negative(a, form) ^ negative(b, form)
    signs = (product_negative, negative(c, form))
    zero_negative = any(signs) if mode == RM else all(signs)
    return reference_round(product + decode(c, form), form, mode, zero_negative)


def columns(rows, dtype):
    return [np.array(column, dtype) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("mode", MODES)
def test_f32_fma_add_and_mul_round_once(mode):
    rows = list(triples(SINGLE, 2500, mode))
    a, b, c = columns(rows, np.uint32)
    with np.errstate(all="ignore"):
        fused, total, product = (
            floats.fma(a, b, c, mode, False, False),
            floats.add(a, b, mode, False, False),
            floats.mul(a, b, mode, False, False),
        )
        doubled = floats.mul(a, b, mode, False, False, 4.0)
    one, four = 0x3F800000, 0x40800000
    for i, (x, y, z) in enumerate(rows):
        assert int(fused[i]) == reference_fma(x, y, z, SINGLE, mode), (hex(x), hex(y), hex(z))
        assert int(total[i]) == reference_fma(x, one, y, SINGLE, mode), (hex(x), hex(y))
        signed_zero = (negative(x, SINGLE) ^ negative(y, SINGLE)) << 31
        assert int(product[i]) == reference_fma(x, y, signed_zero, SINGLE, mode), (hex(x), hex(y))
        exact = decode(x, SINGLE) * decode(y, SINGLE) * decode(four, SINGLE)
        assert int(doubled[i]) == reference_round(exact, SINGLE, mode, bool(signed_zero))


@pytest.mark.parametrize("mode", MODES)
def test_f64_fma_add_and_mul_round_once(mode):
    rows = list(triples(DOUBLE, 2500, mode))
    a, b, c = (column.view(np.float64) for column in columns(rows, np.uint64))
    with np.errstate(all="ignore"):
        fused, total, product = doubles.fma(a, b, c, mode), doubles.add(a, b, mode), doubles.mul(a, b, mode)
    one = 0x3FF << 52
    for i, (x, y, z) in enumerate(rows):
        assert int(fused[i]) == reference_fma(x, y, z, DOUBLE, mode), (hex(x), hex(y), hex(z))
        assert int(total[i]) == reference_fma(x, one, y, DOUBLE, mode), (hex(x), hex(y))
        signed_zero = (negative(x, DOUBLE) ^ negative(y, DOUBLE)) << 63
        assert int(product[i]) == reference_fma(x, y, signed_zero, DOUBLE, mode), (hex(x), hex(y))


@pytest.mark.parametrize("form", (HALF, BFLOAT))
def test_half_fma_rounds_once(form):
    rows = list(triples(form, 4000, 5))
    a, b, c = (floats.widen_half(column, form) for column in columns(rows, np.uint32))
    got = floats.narrow_half(floats.half_sum(a * b, c), form)
    for i, (x, y, z) in enumerate(rows):
        assert int(got[i]) == reference_fma(x, y, z, form, RN), (hex(x), hex(y), hex(z))


@pytest.mark.parametrize("form", (HALF, BFLOAT, SINGLE))
@pytest.mark.parametrize("mode", MODES)
def test_narrowing_from_float64_rounds_once(form, mode):
    draw = random.Random(7)
    rows = [interesting(draw, DOUBLE) for _ in range(1000)]
    for _ in range(3000):
        exponent = 1023 - form.bias + draw.randrange(-30, (1 << form.exponent) + 3)
        mantissa = draw.choice((0, 1 << draw.randrange(52), draw.getrandbits(52)))
        rows.append(draw.getrandbits(1) << 63 | exponent << 52 | mantissa)
    got = narrow(np.array(rows, np.uint64).view(np.float64), form, mode)
    for i, x in enumerate(rows):
        assert int(got[i]) == reference_round(decode(x, DOUBLE), form, mode, bool(x >> 63)), hex(x)
    odd = narrow(np.array([math.inf, -math.inf, math.nan]), form, mode)
    assert [int(v) for v in odd] == [form.infinity, form.infinity | 1 << form.sign_bit, form.canonical_nan]


def test_nans_denormals_and_saturation_of_f32():
    def one(function, *patterns, **options):
        with np.errstate(all="ignore"):
            return int(function(*(np.array([p], np.uint32) for p in patterns), **options)[0])

    inf, minus_inf, nan, tiny, minus_tiny = 0x7F800000, 0xFF800000, 0xFFC01234, 0x00000001, 0x807FFFFF
    plain = {"mode": RN, "ftz": False, "sat": False}
    flushing = {"mode": RN, "ftz": True, "sat": False}
    clamped = {"mode": RN, "ftz": False, "sat": True}
    assert one(floats.add, inf, minus_inf, **plain) == 0x7FFFFFFF
    assert one(floats.add, nan, tiny, **plain) == 0x7FFFFFFF
    assert one(floats.fma, inf, 0, nan, **plain) == 0x7FFFFFFF
    assert one(floats.add, tiny, 0, **plain) == tiny
    assert one(floats.add, tiny, 0, **flushing) == 0
    assert one(floats.add, minus_tiny, 0x80000000, **flushing) == 0x80000000
    assert one(floats.mul, 0x80800000, 0x3F000000, **flushing) == 0x80000000  # the result is denormal
    assert one(floats.add, nan, 0, **clamped) == 0
    assert one(floats.add, 0x40000000, 0, **clamped) == 0x3F800000
    assert one(floats.add, 0xBF800000, 0, **clamped) == 0
    assert one(floats.add, 0x80000000, 0x80000000, **clamped) == 0
    assert one(floats.add, 0x3F000000, 0, **clamped) == 0x3F000000


def test_f64_results_keep_the_first_nan_quieted():
    first, second = 0xFFF0000000000123, 0x7FF8000000000456
    a, b, one, inf = (np.array([v], np.uint64).view(np.float64) for v in (first, second, 0x3FF << 52, 0x7FF << 52))
    with np.errstate(all="ignore"):
        assert int(doubles.add(a, b, RN)[0]) == 0xFFF8000000000123
        assert int(doubles.mul(b, a, RZ)[0]) == second
        assert int(doubles.fma(one, inf, a, RP)[0]) == 0xFFF8000000000123
        assert int(doubles.fma(one, inf, -inf, RN)[0]) == 0x7FF8000000000000
        assert float(doubles.fma(one * 1e308, one * 1e10, -inf, RN).view(np.float64)[0]) == -math.inf


@pytest.mark.parametrize("bits", (8, 16, 32, 64))
@pytest.mark.parametrize("signed", (False, True))
@pytest.mark.parametrize("mode", MODES)
def test_float_to_integer_clamps(bits, signed, mode):
    draw = random.Random(bits)
    edges = [s * 2.0**k + d for s in (-1, 1) for k in (0, 7, 8, 15, 16, 31, 32, 63, 64, 80) for d in (-1, -0.5, 0, 0.5)]
    values = [*edges, -0.0, math.inf, -math.inf, *(draw.uniform(-1.2, 1.2) * 2.0**bits for _ in range(200))]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    with np.errstate(all="ignore"):
        got = convert.to_integer(np.array([*values, math.nan]), bits, signed, mode)
    for value, result in zip(values, got, strict=False):
        if math.isinf(value):
            whole = high + 1 if value > 0 else low - 1
        else:
            whole = {RN: round, RM: math.floor, RP: math.ceil, RZ: math.trunc}[mode](value)
        assert int(result) == min(max(whole, low), high) & (1 << 64) - 1
    assert int(got[-1]) == 0


@pytest.mark.parametrize("form", (HALF, SINGLE, DOUBLE))
@pytest.mark.parametrize("mode", MODES)
def test_integer_to_float_rounds_once(form, mode):
    draw = random.Random(3)
    values = [0, 1, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, (1 << 53) + 1, (1 << 24) + 1]
    values += [draw.getrandbits(draw.randrange(1, 65)) for _ in range(1000)]
    array = np.array(values, np.uint64)
    for signed in (False, True):
        got = convert.from_integer(array, signed, form, mode)
        for value, result in zip(values, got, strict=True):
            exact = value - (1 << 64) if signed and value >> 63 else value
            assert int(result) == reference_round(Fraction(exact), form, mode)


@pytest.mark.parametrize("name", sorted(specials.FUNCTIONS))
def test_special_functions_equal_the_scalar_definition(name):
    draw = random.Random(11)
    patterns = [draw.getrandbits(32) for _ in range(3000)]
    patterns += [struct.unpack("<I", struct.pack("<f", draw.uniform(-3, 3)))[0] for _ in range(3000)]
    patterns += [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000, 0xBF800000, 0x3E800000, 1, 0x80000001]
    with np.errstate(all="ignore"):
        x = np.array(patterns, np.uint32).view(np.float32).astype(np.float64)
        got = specials.FUNCTIONS[name](x)
    scalar = getattr(special, name)
    want = np.array([scalar(float(value)) for value in x])
    same = (got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), x[~same][:4]
