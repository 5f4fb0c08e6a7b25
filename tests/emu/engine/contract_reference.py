"""What each micro-op gives for one lane, computed with Python integers and fractions from the words of the contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import contract_formats as f
from contract_formats import BF16, F16, F32, F64, Format, Number, number, pattern

from hcqrt.emu.engine import special, uops

WORD, PAIR = (1 << 32) - 1, (1 << 64) - 1


@dataclass
class Lane:
    """Sources as 64-bit values (an op of words takes the low half), predicates as they are after negation."""

    a: int
    b: int
    c: int
    p: bool
    p2: bool
    p3: bool
    predicates: int  # P0-P6
    flags: int
    mod: int
    imm: int

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)

    @property
    def mode(self) -> int:
        return self.flags >> uops.ROUND_SHIFT & 3

    def words(self) -> tuple[int, int, int]:
        return self.a & WORD, self.b & WORD, self.c & WORD

    def inverted(self) -> tuple[int, int, int]:
        a, b, c = (
            word ^ (WORD if self.has(flag) else 0)
            for word, flag in zip(self.words(), (uops.INV_A, uops.INV_B, uops.INV_C), strict=True)
        )
        return a, b, c


class Outcome(NamedTuple):
    """The result register (64 bits for `wide`), and predicates; None is left as it was."""

    d: int | None = None
    wide: bool = False
    pd: bool | None = None
    pd2: bool | None = None
    predicates: int | None = None


Rule = Callable[[Lane], Outcome]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def joined(how: int, result: bool, other: bool) -> bool:
    return (result and other, result or other, result != other)[how]


# Integers


@rule("MOV")
def mov(i: Lane) -> Outcome:
    return Outcome(i.a, i.has(uops.WIDE))


@rule("SEL")
def sel(i: Lane) -> Outcome:
    return Outcome(i.a if i.p else i.b, i.has(uops.WIDE))


@rule("ADD3")
def add3(i: Lane) -> Outcome:
    total = sum(i.inverted()) + i.imm + i.p + i.p2
    return Outcome(total & WORD, pd=total >= 1 << 32, pd2=total >= 1 << 33)


@rule("LEA")
def lea(i: Lane) -> Outcome:
    a, _, c = i.words()
    if i.has(uops.HI):
        wide = signed(a, 32) & PAIR if i.has(uops.SX_A) else c << 32 | a
        value = (wide << i.imm & PAIR) >> 32
    else:
        value = a << i.imm & WORD
    if i.has(uops.INV_A):
        value ^= WORD
    total = value + i.inverted()[1] + i.mod + i.p
    return Outcome(total & WORD, pd=total > WORD)


@rule("LOP3")
def lop3(i: Lane) -> Outcome:
    a, b, c = i.words()
    d = 0
    for bit in range(32):
        index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
        d |= (i.mod >> index & 1) << bit
    return Outcome(d, pd=d != 0)


def prmt_selector(mode: int, b: int) -> list[int]:
    n = b & 3
    if mode == 0:
        return [b >> 4 * k & 15 for k in range(4)]
    if mode == 1:  # forwards from byte n
        return [n + k for k in range(4)]
    if mode == 2:  # backwards from byte n
        return [(n - k) % 8 for k in range(4)]
    if mode == 3:
        return [n] * 4
    if mode == 4:  # at least n
        return [max(k, n) for k in range(4)]
    if mode == 5:  # at most n
        return [min(k, n) for k in range(4)]
    return [0, 1, 0, 1] if n % 2 == 0 else [2, 3, 2, 3]


@rule("PRMT")
def prmt(i: Lane) -> Outcome:
    a, b, c = i.words()
    pool = a | c << 32
    d = 0
    for k, nibble in enumerate(prmt_selector(i.mod, b)):
        byte = pool >> 8 * (nibble & 7) & 0xFF
        if nibble & 8:
            byte = 0xFF if byte & 0x80 else 0
        d |= byte << 8 * k
    return Outcome(d)


@rule("SHF")
def shf(i: Lane) -> Outcome:
    a, b, c = i.words()
    limit = 64 if i.has(uops.WIDE) else 32
    n = b % limit if i.has(uops.WRAP) else min(b, limit)
    value = c << 32 | a
    if not i.has(uops.RIGHT):
        value = value << n & PAIR
    else:
        value = (signed(value, 64) if i.has(uops.SIGNED) else value) >> n & PAIR
    return Outcome(value >> 32 if i.has(uops.HI) else value & WORD)


@rule("MAD")
def mad(i: Lane) -> Outcome:
    a, b, _ = i.words()
    return Outcome(a * b + i.inverted()[2] + i.imm + i.p & WORD)


def wide_sum(i: Lane) -> int:
    a, b, _ = i.words()
    product = signed(a, 32) * signed(b, 32) if i.has(uops.SIGNED) else a * b
    return (product & PAIR) + i.c + i.p


@rule("MADW")
def madw(i: Lane) -> Outcome:
    total = wide_sum(i)
    return Outcome(total & PAIR, True, pd=total > PAIR)


@rule("MADH")
def madh(i: Lane) -> Outcome:
    total = wide_sum(i)
    return Outcome((total & PAIR) >> 32, pd=total > PAIR)


@rule("IMNMX")
def imnmx(i: Lane) -> Outcome:
    a, b, _ = i.words()
    if i.has(uops.SIGNED):
        a, b = signed(a, 32), signed(b, 32)
    return Outcome((min if i.p else max)(a, b) & WORD)


@rule("IABS")
def iabs(i: Lane) -> Outcome:
    return Outcome(abs(signed(i.a, 32)) & WORD)


@rule("ISETP")
def isetp(i: Lane) -> Outcome:
    bits = 64 if i.has(uops.WIDE) else 32
    a, b = i.a & (1 << bits) - 1, i.b & (1 << bits) - 1
    if i.has(uops.SIGNED):
        a, b = signed(a, bits), signed(b, bits)
    code = i.mod & 15
    result = (False, a < b, a == b, a <= b, a > b, a != b, a >= b, True)[code]
    if i.has(uops.EX) and code not in (uops.C_F, uops.C_T) and a == b:
        result = i.p2
    return comparison(i, result)


def comparison(i: Lane, result: bool) -> Outcome:
    how = i.mod >> uops.BOOL_SHIFT & 3
    return Outcome(pd=joined(how, result, i.p), pd2=joined(how, not result, i.p))


@rule("POPC")
def popc(i: Lane) -> Outcome:
    return Outcome(i.inverted()[0].bit_count() if hasattr(int, "bit_count") else bin(i.inverted()[0]).count("1"))


@rule("BREV")
def brev(i: Lane) -> Outcome:
    return Outcome(int(f"{i.a & WORD:032b}"[::-1], 2))


@rule("FLO")
def flo(i: Lane) -> Outcome:
    value = i.inverted()[0]
    if i.has(uops.SIGNED) and value >> 31:
        value ^= WORD
    if not value:
        return Outcome(WORD, pd=False)
    position = value.bit_length() - 1
    return Outcome(31 - position if i.has(uops.SH) else position, pd=True)


@rule("BMSK")
def bmsk(i: Lane) -> Outcome:
    a, b, _ = i.words()
    a, b = (a % 32, b % 32) if i.has(uops.WRAP) else (min(a, 32), min(b, 32))
    return Outcome(((1 << b) - 1) << a & WORD)


@rule("SGXT")
def sgxt(i: Lane) -> Outcome:
    a, b, _ = i.words()
    count = b % 32 if i.has(uops.WRAP) else min(b, 32)
    value = a & (1 << count) - 1
    if count and i.has(uops.SIGNED):
        value = signed(value, count)
    return Outcome(value & WORD)


@rule("PLOP3")
def plop3(i: Lane) -> Outcome:
    index = i.p << 2 | i.p2 << 1 | i.p3
    return Outcome(pd=bool(i.mod >> index & 1), pd2=bool(i.mod >> 8 + index & 1))


@rule("P2R")
def p2r(i: Lane) -> Outcome:
    return Outcome(i.a & WORD & ~i.imm | i.predicates & i.imm & 0x7F)


@rule("R2P")
def r2p(i: Lane) -> Outcome:
    keep = i.imm & 0x7F
    return Outcome(predicates=i.a & keep | i.predicates & ~keep)


# Floats

NEGATE, ABSOLUTE = (uops.NEG_A, uops.NEG_B, uops.NEG_C), (uops.ABS_A, uops.ABS_B, uops.ABS_C)


def float_bits(i: Lane, slot: int, form: Format, bits: int | None = None) -> int:
    """A source's pattern: |x|, then -x, then flushed."""
    top = 1 << form.width - 1
    value = ((i.a, i.b, i.c)[slot] if bits is None else bits) & 2 * top - 1
    if i.has(ABSOLUTE[slot]):
        value &= top - 1
    if i.has(NEGATE[slot]):
        value ^= top
    return f.flushed(value, form) if i.has(uops.FTZ) else value


