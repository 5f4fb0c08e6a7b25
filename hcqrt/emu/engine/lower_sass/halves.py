"""Instructions on two 16-bit floats packed in a word."""

from __future__ import annotations

from .. import uops as u
from .floats import A_OR_B, COMPARE, flush
from .integer import BOOLEAN
from .lowering import ZERO, Lowering, Source, immediate, lowers

HALF_BITS = 2  # each source's choice of halves in `mod`
COMPARE_SHIFT, BOOL_SHIFT, BOTH_HALVES = 8, 12, 1 << 14
NEVER = (u.PT, True)


def choices(*sources: Source) -> int:
    return sum(source.half << HALF_BITS * slot for slot, source in enumerate(sources))


def flags_of(i: Lowering) -> int:
    """FTZ, SAT and the 16-bit format, where the row has them."""
    return flush(i) | (u.SAT if i.flag("SAT") else 0) | (u.BF16 if i.flag("BF16_V2") else 0)


@lowers("HADD2")
def hadd2(i: Lowering) -> None:
    a, b = i.packed("a"), i.packed("b")
    flags = flags_of(i) | (u.F32_RESULT if i.flag("F32") else 0)
    i.emit("HADD2", i.dst("d"), a, b, flags=flags, mod=choices(a, b))


@lowers("HMUL2")
def hmul2(i: Lowering) -> None:
    i.unset("F32")
    i.unset("FMZ")
    a, b = i.packed("a"), i.packed("b")
    i.emit("HMUL2", i.dst("d"), a, b, flags=flags_of(i), mod=choices(a, b))


@lowers("HFMA2")
def hfma2(i: Lowering) -> None:
    i.no_effect("unused")
    i.unset("F32")
    i.unset("FMZ")
    flags, clamp = flags_of(i), i.flag("RELU")
    (i.no_pred if clamp else i.unread_pred)("ps")
    a, b, c = i.packed("a"), i.packed("b"), i.packed("c")
    d = i.dst("d")
    if not clamp:
        i.emit("HFMA2", d, a, b, c, flags=flags, mod=choices(a, b, c))
        return
    to_sum, total = i.temporary()
    i.emit("HFMA2", to_sum, a, b, c, flags=flags, mod=choices(a, b, c))
    i.emit("HMNMX2", d, total, ZERO, flags=flags & u.BF16 | u.NAN_WINS, p=NEVER)


@lowers("HMNMX2")
def hmnmx2(i: Lowering) -> None:
    i.unset("XORSIGN")
    a, b = i.packed("a"), i.packed("b")
    flags = flags_of(i) | (u.NAN_WINS if i.flag("NAN") else 0)
    i.emit("HMNMX2", i.dst("d"), a, b, flags=flags, mod=choices(a, b), p=i.pred("ps"))


def comparison(i: Lowering, a: Source, b: Source) -> int:
    join = i.mod("bool", BOOLEAN) >> u.BOOL_SHIFT << BOOL_SHIFT
    return choices(a, b) | i.mod("cmp", COMPARE) << COMPARE_SHIFT | join


@lowers("HSETP2")
def hsetp2(i: Lowering) -> None:
    a, b = i.packed("a"), i.packed("b")
    mod = comparison(i, a, b) | (BOTH_HALVES if i.flag("H_AND") else 0)
    pd, pd2 = i.pdst("pd"), i.pdst("pd2")
    i.emit("HSETP2", u.NO_REG, a, b, flags=flush(i), mod=mod, pd=pd, pd2=pd2, p=i.pred("ps"))


@lowers("HSET2")
def hset2(i: Lowering) -> None:
    a, b = i.packed("a"), i.packed("b")
    true = i.mod("result", {"": 0xFFFF, "BF": 0x3C00})  # 1.0 in f16
    low, high = i.scratch_pred(), i.scratch_pred()
    i.emit("HSETP2", u.NO_REG, a, b, flags=flush(i), mod=comparison(i, a, b), pd=low, pd2=high, p=i.pred("ps"))
    (to_x, x), (to_y, y) = i.temporary(), i.temporary()
    i.emit("SEL", to_x, immediate(true), ZERO, p=(low, False))
    i.emit("SEL", to_y, immediate(true << 16), ZERO, p=(high, False))
    i.emit("LOP3", i.dst("d"), x, y, mod=A_OR_B)
