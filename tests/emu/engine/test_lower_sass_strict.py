"""Lowering refuses what it does not consume, with opcode, mnemonic, pc and value in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from sass_warp import UR, P, R, ins

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.lower_sass import LoweringError, lower, mnemonics
from hcqrt.emu.engine.lower_sass.lowering import HANDLERS, Lowering
from hcqrt.emu.engine.verify import verify
from hcqrt.isa.sass import (
    Const,
    Imm,
    Instruction,
    Mem,
    Operand,
    Pred,
    Reg,
    SassError,
    SpecialReg,
    UPred,
    UReg,
    Value,
    decode,
    encode,
)
from hcqrt.isa.sass.codec import Compiled, matching_rows
from hcqrt.isa.sass.families import FAMILIES

PC = 0x7F0000001230
FIRST_CHIPS = [family.chips[0] for family in FAMILIES]


def rows_of(mnemonic: str, chips: Sequence[int] = FIRST_CHIPS) -> list[tuple[int, Compiled]]:
    return [(sm, known) for sm in chips for known in matching_rows(mnemonic, sm)]


def test_a_modifier_that_no_handler_takes_is_refused() -> None:
    plain = ins("IADD3", 0x210, d=R[1], a=R[2], b=R[3])
    assert lower(plain, PC)
    strange: Mapping[str, Value] = {**plain.mods, "FUTURE": False}
    with pytest.raises(LoweringError, match=r"IADD3 \(opcode 0x210\) at pc 0x7f0000001230: modifier FUTURE = False"):
        lower(replace(plain, mods=strange), PC)
    more: Mapping[str, Operand] = {**plain.args, "e": R[4]}
    with pytest.raises(LoweringError, match=r"operand e = Reg\(index=4.*not consumed"):
        lower(replace(plain, args=more), PC)


@pytest.mark.parametrize("mnemonic", mnemonics())
def test_every_handler_consumes_every_field_of_its_rows(mnemonic: str) -> None:
    """A modifier or an operand that is new to the handler is refused, for each row that lowers as it is."""
    lowered = 0
    for sm, known in rows_of(mnemonic):
        try:
            plain = ins(mnemonic, known.row.opcode & 0xFFF, sm=sm, **NEEDED.get(mnemonic, {}))
            lower(plain, PC)
        except (LoweringError, AssertionError):
            continue  # a form whose default values are refused, or that needs operands of its own
        lowered += 1
        with pytest.raises(LoweringError, match="FUTURE"):
            lower(replace(plain, mods={**plain.mods, "FUTURE": ""}), PC)
        with pytest.raises(LoweringError, match="future"):
            lower(replace(plain, args={**plain.args, "future": R[4]}), PC)
    assert lowered


# What the rows need that are refused at their default values.
NEEDED: dict[str, dict[str, Operand | Value]] = {
    "BMOV": {"CLEAR": True},
    "CS2R": {"sr": SpecialReg(0xFF)},
    "DSETP": {"cmp": "LT"},
    "LOP3": {"ps": Pred(7, True)},
    "MATCH": {"op": "ANY"},
    "S2UR": {"sr": SpecialReg(0x25)},
    "ULOP3": {"ps": UPred(7, True)},
}


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (ins("DSETP", 0x22A, pd=P[0], a=R[2], b=R[4], cmp="MAX"), "cmp = 'MAX'"),
        (ins("FMUL", 0x220, d=R[1], a=R[2], b=R[3], FMZ=True), "FMZ = True"),
        (ins("MUFU", 0x308, d=R[1], b=R[3], op="RCP64H"), "op = 'RCP64H'"),
        (ins("MOV", 0x202, d=R[1], b=R[3], lanes=3), r"bytes of Num\(value=3\)"),
        (ins("IMAD", 0x224, d=R[1], a=R[2], b=R[3], ps=P[3]), "operand ps"),
        (ins("LOP3", 0x212, d=R[1], a=R[2], b=R[3], lut=0xC0, ps=P[1]), "without PAND"),
        (ins("LDG", 0x381, d=R[1], pd=P[2], addr=Mem(R[2]), E=True), "operand pd"),
        (ins("S2R", 0x919, d=R[1], sr=SpecialReg(0x60)), "special register"),
        (ins("S2UR", 0x9C3, d=UR[1], sr=SpecialReg(0x21)), "differs from lane to lane"),
        (ins("DADD", 0x229, d=R[3], a=R[2], b=R[4]), "R3 is not aligned for 2 registers"),
        (ins("DADD", 0xE29, d=R[2], a=R[2], b=UReg(5)), "UR5 is not aligned"),
        (ins("LDG", 0x381, d=R[6], addr=Mem(R[2]), E=True, type="128"), "R6 is not aligned for 4 registers"),
        (ins("IADD3", 0x210, d=R[40], a=R[2], b=R[3]), "R40 with 1 words: the program has 32 registers"),
        (ins("LDG", 0x381, d=R[28], addr=Mem(R[32]), E=True), "R32 with 2 words"),
    ],
)
def test_a_value_without_a_meaning_is_named(instruction: Instruction, text: str) -> None:
    with pytest.raises(LoweringError, match=text):
        lower(instruction, PC, registers=32)


def test_an_instruction_without_a_handler_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"HMMA \(opcode 0x23c\) at pc 0x7f0000001230: is not implemented"):
        lower(ins("HMMA", 0x23C, d=R[4], a=R[8], b=R[12], c=R[4]), PC)


def test_a_refusal_leaves_nothing_behind() -> None:
    first = lower(ins("MOV", 0x802, d=R[1], b=Imm(5)), PC)
    with pytest.raises(LoweringError):
        lower(ins("MOV", 0x202, d=R[1], b=R[3], lanes=3), PC)
    again = lower(ins("MOV", 0x802, d=R[1], b=Imm(5)), PC)
    assert first[0].tobytes() == again[0].tobytes()


def test_records_follow_the_contract() -> None:
    (one,) = lower(
        ins("FADD", 0x221, guard=Pred(3, True), d=R[1], a=Reg(2, abs=True), b=Reg(3, neg=True), FTZ=True), PC
    )
    assert uops.NAMES[one["op"]] == "FADD"
    assert one["flags"] == uops.FIRST | uops.ABS_A | uops.NEG_B | uops.FTZ
    assert (one["guard"], one["guard_neg"], one["pc"], one["d"]) == (3, 1, PC, 1)
    (uniform,) = lower(ins("UIADD3", 0x290, d=UR[4], a=UR[5], b=UR[63]), PC)
    assert uniform["flags"] & uops.FULL
    assert (uniform["d"], list(uniform["kind"][:3])) == (268, [uops.REG, uops.ZERO, uops.ZERO])
    (constant,) = lower(ins("IADD3", 0xA10, d=R[1], a=R[2], b=Const(3, 0x24, neg=True)), PC)
    assert (constant["kind"][1], constant["src"][1]) == (uops.CONST, 3 << 16 | 0x24)
    assert constant["flags"] & uops.INV_B
    assert constant["imm"] == 1
    for records in ([one], [uniform], [constant]):
        verify(uops.Program(np.array(records), {PC: 0}))


def test_only_the_last_record_of_an_instruction_may_change_what_its_guard_reads() -> None:
    """All records of an instruction run under one guard, so nothing but scratch is written before the last."""
    for mnemonic in HANDLERS:
        for sm, known in rows_of(mnemonic):
            try:
                records = lower(ins(mnemonic, known.row.opcode & 0xFFF, sm=sm), PC)
            except (LoweringError, AssertionError):
                continue
            for record in records[:-1]:
                assert record["d"] == uops.NO_REG or record["d"] >= uops.SCRATCH_BASE, mnemonic
                assert record["pd"] in (uops.PT, uops.UPT) or record["pd"] >= uops.SCRATCH_PREDICATE, mnemonic


def test_the_guard_covers_every_record() -> None:
    low = Lowering(ins("FSEL", 0x208, guard=P[2], d=R[1], a=Reg(2, neg=True, abs=True), b=R[3]), PC, 255)
    HANDLERS["FSEL"](low)
    low.finish()
    assert len(low.records) == 3
    assert {int(r["guard"]) for r in low.records} == {2}
    assert [bool(r["flags"] & uops.FIRST) for r in low.records] == [True, False, False]


def test_a_flipped_bit_is_lowered_or_refused_and_never_breaks_the_contract() -> None:
    """From the plain word of each row: every single bit flipped; what still decodes lowers or is refused."""
    kept = refused = 0
    for mnemonic in mnemonics():
        for sm, known in rows_of(mnemonic, (86, 120)):
            try:
                lo, hi = encode(ins(mnemonic, known.row.opcode & 0xFFF, sm=sm))
            except AssertionError:
                continue  # the kind of its immediate depends on a modifier
            for bit in range(0, 105, 1 if sm == 86 else 4):  # the bits above steer scheduling only
                word = (lo | hi << 64) ^ 1 << bit
                try:
                    records = lower(decode(word & (1 << 64) - 1, word >> 64, sm), PC)
                except (SassError, LoweringError):
                    refused += 1
                    continue
                kept += 1
                if bit % 8 == 0:  # the check is slow; an eighth of the words will do
                    verify(uops.Program(np.array(records), {PC: 0}))
    assert kept > 3000
    assert refused > 3000
