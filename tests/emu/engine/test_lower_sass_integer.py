"""Integer and predicate instructions, executed and compared with Python's integers lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from sass_warp import UP, UR, P, R, Warp, ins, run

from hcqrt.isa.sass import Barrier, Const, Imm, Instruction, Operand, Pred, Reg, SpecialReg, Target, UPred

RNG = np.random.default_rng(1)
EDGES = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x10000]
A = np.array([*EDGES, *RNG.integers(0, 1 << 32, 24)], np.uint64)
B = np.array([*reversed(EDGES), *RNG.integers(0, 1 << 32, 24)], np.uint64)
C = np.array([*EDGES[4:], *EDGES[:4], *RNG.integers(0, 1 << 32, 24)], np.uint64)
BITS = RNG.integers(0, 2, 32).astype(bool)
MASK = 0xFFFFFFFF
REGISTERS = {2: A, 3: B, 4: C, 5: B[::-1]}


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (x >> (bits - 1) << bits)


def check(
    instructions: Instruction | Sequence[Instruction],
    results: Sequence[Operand],
    expected: Callable[..., Any],
    warp: Warp | None = None,
) -> None:
    """`expected(a, b, c, bit)` gives the results of one lane, from R2, R3, R4 and P0."""
    warp = warp or Warp(REGISTERS, {0: BITS}, {4: 0x12345678, 5: 3}, {1: True, 2: False})
    code = [instructions] if isinstance(instructions, Instruction) else list(instructions)
    got = run(warp, code, results)
    for lane in range(32):
        wanted = expected(int(A[lane]), int(B[lane]), int(C[lane]), bool(BITS[lane]))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        assert [int(row[lane]) for row in got] == [int(w) & MASK for w in wanted], f"lane {lane}"


def test_mov_takes_every_kind_of_source() -> None:
    sources: list[tuple[int, Operand, Callable[..., int]]] = [
        (0x202, R[3], lambda a, b, c, p: b),
        (0x802, Imm(0xDEADBEEF), lambda a, b, c, p: 0xDEADBEEF),
        (0xA02, Const(0, 0x104), lambda a, b, c, p: 0x07060504),
        (0xC02, UR[4], lambda a, b, c, p: 0x12345678),
        (0x202, R[255], lambda a, b, c, p: 0),
        (0xC02, UR[63], lambda a, b, c, p: 0),
    ]
    for opcode, source, expected in sources:
        warp = Warp(REGISTERS, {0: BITS}, {4: 0x12345678}, constants=bytes(range(16)))
        check(ins("MOV", opcode, d=R[8], b=source), [R[8]], expected, warp)


@pytest.mark.parametrize("neg", [False, True])
def test_sel_picks_by_the_predicate(neg: bool) -> None:
    check(ins("SEL", 0x207, d=R[8], a=R[2], b=R[3], ps=Pred(0, neg)), [R[8]], lambda a, b, c, p: a if p != neg else b)


@pytest.mark.parametrize("cmp", ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"])
@pytest.mark.parametrize("sign", ["", "U32"])
@pytest.mark.parametrize("combine", ["AND", "OR", "XOR"])
def test_isetp_compares_and_combines(cmp: str, sign: str, combine: str) -> None:
    def expected(a: int, b: int, c: int, p: bool) -> tuple[bool, bool]:
        x, y = (a, b) if sign else (signed(a), signed(b))
        holds = {
            "F": False,
            "LT": x < y,
            "EQ": x == y,
            "LE": x <= y,
            "GT": x > y,
            "NE": x != y,
            "GE": x >= y,
            "T": True,
        }
        join = {"AND": bool.__and__, "OR": bool.__or__, "XOR": bool.__xor__}[combine]
        return join(holds[cmp], p), join(not holds[cmp], p)

    one = ins("ISETP", 0x20C, pd=P[1], pd2=P[2], a=R[2], b=R[3], ps=P[0], cmp=cmp, sign=sign, bool=combine)
    check(one, [P[1], P[2]], expected)


@pytest.mark.parametrize("cmp", ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"])
@pytest.mark.parametrize("sign", ["", "U32"])
def test_isetp_ex_finishes_a_64_bit_comparison(cmp: str, sign: str) -> None:
    def expected(a: int, b: int, c: int, p: bool) -> bool:
        x, y = a << 32 | c, b << 32 | b_low(c)
        x, y = (x, y) if sign else (signed(x, 64), signed(y, 64))
        return {
            "F": False,
            "LT": x < y,
            "EQ": x == y,
            "LE": x <= y,
            "GT": x > y,
            "NE": x != y,
            "GE": x >= y,
            "T": True,
        }[cmp]

    def b_low(c: int) -> int:
        return (c * 3) & MASK

    code = [
        ins("IMAD", 0x824, d=R[9], a=R[4], b=Imm(3)),
        ins("ISETP", 0x20C, pd=P[1], a=R[4], b=R[9], cmp=cmp, sign="U32"),
        ins("ISETP", 0x20C, pd=P[1], a=R[2], b=R[3], ps3=P[1], cmp=cmp, sign=sign, EX=True),
    ]
    check(code, [P[1]], expected)


@pytest.mark.parametrize(
    "negs", [(False, False, False), (True, False, False), (False, True, False), (False, True, True)]
)
def test_iadd3_gives_both_carries(negs: tuple[bool, bool, bool]) -> None:
    def expected(a: int, b: int, c: int, p: bool) -> tuple[int, bool, bool]:
        total = sum(((x ^ MASK) + 1) if n else x for x, n in zip((a, b, c), negs, strict=True))
        return total, total >= 1 << 32, total >= 1 << 33

    sources = [Reg(i, neg=n) for i, n in zip((2, 3, 4), negs, strict=True)]
    one = ins("IADD3", 0x210, d=R[8], pd=P[1], pd2=P[2], **dict(zip("abc", sources, strict=True)))
    check(one, [R[8], P[1], P[2]], expected)


def test_iadd3_x_adds_both_carries_and_inverts() -> None:
    def expected(a: int, b: int, c: int, p: bool) -> tuple[int, bool, bool]:
        total = a + (b ^ MASK) + c + p + (not p)
        return total, total >= 1 << 32, total >= 1 << 33

    one = ins(
        "IADD3",
        0x210,
        d=R[8],
        pd=P[1],
        pd2=P[2],
        a=R[2],
        b=Reg(3, inv=True),
        c=R[4],
        ps=P[0],
        ps2=Pred(0, True),
        X=True,
    )
    check(one, [R[8], P[1], P[2]], expected)


@pytest.mark.parametrize("shift", [0, 1, 4, 31])
@pytest.mark.parametrize(("a_neg", "b_neg"), [(False, False), (True, False), (False, True)])
def test_lea_shifts_and_adds(shift: int, a_neg: bool, b_neg: bool) -> None:
    def expected(a: int, b: int, c: int, p: bool) -> tuple[int, bool]:
        shifted = a << shift & MASK
        total = ((shifted ^ MASK) + 1 if a_neg else shifted) + ((b ^ MASK) + 1 if b_neg else b)
        return total, total >= 1 << 32

    one = ins("LEA", 0x211, d=R[8], pd=P[1], a=Reg(2, neg=a_neg), b=Reg(3, neg=b_neg), shift=shift)
    check(one, [R[8], P[1]], expected)


@pytest.mark.parametrize("shift", [0, 1, 4, 31])
def test_lea_hi_takes_the_high_word(shift: int) -> None:
    def high(a: int, b: int, c: int, p: bool) -> int:
        return ((c << 32 | a) << shift >> 32) + b

    def carried(a: int, b: int, c: int, p: bool) -> tuple[int, bool]:
        total = (((c << 32 | a) << shift >> 32) & MASK) + b + p
        return total, total >= 1 << 32

    def extended(a: int, b: int, c: int, p: bool) -> int:
        return (signed(a) << shift >> 32) + b

    check(ins("LEA", 0x211, d=R[8], a=R[2], b=R[3], c=R[4], shift=shift, HI=True), [R[8]], high)
    with_carry = ins("LEA", 0x211, d=R[8], pd=P[1], a=R[2], b=R[3], c=R[4], ps=P[0], shift=shift, HI=True, X=True)
    check(with_carry, [R[8], P[1]], carried)
    check(ins("LEA", 0x211, d=R[8], a=R[2], b=R[3], shift=shift, HI=True, SX32=True), [R[8]], extended)


@pytest.mark.parametrize("lut", [0xC0, 0xFC, 0x3C, 0x96, 0xE8, 0x01, 0xAA])
def test_lop3_looks_every_bit_up(lut: int) -> None:
    def expected(a: int, b: int, c: int, p: bool) -> tuple[int, bool]:
        bits = [lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1 for i in range(32)]
        value = sum(bit << i for i, bit in enumerate(bits))
        return value, value != 0

    one = ins("LOP3", 0x212, d=R[8], pd=P[1], a=R[2], b=R[3], c=R[4], lut=lut, ps=Pred(7, True))
    check(one, [R[8], P[1]], expected)


def test_iabs_and_minmax() -> None:
    check(ins("IABS", 0x213, d=R[8], b=R[3]), [R[8]], lambda a, b, c, p: abs(signed(b)))
    check(ins("IMNMX", 0x217, d=R[8], a=R[2], b=R[3], ps=P[0]), [R[8]],
          lambda a, b, c, p: (min if p else max)(signed(a), signed(b)))  # fmt: skip
    check(
        ins("IMNMX", 0x217, d=R[8], a=R[2], b=R[3], ps=Pred(7, True), sign="U32"), [R[8]], lambda a, b, c, p: max(a, b)
    )


@pytest.mark.parametrize("selector", [0x3210, 0x7654, 0xBBBB, 0x4432, 0xF1A0, 0x0000, 0x8888])
def test_prmt_picks_bytes_and_signs(selector: int) -> None:
    def expected(a: int, b: int, c: int, p: bool) -> int:
        data = (c << 32 | a).to_bytes(8, "little")
        picked = []
        for i in range(4):
            nibble = selector >> 4 * i & 15
            byte = data[nibble & 7]
            picked.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        return int.from_bytes(bytes(picked), "little")

    check(ins("PRMT", 0x816, d=R[8], a=R[2], b=Imm(selector), c=R[4]), [R[8]], expected)


PRMT_MODES = {  # PTX ISA, prmt: bytes of the result from most to least significant, for selector 0..3
    "F4E": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "B4E": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "RC8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ECL": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ECR": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "RC16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}


@pytest.mark.parametrize("mode", PRMT_MODES)
def test_prmt_modes(mode: str) -> None:
    def expected(a: int, b: int, c: int, p: bool) -> int:
        data = (c << 32 | a).to_bytes(8, "little")
        return int.from_bytes(bytes(data[i] for i in PRMT_MODES[mode][b & 3]), "big")

    check(ins("PRMT", 0x216, d=R[8], a=R[2], b=R[3], c=R[4], mode=mode), [R[8]], expected)


SHIFTS = np.array([0, 1, 5, 31, 32, 33, 63, 64, 65, 100, 255, *RNG.integers(0, 64, 21)], np.uint64)


@pytest.mark.parametrize("direction", ["L", "R"])
@pytest.mark.parametrize("kind", ["S64", "U64", "S32", "U32"])
@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize("wrap", [False, True])
def test_shf(direction: str, kind: str, high: bool, wrap: bool) -> None:
    def expected(lane: int) -> int:
        width = int(kind[1:])
        count = int(SHIFTS[lane])
        count = count % width if wrap else min(count, width)
        value = int(C[lane]) << 32 | int(A[lane])
        if direction == "L":
            value <<= count
        else:
            value = (signed(value, 64) if kind[0] == "S" else value) >> count
        return value >> 32 & MASK if high else value & MASK

    one = ins("SHF", 0x219, d=R[8], a=R[2], b=R[3], c=R[4], dir=direction, type=kind, HI=high, W=wrap)
    (got,) = run(Warp({2: A, 3: SHIFTS, 4: C}), [one], [R[8]])
    assert [int(x) for x in got] == [expected(lane) for lane in range(32)]


@pytest.mark.parametrize("sign", ["", "U32"])
def test_imad_low_wide_and_high(sign: str) -> None:
    def number(x: int) -> int:
        return x if sign else signed(x)

    def wide(a: int, b: int, c: int, p: bool, carry: int = 0) -> int:
        return (number(a) * number(b) & (1 << 64) - 1) + (c << 32 | b) + carry

    def pair(a: int, b: int, c: int, p: bool) -> tuple[int, int, bool]:
        total = wide(a, b, c, p)
        return total & MASK, total >> 32 & MASK, total >= 1 << 64

    def carried(a: int, b: int, c: int, p: bool) -> tuple[int, int, bool]:
        total = wide(a, b, c, p, int(p))
        return total & MASK, total >> 32 & MASK, total >= 1 << 64

    move = [ins("MOV", 0x202, d=R[10], b=R[3]), ins("MOV", 0x202, d=R[11], b=R[4])]
    check(ins("IMAD", 0x224, d=R[8], a=R[2], b=R[3], c=R[4], sign=sign), [R[8]], lambda a, b, c, p: a * b + c)
    check(
        ins("IMAD", 0x224, d=R[8], a=R[2], b=R[3], c=Reg(4, neg=True), sign=sign), [R[8]], lambda a, b, c, p: a * b - c
    )
    check(ins("IMAD", 0x224, d=R[8], a=R[2], b=R[3], c=R[4], ps=P[0], X=True, sign=sign), [R[8]],
          lambda a, b, c, p: a * b + c + p)  # fmt: skip
    check(
        [*move, ins("IMAD.WIDE", 0x225, d=R[8], pd=P[1], a=R[2], b=R[3], c=R[10], sign=sign)], [R[8], R[9], P[1]], pair
    )
    check([*move, ins("IMAD.WIDE", 0x225, d=R[8], pd=P[1], a=R[2], b=R[3], c=R[10], ps=P[0], X=True, sign=sign)],
          [R[8], R[9], P[1]], carried)  # fmt: skip
    check([*move, ins("IMAD.HI", 0x227, d=R[8], pd=P[1], a=R[2], b=R[3], c=R[10], sign=sign)], [R[8], P[1]],
          lambda a, b, c, p: pair(a, b, c, p)[1:])  # fmt: skip


def test_flo_brev_popc() -> None:
    def leading(x: int) -> int:
        return x.bit_length() - 1

    check(ins("FLO", 0x300, d=R[8], pd=P[1], b=R[2], sign="U32"), [R[8], P[1]], lambda a, b, c, p: (leading(a), a != 0))
    check(ins("FLO", 0x300, d=R[8], b=Reg(2, inv=True), sign="U32"), [R[8]], lambda a, b, c, p: leading(a ^ MASK))
    check(ins("FLO", 0x300, d=R[8], b=R[2], sign=""), [R[8]],
          lambda a, b, c, p: leading(a if signed(a) >= 0 else a ^ MASK))  # fmt: skip
    check(ins("FLO", 0x300, d=R[8], b=R[2], sign="U32", SH=True), [R[8]],
          lambda a, b, c, p: 31 - leading(a) if a else -1)  # fmt: skip
    check(ins("BREV", 0x301, d=R[8], b=R[2]), [R[8]], lambda a, b, c, p: int(f"{a:032b}"[::-1], 2))
    check(ins("POPC", 0x309, d=R[8], b=R[2]), [R[8]], lambda a, b, c, p: bin(a).count("1"))
    check(ins("POPC", 0x309, d=R[8], b=Reg(2, inv=True)), [R[8]], lambda a, b, c, p: 32 - bin(a).count("1"))


@pytest.mark.parametrize("wrap", [False, True])
def test_bmsk_and_sgxt(wrap: bool) -> None:
    def count(n: int) -> int:
        return n % 32 if wrap else min(n, 32)

    def mask(lane: int) -> int:
        return ((1 << count(int(widths[lane]))) - 1) << count(int(SHIFTS[lane])) & MASK

    def extend(lane: int, unsigned: bool) -> int:
        width, value = count(int(widths[lane])), int(A[lane])
        low = value & (1 << width) - 1
        return low & MASK if unsigned or width == 0 else signed(low, width) & MASK

    widths = SHIFTS[::-1]
    warp = Warp({2: SHIFTS, 3: widths, 4: A})
    code = [
        ins("BMSK", 0x21B, d=R[8], a=R[2], b=R[3], W=wrap),
        ins("SGXT", 0x21A, d=R[9], a=R[4], b=R[3], W=wrap),
        ins("SGXT", 0x21A, d=R[10], a=R[4], b=R[3], W=wrap, sign="U32"),
    ]
    got = run(warp, code, [R[8], R[9], R[10]])
    lanes = range(32)
    wanted = [[mask(i) for i in lanes], [extend(i, False) for i in lanes], [extend(i, True) for i in lanes]]
    assert [[int(x) for x in row] for row in got] == wanted


@pytest.mark.parametrize(("sign_a", "sign_b"), [("U8", "U8"), ("S8", "S8"), ("U8", "S8")])
def test_idp_multiplies_bytes(sign_a: str, sign_b: str) -> None:
    def parts(x: int, sign: str) -> list[int]:
        return [byte if sign == "U8" else signed(byte, 8) for byte in x.to_bytes(4, "little")]

    one = ins("IDP.4A", 0x226, d=R[8], a=R[2], b=R[3], c=R[4], sign_a=sign_a, sign_b=sign_b)
    check(
        one, [R[8]], lambda a, b, c, p: sum(x * y for x, y in zip(parts(a, sign_a), parts(b, sign_b), strict=True)) + c
    )


@pytest.mark.parametrize("lut", [0xC0, 0xAA, 0x96, 0x80, 0x1D])
def test_plop3_takes_vector_and_uniform_predicates(lut: int) -> None:
    def look(x: bool, y: bool, z: bool) -> bool:
        return bool(lut >> (x << 2 | y << 1 | z) & 1)

    for third, value in ((UP[1], True), (UP[2], False), (UPred(2, True), True), (Pred(7, True), False)):
        one = ins("PLOP3", 0x81C, pd=P[1], pd2=P[2], ps=P[0], ps2=Pred(0, True), ps3=third, lut=lut, lut2=lut ^ 0xFF)
        check(one, [P[1], P[2]],
              lambda a, b, c, p, value=value: (look(p, not p, value), not look(p, not p, value)))  # fmt: skip


def test_the_uniform_datapath_mirrors_the_vector_one() -> None:
    values = {4: 0xFFFFFFF0, 5: 0x20, 6: 7, 7: 0x80000001}
    warp = Warp({2: A}, uniforms=values, uniform_predicates={1: True, 2: False})
    code = [
        ins("UIADD3", 0x290, d=UR[10], pd=UP[3], a=UR[4], b=UR[5]),
        ins("UIADD3", 0x290, d=UR[11], a=UR[6], b=UR[63], ps=UP[3], ps2=UPred(7, True), X=True),
        ins("ULEA", 0x291, d=UR[12], pd=UP[4], a=UR[7], b=UR[5], shift=2),
        ins("UIMAD.WIDE", 0x2A5, d=UR[14], a=UR[7], b=UR[5], c=UR[6], sign="U32"),
        ins("USHF", 0x899, d=UR[16], a=UR[7], b=Imm(4), c=UR[6], dir="L", type="U64", HI=True, W=True),
        ins("ULOP3", 0x292, d=UR[17], a=UR[4], b=UR[7], c=UR[6], lut=0x96, ps=UPred(7, True)),
        ins("UISETP", 0x28C, pd=UP[5], a=UR[7], b=UR[6], cmp="LT"),
        ins("USEL", 0x287, d=UR[18], a=UR[4], b=UR[5], ps=UP[5]),
        ins("UPRMT", 0x896, d=UR[19], a=UR[7], b=Imm(0xBBBB)),
        ins("UFLO", 0x2BD, d=UR[20], b=UR[5], sign="U32"),
        ins("UPLOP3", 0x89C, pd=UP[6], ps=UP[1], ps2=UP[2], ps3=UP[3], lut=0x96),
        ins("UMOV", 0xC82, d=UR[21], b=UR[7]),
        ins("R2UR", 0x3C2, d=UR[22], a=R[4]),
    ]
    code.insert(0, ins("MOV", 0x802, d=R[4], b=Imm(77)))
    results = [
        UR[10],
        UR[11],
        UR[12],
        UR[14],
        UR[15],
        UR[16],
        UR[17],
        UR[18],
        UR[19],
        UR[20],
        UP[6],
        UR[21],
        UR[22],
        UP[4],
    ]
    got = run(warp, code, results)
    wide = 0x80000001 * 0x20 + (0x80000001 << 32 | 7)
    wanted = [
        0x10, 8, 0x24, wide & MASK, wide >> 32, 0x78, 0xFFFFFFF0 ^ 0x80000001 ^ 7, 0xFFFFFFF0, 0xFFFFFFFF, 5,
        (True ^ False ^ True), 0x80000001, 77, False,
    ]  # fmt: skip
    for row, want, result in zip(got, wanted, results, strict=True):
        assert set(map(int, row)) == {int(want)}, result


def test_a_guard_keeps_lanes_out() -> None:
    code = [ins("MOV", 0x202, d=R[8], b=R[3]), ins("MOV", 0x202, guard=P[0], d=R[8], b=R[2])]
    check(code, [R[8]], lambda a, b, c, p: a if p else b)
    code = [
        ins("MOV", 0x202, d=R[8], b=R[3]),
        ins("IMAD.WIDE", 0x225, guard=Pred(0, True), d=R[8], a=R[2], b=R[3], sign="U32"),
    ]
    check(code, [R[8]], lambda a, b, c, p: b if p else a * b)


def test_special_registers() -> None:
    codes = (0x00, 0x21, 0x22, 0x23, 0x25, 0x38, 0x39, 0x3A, 0x3B, 0x3C, 0xFF)
    code = [ins("S2R", 0x919, d=R[8 + i], sr=SpecialReg(sr)) for i, sr in enumerate(codes)]
    code.append(ins("S2UR", 0x9C3, d=UR[3], sr=SpecialReg(0x25)))
    code.append(ins("CS2R", 0x805, d=R[30], sr=SpecialReg(0xFF), width="32"))
    got = run(Warp(), code, [*(R[8 + i] for i in range(len(codes))), UR[3], R[30]])
    for n in range(32):
        low = (1 << n) - 1
        wanted = [n, n, 0, 0, 0, 1 << n, low, low | 1 << n, MASK ^ low ^ 1 << n, MASK ^ low, 0, 0, 0]
        assert [int(row[n]) for row in got] == wanted


def test_vote_counts_lanes() -> None:
    mask = sum(int(bit) << lane for lane, bit in enumerate(BITS))
    code = [
        ins("VOTE", 0x806, d=R[8], pd=P[1], ps=P[0], op="ANY"),
        ins("VOTE", 0x806, d=R[9], pd=P[2], ps=P[0], op="ALL"),
        ins("VOTE", 0x806, pd=P[3], ps=P[7], op="EQ"),
        ins("VOTEU", 0x886, d=UR[9], pd=UP[3], ps=P[0], op="ANY"),
    ]
    check(
        code,
        [R[8], P[1], R[9], P[2], P[3], UR[9], UP[3]],
        lambda a, b, c, p: (mask, True, mask, False, True, mask, True),
    )


def shuffled(op: str, lane: int, by: int, clamp: int, segment: int) -> tuple[int, bool]:
    """(source lane, in range) after the PTX ISA's definition of shfl."""
    top = (lane & segment) | (clamp & ~segment & 31)
    least = lane & segment
    source = {"UP": lane - by, "DOWN": lane + by, "BFLY": lane ^ by, "IDX": least | (by & ~segment & 31)}[op]
    valid = source >= top if op == "UP" else source <= top
    return (source if valid else lane), valid


