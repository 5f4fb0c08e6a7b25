"""ir3 of a7xx: what it shares with a6xx decodes to the same, and what it does not is refused by name."""

from __future__ import annotations

import random

import pytest
from ir3_corpus import ir3_kernels, mesa_texts
from ir3_lines import LINES
from ir3_random import ROWS, random_word
from ir3_words import word
from nak_corpus import missing_packages

from hcqrt.isa.ir3 import Ir3Error, assemble, decode, encode, text

NEEDS_MESA = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")
GPU_IDS = (730, 740, 750)
# What came with a7xx, bits as Mesa's description of the instructions has them: category 7, opcode 58:55, form 54:45
LATER = {
    "ccinv": word((61, 7), (55, 5), (51, 10), (49, 1)),
    "stsc": word((61, 6), (54, 29), (22, 3), (24, 1)),
    "ray_intersection": word((61, 6), (54, 14), (0, 1)),
}
# What every compute shader of a7xx ends with in Mesa's compiler
ENDING = ((0xFBC2100000000000, "(sy)(ss)(jp)lock"), (0xE3CA000000000000, "unlock"), (0x0300000000000000, "end"))
OTHERWISE = (
    "ldg.a.u32 r0.x, g[r2.x+(((r4.y<<2)+1)<<2)], 2",
    "stg.a.u16 g[r2.x+(r4.y<<1)], hr0.x, 2",
    "isaml.base1 (u32)(xyzw)r0.x, r4.x, r8.x, s#3, a1.x",
)


def printed(code: int, gen: int) -> str | None:
    """Its text as an instruction of this generation, None where it is refused."""
    try:
        return text(decode(code, gen))
    except Ir3Error:
        return None


def random_words(per_row: int) -> list[int]:
    rng = random.Random(30)
    return [random_word(known, rng) for known in ROWS for _ in range(per_row)]


@pytest.mark.parametrize("line", OTHERWISE)
def test_what_a7xx_lays_out_in_another_way_is_refused_by_name(line):
    (code,) = assemble(line)
    with pytest.raises(Ir3Error, match=rf"a7xx word {code:#018x}.*{line.split()[0].split('.base')[0].split('.u')[0]}"):
        decode(code, 7)
    with pytest.raises(Ir3Error, match="not known for a7xx"):
        assemble(line, 7)


@pytest.mark.parametrize("opcode", LATER)
def test_what_came_with_a7xx_is_refused_with_its_word(opcode):
    with pytest.raises(Ir3Error, match=f"{LATER[opcode]:#018x}"):
        decode(LATER[opcode], 7)


def test_the_rest_decodes_to_the_same_instruction_and_back():
    shared = 0
    for code, line in LINES:
        if printed(code, 7) is None:
            continue
        inst = decode(code, 7)
        assert (text(inst), encode(inst), inst.gen) == (line, code, 7)
        shared += 1
    assert len(LINES) - shared == 4  # two forms of ldg.a, stg.a, and isaml with a1.x


@pytest.mark.parametrize(("code", "line"), ENDING)
def test_the_ending_of_a7xx_decodes_and_assembles(code, line):
    assert text(decode(code, 7)) == line
    assert assemble(line, 7) == [code]


@pytest.mark.parametrize(("code", "line"), ENDING[:2])
def test_locks_are_refused_on_a6xx(code, line):
    with pytest.raises(Ir3Error, match="lock in this form is not known for a6xx"):
        decode(code, 6)
    with pytest.raises(Ir3Error, match="lock in this form is not known for a6xx"):
        assemble(line, 6)


@pytest.mark.parametrize("bit", [0, 32, 45, 47, 48, 50, 54])
def test_other_bits_of_a_lock_are_refused(bit):
    with pytest.raises(Ir3Error, match="a7xx word"):
        decode(ENDING[0][0] ^ 1 << bit, 7)


@NEEDS_MESA
def test_mesa_prints_the_ending_so():
    assert mesa_texts([code for code, _ in ENDING], GPU_IDS[0]) == [line for _, line in ENDING]


@NEEDS_MESA
@pytest.mark.parametrize("gpu_id", GPU_IDS)
def test_what_we_accept_prints_as_mesa_prints_it_for_a7xx(gpu_id):
    accepted = [(code, line) for code in random_words(40) if (line := printed(code, 7)) is not None]
    theirs = mesa_texts([code for code, _ in accepted], gpu_id)
    assert [line for _, line in accepted] == theirs
    assert len(accepted) > 8000


@NEEDS_MESA
def test_mesa_prints_what_we_refuse_in_another_way():
    """The refusal is no excess: each form that only a6xx has is another instruction on a7xx, or none."""
    refused = []
    for code in random_words(40):
        sixth = printed(code, 6)
        if sixth is not None and printed(code, 7) is None:
            refused.append((code, sixth))
    theirs = mesa_texts([code for code, _ in refused], GPU_IDS[-1])
    assert all(ours != line for (_, ours), line in zip(refused, theirs, strict=True))
    assert len(refused) > 400


@NEEDS_MESA
@pytest.mark.parametrize("opcode", LATER)
def test_mesa_knows_the_words_that_came_with_a7xx(opcode):
    (line,) = mesa_texts([LATER[opcode]], GPU_IDS[-1])
    assert line.startswith(opcode)


@NEEDS_MESA
def test_kernels_of_a6xx_use_nothing_that_a7xx_changed_except_register_offsets():
    left = {decode(code).opcode for kernel in ir3_kernels() for code in kernel.words if printed(code, 7) is None}
    assert left <= {"ldg.a", "stg.a"}