def floats(i: Lane, form: Format, count: int) -> list[Number]:
    return [number(float_bits(i, slot, form), form) for slot in range(count)]


def finish(i: Lane, exact: Number, form: Format, *sources: Number) -> int:
    """Round, flush, saturate; a NaN of f64 comes from the first source that is one."""
    if exact.kind == f.NAN and form == F64:
        found = [source.bits | 1 << 51 for source in sources if source.kind == f.NAN]
        bits = found[0] if found else 0x7FF8000000000000
    else:
        bits = pattern(exact, form, i.mode)
        if i.has(uops.FTZ):
            bits = f.flushed(bits, form)
    return f.saturated(bits, form) if i.has(uops.SAT) else bits


def arithmetic(i: Lane, name: str, form: Format, values: list[Number]) -> int:
    if name == "ADD":
        exact = f.add(values[0], values[1], i.mode)
    elif name == "MUL":
        scale = Fraction(2) ** (i.imm if form == F32 else 0)
        exact = f.multiply(values[0], values[1])
        exact = exact._replace(magnitude=exact.magnitude * scale)
    else:
        exact = f.add(f.multiply(values[0], values[1]), values[2], i.mode)
    return finish(i, exact, form, *values)


@rule("FADD")
def fadd(i: Lane) -> Outcome:
    return Outcome(arithmetic(i, "ADD", F32, floats(i, F32, 2)))


