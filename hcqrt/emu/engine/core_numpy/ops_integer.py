"""Integer, move, compare and predicate operations on the running lanes."""

from __future__ import annotations

import numpy as np

from .. import uops
from . import integers
from .integers import high, join, low
from .records import Rec, handles
from .rounding import U32, U64, Array, Bool
from .unit import Unit

_31, _32 = np.uint32(31), np.uint32(32)


@handles("NOP")
def nop(u: Unit, r: Rec) -> None:
    pass


@handles("MOV")
def mov(u: Unit, r: Rec) -> None:
    if r.has(uops.WIDE):
        u.put_pair(r.d, u.pair(r, 0))
    else:
        u.put(r.d, u.word(r, 0))


@handles("SEL")
def sel(u: Unit, r: Rec) -> None:
    choose = u.predicate(r.p, r.p_neg)
    if r.has(uops.WIDE):
        u.put_pair(r.d, np.where(choose, u.pair(r, 0), u.pair(r, 1)))
    else:
        u.put(r.d, np.where(choose, u.word(r, 0), u.word(r, 1)))


def _carries(u: Unit, r: Rec) -> list[Array]:
    found = (u.carry(r.p, r.p_neg), u.carry(r.p2, r.p2_neg))
    return [carry for carry in found if carry is not None]


@handles("ADD3")
def add3(u: Unit, r: Rec) -> None:
    sources = [u.inverted(r, slot) for slot in range(3) if r.kind[slot] != uops.ZERO or r.flags >> (3 + slot) & 1]
    carries = _carries(u, r)
    constant = np.uint64(r.imm & 0xFFFFFFFF)
    if r.pd in (uops.PT, uops.UPT) and r.pd2 in (uops.PT, uops.UPT):
        short: U32 = u.full(r.imm & 0xFFFFFFFF)
        for term in [*sources, *carries]:
            short = short + term
        u.put(r.d, short)
        return
    total = integers.wide_sum(*(sources or [u.full(0)]), *carries) + constant
    top = high(total)
    u.put(r.d, low(total))
    u.put_predicate(r.pd, top >= 1)
    u.put_predicate(r.pd2, top >= 2)


@handles("LEA")
def lea(u: Unit, r: Rec) -> None:
    a, shift = u.word(r, 0), np.uint64(r.imm)
    value: U32
    if r.has(uops.HI):
        if r.has(uops.SX_A):
            upper: U32 = (a.view(np.int32) >> np.int32(31)).view(np.uint32)
        else:
            upper = u.word(r, 2)
        value = high(join(a, upper) << shift)
    else:
        value = a << np.uint32(r.imm)
    if r.has(uops.INV_A):
        value = ~value
    carry = u.carry(r.p, r.p_neg)
    total = integers.wide_sum(value, u.inverted(r, 1)) + np.uint64(r.mod)
    if carry is not None:
        total = total + carry
    u.put(r.d, low(total))
    u.put_predicate(r.pd, total >> np.uint64(32) != 0)


@handles("LOP3")
def lop3(u: Unit, r: Rec) -> None:
    result = integers.logic(r.mod & 0xFF, u.word(r, 0), u.word(r, 1), u.word(r, 2))
    u.put(r.d, result)
    u.put_predicate(r.pd, result != 0)


@handles("PRMT")
def prmt(u: Unit, r: Rec) -> None:
    a, b, c = u.word(r, 0), u.word(r, 1), u.word(r, 2)
    u.put(r.d, integers.permute(a, integers.selector(r.mod, b) if r.mod else b, c))


@handles("SHF")
def shf(u: Unit, r: Rec) -> None:
    value, count = join(u.word(r, 0), u.word(r, 2)), u.word(r, 1)
    limit = 64 if r.has(uops.WIDE) else 32
    count = count & np.uint32(limit - 1) if r.has(uops.WRAP) else np.minimum(count, np.uint32(limit))
    if r.has(uops.RIGHT):
        value = integers.shift_right(value, count, r.has(uops.SIGNED))
    else:
        value = integers.shift_left(value, count)
    u.put(r.d, high(value) if r.has(uops.HI) else low(value))


@handles("MAD")
def mad(u: Unit, r: Rec) -> None:
    total: U32 = u.word(r, 0) * u.word(r, 1) + u.inverted(r, 2)
    if r.imm:
        total = total + np.uint32(r.imm & 0xFFFFFFFF)
    carry = u.carry(r.p, r.p_neg)
    if carry is not None:
        total = total + carry
    u.put(r.d, total)


def _wide_mad(u: Unit, r: Rec) -> U64:
    product = integers.product(u.word(r, 0), u.word(r, 1), r.has(uops.SIGNED))
    addend = u.pair(r, 2)
    total: U64 = product + addend
    carry = u.carry(r.p, r.p_neg)
    whole = total if carry is None else total + carry
    if r.pd != uops.PT:
        over: Bool = total < addend
        u.put_predicate(r.pd, over if carry is None else over | ((whole == 0) & carry))
    return whole


