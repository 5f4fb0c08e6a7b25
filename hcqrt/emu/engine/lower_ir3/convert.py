"""Conversions between the types of ir3, and the moves that make them.

Two models of what is undecided: a float result of round field 0 is rounded to nearest even, though the field's name is
"zero" (compilers leave it 0 and expect ordinary rounding); denormals are flushed on the f32 and on the f16 side.
"""

from __future__ import annotations

from ....isa.ir3 import Const, Imm, Operand, Reg
from .. import uops as u
from .lowering import Lowering, Source, immediate, lowers
from .registers import A0, A1, A_AND_B, FLOAT, HALF_MASK, INTEGER

FLOATS = {"f16": u.F16, "f32": u.F32}
# A source of 8 bits is signed, whatever its name says: compilers mask where they want zeros.
SOURCES = {"u8": u.I8, "u16": u.U16, "s16": u.I16, "u32": u.U32, "s32": u.I32}
WIDTHS = {"u8": 8, "u16": 16, "s16": 16, "u32": 32, "s32": 32}
# A float becomes 8 bits by way of 16.
RESULTS = {"u8": u.I16, "u16": u.U16, "s16": u.I16, "u32": u.U32, "s32": u.I32}
MASKS = {"u8": 0xFF, "u16": HALF_MASK, "s16": HALF_MASK}
SIGNED = ("u8", "s16", "s32")
ROUND = {"": None, "even": u.RN, "pos_infinity": u.RP, "neg_infinity": u.RM}
TYPES = {name: name for name in (*FLOATS, *WIDTHS)}


def shifted(mode: int) -> int:
    return mode << u.ROUND_SHIFT


def convert(i: Lowering, d: int, a: Source, origin: str, target: str, mode: int | None = None) -> None:
    """d = a of type `origin`, zero-extended, as type `target`, zero-extended. `mode`: rounding, None: the usual one."""
    if origin == target:
        i.emit("MOV", d, a)
    elif target in FLOATS and origin in FLOATS:
        between_floats(i, d, a, target, mode)
    elif target in FLOATS:
        form = FLOATS[target] | SOURCES[origin] << u.FORMAT_SHIFT
        i.emit("I2F", d, a, flags=shifted(u.RN if mode is None else mode), mod=form)
    elif origin in FLOATS:
        float_to_integer(i, d, a, origin, target, mode)
    else:
        between_integers(i, d, a, origin, target)


def between_floats(i: Lowering, d: int, a: Source, target: str, mode: int | None) -> None:
    if target == "f32":
        i.emit("F2F", d, i.flushed(a), mod=u.F32 | u.F16 << u.FORMAT_SHIFT)
        return
    to_half, half = i.temporary()
    flags = u.FTZ | shifted(u.RN if mode is None else mode)
    i.emit("F2F", to_half, a, flags=flags, mod=u.F16 | u.F32 << u.FORMAT_SHIFT)
    i.emit("HADD2", d, half, immediate(0x8000), flags=u.FTZ)


def float_to_integer(i: Lowering, d: int, a: Source, origin: str, target: str, mode: int | None) -> None:
    a = i.flushed(a) if origin == "f16" else a
    form = RESULTS[target] | FLOATS[origin] << u.FORMAT_SHIFT
    flags = u.FTZ | shifted(u.RZ if mode is None else mode)
    if target not in MASKS:
        i.emit("F2I", d, a, flags=flags, mod=form)
        return
    to_wide, wide = i.temporary()
    i.emit("F2I", to_wide, a, flags=flags, mod=form)
    i.emit("LOP3", d, wide, immediate(MASKS[target]), mod=A_AND_B)


def between_integers(i: Lowering, d: int, a: Source, origin: str, target: str) -> None:
    """Widening goes by the sign of the source's type, narrowing keeps the low bits."""
    extends = origin in SIGNED and WIDTHS[origin] < WIDTHS[target]
    narrows = WIDTHS[target] < WIDTHS[origin] or (extends and target in MASKS)
    if extends:
        to_wide, wide = i.temporary()
        i.emit("SGXT", to_wide if narrows else d, a, immediate(WIDTHS[origin]), flags=u.SIGNED)
        a = wide
    if narrows:
        i.emit("LOP3", d, a, immediate(MASKS[target]), mod=A_AND_B)
    elif not extends:
        i.emit("MOV", d, a)


