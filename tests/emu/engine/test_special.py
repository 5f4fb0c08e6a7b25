"""The special functions: their table against high precision, their accuracy, their edge cases."""

from __future__ import annotations

import math
import random
from decimal import Decimal, getcontext

import pytest

from hcqrt.emu.engine import special

getcontext().prec = 60
LN2 = Decimal(2).ln()


def test_the_table_holds_the_nearest_float64_of_each_coefficient():
    factorial = [Decimal(math.factorial(k)) for k in range(20)]
    assert tuple(float(LN2**k / factorial[k]) for k in range(14)) == special.EX2
    assert tuple(float(2 / LN2 / (2 * k + 1)) for k in range(12)) == special.LG2
    assert tuple(float((-1) ** k / factorial[2 * k + 1]) for k in range(8)) == special.SIN
    assert tuple(float((-1) ** k / factorial[2 * k]) for k in range(9)) == special.COS
    assert tuple(float(1 / factorial[k + 1]) for k in range(15)) == special.EXPM1
    assert (float(1 / LN2), float(Decimal(2).sqrt())) == (special.LOG2E, special.SQRT2)
    assert math.tau == special.TWO_PI


def test_the_flat_table_holds_each_part_at_its_offset():
    for name, part in special.PARTS.items():
        first, count = special.OFFSETS[name]
        assert special.TABLE[first : first + count] == part


@pytest.mark.parametrize(
    ("function", "reference", "low", "high"),
    [
        (special.ex2, lambda x: 2.0**x, -150.0, 130.0),
        (special.lg2, math.log2, 1e-45, 1e38),
        (special.lg2, math.log2, 0.5, 2.0),
        (special.tanh, math.tanh, -20.0, 20.0),
        (special.tanh, math.tanh, -0.3, 0.3),
        (special.sin, lambda x: math.sin(x * math.tau), -0.12, 0.12),
        (special.cos, lambda x: math.cos(x * math.tau), -0.2, 0.2),
    ],
)
def test_a_function_is_far_more_exact_than_f32(function, reference, low, high):
    draw = random.Random(1)
    for _ in range(2000):
        x = draw.uniform(low, high)
        want = reference(x)
        assert abs(function(x) - want) <= abs(want) * 2.0**-47 + 1e-300


def test_sine_and_cosine_take_turns_and_are_exact_on_quarters():
    for whole in (-3, 0, 7, 2**20):
        got = [(special.sin(whole + q / 4), special.cos(whole + q / 4)) for q in range(4)]
        assert got == [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)]
    draw = random.Random(2)
    for _ in range(2000):
        x = draw.uniform(-4, 4)
        assert special.sin(x) == pytest.approx(math.sin(x * math.tau), abs=1e-14)
        assert special.cos(x) == pytest.approx(math.cos(x * math.tau), abs=1e-14)


def test_special_inputs():
    inf, nan = math.inf, math.nan
    assert math.copysign(1, special.sin(-0.0)) == -1
    assert all(math.isnan(f(inf)) for f in (special.sin, special.cos))
    assert all(math.isnan(f(nan)) for f in (special.sin, special.cos, special.ex2, special.lg2, special.tanh))
    assert (special.rcp(-0.0), special.rsq(-0.0), special.rsq(0.0), special.rsq(inf)) == (-inf, -inf, inf, 0.0)
    assert math.isnan(special.sqrt(-inf)) and math.isnan(special.rsq(-1.0)) and math.isnan(special.lg2(-1.0))
    assert (special.lg2(0.0), special.lg2(-0.0), special.lg2(inf), special.lg2(1.0)) == (-inf, -inf, inf, 0.0)
    assert special.ex2(-inf) == 2.0**-1000 and special.ex2(inf) == 2.0**1000
    assert (special.tanh(inf), special.tanh(-inf)) == (1.0, -1.0)
    assert math.copysign(1, special.tanh(-0.0)) == -1
    assert special.sin(3e9) == 0.0 and special.cos(-1e30) == 1.0
