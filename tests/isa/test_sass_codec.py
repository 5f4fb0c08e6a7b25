"""SASS decode and encode: exact on real code and on every row of the table, strict about every bit."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nak_corpus import NAK_CHIPS, missing_packages, nak_kernels

from hcqrt.errors import BinaryError
from hcqrt.isa.sass import Imm, Pred, Reg, SassError, UPred, decode, encode, parse, text
from hcqrt.isa.sass.codec import Compiled, _compiled
from hcqrt.isa.sass.families import CHIPS, FAMILIES
from hcqrt.isa.sass.slots import ones

NEEDS_NAK = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")
WORD = st.integers(0, (1 << 64) - 1)
FIRST_CHIPS = [family.chips[0] for family in FAMILIES]
ROWS = [(sm, known) for sm in FIRST_CHIPS for group in _compiled(sm).values() for known in group]


@NEEDS_NAK
@pytest.mark.parametrize("arch", NAK_CHIPS)
def test_the_corpus_is_large_enough_and_every_word_of_it_decodes_and_encodes_back(arch: str) -> None:
    kernels, sm = nak_kernels(arch), int(arch[3:])
    assert len({kernel.code for kernel in kernels}) >= 300
    for kernel in kernels:
        assert kernel.words
        for word in kernel.words:
            assert encode(decode(*word, sm)) == word


@NEEDS_NAK
@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_120"])
def test_every_text_of_the_corpus_reads_back_as_an_instruction_with_that_text(arch: str) -> None:
    sm = int(arch[3:])
    texts = {text(decode(*word, sm)) for kernel in nak_kernels(arch) for word in kernel.words}
    for line in sorted(texts)[:: 1 if sm == 86 else 4]:
        assert text(parse(line, sm)) == line


@NEEDS_NAK
def test_code_of_older_chips_is_not_taken_for_hoppers() -> None:
    """NAK's own sm_90 output has R2UR and branches of its older chips: refused, not run wrong."""
    words = {word for kernel in nak_kernels("sm_86") for word in kernel.words if word[0] & 0xFFF == 0x3C2}
    assert words
    for word in words:
        with pytest.raises(SassError, match=r"sm_90 opcode 0x3c2.*unknown opcode"):
            decode(*word, 90)


@given(WORD, WORD, st.sampled_from(CHIPS))
def test_garbage_gives_an_instruction_or_the_one_error(lo: int, hi: int, sm: int) -> None:
    try:
        inst = decode(lo, hi, sm)
    except SassError:
        return
    assert encode(inst) == (lo, hi)
    assert text(inst)


@given(st.sampled_from(ROWS), st.integers(0, (1 << 128) - 1))
@settings(max_examples=1500, deadline=None)
def test_a_word_of_legal_bits_survives_decode_and_encode(row: tuple[int, Compiled], garbage: int) -> None:
    sm, known = row
    word = garbage & known.row.free_mask | known.fixed
    lo, hi = word & ((1 << 64) - 1), word >> 64
    try:
        inst = decode(lo, hi, sm)
    except SassError:
        return  # an enumeration hit a value without a meaning
    assert encode(inst) == (lo, hi)


@given(st.sampled_from(ROWS), st.data())
@settings(max_examples=600, deadline=None)
def test_a_bit_outside_every_field_is_refused_and_named(row: tuple[int, Compiled], data: st.DataObject) -> None:
    sm, known = row
    stray = [bit for bit in range(12, 128) if known.fixed_mask >> bit & 1]
    bit = data.draw(st.sampled_from(stray))
    word = known.fixed ^ ones(bit)
    try:
        inst = decode(word & ((1 << 64) - 1), word >> 64, sm)
    except SassError as refusal:
        assert f"{known.row.opcode:#05x}" in str(refusal)
        return
    other = (inst.mnemonic, set(inst.mods), set(inst.args))  # then the bit selects another row of this opcode
    assert sum(chip == sm and it.row.opcode == known.row.opcode for chip, it in ROWS) > 1, other


