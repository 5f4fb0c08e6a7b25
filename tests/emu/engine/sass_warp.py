"""Runs a few SASS instructions in one warp on chosen register values and hands back what they left.

Around the instructions under test goes a prologue that loads each input from memory and an epilogue that stores each
result, both in SASS of the simplest kind. `ins` builds an instruction from its row: fields not named get the value
that prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cores import CORES, execute
from nak import CODE_VA, ArrayMemory

from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.isa.sass import (
    PT,
    RZ,
    Bindless,
    Const,
    Imm,
    Instruction,
    Mem,
    Num,
    Operand,
    Pred,
    Reg,
    SassError,
    SpecialReg,
    Target,
    UPred,
    UReg,
    Value,
    encode,
)
from hcqrt.isa.sass.codec import matching_rows
from hcqrt.isa.sass.memory_slots import BindlessSlot, ConstSlot, IndexSlot, MemSlot, TargetSlot
from hcqrt.isa.sass.row import ModField
from hcqrt.isa.sass.slots import UNSET, ImmSlot, NumSlot, PredSlot, RegSlot, Slot, URegSlot

SM = 86
LANES = 32
Words = np.ndarray[Any, np.dtype[np.uint32]]

R = [Reg(i) for i in range(256)]
UR = [UReg(i) for i in range(64)]
P = [Pred(i) for i in range(8)]
UP = [UPred(i) for i in range(8)]
LANE, ADDRESS, SCRATCH = R[200], R[202], R[204]
UNIFORMS_AT = 0x18  # in bank 0, behind three addresses
SHARED_BYTES, LOCAL_BYTES = 0x1000, 0x100
SHARED_WINDOW, LOCAL_WINDOW = 0x7E00_0000_0000, 0x7E00_0100_0000


def _default_mod(mod: ModField) -> Value:
    if mod.names is None:
        return False
    return "" if "" in mod.codes else next(iter(mod.codes))


def _default_operand(slot: Slot) -> Operand:
    """What prints nothing or does nothing: PT, RZ, 0, the next instruction."""
    match slot:
        case Slot(name="lanes"):
            return Num(15)
        case PredSlot():
            return UPred(PT) if slot.uniform else Pred(PT)
        case URegSlot():
            return UReg(63)
        case RegSlot():
            return Reg(RZ)
        case ImmSlot():
            return Imm(0, slot.kind)
        case NumSlot():
            return Num(0)
        case MemSlot():
            return Mem(Reg(RZ), ureg=UReg(63) if slot.ureg_lsb != UNSET and slot.select == UNSET else None)
        case ConstSlot():
            return Const(0, 0, index=UReg(63) if slot.default_index == UNSET else None)
        case BindlessSlot():
            return Bindless(UReg(0), 0)
        case TargetSlot():
            return Target(0)
        case IndexSlot():
            return slot.kind(0)
        case _:
            return Pred(PT)


def _given_operand(slot: Slot, value: Operand | int) -> Operand:
    if isinstance(value, int):
        return Num(value)
    if isinstance(value, Imm) and isinstance(slot, ImmSlot):
        return Imm(value.value, slot.kind)
    return value


def ins(
    mnemonic: str, opcode: int, guard: Pred | UPred | None = None, sm: int = SM, **fields: Operand | Value | int
) -> Instruction:
    """The instruction of the row that has these fields; a plain int in an operand's place is an immediate number."""
    reasons = []
    for known in matching_rows(mnemonic, sm):
        row = known.row
        if row.opcode & 0xFFF != opcode:
            continue
        mods: dict[str, Value] = {mod.name: _default_mod(mod) for mod in row.mods}
        slots = {slot.name: slot for slot in row.slots}
        args: dict[str, Operand] = {name: _default_operand(slot) for name, slot in slots.items()}
        if unknown := set(fields) - set(mods) - set(args):
            reasons.append(f"no field {unknown}")
            continue
        for name, value in fields.items():
            if name in mods:
                assert isinstance(value, (str, int, bool))
                mods[name] = value
            else:
                assert not isinstance(value, str)
                args[name] = _given_operand(slots[name], value)
        made = Instruction(
            sm, row.opcode & 0xFFF, mnemonic, mods, args, guard or (UPred(PT) if row.uniform_guard else Pred(PT))
        )
        try:
            encode(made)
        except SassError as wrong:
            reasons.append(str(wrong))
            continue
        return made
    raise AssertionError(f"{mnemonic} {opcode:#x}: {reasons or 'no such row'}")