@rule("FMUL")
def fmul(i: Lane) -> Outcome:
    return Outcome(arithmetic(i, "MUL", F32, floats(i, F32, 2)))


@rule("FFMA")
def ffma(i: Lane) -> Outcome:
    return Outcome(arithmetic(i, "FMA", F32, floats(i, F32, 3)))


@rule("DADD")
def dadd(i: Lane) -> Outcome:
    return Outcome(arithmetic(i, "ADD", F64, floats(i, F64, 2)), True)


@rule("DMUL")
def dmul(i: Lane) -> Outcome:
    return Outcome(arithmetic(i, "MUL", F64, floats(i, F64, 2)), True)


@rule("DFMA")
def dfma(i: Lane) -> Outcome:
    return Outcome(arithmetic(i, "FMA", F64, floats(i, F64, 3)), True)


def minmax(i: Lane, form: Format, x: int, y: int) -> int:
    """The smaller (p) or larger of two patterns; -0 below +0."""
    a, b = number(x, form), number(y, form)
    if a.kind == f.NAN or b.kind == f.NAN:
        if i.has(uops.NAN_WINS) or a.kind == b.kind:
            return finish(i, Number(f.NAN, False), form, a, b)
        bits = y if a.kind == f.NAN else x
    else:
        keys = {x: (f.order(a), not a.negative), y: (f.order(b), not b.negative)}
        bits = (min if i.p else max)((x, y), key=lambda bits: keys[bits])
    return f.saturated(bits, form) if i.has(uops.SAT) else bits


