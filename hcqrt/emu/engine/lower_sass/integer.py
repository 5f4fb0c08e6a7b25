"""Integer, move and predicate instructions of both datapaths."""

from __future__ import annotations

from ....isa.sass import Num
from .. import uops as u
from .lowering import NONE, ZERO, Lowering, Source, immediate, lowers

SIGN = {"": u.SIGNED, "U32": 0}
BOOLEAN = {"AND": u.B_AND << u.BOOL_SHIFT, "OR": u.B_OR << u.BOOL_SHIFT, "XOR": u.B_XOR << u.BOOL_SHIFT}
COMPARE = {
    "F": u.C_F, "LT": u.C_LT, "EQ": u.C_EQ, "LE": u.C_LE, "GT": u.C_GT, "NE": u.C_NE, "GE": u.C_GE, "T": u.C_T,
}  # fmt: skip
PRMT_MODES = {"": 0, "F4E": 1, "B4E": 2, "RC8": 3, "ECL": 4, "ECR": 5, "RC16": 6}
SHIFT_TYPES = {"S64": u.SIGNED | u.WIDE, "U64": u.WIDE, "S32": u.SIGNED, "U32": 0}


@lowers("MOV", "UMOV")
def mov(i: Lowering) -> None:
    lanes = i.optional("lanes")
    if lanes not in (None, Num(15)):
        raise i.refuse(f"moves only the bytes of {lanes}")
    i.emit("MOV", i.dst("d"), i.word("b"))


@lowers("SEL", "USEL")
def sel(i: Lowering) -> None:
    i.emit("SEL", i.dst("d"), i.word("a"), i.word("b"), p=i.pred("ps"))


@lowers("ISETP", "UISETP")
def isetp(i: Lowering) -> None:
    flags, low = i.mod("sign", SIGN), NONE
    if i.flag("EX"):
        flags, low = flags | u.EX, i.pred("ps3")
    else:
        i.unread_pred("ps3")
    mod = i.mod("cmp", COMPARE) | i.mod("bool", BOOLEAN)
    pd, pd2 = i.pdst("pd"), i.pdst("pd2")
    i.emit("ISETP", u.NO_REG, i.word("a"), i.word("b"), flags=flags, mod=mod, pd=pd, pd2=pd2, p=i.pred("ps"), p2=low)


def negatable(i: Lowering, name: str, extended: bool) -> tuple[Source, int]:
    """A source of a sum and what its sign adds: -x is ~x + 1, under .X the same bit only means ~x."""
    source = i.word(name, "inv" if extended else "neg")
    return source._replace(inv=source.inv or source.neg, neg=False), int(source.neg)


@lowers("IADD3", "UIADD3")
def iadd3(i: Lowering) -> None:
    extended = i.flag("X")
    (a, x), (b, y), (c, z) = (negatable(i, name, extended) for name in "abc")
    p, p2 = i.carry(extended, "ps"), i.carry(extended, "ps2")
    i.emit("ADD3", i.dst("d"), a, b, c, imm=x + y + z, pd=i.pdst("pd"), pd2=i.pdst("pd2"), p=p, p2=p2)


@lowers("VIADD")
def viadd(i: Lowering) -> None:
    (a, x), (b, y) = negatable(i, "a", False), negatable(i, "b", False)
    i.emit("ADD3", i.dst("d"), a, b, ZERO, imm=x + y)


@lowers("LEA", "ULEA")
def lea(i: Lowering) -> None:
    extended, high, sign_extended = i.flag("X"), i.flag("HI"), i.flag("SX32")
    (a, x), (b, y) = negatable(i, "a", extended), negatable(i, "b", extended)
    flags, c = 0, ZERO
    if high and not sign_extended:
        flags, c = u.HI, i.word("c")
    elif high:
        flags = u.HI | u.SX_A
        i.unused("c")
    elif sign_extended:
        raise i.refuse("modifier SX32 = True without HI")
    else:
        i.unused("c")
    p, pd = i.carry(extended, "ps"), i.pdst("pd")
    i.emit("LEA", i.dst("d"), a, b, c, flags=flags, imm=i.count("shift"), mod=x + y, pd=pd, p=p)


@lowers("LOP3", "ULOP3")
def lop3(i: Lowering) -> None:
    d, pd, table = i.dst("d"), i.pdst("pd"), i.count("lut")
    sources = i.word("a"), i.word("b"), i.word("c")
    ps, both = i.pred("ps"), i.flag("PAND")
    if not both:
        if ps[0] not in (u.PT, u.UPT) or not ps[1]:
            raise i.refuse(f"predicate source {ps} without PAND is not implemented")
        i.emit("LOP3", d, *sources, mod=table, pd=pd)
        return
    found = i.scratch_pred()
    i.emit("LOP3", d, *sources, mod=table, pd=found)
    i.emit("PLOP3", mod=0xC0, pd=pd, p=(found, False), p2=ps)


@lowers("IABS")
def iabs(i: Lowering) -> None:
    i.emit("IABS", i.dst("d"), i.word("b"))


