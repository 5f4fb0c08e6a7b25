"""ir3 words to instructions and back: words composed by hand, random words, and every word of a compiled corpus."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir3_corpus import ir3_kernels
from ir3_random import ROWS, flip_some, random_word
from ir3_words import DECODED, word
from nak_corpus import missing_packages

from hcqrt.isa import ir3
from hcqrt.isa.ir3 import (
    FLOAT_TABLE,
    ConstDst,
    Imm,
    Ir3Error,
    Reg,
    decode,
    encode,
)
from hcqrt.isa.ir3.codec import Compiled, _decode_row

NEEDS_MESA = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")


@pytest.mark.parametrize(("code", "opcode", "args"), DECODED)
def test_hand_composed_words_decode_to_these_operands(code, opcode, args):
    inst = decode(code)
    assert (inst.opcode, inst.args) == (opcode, args)
    assert encode(inst) == code


def test_fields_beside_the_operands():
    load = decode(word((61, 6), (0, 1), (1, 0x1FFC), (14, 8), (23, 1), (24, 3), (49, 2), (32, 4)))
    assert load.mods == {"type": "u16", "offset": -4, "size": 3}
    store = decode(word((61, 6), (54, 5), (23, 1), (40, 1), (1, 7), (32, 4), (9, 1), (24, 2), (49, 5), (60, 1)))
    assert store.mods == {"type": "s32", "offset": 260, "size": 2}
    assert store.flags == {"sy"}
    image = decode(word((61, 5), (0, 1), (1, 8), (18, 1), (21, 2), (25, 5), (32, 4), (40, 5), (44, 1)))
    wanted = {"type": "f32", "wrmask": 5, "sampler": 2, "texture": 5, "1d": False, "3d": False, "a": False, "v": False}
    assert image.mods == {**wanted, "o": False}
    compare = decode(word((61, 2), (53, 21), (52, 1), (48, 5), (42, 1), (47, 1)))
    assert compare.mods == {"cond": "ne", "sat": True, "ei": True}


def test_the_r_bits_count_a_delay_while_nothing_repeats():
    delayed = decode(word((61, 2), (53, 16), (52, 1), (43, 1), (51, 1)))
    assert (delayed.nop, delayed.repeat, delayed.args["src1"]) == (3, 0, Reg(0))
    repeated = decode(word((61, 2), (53, 16), (52, 1), (51, 1), (40, 1)))
    assert (repeated.nop, repeated.repeat, repeated.args["src2"]) == (0, 1, Reg(0, r=True))
    third = decode(word((61, 3), (55, 7), (15, 1)))
    assert third.nop == 2


def test_a_predicate_destination_is_never_half():
    for full in (0, 1):
        assert decode(word((61, 2), (53, 20), (52, full), (32, 0xF9))).args["dst"] == Reg(0xF9)
    with pytest.raises(Ir3Error, match=r"conversion \(bit 46\) to a predicate"):
        decode(word((61, 2), (53, 20), (46, 1), (32, 0xF8)))


def test_float_table():
    assert FLOAT_TABLE[:4] == (0.0, 0.5, 1.0, 2.0)
    assert FLOAT_TABLE[11] == 4.0
    assert FLOAT_TABLE[6] * FLOAT_TABLE[5] == pytest.approx(1.0)
    assert FLOAT_TABLE[7] == pytest.approx(0.6931471805599453)
    assert FLOAT_TABLE[9] == pytest.approx(0.3010299956639812)


REFUSED = [
    (0xFFFFFFFFFFFFFFFF, "category 7.*unknown opcode"),
    (word((0, 1)), "nop has no field for bits 0"),
    (word((43, 1)), "nop has no field for bits 43"),
    (word((55, 12)), "unknown opcode"),
    (word((55, 1), (37, 6)), "unknown opcode"),  # brax
    (word((55, 7)), "unknown opcode"),  # emit
    (word((61, 2), (53, 57)), "unknown opcode"),  # bary.f
    (word((61, 2), (53, 0), (48, 1)), "add.f has no field for bits 48"),
    (word((61, 2), (53, 5), (48, 6)), "cond = 6 at bits 50:48 has no meaning"),
    (word((61, 2), (53, 0), (8, 1)), "operand src1: bits 9:8"),
    (word((61, 2), (53, 0), (0, 0x280C)), "operand src1 = 0x280c"),  # beyond the float table
    (word((61, 2), (53, 0), (0, 0x2802)), "operand src1 = 0x2802"),  # full float beside half sources
    (word((61, 2), (53, 0), (0, 0x3000)), "operand src1 = 0x3000"),
    (word((61, 3), (55, 7), (0, 0x1800)), "operand src1 = 0x1800"),
    (word((61, 3), (55, 7), (43, 1), (29, 1)), r"\(r\) beside a delay"),
    (word((61, 1), (53, 3)), "kind 3"),
    (word((61, 1), (53, 2), (0, 0x10000)), "kind 2"),  # f16 wider than 16 bits
    (word((61, 1), (42, 1)), "mov has no field for bits 42"),
    (word((61, 5), (54, 29)), "unknown opcode"),
    (word((61, 5), (54, 0), (0, 1), (17, 1)), "isam has no field for bits 17"),
    (word((61, 5), (54, 0), (0, 1), (47, 1)), "isam has no field for bits 47"),
    (word((61, 6), (0, 1), (23, 1), (27, 1)), "ldg has no field for bits 27"),
    (word((61, 6), (54, 3), (23, 1), (40, 1), (0, 1)), "stg has no field for bits 0"),
    (word((61, 6), (52, 2), (20, 6), (14, 0x1D), (6, 3)), "mode = 3 at bits 7:6"),
    (word((61, 6), (54, 27), (52, 2)), "mode = 0 at bits 47:45"),
    (word((61, 7)), "unknown opcode"),  # bar without bit 49
]


@pytest.mark.parametrize(("code", "why"), REFUSED)
def test_what_has_no_meaning_is_refused_with_the_word(code, why):
    with pytest.raises(Ir3Error, match=why) as refusal:
        decode(code)
    assert f"{code:#018x}" in str(refusal.value)


def test_a_word_has_64_bits_and_a_known_generation():
    with pytest.raises(ValueError, match="64 bits"):
        decode(1 << 64)
    with pytest.raises(Ir3Error, match="a8xx: no instruction table; known are a6xx, a7xx"):
        decode(0, 8)


def test_an_instruction_that_no_word_can_hold_is_refused():
    add = decode(word((61, 2), (53, 16), (52, 1)))
    for args, why in (
        ({"dst": Reg(256)}, "does not fit bits 39:32"),
        ({"src1": Imm(1024)}, "does not fit 11 signed bits"),
        ({"src1": Reg(0, half=True)}, "wrong width"),
        ({"src1": Reg(0, r=True)}, r"\(r\) without a repeat is a delay"),
        ({"src3": Reg(0)}, "are not those of this row"),
        ({"src1": ConstDst(0)}, "does not fit here"),
    ):
        with pytest.raises(Ir3Error, match=why):
            encode(replace(add, args={**add.args, **args}))
    with pytest.raises(Ir3Error, match="a delay of 4"):
        encode(replace(add, nop=4))
    with pytest.raises(Ir3Error, match="flag eq"):
        encode(replace(add, flags=frozenset(("eq",))))
    with pytest.raises(Ir3Error, match="no such instruction"):
        encode(replace(add, opcode="add.q"))
    with pytest.raises(Ir3Error, match="mov from f32 to f16"):
        mov = decode(word((61, 1), (46, 1), (50, 1)))
        encode(replace(mov, mods={**mov.mods, "dst_type": "f16"}, args={**mov.args, "dst": Reg(0, half=True)}))


def decodes(code: int) -> bool:
    """Whether it decodes; then it must encode to the same word."""
    try:
        inst = decode(code)
    except Ir3Error:
        return False
    assert encode(inst) == code
    return True


def test_random_words_decode_exactly_or_are_refused():
    rng = random.Random(6)
    accepted = sum(decodes(rng.getrandbits(64)) for _ in range(20000))
    assert accepted < 2000  # most bits are owned by nobody
    near = [flip_some(random_word(known, rng), rng, 0.25) for known in ROWS for _ in range(8)]
    assert sum(map(decodes, near)) > len(near) // 2


def test_every_row_has_words():
    rng = random.Random(8)
    for known in ROWS:
        assert any(accepts(known, random_word(known, rng)) for _ in range(100)), known.row.opcode


@given(st.integers(0, (1 << 64) - 1))
@settings(max_examples=300, deadline=None)
def test_any_word_decodes_exactly_or_is_refused(code):
    decodes(code)


def test_rows_do_not_overlap():
    """No word belongs to two rows, so their order decides nothing."""
    rng = random.Random(9)
    for known in ROWS:
        for code in (random_word(known, rng) for _ in range(6)):
            if decodes(code):
                owners = [other.row.opcode for other in ROWS if accepts(other, code)]
                assert len(owners) == 1, (hex(code), owners)


def accepts(known: Compiled, code: int) -> bool:
    if (code ^ known.row.fixed) & known.row.key_mask:
        return False
    try:
        _decode_row(known, code, 6)
    except Ir3Error:
        return False
    return True


def test_every_export_is_there():
    assert all(hasattr(ir3, name) for name in ir3.__all__)
    assert not re.search("sass|emu", ir3.decode.__module__)


@NEEDS_MESA
def test_every_word_of_the_corpus_decodes_and_encodes_to_itself():
    kernels = ir3_kernels()
    assert len(kernels) >= 300
    words = {code for kernel in kernels for code in kernel.words}
    assert len(words) > 10000
    opcodes = {decode(code).opcode for code in words}
    assert all(encode(decode(code)) == code for code in words)
    assert opcodes >= {"isam", "stib.b", "ldg", "stg", "ldl", "stl", "bar", "predt", "brao", "mad.f16", "madsh.m16"}
    assert len(opcodes) >= 55
