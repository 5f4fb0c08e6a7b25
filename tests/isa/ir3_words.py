"""ir3 words composed field by field from the encoding of each category, and the operands they hold."""

from __future__ import annotations

from hcqrt.isa.ir3 import Const, ConstDst, FloatImm, Imm, Operand, Pred, Reg, Relative, Scaled, Target


def word(*fields: tuple[int, int]) -> int:
    """A word from (lowest bit, value) pairs."""
    return sum(value << lsb for lsb, value in fields)


DECODED: list[tuple[int, str, dict[str, Operand]]] = [
    (
        word((61, 2), (53, 16), (52, 1), (32, 14), (0, 13), (12 + 16, 2 - 1), (16, 7)),
        "add.u",
        {"dst": Reg(14), "src1": Reg(13), "src2": Const(7)},
    ),
    (
        word((61, 2), (53, 5), (48, 3), (32, 0xF8), (0, 9), (16, 0x2C02)),
        "cmps.f",
        {"dst": Reg(0xF8), "src1": Reg(9, half=True), "src2": FloatImm(2, half=True)},
    ),
    (
        word((61, 2), (53, 30), (52, 1), (46, 1), (32, 3), (0, 0x27FE)),
        "not.b",
        {"dst": Reg(3, half=True), "src1": Imm(-2)},
    ),
    (
        word((61, 2), (53, 0), (52, 1), (0, 0xC000 | 5), (16, 0x4801)),
        "add.f",
        {"dst": Reg(0), "src1": Reg(5, neg=True, abs=True), "src2": Relative(1, neg=True)},
    ),
    (
        word((61, 2), (53, 0), (52, 1), (40, 2), (43, 1), (0, 1), (16, 0x0FFF)),
        "add.f",
        {"dst": Reg(0), "src1": Reg(1, r=True), "src2": Relative(-1, const=True)},
    ),
    (
        word((61, 3), (55, 6), (46, 1), (32, 2), (0, 0x1004), (14, 1), (47, 5), (16, 6)),
        "mad.f16",
        {"dst": Reg(2), "src1": Const(4, half=True, neg=True), "src2": Reg(5, half=True), "src3": Reg(6, half=True)},
    ),
    (
        word((61, 3), (55, 10), (13, 1), (42, 1), (0, 0x1FFF), (47, 5), (16, 6), (31, 1)),
        "shrg",
        {"dst": Reg(0), "src1": Imm(4095), "src2": Reg(5), "src3": Reg(6, neg=True)},
    ),
    (word((61, 4), (53, 1), (52, 1), (46, 1), (0, 3)), "rsq", {"dst": Reg(0, half=True), "src1": Reg(3)}),
    (word((61, 1), (46, 5), (50, 2), (32, 6), (0, 1)), "cov", {"dst": Reg(6), "src1": Reg(1, half=True)}),
    (word((61, 1), (46, 1), (50, 1), (53, 2), (0, 0x3F800001)), "mov", {"dst": Reg(0), "src1": Imm(0x3F800001, "f32")}),
    (
        word((61, 1), (46, 4), (50, 4), (32, 0xF4), (0, 3)),
        "mova",
        {"dst": Reg(0xF4, half=True), "src1": Reg(3, half=True)},
    ),
    (
        word((61, 1), (46, 3), (50, 3), (49, 1), (32, 200), (0, 0x800 | 0x3FE)),
        "mov",
        {"dst": Relative(200), "src1": Relative(-2)},
    ),
    (
        word((61, 1), (57, 2), (46, 3), (50, 3), (32, 1), (16, 2), (8, 4), (0, 3)),
        "swz",
        {"dst1": Reg(1), "dst2": Reg(2), "src1": Reg(3), "src2": Reg(4)},
    ),
    (
        word((55, 1), (37, 1), (52, 1), (53, 2), (46, 3), (0, 0xFFFFFFFB)),
        "brao",
        {"pred1": Pred(2, inv=True), "pred2": Pred(3), "target": Target(-5)},
    ),
    (
        word((61, 6), (0, 1), (1, 0x1FFC), (14, 8), (23, 1), (24, 3), (49, 2), (32, 4)),
        "ldg",
        {"dst": Reg(4, half=True), "addr": Reg(8)},
    ),
    (
        word((61, 6), (54, 4), (23, 1), (40, 1), (1, 7), (32, 0xFC), (9, 0x1F), (41, 9), (24, 2), (49, 0)),
        "stl",
        {"addr": Reg(9), "src": Reg(7, half=True)},
    ),
    (
        word((61, 6), (0, 1), (22, 3), (1, 5), (9, 2), (12, 1), (14, 4), (24, 1), (49, 3)),
        "ldg.a",
        {"dst": Reg(0), "addr": Reg(4), "index": Scaled(5, 1, 2)},
    ),
    (
        word((61, 6), (54, 16), (0, 1), (49, 3), (14, 5), (24, 6), (23, 1), (32, 2)),
        "atomic.add",
        {"dst": Reg(2), "addr": Reg(5), "src": Imm(6)},
    ),
    (
        word((61, 6), (54, 28), (23, 1), (1, 5), (24, 3), (32, 0x107), (49, 1)),
        "stc",
        {"dst": ConstDst(7, a1=True), "src": Reg(5)},
    ),
    (
        word((61, 6), (52, 2), (20, 6), (14, 0x1D), (9, 1), (11, 1), (12, 3), (49, 0), (24, 5), (32, 6), (41, 9)),
        "stib.b",
        {"value": Reg(6, half=True), "coord": Reg(5), "slot": Imm(9)},
    ),
]