@pytest.mark.parametrize("op", ["IDX", "UP", "DOWN", "BFLY"])
@pytest.mark.parametrize("width", [32, 8])
def test_shfl(op: str, width: int) -> None:
    segment = 32 - width
    clamp = 0 if op == "UP" else 31
    by = 3
    one = ins("SHFL", 0xF89, d=R[8], pd=P[1], a=R[2], b=by, c=segment << 8 | clamp, op=op)
    got = run(Warp({2: A, 3: by, 4: segment << 8 | clamp}), [one], [R[8], P[1]])
    registers = ins("SHFL", 0x389, d=R[8], pd=P[1], a=R[2], b=R[3], c=R[4], op=op)
    again = run(Warp({2: A, 3: by, 4: segment << 8 | clamp}), [registers], [R[8], P[1]])
    for lane in range(32):
        source, valid = shuffled(op, lane, by, clamp, segment)
        assert (int(got[0][lane]), bool(got[1][lane])) == (int(A[source]), valid)
    assert np.array_equal(got, again)


def test_bssy_rejoins_and_branches_follow_the_guard() -> None:
    code = [
        ins("MOV", 0x802, d=R[8], b=Imm(1)),
        ins("BMOV", 0x355, d=R[255], barrier=Barrier(0), CLEAR=True),
        ins("BSSY", 0x945, barrier=Barrier(0), target=Target(48)),
        ins("BRA", 0x947, guard=P[0], target=Target(16)),
        ins("MOV", 0x802, d=R[8], b=Imm(2)),
        ins("BSYNC", 0x941, barrier=Barrier(0)),
        ins("VOTE", 0x806, d=R[9], ps=P[7], op="ALL"),
    ]
    check(code, [R[8], R[9]], lambda a, b, c, p: (1 if p else 2, MASK))


def test_a_loop_of_different_lengths_ends_for_every_lane() -> None:
    code = [
        ins("MOV", 0x802, d=R[8], b=Imm(0)),
        ins("IADD3", 0x810, d=R[8], a=R[8], b=Imm(2)),
        ins("IADD3", 0x810, d=R[9], a=R[9], b=Imm(0xFFFFFFFF)),
        ins("ISETP", 0x20C, pd=P[1], a=R[9], b=R[255], cmp="NE"),
        ins("BRA", 0x947, guard=P[1], target=Target(-64)),
    ]
    (got,) = run(Warp({9: range(1, 33)}), code, [R[8]])
    assert [int(x) for x in got] == [2 * n for n in range(1, 33)]
