"""The text of ir3 instructions: known lines, and equality with Mesa's disassembler on a corpus and on random words."""

from __future__ import annotations

import random

import pytest
from ir3_corpus import ir3_kernels, mesa_texts
from ir3_lines import LINES
from ir3_random import BY_CATEGORY, flip_some, random_word
from nak_corpus import missing_packages

from hcqrt.isa.ir3 import Ir3Error, decode, disassemble, pack, text

NEEDS_MESA = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")

# The first kernel is the worked dispatch of the facts (qcom.md, section 3.3); the rest are words of compiled kernels.
KNOWN = [
    (0x46D80803200600C0, "(nop3) shl.b r0.w, r48.x, 6"),
    (0x4218080300000003, "(nop3) add.u r0.w, r0.w, r0.x"),
    (0x46D8080320020003, "(nop3) shl.b r0.w, r0.w, 2"),
    (0x4210000410020003, "add.u r1.x, r0.w, c0.z"),
    (0x202CC00500000003, "mov.u32u32 r1.y, c0.w"),
    (0x4210000810000003, "add.u r2.x, r0.w, c0.x"),
    (0x202CC00900000001, "mov.u32u32 r2.y, c0.y"),
    (0x0000050000000000, "(rpt5)nop"),
    (0xC006000601810001, "ldg.u32 r1.z, g[r1.x], 1"),
    (0x5210000620050006, "(sy)add.u r1.z, r1.z, 5"),
    (0xC0C611000180000C, "stg.u32 g[r2.x], r1.z, 1"),
    (0x0300000000000000, "end"),
    (0xE042000000000000, "bar.g"),
]


@pytest.mark.parametrize(("code", "line"), KNOWN)
def test_known_words_print_as_the_facts_say(code, line):
    assert text(decode(code)) == line


@pytest.mark.parametrize(("code", "line"), LINES)
def test_words_of_mesas_assembler_print_as_its_input(code, line):
    assert text(decode(code)) == line


def test_the_list_has_every_opcode_of_the_table():
    table = {known.row.opcode for group in BY_CATEGORY for known in group}
    assert {decode(code).opcode for code, _ in LINES} == table


@NEEDS_MESA
def test_mesas_disassembler_agrees_with_the_list():
    assert mesa_texts([code for code, _ in LINES]) == [line for _, line in LINES]


def test_a_program_prints_line_by_line():
    assert disassemble(pack(code for code, _ in KNOWN)) == [line for _, line in KNOWN]
    with pytest.raises(Ir3Error, match="12 bytes"):
        disassemble(bytes(12))


@pytest.mark.parametrize(
    ("value", "usual", "exact"),
    [
        (0x3F800000, "(1.000000)", "(1.000000)"),
        (0x3F800001, "(1.000000)", "(0x3f800001)"),
        (0x80000000, "(-0.000000)", "(-0.000000)"),
        (0xFF800000, "(-inf)", "(-inf)"),
        (0x7FC00000, "(nan)", "(0x7fc00000)"),
        (0xFFC00000, "(-nan)", "(0xffc00000)"),
        (0x4B000001, "(8388609.000000)", "(8388609.000000)"),
    ],
)
def test_float_immediates_print_with_six_decimals_unless_exact_is_asked(value, usual, exact):
    inst = decode(0x2044400000000000 | value)  # mov.f32f32 r0.x, immediate
    assert text(inst) == f"mov.f32f32 r0.x, {usual}"
    assert text(inst, exact=True) == f"mov.f32f32 r0.x, {exact}"


@NEEDS_MESA
def test_every_line_of_the_corpus_equals_mesas():
    kernels = ir3_kernels()
    lines = 0
    for kernel in kernels:
        ours = [text(decode(code)) for code in kernel.words]
        assert ours == mesa_texts(kernel.words)
        lines += len(ours)
    assert len(kernels) >= 300 and lines > 30000


def random_words(per_category: int, seed: int) -> list[int]:
    """For each category as many words: mostly instructions, a flipped bit here and there, and some of pure noise."""
    rng = random.Random(seed)
    words = []
    for group in BY_CATEGORY:
        words += [flip_some(random_word(rng.choice(group), rng), rng, 0.1) for _ in range(per_category)]
        noise = group[0].row.category << 61
        words += [rng.getrandbits(61) | noise for _ in range(per_category // 10)]
    return words


@NEEDS_MESA
def test_what_we_accept_of_random_words_prints_as_mesa_prints_it():
    accepted = []
    for code in random_words(4000, seed=20):
        try:
            accepted.append((code, text(decode(code))))
        except Ir3Error:
            continue
    theirs = mesa_texts([code for code, _ in accepted])
    wrong = [(hex(code), ours, line) for (code, ours), line in zip(accepted, theirs, strict=True) if ours != line]
    assert wrong == []  # so whatever makes Mesa print a complaint is refused
    assert len(accepted) > 15000


@NEEDS_MESA
def test_what_mesa_complains_about_is_refused():
    words = random_words(600, seed=21)
    words = [code ^ 1 << bit for code in words[::7] for bit in range(0, 61, 6)]
    complaints = ("dontcare bits", "no match", "WARNING", "no display template", "no field")
    lines = mesa_texts(words)
    bad = [code for code, line in zip(words, lines, strict=True) if any(what in line for what in complaints)]
    assert len(bad) > 300
    for code in bad:
        with pytest.raises(Ir3Error):
            decode(code)
