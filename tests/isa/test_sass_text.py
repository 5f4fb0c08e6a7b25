"""SASS text: equal to the vendor's disassembler, and readable back by the assembler."""

from __future__ import annotations

import random
from pathlib import Path

import nvdisasm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nak_corpus import NAK_CHIPS, missing_packages, nak_kernels

from hcqrt.isa.sass import SassError, decode, encode, parse, text
from hcqrt.isa.sass.codec import Compiled, _compiled
from hcqrt.isa.sass.families import FAMILIES
from hcqrt.isa.sass.memory_slots import TargetSlot

VENDOR = nvdisasm.find()
NEEDS_VENDOR = pytest.mark.skipif(VENDOR is None, reason=f"not installed: {nvdisasm.PACKAGE}")
NEEDS_NAK = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")
INSTRUCTION_BYTES = 16
# No barrier, one cycle: the vendor refuses some other values for instructions that cannot set a barrier.
PLAIN_SCHED = 1 << 105 | 7 << 110 | 7 << 113
SCHED_BITS = ((1 << 21) - 1) << 105
MISSING = ("INVALID", "???")
FIRST_CHIPS = [family.chips[0] for family in FAMILIES]
ROWS = [(sm, known) for sm in FIRST_CHIPS for group in _compiled(sm).values() for known in group]


@NEEDS_NAK
@NEEDS_VENDOR
@pytest.mark.parametrize("arch", NAK_CHIPS)
def test_text_of_the_corpus_equals_the_vendors(arch: str, tmp_path: Path) -> None:
    assert VENDOR is not None
    sm = int(arch[3:])
    words = list(dict.fromkeys(word for kernel in nak_kernels(arch) for word in kernel.words))
    theirs = nvdisasm.disassemble(words, sm, VENDOR, tmp_path)
    ours = [text(decode(*word, sm), at * INSTRUCTION_BYTES) for at, word in enumerate(words)]
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


@NEEDS_NAK
@NEEDS_VENDOR
def test_what_nak_needs_has_the_vendors_text_in_hoppers_encoding(tmp_path: Path) -> None:
    """NAK has no code for sm_90, so its sm_86 code is written again from its text, word by word in its place."""
    assert VENDOR is not None
    words = list(dict.fromkeys(word for kernel in nak_kernels("sm_86") for word in kernel.words))[::3]
    lines = [text(decode(*word, 86), at * INSTRUCTION_BYTES) for at, word in enumerate(words)]
    ours = [encode(parse(line, 90, at * INSTRUCTION_BYTES)) for at, line in enumerate(lines)]
    theirs = nvdisasm.disassemble(ours, 90, VENDOR, tmp_path)
    assert [pair for pair in zip(lines, theirs, strict=True) if pair[0] != pair[1]] == []


def _samples(sm: int, known: Compiled, rng: random.Random, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for _ in range(count * 40):
        word = (rng.getrandbits(128) & known.row.free_mask & ~SCHED_BITS) | PLAIN_SCHED | known.fixed
        pair = (word & ((1 << 64) - 1), word >> 64)
        try:
            decode(*pair, sm)
        except SassError:
            continue
        found.append(pair)
        if len(found) == count:
            break
    return found


# Mnemonics whose random words the vendor's tool is known to take: every field is independent of the others.
STEADY = frozenset([
    "ATOMG", "ATOMS", "BMSK", "BREV", "BSSY", "BSYNC", "DADD", "DFMA", "DMUL", "DSETP", "FADD", "FFMA", "FLO", "FMNMX",
    "FMUL", "FSEL", "FSET", "FSETP", "IABS", "IADD3", "IMAD", "IMAD.WIDE", "IMNMX", "ISETP", "LDCU", "LDG", "LDL",
    "LDS", "LOP3", "MOV", "PLOP3", "POPC", "PRMT", "R2UR", "REDG", "SEL", "SGXT", "SHF", "SHFL", "STG", "STL", "STS",
    "UBMSK", "UIADD3", "UIMAD", "ULDC", "ULEA", "ULOP3", "UPRMT", "USEL", "USHF", "VIADD", "VIMNMX", "VOTE", "VOTEU",
])  # fmt: skip


@NEEDS_VENDOR
@pytest.mark.parametrize("sm", FIRST_CHIPS)
def test_text_of_random_words_equals_the_vendors(sm: int, tmp_path: Path) -> None:
    assert VENDOR is not None
    rng = random.Random(86)
    rows = [known for chip, known in ROWS if chip == sm and known.row.mnemonic in STEADY]
    words = [word for known in rows for word in _samples(sm, known, rng, 2)]
    theirs = nvdisasm.disassemble(words, sm, VENDOR, tmp_path)
    assert None not in theirs
    ours = [text(decode(*word, sm), at * INSTRUCTION_BYTES) for at, word in enumerate(words)]
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert [pair for pair in different if not any(mark in str(pair[1]) for mark in MISSING)] == []


@given(st.sampled_from(ROWS), st.integers(0, (1 << 128) - 1))
@settings(max_examples=1500, deadline=None)
def test_random_instructions_read_back_from_their_text(row: tuple[int, Compiled], garbage: int) -> None:
    sm, known = row
    word = (garbage & known.row.free_mask & ~SCHED_BITS) | known.fixed
    try:
        inst = decode(word & ((1 << 64) - 1), word >> 64, sm)
    except SassError:
        return
    line = text(inst)
    if "NAN" in line.split(" ", 1)[-1] or _hides_a_descriptor(inst.args):
        return  # the text does not hold all of the word: payload of a NaN, number of a descriptor register
    if any(isinstance(slot, TargetSlot) and abs(int(line.split()[-1], 16)) >> 46 for slot in known.row.slots):
        return  # beyond what a 48-bit distance reaches from address 0
    assert text(parse(line, sm)) == line


def _hides_a_descriptor(args: object) -> bool:
    assert isinstance(args, dict)
    return any(getattr(operand, "descriptor", False) for operand in args.values())


@pytest.mark.parametrize(
    "line",
    [
        "IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]",
        "@!P3 IADD3.X R5, R3, ~R7, RZ, P0, !PT",
        "LEA.HI.X R3, R0, c[0x0][0xc], R1, 0x2, P0",
        "FSETP.NEU.FTZ.AND P0, PT, |R2|, +INF , PT",
        "HMUL2 R3, R3.H0_H0, -2.302734375, -2.302734375",
        "DSETP.GT.AND P0, PT, R4, -INF , PT",
        "LDG.E.128.CONSTANT R4, [R2+-0x10]",
        "ATOMG.E.ADD.STRONG.GPU PT, R2, [R12+0x8], R3",
        "RED.E.ADD.STRONG.GPU [R8], R12",
        "SHFL.BFLY PT, R0, R7, 0x4, 0x1f",
        "VOTE.ANY R7, PT, P0",
        "UIADD3 UR2, UP0, UR2, UR6, URZ",
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "S2R R0, SR_TID.X",
        "CS2R R2, SR_CLOCKLO",
        "LDC.64 R6, c[0x3][R6+0x8]",
        "F2I.FTZ.U32.TRUNC R1, R1",
        "PLOP3.LUT P0, PT, PT, PT, UP0, 0xaa, 0x0",
        "MEMBAR.SC.GPU",
        "BSSY B0, 0x30",
        "EXIT",
    ],
)
def test_well_known_lines_assemble_to_themselves(line: str) -> None:
    inst = parse(line, 86)
    assert text(decode(*encode(inst), 86)) == line.rstrip()