@rule("FMNMX")
def fmnmx(i: Lane) -> Outcome:
    return Outcome(minmax(i, F32, float_bits(i, 0, F32), float_bits(i, 1, F32)))


@rule("DMNMX")
def dmnmx(i: Lane) -> Outcome:
    return Outcome(minmax(i, F64, float_bits(i, 0, F64), float_bits(i, 1, F64)), True)


@rule("FSETP")
def fsetp(i: Lane) -> Outcome:
    return comparison(i, f.compare(i.mod & 15, *floats(i, F32, 2)))


@rule("DSETP")
def dsetp(i: Lane) -> Outcome:
    return comparison(i, f.compare(i.mod & 15, *floats(i, F64, 2)))


@rule("FSET")
def fset(i: Lane) -> Outcome:
    true = 0x3F800000 if i.has(uops.SAT) else WORD
    return Outcome(true if fsetp(i).pd else 0)


FUNCTIONS = {
    uops.MUFU_COS: special.cos, uops.MUFU_SIN: special.sin, uops.MUFU_EX2: special.ex2, uops.MUFU_LG2: special.lg2,
    uops.MUFU_RCP: special.rcp, uops.MUFU_RSQ: special.rsq, uops.MUFU_SQRT: special.sqrt, uops.MUFU_TANH: special.tanh,
}  # fmt: skip


def of_float(x: float) -> Number:
    if x != x:
        return Number(f.NAN, False)
    if math.isinf(x):
        return Number(f.INFINITE, x < 0)
    return f.of_fraction(Fraction(x), math.copysign(1.0, x) < 0)


def to_float(x: Number) -> float:
    if x.kind != f.FINITE:
        return math.nan if x.kind == f.NAN else -math.inf if x.negative else math.inf
    return -float(x.magnitude) if x.negative else float(x.magnitude)


@rule("MUFU")
def mufu(i: Lane) -> Outcome:
    (x,) = floats(i, F32, 1)
    rounded = Lane(**{**vars(i), "flags": i.flags & ~(3 << uops.ROUND_SHIFT)})
    return Outcome(finish(rounded, of_float(FUNCTIONS[i.mod](to_float(x))), F32))


# Packed halves


def half_form(i: Lane) -> Format:
    return BF16 if i.has(uops.BF16) else F16


def halves(i: Lane, slot: int) -> tuple[int, int]:
    word = (i.a, i.b, i.c)[slot] & WORD
    low, high = word & 0xFFFF, word >> 16
    chosen = {0: (low, high), 2: (low, low), 3: (high, high)}[i.mod >> 2 * slot & 3]
    x, y = (float_bits(i, slot, half_form(i), bits) for bits in chosen)
    return x, y


def packed(i: Lane, name: str, count: int) -> Outcome:
    form = half_form(i)
    sources = [halves(i, slot) for slot in range(count)]
    values = [[number(source[half], form) for source in sources] for half in (0, 1)]
    if i.has(uops.F32_RESULT):
        return Outcome(arithmetic(i, name, F32, values[0]))
    plain = Lane(**{**vars(i), "imm": 0})
    low, high = (arithmetic(plain, name, form, value) for value in values)
    return Outcome(low | high << 16)


@rule("HADD2")
def hadd2(i: Lane) -> Outcome:
    return packed(i, "ADD", 2)


@rule("HMUL2")
def hmul2(i: Lane) -> Outcome:
    return packed(i, "MUL", 2)


@rule("HFMA2")
def hfma2(i: Lane) -> Outcome:
    return packed(i, "FMA", 3)


@rule("HMNMX2")
def hmnmx2(i: Lane) -> Outcome:
    a, b = halves(i, 0), halves(i, 1)
    low, high = (minmax(i, half_form(i), a[half], b[half]) for half in (0, 1))
    return Outcome(low | high << 16)