@pytest.mark.parametrize("sm", FIRST_CHIPS)
def test_every_opcode_without_a_row_is_refused_with_its_number(sm: int) -> None:
    known = set(_compiled(sm))
    for opcode in set(range(1 << 12)) - known:
        with pytest.raises(SassError, match=f"opcode {opcode:#05x}.*unknown opcode"):
            decode(opcode, 0, sm)


def test_a_refusal_names_opcode_bit_and_word() -> None:
    with pytest.raises(SassError, match=r"sm_86 opcode 0x210 in word 0x000fc20007ffe0ff_c000000402027210: .*bits 62$"):
        decode(0xC000_0004_0202_7210, 0x000F_C200_07FF_E0FF, 86)


def test_an_enumeration_value_without_a_meaning_is_refused() -> None:
    with pytest.raises(SassError, match="bool = 3 at bits 75:74 has no meaning"):
        decode(0x0000_0003_0200_720C, 0x000F_C800_03F0_2E70, 86)


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(BinaryError, match=r"sm_70: no instruction table; known are sm_75, .*sm_121"):
        decode(0x7918, 0, 70)


@pytest.mark.parametrize("sm", [100, 120])
def test_blackwells_arithmetic_takes_no_constant(sm: int) -> None:
    lo, hi = encode(parse("FADD R1, R2, c[0x0][0x160]", 90))
    with pytest.raises(SassError, match=r"opcode 0x621.*unknown opcode"):
        decode(lo, hi, sm)
    with pytest.raises(SassError, match="no instruction has the form"):
        parse("FADD R1, R2, c[0x0][0x160]", sm)


def test_a_third_predicate_input_of_plop3_may_be_uniform() -> None:
    # Bit 67: the way every uniform carry reaches vector code; read as P it made sums wrong.
    uniform = decode(0x781C, 0x000F_C800_03F0_F008 | 2 << 4, 86)
    assert uniform.args["ps3"] == UPred(2)
    vector = decode(0x781C, 0x000F_C800_03F0_F000 | 2 << 4, 86)
    assert vector.args["ps3"] == Pred(2)


@pytest.mark.parametrize(
    ("word", "slot", "operand"),
    [
        ((0xBF80_0000_0304_7421, 0x000F_C200_0001_0000), "b", Imm(0xBF800000, "f32")),
        ((0x0000_0004_0202_7210, 0x000F_C200_07FF_E0FF), "b", Reg(4)),
        ((0x8000_0004_0202_7210, 0x000F_C200_07FF_E0FF), "b", Reg(4, neg=True)),
        ((0x8000_0003_FF05_7210, 0x000F_C200_007F_E4FF), "b", Reg(3, inv=True)),
    ],
)
def test_operands_are_typed(word: tuple[int, int], slot: str, operand: object) -> None:
    assert decode(*word, 86).args[slot] == operand


def test_a_value_too_wide_for_its_field_is_refused() -> None:
    inst = decode(0x0000_0004_0202_7210, 0x000F_C200_07FF_E0FF, 86)
    args = {**inst.args, "a": Reg(256)}
    with pytest.raises(SassError, match=r"a = 0x100 does not fit bits 31:24"):
        encode(type(inst)(inst.sm, inst.opcode, inst.mnemonic, inst.mods, args, inst.guard, inst.sched))


@given(st.integers(0, 15), st.booleans(), st.integers(0, 7), st.integers(0, 7), st.integers(0, 63), st.integers(0, 15))
@example(15, True, 7, 7, 63, 15)
def test_scheduling_fields_are_kept(stall: int, yields: bool, write: int, read: int, wait: int, reuse: int) -> None:
    hi = stall << 41 | yields << 45 | write << 46 | read << 49 | wait << 52 | reuse << 58
    sched = decode(0x7918, hi, 86).sched
    assert (sched.stall, sched.yield_, sched.write_barrier) == (stall, yields, write)
    assert (sched.read_barrier, sched.wait_mask, sched.reuse) == (read, wait, reuse)
    assert encode(decode(0x7918, hi, 86)) == (0x7918, hi)
