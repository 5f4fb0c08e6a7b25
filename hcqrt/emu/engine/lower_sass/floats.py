"""Float instructions on f32 and f64."""

from __future__ import annotations

from .. import uops as u
from .integer import BOOLEAN
from .lowering import Lowering, PredSource, Source, lowers

ROUND = {name: mode << u.ROUND_SHIFT for name, mode in (("", u.RN), ("RM", u.RM), ("RP", u.RP), ("RZ", u.RZ))}
SCALE = {"": 0, "D2": -1, "D4": -2, "D8": -3, "M2": 1, "M4": 2, "M8": 3}
ORDERED = ("LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU")
# DSETP prints values 0 and 15 as MIN and MAX, whose meaning is not known.
DOUBLE_COMPARE = {name: number for number, name in enumerate(ORDERED, start=1)}
COMPARE = {"F": u.C_F, **DOUBLE_COMPARE, "T": 15}
FUNCTIONS = {
    "COS": u.MUFU_COS, "SIN": u.MUFU_SIN, "EX2": u.MUFU_EX2, "LG2": u.MUFU_LG2, "RCP": u.MUFU_RCP, "RSQ": u.MUFU_RSQ,
    "SQRT": u.MUFU_SQRT, "TANH": u.MUFU_TANH,
}  # fmt: skip
SIGN_BIT, MAGNITUDE = 0x80000000, 0x7FFFFFFF
A_AND_B, A_OR_B, A_XOR_B = 0xC0, 0xFC, 0x3C  # LOP3 tables


def flush(i: Lowering) -> int:
    return u.FTZ if i.flag("FTZ") else 0


def arithmetic(i: Lowering) -> int:
    """Flags of FTZ, SAT and the rounding direction."""
    return flush(i) | (u.SAT if i.flag("SAT") else 0) | i.mod("round", ROUND)


@lowers("FADD")
def fadd(i: Lowering) -> None:
    i.no_effect("unused")  # a register field that a sum of two does not read
    i.emit("FADD", i.dst("d"), i.single("a"), i.single("b"), flags=arithmetic(i))


@lowers("FMUL")
def fmul(i: Lowering) -> None:
    i.no_effect("unused")
    i.unset("FMZ")
    i.emit("FMUL", i.dst("d"), i.single("a"), i.single("b"), flags=arithmetic(i), imm=i.mod("scale", SCALE))


@lowers("FFMA")
def ffma(i: Lowering) -> None:
    i.unset("FMZ")
    i.emit("FFMA", i.dst("d"), i.single("a"), i.single("b"), i.single("c"), flags=arithmetic(i))


@lowers("FMNMX")
def fmnmx(i: Lowering) -> None:
    i.no_effect("unused", "IS_A")
    i.no_pred("pd")  # IS_A: which of the two it was
    i.unset("XORSIGN")
    flags = flush(i) | (u.NAN_WINS if i.flag("NAN") else 0)
    i.emit("FMNMX", i.dst("d"), i.single("a"), i.single("b"), flags=flags, p=i.pred("ps"))


def plain(i: Lowering, source: Source) -> Source:
    """The word after its float modifiers, for an op that has none."""
    for wanted, table, mask in ((source.abs, A_AND_B, MAGNITUDE), (source.neg, A_XOR_B, SIGN_BIT)):
        if wanted:
            d, changed = i.temporary()
            i.emit("LOP3", d, source._replace(neg=False, abs=False), Source(u.IMM, mask), mod=table)
            source = changed._replace(neg=source.neg and table == A_AND_B)
    return source


@lowers("FSEL")
def fsel(i: Lowering) -> None:
    i.unset("FTZ")
    i.emit("SEL", i.dst("d"), plain(i, i.single("a")), plain(i, i.single("b")), p=i.pred("ps"))


def compare(i: Lowering, op: str, conditions: dict[str, int], a: Source, b: Source, flags: int) -> None:
    mod = i.mod("cmp", conditions) | i.mod("bool", BOOLEAN)
    pd, pd2 = i.pdst("pd"), i.pdst("pd2")
    i.emit(op, u.NO_REG, a, b, flags=flags, mod=mod, pd=pd, pd2=pd2, p=i.pred("ps"))


@lowers("FSETP")
def fsetp(i: Lowering) -> None:
    compare(i, "FSETP", COMPARE, i.single("a"), i.single("b"), flush(i))


@lowers("DSETP")
def dsetp(i: Lowering) -> None:
    compare(i, "DSETP", DOUBLE_COMPARE, i.double("a"), i.double("b"), 0)


@lowers("FSET")
def fset(i: Lowering) -> None:
    flags = flush(i) | i.mod("result", {"BF": u.SAT}, absent="BF")
    mod = i.mod("cmp", COMPARE) | i.mod("bool", BOOLEAN)
    p: PredSource = i.pred("ps")
    i.emit("FSET", i.dst("d"), i.single("a"), i.single("b"), flags=flags, mod=mod, p=p)


@lowers("MUFU")
def mufu(i: Lowering) -> None:
    """Flushes denormals though the word has no FTZ: where PTX keeps them (ex2.approx), compilers scale around MUFU."""
    i.mod("type", {"": None}, absent="")
    i.emit("MUFU", i.dst("d"), i.single("b"), mod=i.mod("op", FUNCTIONS), flags=u.FTZ)


@lowers("DADD", "DMUL")
def dadd_dmul(i: Lowering) -> None:
    i.emit(i.instruction.mnemonic, i.dst("d", 2), i.double("a"), i.double("b"), flags=i.mod("round", ROUND))


@lowers("DFMA")
def dfma(i: Lowering) -> None:
    i.emit("DFMA", i.dst("d", 2), i.double("a"), i.double("b"), i.double("c"), flags=i.mod("round", ROUND))
