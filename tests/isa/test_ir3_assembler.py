"""The assembler of ir3: programs with labels, what else may be written, and the way back from every printed line."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from ir3_corpus import ir3_kernels
from ir3_lines import LINES
from ir3_random import ROWS, random_word
from nak_corpus import missing_packages

from hcqrt.isa.ir3 import Imm, Ir3Error, Reg, assemble, decode, encode, parse, text

NEEDS_MESA = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")

# The kernel of the worked dispatch (qcom.md, section 3.3): out[i] = in[i] + 5.
PROGRAM = """
    (nop3) shl.b r0.w, r48.x, 6          // first item of the group
    (nop3) add.u r0.w, r0.w, r0.x        ; plus the local id
    (nop3) shl.b r0.w, r0.w, 2
    add.u r1.x, r0.w, c0.z               /* addresses */
    mov.u32u32 r1.y, c0.w
    add.u r2.x, r0.w, c0.x
    mov.u32u32 r2.y, c0.y
    (rpt5)nop
    ldg.u32 r1.z, g[r1.x], 1
    (sy)add.u r1.z, r1.z, 5
    (rpt5) nop
    stg.u32 g[r2.x], r1.z, 1
    end
"""
WORDS = [
    0x46D80803200600C0, 0x4218080300000003, 0x46D8080320020003, 0x4210000410020003, 0x202CC00500000003,
    0x4210000810000003, 0x202CC00900000001, 0x0000050000000000, 0xC006000601810001, 0x5210000620050006,
    0x0000050000000000, 0xC0C611000180000C, 0x0300000000000000,
]  # fmt: skip


def test_the_worked_program_assembles_to_its_words():
    assert assemble(PROGRAM) == WORDS


@pytest.mark.parametrize(("code", "line"), LINES)
def test_lines_assemble_to_the_words_of_mesas_assembler(code, line):
    assert assemble(line) == [code]


def test_branches_go_to_labels_distances_and_numbers():
    code = assemble("""
        loop: add.u r0.x, r0.x, 1
              (nop3) cmps.u.lt p0.x, r0.x, 10
        again: br p0.x, #loop
              br !p0.x, done
              jump #-2
              jump 1
        done: end
    """)
    targets = [code[at] & 0xFFFFFFFF for at in (2, 3, 4, 5)]
    assert targets == [0xFFFFFFFE, 3, 0xFFFFFFFE, 0xFFFFFFFC]


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("add.u hr0.x,hr0.y,5", "add.u hr0.x, hr0.y, h(5)"),
        ("mul.f hr1.x, hr0.y, (0.5)", "mul.f hr1.x, hr0.y, h(0.5)"),
        ("(jp)(sy)(sat)add.f r0.x , r0.y, (neg)c1.x", "(sy)(jp)(sat)add.f r0.x, r0.y, (neg)c1.x"),
        ("mov.f32f32 r0.x, (0x40490fdb)", "mov.f32f32 r0.x, (3.141593)"),
        ("mov.u32u32 r0.x, 0x20", "mov.u32u32 r0.x, 32"),
        ("mov.s32s32 r0.x, -0x20", "mov.s32s32 r0.x, -32"),
        ("ldl.f16 hr0.x, l[ r0.y + 4 ], 2", "ldl.f16 r0.x, l[r0.y+4], 2"),
        ("shrg hr0.x, 3, hr1.x, hr2.x", "shrg hr0.x, 3, hr1.x, hr2.x"),
        ("mov.f32f32 r0.x, r<a0.x - 3>", "mov.f32f32 r0.x, r<a0.x + -3>"),
        ("mova1 a1.x, 7", "mova1 a1.x, 7"),
        ("ldg.a.u32 r0.x, g[r1.x+(((r2.x<<1)+2)<<2)], 1", "ldg.a.u32 r0.x, g[r1.x+(((r2.x<<1)+2)<<2)], 1"),
    ],
)
def test_what_else_may_be_written(written, printed):
    assert text(parse(written)) == printed


def test_immediates_take_the_width_of_the_registers():
    assert parse("shlg hr0.x, 3, hr1.x, hr2.x").args["src1"] == Imm(3, half=True)
    assert parse("stl.u16 l[r0.x], r1.y, 1").args["src"] == Reg(5, half=True)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("end\nfrobnicate r0.x", "line 2: a6xx: no instruction has the form 'frobnicate r0.x'"),
        ("add.u r0.x, hr0.y, r0.z", "line 1: .*wrong width"),
        ("add.u r0.x, r0.y, 1024", "does not fit 11 signed bits"),
        ("add.u r64.x, r0.y, 1", "no such register"),
        ("(sat)end", r"\(sat\) is not possible here"),
        ("(rpt4)add.u r0.x, r0.y, 1", "repeat = 0x4 does not fit"),
        ("a: end\na: end", "label a is defined twice"),
        ("jump #nowhere", "'nowhere' is no number"),
        ("ldg.u16 r0.x, g[r1.x], 1", "wrong width"),
        ("ldl.u32 hr0.x, l[r1.x], 1", "wrong width"),
        ("mov.f32f32 r0.x, (1e60)", "is no float of this width"),
        ("stg.a.u8 g[r1.x+(r2.x<<2)], hr0.x, 1", "elements of"),
    ],
)
def test_errors_name_line_and_reason(source, why):
    with pytest.raises(Ir3Error, match=why):
        assemble(source)


def accepted_words(count: int, seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    for known in ROWS * count:
        code = random_word(known, rng)
        try:
            decode(code)
        except Ir3Error:
            continue
        yield code


def test_exact_text_of_any_instruction_assembles_to_its_word():
    words = list(accepted_words(8, seed=5))
    assert len(words) > 2000
    wrong = [hex(code) for code in words if encode(parse(text(decode(code), exact=True))) != code]
    assert wrong == []


@NEEDS_MESA
def test_text_of_the_corpus_assembles_to_the_same_words():
    """Lines that lose nothing as they are; float immediates that six decimals cannot give, in their exact form."""
    lossy = 0
    for code in {code for kernel in ir3_kernels() for code in kernel.words}:
        inst = decode(code)
        line = text(inst)
        if encode(parse(line)) != code:
            assert "f32f" in line or "f16f" in line
            line = text(inst, exact=True)
            lossy += 1
        assert encode(parse(line)) == code
    assert lossy < 200


@NEEDS_MESA
def test_whole_kernels_assemble_to_their_words():
    for kernel in ir3_kernels()[::20]:
        assert assemble("\n".join(text(decode(code), exact=True) for code in kernel.words)) == kernel.words