def result(i: Lowering, name: str, half: bool, kind: str) -> int:
    """Where an ALU operation that is 16 bits wide (`half`) writes, for a destination that may be of the other width.

    Then the result is converted as a move of the operation's kind (f, u, s) would: compilers fold such moves into it.
    """
    operand = i.arg(name)
    if not isinstance(operand, Reg) or operand.half == half or operand.number >= 0xF8:
        return i.target(operand)
    narrow, wide = f"{kind}16", f"{kind}32"
    final = i.target(operand)
    d, value = i.temporary()
    i.later(lambda: convert(i, final, value, *((narrow, wide) if half else (wide, narrow))))
    return d


def move_source(i: Lowering, name: str, origin: str) -> Source:
    operand = i.arg(name)
    if isinstance(operand, Const) and operand.half and origin == "f16" and i.setup.constant_demotion:
        raise i.refuse("whether a move of a float type narrows or cuts a constant of the file is not known")
    if getattr(operand, "neg", False) or getattr(operand, "abs", False):
        raise i.refuse(f"operand {name}: neg or abs of a move")
    # An immediate of a move is the bits themselves.
    return i.bare(operand, FLOAT if origin in FLOATS and not isinstance(operand, Imm) else INTEGER)


def types(i: Lowering) -> tuple[str, str, int | None]:
    return i.mod("src_type", TYPES), i.mod("dst_type", TYPES), i.mod("round", ROUND)


@lowers("mov", "cov")
def mov(i: Lowering) -> None:
    origin, target, mode = types(i)
    convert(i, i.target(i.arg("dst")), move_source(i, "src1", origin), origin, target, mode)


@lowers("mova", "mova1")
def mova(i: Lowering) -> None:
    """a0.x is signed, a1.x is not; both have 16 bits and are kept as 32."""
    number, wanted, wide = {"mova": (A0, "s16", "s32"), "mova1": (A1, "u16", "u32")}[i.instruction.opcode]
    origin, target, mode = types(i)
    operand = i.arg("dst")
    if (
        not isinstance(operand, Reg)
        or operand.number != number
        or (origin, target) != (wanted, wanted)
        or mode is not None
    ):
        raise i.refuse(f"from {origin} to {operand!r} of type {target} is not implemented")
    convert(i, number, move_source(i, "src1", origin), wanted, wide)


def multiple(i: Lowering, sources: list[Operand], targets: list[Operand]) -> None:
    """Read and convert everything before anything is written."""
    origin, target, mode = types(i)
    values = []
    for operand in sources:
        d, value = i.temporary()
        if not isinstance(operand, Reg) or operand.neg or operand.abs:
            raise i.refuse(f"operand {operand!r} is no plain register")
        convert(i, d, i.bare(operand, INTEGER), origin, target, mode)
        values.append(value)
    for operand, value in zip(targets, values, strict=True):
        i.emit("MOV", i.target(operand), value)


def following(i: Lowering, name: str, count: int) -> list[Operand]:
    first = i.arg(name)
    if not isinstance(first, Reg):
        raise i.refuse(f"operand {name} = {first!r} is no register")
    return [Reg(first.number + k, first.half) for k in range(count)]


@lowers("swz")
def swz(i: Lowering) -> None:
    multiple(i, [i.arg("src1"), i.arg("src2")], [i.arg("dst1"), i.arg("dst2")])


@lowers("gat")
def gat(i: Lowering) -> None:
    multiple(i, [i.arg(f"src{k}") for k in (1, 2, 3, 4)], following(i, "dst", 4))


@lowers("sct")
def sct(i: Lowering) -> None:
    multiple(i, following(i, "src1", 4), [i.arg(f"dst{k}") for k in (1, 2, 3, 4)])


@lowers("movmsk")
def movmsk(i: Lowering) -> None:
    """The mask of active fibres, 32 of them in each register."""
    width = i.number("w")
    for name in ("src_type", "dst_type"):
        i.mod(name, {"u32": None})
    if width not in (32, 64, 96, 128):
        raise i.refuse(f"modifier w = {width} is not implemented")
    for word, operand in enumerate(following(i, "dst", width // 32)):
        i.emit("VOTE", i.target(operand), imm=word, mod=u.VOTE_ANY, p=(u.PT, False))