@lowers("IMNMX")
def imnmx(i: Lowering) -> None:
    i.no_pred("pd", "pd2")
    i.unread_pred("ps2")
    i.emit("IMNMX", i.dst("d"), i.word("a"), i.word("b"), flags=i.mod("sign", SIGN), p=i.pred("ps"))


@lowers("VIMNMX")
def vimnmx(i: Lowering) -> None:
    i.no_pred("pd", "pd2")
    flags = i.mod("type", {"": u.SIGNED, "S32": u.SIGNED, "U32": 0})
    i.emit("IMNMX", i.dst("d"), i.word("a"), i.word("b"), flags=flags, p=i.pred("ps"))


@lowers("PRMT", "UPRMT")
def prmt(i: Lowering) -> None:
    i.emit("PRMT", i.dst("d"), i.word("a"), i.word("b"), i.word("c"), mod=i.mod("mode", PRMT_MODES, absent=""))


@lowers("SHF", "USHF")
def shf(i: Lowering) -> None:
    flags = i.mod("dir", {"L": 0, "R": u.RIGHT}) | i.mod("type", SHIFT_TYPES)
    flags |= (u.WRAP if i.flag("W") else 0) | (u.HI if i.flag("HI") else 0)
    i.emit("SHF", i.dst("d"), i.word("a"), i.word("b"), i.word("c"), flags=flags)


@lowers("IMAD", "UIMAD")
def imad(i: Lowering) -> None:
    i.mod("sign", SIGN)  # the low word of a product does not depend on it
    extended = i.flag("X")
    c, plus = negatable(i, "c", extended)
    i.emit("MAD", i.dst("d"), i.word("a"), i.word("b"), c, imm=plus, p=i.carry(extended, "ps"))


@lowers("IMAD.WIDE", "UIMAD.WIDE", "IMAD.HI")
def imad_wide(i: Lowering) -> None:
    flags, extended = i.mod("sign", SIGN), i.flag("X")
    wide = i.instruction.mnemonic.endswith("WIDE")
    c = i.source(i.arg("c"), 2)
    if c.kind == u.IMM and c.value >> 31:
        raise i.refuse(f"operand c = {c.value:#x}: how a negative immediate is widened is not known")
    d, pd, p = i.dst("d", 2 if wide else 1), i.pdst("pd"), i.carry(extended, "ps")
    i.emit("MADW" if wide else "MADH", d, i.word("a"), i.word("b"), c, flags=flags, pd=pd, p=p)


@lowers("IDP.4A")
def idp4(i: Lowering) -> None:
    """Four products of bytes: PRMT widens a byte (nibble 8 + n repeats its sign, 4 is a zero), MAD adds."""
    signed_a, signed_b = (i.mod(name, {"U8": False, "S8": True}) for name in ("sign_a", "sign_b"))
    d, a, b, total = i.dst("d"), i.word("a"), i.word("b"), i.word("c")
    (to_x, x), (to_y, y), (to_sum, partial) = i.temporary(), i.temporary(), i.temporary()
    for byte in range(4):
        widen = 0x4440 | byte, 0x1110 * (8 | byte) | byte
        i.emit("PRMT", to_x, a, immediate(widen[signed_a]), ZERO)
        i.emit("PRMT", to_y, b, immediate(widen[signed_b]), ZERO)
        i.emit("MAD", to_sum if byte < 3 else d, x, y, total)
        total = partial


@lowers("FLO", "UFLO")
def flo(i: Lowering) -> None:
    flags = i.mod("sign", SIGN) | (u.SH if i.flag("SH") else 0)
    i.emit("FLO", i.dst("d"), i.word("b", "inv"), flags=flags, pd=i.pdst("pd"))


@lowers("POPC", "UPOPC")
def popc(i: Lowering) -> None:
    i.emit("POPC", i.dst("d"), i.word("b", "inv"))


@lowers("BREV", "UBREV")
def brev(i: Lowering) -> None:
    i.emit("BREV", i.dst("d"), i.word("b"))


@lowers("BMSK", "UBMSK")
def bmsk(i: Lowering) -> None:
    i.emit("BMSK", i.dst("d"), i.word("a"), i.word("b"), flags=u.WRAP if i.flag("W") else 0)


@lowers("SGXT", "USGXT")
def sgxt(i: Lowering) -> None:
    flags = i.mod("sign", SIGN) | (u.WRAP if i.flag("W") else 0)
    i.emit("SGXT", i.dst("d"), i.word("a"), i.word("b"), flags=flags)


@lowers("PLOP3", "UPLOP3")
def plop3(i: Lowering) -> None:
    tables = i.count("lut") | i.count("lut2") << 8
    pd, pd2 = i.pdst("pd"), i.pdst("pd2")
    i.emit("PLOP3", mod=tables, pd=pd, pd2=pd2, p=i.pred("ps"), p2=i.pred("ps2"), p3=i.pred("ps3"))