@handles("MADW")
def madw(u: Unit, r: Rec) -> None:
    u.put_pair(r.d, _wide_mad(u, r))


@handles("MADH")
def madh(u: Unit, r: Rec) -> None:
    u.put(r.d, high(_wide_mad(u, r)))


@handles("IMNMX")
def imnmx(u: Unit, r: Rec) -> None:
    a, b = u.word(r, 0), u.word(r, 1)
    less: Bool = a.view(np.int32) < b.view(np.int32) if r.has(uops.SIGNED) else a < b
    u.put(r.d, np.where(less == u.predicate(r.p, r.p_neg), a, b))


@handles("IABS")
def iabs(u: Unit, r: Rec) -> None:
    a = u.word(r, 0)
    u.put(r.d, np.where(a >> _31 != 0, np.uint32(0) - a, a))


def combine(how: int, result: Bool, other: Bool) -> Bool:
    """A comparison's result with its predicate source: AND, OR, XOR."""
    joined: Bool
    if how == uops.B_AND:
        joined = result & other
    elif how == uops.B_OR:
        joined = result | other
    else:
        joined = result ^ other
    return joined


def put_comparison(u: Unit, r: Rec, result: Bool) -> None:
    how, other = r.mod >> uops.BOOL_SHIFT & 3, u.predicate(r.p, r.p_neg)
    first, second = combine(how, result, other), combine(how, ~result, other)
    u.put_predicate(r.pd, first)
    u.put_predicate(r.pd2, second)


@handles("ISETP")
def isetp(u: Unit, r: Rec) -> None:
    code, signed = r.mod & 7, r.has(uops.SIGNED)
    a: Array
    b: Array
    if r.has(uops.WIDE):
        a, b = u.pair(r, 0), u.pair(r, 1)
        a, b = (a.view(np.int64), b.view(np.int64)) if signed else (a, b)
    else:
        a, b = u.word(r, 0), u.word(r, 1)
        a, b = (a.view(np.int32), b.view(np.int32)) if signed else (a, b)
    result = integers.compare_integers(code, a, b)
    if r.has(uops.EX) and code not in (uops.C_F, uops.C_T):
        below = u.predicate(r.p2, r.p2_neg)
        result = np.where(a == b, below, result)
    put_comparison(u, r, result)


@handles("POPC")
def popc(u: Unit, r: Rec) -> None:
    u.put(r.d, integers.population(u.inverted(r, 0)))


@handles("BREV")
def brev(u: Unit, r: Rec) -> None:
    u.put(r.d, integers.reverse(u.word(r, 0)))


@handles("FLO")
def flo(u: Unit, r: Rec) -> None:
    position = integers.leading(u.inverted(r, 0), r.has(uops.SIGNED))
    found = position != integers.ALL_ONES
    if r.has(uops.SH):
        position = np.where(found, _31 - position, position)
    u.put(r.d, position)
    u.put_predicate(r.pd, found)


def _bounded(u: Unit, r: Rec, slot: int) -> U32:
    value: U32 = u.word(r, slot)
    value = value & _31 if r.has(uops.WRAP) else np.minimum(value, _32)
    return value


def _ones(count: U32) -> U64:
    ones: U64 = (np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)
    return ones


@handles("BMSK")
def bmsk(u: Unit, r: Rec) -> None:
    u.put(r.d, low(_ones(_bounded(u, r, 1)) << _bounded(u, r, 0).astype(np.uint64)))


@handles("SGXT")
def sgxt(u: Unit, r: Rec) -> None:
    count = _bounded(u, r, 1)
    kept = low(u.word(r, 0).astype(np.uint64) & _ones(count))
    if r.has(uops.SIGNED):
        sign = low(_ones(count) ^ (_ones(count) >> np.uint64(1)))
        kept = (kept ^ sign) - sign
    u.put(r.d, kept)


@handles("PLOP3")
def plop3(u: Unit, r: Rec) -> None:
    inputs = [u.predicate(*source) for source in ((r.p, r.p_neg), (r.p2, r.p2_neg), (r.p3, r.p3_neg))]
    first, second = (integers.logic(r.mod >> shift & 0xFF, *inputs) for shift in (0, 8))
    u.put_predicate(r.pd, first)
    u.put_predicate(r.pd2, second)


@handles("P2R")
def p2r(u: Unit, r: Rec) -> None:
    keep = r.imm & 0xFFFFFFFF
    result: U32 = u.word(r, 0) & np.uint32(~keep & 0xFFFFFFFF)
    for n in range(7):
        if keep >> n & 1:
            result = result | (u.predicate(n, False).astype(np.uint32) << np.uint32(n))
    u.put(r.d, result)


@handles("R2P")
def r2p(u: Unit, r: Rec) -> None:
    a = u.word(r, 0)
    for n in range(7):
        if r.imm >> n & 1:
            u.put_predicate(n, (a >> np.uint32(n) & np.uint32(1)) != 0)