@dataclass
class Warp:
    """Inputs by register number (one value for all lanes, or 32), and what to read back."""

    registers: Mapping[int, Any] = field(default_factory=dict)
    predicates: Mapping[int, Any] = field(default_factory=dict)
    uniforms: Mapping[int, int] = field(default_factory=dict)
    uniform_predicates: Mapping[int, bool] = field(default_factory=dict)
    constants: bytes = b""  # from c[0][0x100]
    data: Words = field(default_factory=lambda: np.zeros(0, np.uint32))

    def inputs(self) -> Words:
        rows = [*self.registers.values(), *self.predicates.values()]
        words = np.zeros((len(rows), LANES), np.uint32)
        for row, value in zip(words, rows, strict=True):
            row[:] = np.broadcast_to(np.asarray(value).astype(np.int64) & 0xFFFFFFFF, LANES).astype(np.uint32)
        return words

    def prologue(self) -> list[Instruction]:
        code = [
            ins("S2R", 0x919, d=LANE, sr=SpecialReg(0)),
            ins("MOV", 0xA02, d=ADDRESS, b=Const(0, 0)),
            ins("MOV", 0xA02, d=R[ADDRESS.index + 1], b=Const(0, 4)),
            ins("IMAD.WIDE", 0x825, d=ADDRESS, a=LANE, b=Imm(4), c=ADDRESS, sign="U32"),
        ]
        load = [*self.registers, *[SCRATCH.index] * len(self.predicates)]
        tests = iter(self.predicates)
        for row, number in enumerate(load):
            code.append(ins("LDG", 0x381, d=R[number], addr=Mem(ADDRESS, 128 * row), E=True))
            if row >= len(self.registers):
                code.append(ins("ISETP", 0x20C, pd=P[next(tests)], a=SCRATCH, b=R[RZ], cmp="NE"))
        for index, number in enumerate(self.uniforms):
            code.append(ins("ULDC", 0xAB9, d=UR[number], b=Const(0, UNIFORMS_AT + 4 * index)))
        if self.data.size:
            code.append(ins("MOV", 0xA02, d=R[20], b=Const(0, 16)))
            code.append(ins("MOV", 0xA02, d=R[21], b=Const(0, 20)))
            code.append(ins("ULDC", 0xAB9, d=UR[20], b=Const(0, 16), type="64"))
        for number, value in self.uniform_predicates.items():
            code.append(ins("UISETP", 0x28C, pd=UP[number], a=UR[63], b=UR[63], cmp="EQ" if value else "NE"))
        return code

    def bank(self) -> bytes:
        values = np.array(list(self.uniforms.values()), np.int64).astype(np.uint32).tobytes()
        return values.ljust(0x100 - UNIFORMS_AT, b"\0") + self.constants.ljust(0x100, b"\0")


def epilogue(results: Sequence[Operand]) -> list[Instruction]:
    """Store each result as one 32-bit word of each lane."""
    code = [
        ins("S2R", 0x919, d=LANE, sr=SpecialReg(0)),
        ins("MOV", 0xA02, d=ADDRESS, b=Const(0, 8)),
        ins("MOV", 0xA02, d=R[ADDRESS.index + 1], b=Const(0, 12)),
        ins("IMAD.WIDE", 0x825, d=ADDRESS, a=LANE, b=Imm(4), c=ADDRESS, sign="U32"),
    ]
    for row, result in enumerate(results):
        value: Reg = SCRATCH
        if isinstance(result, Reg):
            value = result
        elif isinstance(result, UReg):
            code.append(ins("MOV", 0xC02, d=SCRATCH, b=result))
        elif isinstance(result, Pred):
            code.append(ins("SEL", 0x807, d=SCRATCH, a=R[RZ], b=Imm(1), ps=Pred(result.index, not result.neg)))
        else:
            assert isinstance(result, UPred)
            code.append(ins("USEL", 0x887, d=UR[62], a=UR[63], b=Imm(1), ps=UPred(result.index, not result.neg)))
            code.append(ins("MOV", 0xC02, d=SCRATCH, b=UR[62]))
        code.append(ins("STG", 0x386, addr=Mem(ADDRESS, 128 * row), data=value, E=True))
    code.append(ins("EXIT", 0x94D))
    return code


def machine_code(instructions: Sequence[Instruction]) -> bytes:
    return b"".join(word.to_bytes(8, "little") for one in instructions for word in encode(one))


def run_code(
    instructions: Sequence[Instruction],
    arrays: Sequence[np.ndarray[Any, Any]],
    core: str = CORES[0],
    *,
    block: tuple[int, int, int] = (LANES, 1, 1),
    grid: tuple[int, int, int] = (1, 1, 1),
    bank: bytes = b"",
) -> Result:
    """Launch over `arrays`; their addresses lie at c[0][0], c[0][8], and so on, then comes `bank`."""
    code = machine_code(instructions)
    memory = ArrayMemory(list(arrays))
    head = np.array(memory.addresses, np.uint64).tobytes()
    constants = np.frombuffer(bytearray(head + bank), np.uint8)
    launch = Launch(
        fetch=lambda va, nbytes: code[va - CODE_VA : va - CODE_VA + nbytes],
        entry_va=CODE_VA,
        memory=memory,
        grid=grid,
        block=block,
        registers=210,
        shared_bytes=SHARED_BYTES,
        local_low_bytes=LOCAL_BYTES,
        local_window_va=LOCAL_WINDOW,
        shared_window_va=SHARED_WINDOW,
        constants={0: (constants.ctypes.data, constants.nbytes)},
        budget=1_000_000,
    )
    return execute(launch, core)


def run(warp: Warp, instructions: Sequence[Instruction], results: Sequence[Operand]) -> Words:
    """Rows of 32 words, one for each result (predicates: 0 or 1); every core must leave the same bits.

    R20:21 and UR20:21 hold the address of `warp.data`, which keeps what the instructions stored.
    """
    code = [*warp.prologue(), *instructions, *epilogue(results)]
    before, first = warp.data.copy(), np.zeros(0, np.uint32)
    for core in CORES:
        outputs, memory = np.zeros((len(results), LANES), np.uint32), before.copy()
        result = run_code(code, [warp.inputs(), outputs, memory], core, bank=warp.bank())
        assert result.fault is None, result.fault
        if core == CORES[0]:
            first = outputs
            warp.data[...] = memory
        assert np.array_equal(outputs, first), core
        assert np.array_equal(memory, warp.data), core
    return first