@rule("HSETP2")
def hsetp2(i: Lane) -> Outcome:
    a, b, form = halves(i, 0), halves(i, 1), half_form(i)
    how = i.mod >> 12 & 3
    low, high = (f.compare(i.mod >> 8 & 15, number(a[h], form), number(b[h], form)) for h in (0, 1))
    if i.mod >> 14 & 1:
        low, high = low and high, not (low and high)
    return Outcome(pd=joined(how, low, i.p), pd2=joined(how, high, i.p))


# Conversions

FORMATS = {uops.F16: F16, uops.BF16_FORMAT: BF16, uops.F32: F32, uops.F64: F64}
INTEGERS = {
    uops.I8: (8, True), uops.I16: (16, True), uops.I32: (32, True), uops.I64: (64, True),
    uops.U8: (8, False), uops.U16: (16, False), uops.U32: (32, False), uops.U64: (64, False),
}  # fmt: skip


def formats(i: Lane) -> tuple[int, int]:
    return i.mod & 15, i.mod >> uops.FORMAT_SHIFT & 15


def convertible(i: Lane, slot: int, form: Format) -> Number:
    """A source of a conversion: FTZ is about f32 alone; `imm` 1 takes the high half."""
    bits = (i.a, i.b)[slot]
    if form.width == 16 and i.imm == 1:
        bits = bits >> 16
    plain = i if form == F32 else Lane(**{**vars(i), "flags": i.flags & ~uops.FTZ})
    return number(float_bits(plain, slot, form, bits), form)


def converted(i: Lane, value: Number, form: Format) -> Outcome:
    plain = i if form == F32 else Lane(**{**vars(i), "flags": i.flags & ~uops.FTZ})
    return Outcome(finish(plain, value, form, value), form == F64)


def widened(value: Number, form: Format) -> Number:
    """A NaN keeps its payload at the top of f64's."""
    if value.kind != f.NAN or form == F64:
        return value
    payload = value.bits & (1 << form.mantissa) - 1
    bits = int(value.negative) << 63 | 0x7FF << 52 | payload << 52 - form.mantissa
    return value._replace(bits=bits)


@rule("F2F")
def f2f(i: Lane) -> Outcome:
    to, origin = (FORMATS[n] for n in formats(i))
    return converted(i, widened(convertible(i, 0, origin), origin), to)


@rule("FRND")
def frnd(i: Lane) -> Outcome:
    form = FORMATS[i.mod & 15]
    value = convertible(i, 0, form)
    if value.kind == f.FINITE:
        whole = f.round_to_integer(value.signed, i.mode)
        value = f.of_fraction(Fraction(whole), value.negative)
    return converted(i, widened(value, form), form)


@rule("F2I")
def f2i(i: Lane) -> Outcome:
    to, origin = formats(i)
    bits, has_sign = INTEGERS[to]
    value = convertible(i, 0, FORMATS[origin])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if has_sign else (0, (1 << bits) - 1)
    if value.kind == f.FINITE:
        result = min(max(f.round_to_integer(value.signed, i.mode), low), high)
    else:
        result = 0 if value.kind == f.NAN else low if value.negative else high
    return Outcome(result & PAIR, True) if bits == 64 else Outcome(result & WORD)


@rule("I2F")
def i2f(i: Lane) -> Outcome:
    to, origin = formats(i)
    bits, has_sign = INTEGERS[origin]
    value = i.a if bits == 64 else (i.a & WORD) >> (bits * i.imm if bits < 32 else 0) & (1 << bits) - 1
    exact = f.of_fraction(Fraction(signed(value, bits) if has_sign else value))
    return Outcome(pattern(exact, FORMATS[to], i.mode), FORMATS[to] == F64)


@rule("F2FP")
def f2fp(i: Lane) -> Outcome:
    high, low = (pattern(convertible(i, slot, F32), half_form(i), i.mode) for slot in (0, 1))
    return Outcome(high << 16 | low)
