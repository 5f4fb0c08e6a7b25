"""The special functions of the engine: one float64 table and, for each function, the exact order of its operations.

Both cores compute these functions in float64 with `+ - * / sqrt` alone, each rounded to nearest and never fused, so the
order below is the definition of the result: a core may go wide, but may not regroup, contract or reuse a longer series.
The scalar functions here are that definition in executable form; the C core gets `TABLE` as an array and finds its
parts by `OFFSETS`. The caller rounds the float64 result once to its own format (float64 to f32 to nearest even), makes
NaNs canonical and flushes denormals where the instruction says so.

Words used below: `horner(c, z)` is p = c[-1], then p = p * z + c[k] for k downwards to 0 (multiply, round, add, round).
`nearest(x)` is (x + MAGIC) - MAGIC: the nearest integer, ties to even, right for |x| < 2**51. `exp2i(n)` is the
float64 with exponent n, made from its bits.
"""

from __future__ import annotations

import math
import struct

# 1.5 * 2**52: adding it leaves no fraction bit, so the addition itself rounds to an integer.
MAGIC = 6755399441055744.0
# Beyond this every f32 is a whole number of turns, so the angle is 0.
WHOLE_TURNS = 2147483648.0
# 2**x outside [-1000, 1000] has left f32 (and f16) long ago; the clamp keeps exp2i in the normal range.
EX2_CLAMP = 1000.0
SQRT2 = 1.4142135623730951
TWO_PI = 6.283185307179586
LOG2E = 1.4426950408889634
# tanh switches from expm1 to exp2 at this magnitude of x.
TANH_SPLIT = 0.25

# ln(2)**k / k!: 2**f for |f| <= 0.5.
EX2 = (
    1.0, 0.6931471805599453, 0.24022650695910072, 0.05550410866482158, 0.009618129107628477, 0.0013333558146428443,
    0.0001540353039338161, 1.5252733804059841e-05, 1.321548679014431e-06, 1.01780860092397e-07,
    7.054911620801123e-09, 4.4455382718708116e-10, 2.5678435993488206e-11, 1.3691488853904128e-12,
)  # fmt: skip
# 2 / (ln(2) * (2k + 1)): log2 through the inverse hyperbolic tangent.
LG2 = (
    2.8853900817779268, 0.9617966939259756, 0.5770780163555853, 0.4121985831111324, 0.3205988979753252,
    0.2623081892525388, 0.22195308321368667, 0.19235933878519512, 0.16972882833987804, 0.15186263588304877,
    0.1373995277037108, 0.12545174268599682,
)  # fmt: skip
# (-1)**k / (2k + 1)!: sin(a) / a in a * a, |a| <= pi / 4.
SIN = (
    1.0, -0.16666666666666666, 0.008333333333333333, -0.0001984126984126984, 2.7557319223985893e-06,
    -2.505210838544172e-08, 1.6059043836821613e-10, -7.647163731819816e-13,
)  # fmt: skip
# (-1)**k / (2k)!: cos(a) in a * a.
COS = (
    1.0, -0.5, 0.041666666666666664, -0.001388888888888889, 2.48015873015873e-05, -2.755731922398589e-07,
    2.08767569878681e-09, -1.1470745597729725e-11, 4.779477332387385e-14,
)  # fmt: skip
# 1 / (k + 1)!: (e**y - 1) / y for |y| <= 0.5.
EXPM1 = (
    1.0, 0.5, 0.16666666666666666, 0.041666666666666664, 0.008333333333333333, 0.001388888888888889,
    0.0001984126984126984, 2.48015873015873e-05, 2.7557319223985893e-06, 2.755731922398589e-07,
    2.505210838544172e-08, 2.08767569878681e-09, 1.6059043836821613e-10, 1.1470745597729725e-11,
    7.647163731819816e-13,
)  # fmt: skip

PARTS: dict[str, tuple[float, ...]] = {
    "EX2": EX2,
    "LG2": LG2,
    "SIN": SIN,
    "COS": COS,
    "EXPM1": EXPM1,
    "SCALARS": (MAGIC, WHOLE_TURNS, EX2_CLAMP, SQRT2, TWO_PI, LOG2E, TANH_SPLIT),
}
# The parts one after the other; OFFSETS[name] = (first index, number of entries).
TABLE: tuple[float, ...] = tuple(value for part in PARTS.values() for value in part)
OFFSETS: dict[str, tuple[int, int]] = {}
for _name, _part in PARTS.items():
    OFFSETS[_name] = (sum(count for _, count in OFFSETS.values()), len(_part))


