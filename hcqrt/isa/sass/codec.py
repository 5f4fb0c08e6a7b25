"""Between 128-bit words and instructions, both ways and exactly: every bit has an owner or its one legal value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from .families import family
from .model import Instruction, Operand, Pred, SassError, Sched, UPred, Value
from .names import EXCLUSIVE
from .row import OPCODE_MASK, Row
from .rows import rows
from .slots import bits, put

FULL = (1 << 128) - 1


@dataclass(frozen=True)
class Compiled:
    """A row with its masks worked out once."""

    row: Row
    fixed_mask: int
    fixed: int


@cache
def _compiled(sm: int) -> dict[int, list[Compiled]]:
    table: dict[int, list[Compiled]] = {}
    for row in rows(family(sm)):
        if sm in row.chips:
            table.setdefault(row.opcode, []).append(Compiled(row, FULL & ~row.free_mask, row.fixed))
    return table


def bit_list(mask: int) -> str:
    """The set bits as `71:64, 12`, high first."""
    parts = []
    top = mask.bit_length() - 1
    while top >= 0:
        low = top
        while low and mask >> (low - 1) & 1:
            low -= 1
        parts.append(f"{top}:{low}" if top != low else f"{top}")
        mask &= (1 << low) - 1
        top = mask.bit_length() - 1
    return ", ".join(parts)


def _sched(word: int) -> Sched:
    return Sched(
        stall=bits(word, 105, 4),
        yield_=bool(bits(word, 109, 1)),
        write_barrier=bits(word, 110, 3),
        read_barrier=bits(word, 113, 3),
        wait_mask=bits(word, 116, 6),
        reuse=bits(word, 122, 4),
    )


def _put_sched(sched: Sched) -> int:
    word = put("stall", sched.stall, 105, 4) | int(sched.yield_) << 109
    word |= put("write barrier", sched.write_barrier, 110, 3) | put("read barrier", sched.read_barrier, 113, 3)
    return word | put("wait mask", sched.wait_mask, 116, 6) | put("reuse", sched.reuse, 122, 4)


def check_exclusive(mods: Mapping[str, Value]) -> None:
    for one, other in EXCLUSIVE:
        if mods.get(one) and mods.get(other):
            raise SassError(f".{one} and .{other} exclude each other")


def _decode_row(known: Compiled, word: int, sm: int) -> Instruction:
    row = known.row
    wrong = (word ^ known.fixed) & known.fixed_mask
    if wrong:
        raise SassError(f"{row.mnemonic} has no field for bits {bit_list(wrong)}")
    mods: dict[str, Value] = {mod.name: mod.decode(word) for mod in row.mods}
    check_exclusive(mods)
    args: dict[str, Operand] = {slot.name: slot.decode(word, mods) for slot in row.slots}
    guard = (UPred if row.uniform_guard else Pred)(bits(word, 12, 3), bool(bits(word, 15, 1)))
    return Instruction(sm, row.opcode, row.mnemonic, mods, args, guard, _sched(word))


@lru_cache(maxsize=1 << 15)
def decode(lo: int, hi: int, sm: int) -> Instruction:
    """Decode the word whose bits 63:0 are `lo` and 127:64 are `hi`.

    Raises:
        SassError: unknown opcode, a bit that no field owns, or a field value without a meaning; names all three.
    """
    if not (0 <= lo < 1 << 64 and 0 <= hi < 1 << 64):
        raise ValueError("an instruction is two words of 64 bits")
    word = lo | hi << 64
    opcode = word & OPCODE_MASK
    where = f"sm_{sm} opcode {opcode:#05x} in word {hi:#018x}_{lo:016x}"
    family(sm)
    candidates = _compiled(sm).get(opcode)
    if not candidates:
        raise SassError(f"{where}: unknown opcode (bits 11:0)")
    reasons = []
    for known in candidates:
        try:
            return _decode_row(known, word, sm)
        except SassError as refusal:
            reasons.append(str(refusal))
    raise SassError(f"{where}: {'; or '.join(dict.fromkeys(reasons))}")


def _encode_row(known: Compiled, inst: Instruction) -> int:
    row = known.row
    if set(inst.mods) != {mod.name for mod in row.mods} or set(inst.args) != {slot.name for slot in row.slots}:
        raise SassError(f"fields {sorted(inst.mods)} and operands {sorted(inst.args)} are not those of this row")
    check_exclusive(inst.mods)
    word = known.fixed | _put_sched(inst.sched)
    if not isinstance(inst.guard, UPred if row.uniform_guard else Pred):
        raise SassError(f"guard {inst.guard!r} is of the wrong file")
    word |= put("guard", inst.guard.index, 12, 3) | int(inst.guard.neg) << 15
    for mod in row.mods:
        word |= mod.encode(inst.mods[mod.name])
    for slot in row.slots:
        word |= slot.encode(inst.args[slot.name], inst.mods)
    return word


def matching_rows(mnemonic: str, sm: int) -> list[Compiled]:
    family(sm)
    return [known for group in _compiled(sm).values() for known in group if known.row.mnemonic == mnemonic]


def row_of(inst: Instruction) -> Row:
    """The row that encodes `inst`."""
    return _find(inst)[0]


def _find(inst: Instruction) -> tuple[Row, int]:
    family(inst.sm)
    reasons = []
    for known in _compiled(inst.sm).get(inst.opcode, []):
        if known.row.mnemonic != inst.mnemonic:
            continue
        try:
            return known.row, _encode_row(known, inst)
        except SassError as refusal:
            reasons.append(str(refusal))
    why = "; or ".join(dict.fromkeys(reasons)) or "no such instruction"
    raise SassError(f"sm_{inst.sm} {inst.mnemonic} (opcode {inst.opcode:#05x}) has no encoding: {why}")


def encode(inst: Instruction) -> tuple[int, int]:
    """The word of `inst` as (bits 63:0, bits 127:64); the exact inverse of `decode`. Raises SassError."""
    word = _find(inst)[1]
    return word & ((1 << 64) - 1), word >> 64
