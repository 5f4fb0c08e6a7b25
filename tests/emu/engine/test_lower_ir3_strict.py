"""Lowering of ir3 refuses what it does not consume, with opcode, pc and value in the text."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ir3 import Banks, Image, setup
from nak import BUFFERS_VA

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.launch import ImageShape, Ir3Setup, Launch
from hcqrt.emu.engine.lower_ir3 import LoweringError, lower, opcodes
from hcqrt.emu.engine.lower_ir3.front_end import Ir3FrontEnd
from hcqrt.emu.engine.lower_ir3.prologue import prologue
from hcqrt.emu.engine.lowering import Emitter
from hcqrt.emu.engine.program import ProgramCache
from hcqrt.emu.engine.verify import verify
from hcqrt.emu.memory import MmuFault
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.isa.ir3 import Instruction, Ir3Error, Reg, assemble, decode, pack

PC = 0x7F0000001230
SHAPE = ImageShape(0x4B, "2d", (0, 1, 2, 3), 0, False)
PICTURES = [Image(SHAPE, BUFFERS_VA, 4, 4, 64)]
BANKS = Banks(
    textures=PICTURES, images=[*PICTURES, Image(replace(SHAPE, kind="buffer"), BUFFERS_VA, 4, 0, 0)], ubos=[(0, 64)]
)
SETUP = setup(BANKS)
# A line for every opcode that lowers.
ALU = """
mov.u32u32 r1.x, r2.x | cov.f32f16 hr1.x, r2.x | cov.u8s32 r1.x, hr2.x | mov.f32f32 r1.x, (1.0) | mova a0.x, hr1.x
mova1 a1.x, 7 | add.f r1.x, r2.x, (neg)c3.x | mul.f hr1.x, hr2.x, h(2.0) | min.f r1.x, r2.x, r3.x
max.f r1.x, r2.x, r3.x | (sat)max.f r1.x, r2.x, r3.x | sign.f r1.x, r2.x | absneg.f r1.x, (abs)r2.x
floor.f r1.x, r2.x | ceil.f r1.x, r2.x | rndne.f r1.x, r2.x | rndaz.f r1.x, r2.x | trunc.f hr1.x, hr2.x
cmps.f.lt hr1.x, r2.x, r3.x | cmps.f.ne p0.x, hr2.x, h(0.0) | add.u r1.x, r2.x, r3.x | add.s hr1.x, (neg)hr2.x, hr3.x
sub.u r1.x, r2.x, 5 | sub.s r1.x, r2.x, c1.x | min.u r1.x, r2.x, r3.x | min.s hr1.x, hr2.x, hr3.x
max.u r1.x, r2.x, r3.x | max.s r1.x, r2.x, (abs)r3.x | absneg.s r1.x, (neg)r2.x | cmps.u.ge p0.z, r2.x, r3.x
cmps.s.eq hr1.x, hr2.x, hr3.x | and.b r1.x, r2.x, (neg)r3.x | or.b hr1.x, hr2.x, hr3.x | xor.b r1.x, r2.x, r3.x
not.b hr1.x, hr2.x | mul.u24 r1.x, r2.x, r3.x | mul.s24 hr1.x, hr2.x, hr3.x | mull.u r1.x, r2.x, r3.x
bfrev.b hr1.x, hr2.x | clz.b r1.x, r2.x | clz.s hr1.x, hr2.x | shl.b r1.x, r2.x, 3 | shr.b r1.x, r2.x, r3.x
ashr.b hr1.x, hr2.x, hr3.x | cbits.b r1.x, r2.x | mad.u16 hr1.x, hr2.x, hr3.x, hr4.x
mad.s16 hr1.x, hr2.x, hr3.x, hr4.x | mad.u24 r1.x, r2.x, r3.x, r4.x | mad.s24 r1.x, c2.x, r3.x, r4.x
madsh.m16 r1.x, r2.x, r3.x, r4.x | mad.f32 r1.x, r2.x, (neg)r3.x, c4.x | mad.f16 hr1.x, hr2.x, hr3.x, hc4.x
sel.b16 hr1.x, hr2.x, hr3.x, hr4.x | sel.b32 r1.x, r2.x, r3.x, r4.x | sad.s16 hr1.x, hr2.x, hr3.x, hr4.x
sad.s32 r1.x, r2.x, r3.x, r4.x | shrm r1.x, 4, r2.x, r3.x | shlm r1.x, r2.x, r3.x, r4.x
shrg r1.x, 4, (neg)r3.x, r4.x | shlg hr1.x, hr2.x, hr3.x, hr4.x | andg r1.x, r2.x, r3.x, 7 | rcp r1.x, r2.x
rsq r1.x, (abs)r2.x | log2 r1.x, r2.x | exp2 hr1.x, hr2.x | sin r1.x, r2.x | cos r1.x, r2.x | sqrt r1.x, r2.x
hrsq hr1.x, hr2.x | hlog2 hr1.x, hr2.x | hexp2 hr1.x, hr2.x
"""
OTHERS = """
nop | end | jump #3 | br p0.x, #3 | brao p0.x, p0.y, #3 | braa !p0.x, p0.y, #3 | bany p0.x, #3 | ball p0.x, #3
getone #3 | kill p0.x | predt | predf | prede | swz.u32u32 r1.x, r2.x, r3.x, r4.x
gat.u32u32 r1.x, r2.x, r3.x, r4.x, r5.x | movmsk.w64 r1.x | sct.u32u32 r1.x, r2.x, r3.x, r4.x, r5.x
isam.1d (u32)(xyzw)r1.x, r2.x, s#0, t#0 | ldg.u32 r1.x, g[r2.x+4], 4 | stg.u16 g[r2.x], hr1.x, 2
ldl.u32 r1.x, l[r2.x], 1 | stl.u32 l[r2.x], r1.x, 1 | ldp.u32 r1.x, p[r2.x], 1 | stp.u32 p[r2.x], r1.x, 1
ldg.a.u32 r1.x, g[r2.x+(((r3.x<<1)+2)<<2)], 1 | stg.a.u32 g[r2.x+(((r3.x<<1)+2)<<2)], r1.x, 1
ldc.offset1.2.imm r1.x, r2.x, 0 | ldib.b.typed.2d.u32.1.imm r1.x, r2.x, 0 | stib.b.untyped.1d.u32.2.imm r1.x, r2.x, 1
ldib.b.untyped.1d.u32.2.imm r1.x, r2.x, 1 | stib.b.typed.2d.u32.1.imm r1.x, r2.x, 0 | bar.g | fence.g.l.r.w | sleep.s
icinv | dccln.all | dcinv.all | dcflu.all
"""
ATOMIC = ("add", "sub", "xchg", "cmpxchg", "min", "max", "and", "or", "xor")
ATOMICS = [
    line.format(name)
    for name in ATOMIC
    for line in (
        "atomic.{}.untyped.1d.u32.1.l r1.x, l[r2.x], r3.x",
        "atomic.g.{}.untyped.1d.s32.1.g r1.x, r2.x, r3.x",
        "atomic.b.{}.typed.2d.u32.1.imm r1.x, r2.x, 0",
    )
]


def lines(table: str) -> list[str]:
    return [line.strip() for line in table.replace("\n", "|").split("|") if line.strip()]


LINES = [*lines(ALU), *lines(OTHERS), *ATOMICS]
LATER = ("lock", "unlock")


def one(text: str) -> Instruction:
    (word,) = assemble(text)
    return decode(word)


def records(text: str, state: Ir3Setup = SETUP, predicated: bool = False) -> list[Any]:
    return lower(one(text), PC, state, predicated)


def checked(found: list[Any]) -> None:
    verify(uops.Program(np.array(found), {PC: 0}))


def test_the_offset_of_a_group_needs_the_whole_grid() -> None:
    """A launch that is a part of a grid counts its groups on; their offsets would need the size of other groups."""
    state = replace(SETUP, group_id=0xC0, first_group=(3, 0, 1))
    assert [record["op"] for record in prologue(state, PC)].count(uops.NUMBERS["MAD"]) == 2
    with pytest.raises(LoweringError, match="offset of a group"):
        prologue(replace(state, group_offset=0xC8), PC)


def test_the_lines_cover_every_opcode_that_lowers() -> None:
    refused = {f"atomic{space}.{name}" for space in ("", ".g", ".b") for name in ("inc", "dec")}
    assert {one(line).opcode for line in LINES} == set(opcodes()) - refused - set(LATER)


@pytest.mark.parametrize("opcode", LATER)
def test_what_came_with_a7xx_lowers_to_nothing(opcode: str) -> None:
    (word,) = assemble(f"(sy)(ss)(jp){opcode}", 7)
    found = lower(decode(word, 7), PC, SETUP, False)
    assert [record["op"] for record in found] == [uops.NUMBERS["NOP"]]
    checked(found)


@pytest.mark.parametrize("line", LINES)
def test_every_field_is_consumed_and_records_follow_the_contract(line: str) -> None:
    plain = one(line)
    found = lower(plain, PC, SETUP)
    checked(found)
    checked(lower(plain, PC, SETUP, predicated=True))
    assert [bool(r["flags"] & uops.FIRST) for r in found] == [True] + [False] * (len(found) - 1)
    assert {int(r["pc"]) for r in found} == {PC}
    with pytest.raises(LoweringError, match=r"at pc 0x7f0000001230: modifier FUTURE"):
        lower(replace(plain, mods={**plain.mods, "FUTURE": False}), PC, SETUP)
    with pytest.raises(LoweringError, match="operand future"):
        lower(replace(plain, args={**plain.args, "future": Reg(4)}), PC, SETUP)
    with pytest.raises(LoweringError, match="flags"):
        lower(replace(plain, flags=frozenset(("last",))), PC, SETUP)


@pytest.mark.parametrize("line", lines(ALU))
def test_alu_instructions_write_only_scratch_before_their_last_record(line: str) -> None:
    """So a source that is also the destination is read in time, and a predicate never guards half an instruction."""
    for record in records(line)[:-1]:
        assert record["d"] == uops.NO_REG or record["d"] >= 480
        assert record["pd"] == uops.PT or record["pd"] >= uops.SCRATCH_PREDICATE


@pytest.mark.parametrize("line", [line for line in LINES if one(line).category not in (0, 7)])
def test_predicated_instructions_are_guarded_in_every_record_that_matters(line: str) -> None:
    """Records outside the guard may only set scratch predicates."""
    for record in records(line, predicated=True):
        if (record["guard"], record["guard_neg"]) != (4, 1):
            scratch_guard = record["guard"] >= uops.SCRATCH_PREDICATE
            assert scratch_guard or (record["d"] == uops.NO_REG and record["pd"] >= uops.SCRATCH_PREDICATE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("call #4", "is not implemented"), ("ret", "is not implemented"), ("shps #2", "is not implemented"),
        ("shpe", "is not implemented"), ("setrm r1.x, r2.x", "is not implemented"),
        ("cmpv.u.lt r1.x, r2.x, r3.x", "is not implemented"), ("msad r1.x, r2.x, r3.x", "is not implemented"),
        ("mgen.b r1.x, r2.x, r3.x", "is not implemented"), ("getbit.b r1.x, r2.x, r3.x", "is not implemented"),
        ("madsh.u16 r1.x, r2.x, r3.x, r4.x", "is not implemented"),
        ("sel.f32 r1.x, r2.x, r3.x, r4.x", "is not implemented"),
        ("(sat)add.u r1.x, r2.x, r3.x", "modifier sat = True"), ("add.s (ei)r1.x, r2.x, r3.x", "modifier ei = True"),
        ("and.b r1.x, (abs)r2.x, r3.x", "magnitude of bits"), ("sel.b32 r1.x, (neg)r2.x, r3.x, r4.x", "neg or abs"),
        ("mov.u32u32 r1.x, r50.x", ""), ("add.u r1.x, r48.x, r2.x", ""),
        ("add.u r12.x, r1.x, r2.x", r"r12\.x: the program has 12 full vectors"),
        ("add.u r1.x, r1.x, r12.z", r"r12\.z: the program has 12 full vectors"),
        ("ldg.u32 r11.w, g[r1.x], 2", r"r12\.x"), ("ldg.u32 r1.x, g[r11.w], 1", r"r12\.x"),
        ("mov.u16u16 hr5.x, hr1.x", r"hr5\.x: the program has 5 half vectors"),
        ("cov.u8_32u32 r1.x, hr1.x", "src_type = 'u8_32'"), ("ldg.u8_32 r1.x, g[r2.x], 1", "type = 'u8_32'"),
        ("ldg.u32 r1.x, g[r2.x], 0", "size = 0"), ("mov.f16f16 hr1.x, hc1.x", "narrows or cuts"),
        ("hrsq r1.x, r2.x", "of a full register"), ("add.f r1.x, r2.x, 5", "an integer means to a float"),
        ("add.u r1.x, r2.x, (1.0)", "a float means to an integer"),
        ("atomic.inc.untyped.1d.u32.1.l r1.x, l[r2.x], r3.x", "what this operation stores"),
        ("atomic.add.untyped.1d.f32.1.l r1.x, l[r2.x], r3.x", "type = 'f32'"),
        ("ldc.offset0.1.imm r1.x, r2.x, 1", "the launch has 1 constant buffers"),
        ("ldc.offset0.1.uniform r1.x, r2.x, r3.x", "mode = 'uniform'"),
        ("ldib.b.typed.2d.u32.1.imm r1.x, r2.x, 7", "image 7"),
        ("ldg.k.u32 c[4], g[r1.x], 2", "is not implemented"), ("getfiberid.u32 r1.x", "is not implemented"),
    ],
)  # fmt: skip
def test_what_has_no_known_meaning_is_named(text: str, reason: str) -> None:
    state = replace(SETUP, full_regs=12, half_regs=5)
    if not reason:
        assert lower(one(text), PC, state)
        return
    with pytest.raises(LoweringError, match=rf"a6xx instruction \S+ \(category \d\) at pc {PC:#x}: .*{reason}"):
        lower(one(text), PC, state)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("add.u hr1.x, hr2.x, hr3.x", ""), ("add.u hr23.x, hr2.x, hr3.x", ""),
        ("add.u hr24.x, hr2.x, hr3.x", r"r12\.x"),
        ("add.u hr1.x, hr48.x, hr3.x", "shared halves"), ("mov.u16u16 hr1.x, hr<a0.x + 2>", "merged file"),
    ],
)  # fmt: skip
def test_half_registers_of_a_merged_file(text: str, reason: str) -> None:
    state = replace(SETUP, merged=True, full_regs=12, half_regs=0)
    if not reason:
        checked(lower(one(text), PC, state))
        return
    with pytest.raises(LoweringError, match=reason):
        lower(one(text), PC, state)


def test_a_flipped_bit_is_lowered_or_refused_and_never_breaks_the_contract() -> None:
    kept = refused = 0
    for line in LINES:
        (word,) = assemble(line)
        for bit in range(64):
            try:
                found = lower(decode(word ^ 1 << bit), PC, SETUP)
            except (Ir3Error, LoweringError):
                refused += 1
                continue
            kept += 1
            if bit % 4 == kept % 4:  # the check is slow; a quarter will do
                checked(found)
    assert kept > 3000
    assert refused > 1000


@pytest.mark.parametrize("seed", range(20))
def test_random_words_never_break_discovery(seed: int) -> None:
    """Some branch far away, also below address 0."""
    generator = random.Random(seed)
    words = [assemble(generator.choice(LINES))[0] for _ in range(40)]
    words += [word ^ 1 << generator.randrange(64) for word in words] + [generator.getrandbits(64) for _ in range(9)]
    generator.shuffle(words)
    code = pack([*words, assemble("br p0.x, #-900")[0]])
    assert len(ProgramCache().get(job(code, SETUP)).records) >= 1


def test_a_branch_below_address_zero_is_refused() -> None:
    with pytest.raises(LoweringError, match="branches to -0x28, which is no address"):
        lower(one("jump #-6"), 8, SETUP)


class Nothing:
    def ranges(self) -> list[Any]:
        return []


def job(code: bytes, state: Ir3Setup, lanes: int = 64, entry: int = 0x1000) -> Launch:
    def fetch(va: int, nbytes: int) -> bytes:
        if va < entry or va + nbytes > entry + len(code):
            raise MmuFault(va, "fetch", "PTE", nbytes)
        return code[va - entry : va - entry + nbytes]

    return Launch(fetch, entry, Nothing(), (1, 1, 1), (1, 1, 1), isa="ir3", setup=state, lanes=lanes)


def test_programs_are_known_by_code_setup_and_lanes() -> None:
    cache, code = ProgramCache(), pack(assemble("add.u hr1.x, hr1.x, h(1)\nend"))
    first = cache.get(job(code, SETUP))
    assert cache.get(job(code, SETUP)) is first
    assert cache.get(job(code, replace(SETUP))) is first
    for other in (
        job(code, replace(SETUP, merged=True)),
        job(code, replace(SETUP, full_regs=3)),
        job(code, SETUP, lanes=128),
    ):
        assert cache.get(other) is not first
    moved = cache.get(job(code, SETUP, entry=0x9000))
    assert (sorted(moved.positions), moved.instruction_bytes) == ([0x9000, 0x9008], 8)
    assert moved.patience == first.patience > 0


def test_unreached_code_may_be_garbage_and_reached_garbage_says_why() -> None:
    junk = b"\xff" * 8
    code = pack(assemble("jump #2\nnop\nend"))
    found = ProgramCache().get(job(code[:8] + junk + code[16:], SETUP))
    assert sorted(found.positions) == [0x1000, 0x1010]
    found = ProgramCache().get(job(pack(assemble("nop\ncall #1\n")), SETUP))
    assert "call" in found.reasons[0x1008]
    found = ProgramCache().get(job(code[:0] + junk, SETUP))
    assert uops.NAMES[found.records[0]["op"]] == "ILLEGAL" and 0x1000 in found.reasons


@pytest.mark.parametrize("field", ["local_id", "linear_id", "group_id", "group_size", "group_offset"])
def test_ids_in_registers_that_cannot_hold_them_are_refused(field: str) -> None:
    wrong = 0xE0 if field in ("local_id", "linear_id") else 0xDE
    with pytest.raises(EmulatorRefusal, match="the start of the program at 0x1000"):
        ProgramCache().get(job(pack(assemble("end")), replace(SETUP, **{field: wrong})))


def test_footprints_beyond_the_register_file_are_refused() -> None:
    for field in ("full_regs", "half_regs"):
        with pytest.raises(EmulatorRefusal, match="48 exist"):
            ProgramCache().get(job(pack(assemble("end")), replace(SETUP, **{field: 49})))


def test_a_launch_without_setup_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="needs its setup"):
        Ir3FrontEnd().key(replace(job(b"", SETUP), setup=None))


def test_a_refusal_leaves_nothing_behind() -> None:
    first = records("add.f hr1.x, (neg)hr2.x, hr3.x")
    with pytest.raises(LoweringError):
        records("(sat)add.u r1.x, r2.x, r3.x")
    again = records("add.f hr1.x, (neg)hr2.x, hr3.x")
    assert [a.tobytes() for a in first] == [b.tobytes() for b in again]
    assert issubclass(LoweringError, EmulatorRefusal) and Emitter.__doc__