def horner(coefficients: tuple[float, ...], z: float) -> float:
    """Sum c[k] * z**k from the last coefficient down: one multiply and one add a step."""
    p = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        p = p * z + c
    return p


def nearest(x: float) -> float:
    return (x + MAGIC) - MAGIC


def ex2(x: float) -> float:
    """2**x. NaN gives NaN; |x| is clamped to EX2_CLAMP.

    1. clamp; 2. n = nearest(x); 3. f = x - n (exact); 4. horner(EX2, f) * exp2i(n).
    """
    if x != x:
        return x
    x = EX2_CLAMP if x > EX2_CLAMP else -EX2_CLAMP if x < -EX2_CLAMP else x
    n = nearest(x)
    return horner(EX2, x - n) * math.ldexp(1.0, int(n))


def lg2(x: float) -> float:
    """log2(x) of a normal float64. NaN and negative numbers give NaN, either zero -inf, +inf gives +inf.

    1. x = m * 2**e with 1 <= m < 2 by the bits; 2. if m > SQRT2: m = m * 0.5, e = e + 1;
    3. s = (m - 1) / (m + 1); 4. z = s * s; 5. e + s * horner(LG2, z).
    """
    if x == 0.0:
        return -math.inf
    if not x > 0.0:
        return math.nan
    if x == math.inf:
        return x
    (bits,) = struct.unpack("<q", struct.pack("<d", x))
    e = float((bits >> 52) - 1023)
    (m,) = struct.unpack("<d", struct.pack("<q", (bits & (1 << 52) - 1) | 1023 << 52))
    if m > SQRT2:
        m, e = m * 0.5, e + 1.0
    s: float = (m - 1.0) / (m + 1.0)
    return e + s * horner(LG2, s * s)


def _quarter(x: float) -> tuple[int, float, float]:
    """(quarter turn 0..3, sine, cosine) of the rest of an angle in turns.

    1. r = x - nearest(x), or 0.0 with the sign of x where |x| >= WHOLE_TURNS; 2. k = nearest(r * 4.0);
    3. t = r - k * 0.25 (exact); 4. a = t * TWO_PI; 5. z = a * a; 6. sine = a * horner(SIN, z), cosine = horner(COS, z).
    """
    r = math.copysign(0.0, x) if abs(x) >= WHOLE_TURNS else x - nearest(x)
    k = nearest(r * 4.0)
    a = (r - k * 0.25) * TWO_PI
    z = a * a
    return int(k) & 3, a * horner(SIN, z), horner(COS, z)


def sin(x: float) -> float:
    """The sine of x whole turns: quarter 0 sine, 1 cosine, 2 0.0 - sine, 3 0.0 - cosine. Infinities give NaN."""
    if x - x != 0.0:
        return math.nan
    quarter, s, c = _quarter(x)
    return (s, c, 0.0 - s, 0.0 - c)[quarter]


def cos(x: float) -> float:
    """The cosine of x whole turns: quarter 0 cosine, 1 0.0 - sine, 2 0.0 - cosine, 3 sine. Infinities give NaN."""
    if x - x != 0.0:
        return math.nan
    quarter, s, c = _quarter(x)
    return (c, 0.0 - s, 0.0 - c, s)[quarter]


def rcp(x: float) -> float:
    """1.0 / x by one division: zeros give infinities of their sign, infinities zeros."""
    if x == 0.0:
        return math.copysign(math.inf, x)
    return 1.0 / x


def sqrt(x: float) -> float:
    """One square root: -0.0 stays, other negative numbers give NaN."""
    return math.nan if x < 0.0 else math.sqrt(x)


def rsq(x: float) -> float:
    """rcp(sqrt(x)): a square root, then a division; -0.0 gives -inf."""
    return rcp(sqrt(x))


def tanh(x: float) -> float:
    """The hyperbolic tangent, y = x + x.

    |x| < TANH_SPLIT: u = y * horner(EXPM1, y), u / (u + 2.0). A zero is handed back as it came.
    Else: E = ex2(y * LOG2E) with y first clamped to [-80.0, 80.0], (E - 1.0) / (E + 1.0).
    """
    if x == 0.0 or x != x:
        return x
    y = x + x
    if abs(x) < TANH_SPLIT:
        u = y * horner(EXPM1, y)
        return u / (u + 2.0)
    y = 80.0 if y > 80.0 else -80.0 if y < -80.0 else y
    e = ex2(y * LOG2E)
    return (e - 1.0) / (e + 1.0)
