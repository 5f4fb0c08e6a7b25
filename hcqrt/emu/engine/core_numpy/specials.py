"""The special functions of `special.py` on arrays: the same operations in the same order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import special
from .rounding import F64, Array


def _horner(coefficients: tuple[float, ...], z: F64) -> F64:
    p: F64 = np.full(z.shape, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        p = p * z + c
    return p


def _nearest(x: F64) -> F64:
    return (x + special.MAGIC) - special.MAGIC


def ex2(x: F64) -> F64:
    bounded = np.where(
        x > special.EX2_CLAMP, special.EX2_CLAMP, np.where(x < -special.EX2_CLAMP, -special.EX2_CLAMP, x)
    )
    bounded = np.where(np.isnan(x), 0.0, bounded)
    n = _nearest(bounded)
    power = ((n.astype(np.int64) + 1023) << 52).view(np.float64)
    return np.where(np.isnan(x), x, _horner(special.EX2, bounded - n) * power)


def lg2(x: F64) -> F64:
    usable = (x > 0.0) & (x < np.inf)
    bits = np.where(usable, x, 1.0).view(np.int64)
    e = ((bits >> 52) - 1023).astype(np.float64)
    m = ((bits & ((1 << 52) - 1)) | (1023 << 52)).view(np.float64)
    upper = m > special.SQRT2
    m = np.where(upper, m * 0.5, m)
    e = np.where(upper, e + 1.0, e)
    s = (m - 1.0) / (m + 1.0)
    result = e + s * _horner(special.LG2, s * s)
    edge = np.where(x == 0.0, -np.inf, np.where(x == np.inf, np.inf, np.nan))
    return np.where(usable, result, edge)


def _quarter(x: F64) -> tuple[Array, F64, F64]:
    whole = ~(np.abs(x) < special.WHOLE_TURNS)
    r = np.where(whole, np.copysign(0.0, x), x - _nearest(x))
    k = _nearest(r * 4.0)
    a = (r - k * 0.25) * special.TWO_PI
    z = a * a
    return k.astype(np.int64) & 3, a * _horner(special.SIN, z), _horner(special.COS, z)


def _turn(x: F64, first: int) -> F64:
    quarter, s, c = _quarter(x)
    choice = (quarter + first) & 3
    result = np.where(choice == 0, s, np.where(choice == 1, c, np.where(choice == 2, 0.0 - s, 0.0 - c)))
    return np.where(np.isfinite(x), result, np.nan)


def sin(x: F64) -> F64:
    return _turn(x, 0)


def cos(x: F64) -> F64:
    """A quarter ahead of the sine: cosine, 0 - sine, 0 - cosine, sine."""
    return _turn(x, 1)


def rcp(x: F64) -> F64:
    return 1.0 / x


def sqrt(x: F64) -> F64:
    return np.sqrt(x)


def rsq(x: F64) -> F64:
    return 1.0 / np.sqrt(x)


def tanh(x: F64) -> F64:
    y = x + x
    small = np.abs(x) < special.TANH_SPLIT
    near = np.where(small, y, 0.0)
    u = near * _horner(special.EXPM1, near)
    e = ex2(np.where(y > 80.0, 80.0, np.where(y < -80.0, -80.0, y)) * special.LOG2E)
    result = np.where(small, u / (u + 2.0), (e - 1.0) / (e + 1.0))
    return np.where((x == 0.0) | np.isnan(x), x, result)


FUNCTIONS: dict[str, Callable[[F64], F64]] = {
    "cos": cos, "sin": sin, "ex2": ex2, "lg2": lg2, "rcp": rcp, "rsq": rsq, "sqrt": sqrt, "tanh": tanh,
}  # fmt: skip
