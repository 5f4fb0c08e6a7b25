"""Between 64-bit words and instructions, both ways and exactly: every bit has an owner or its one legal value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from .fields import bits, ones, put
from .model import Instruction, Ir3Error, Operand, Value
from .row import FLAG_BITS, Row
from .rows import CATEGORY_LSB, rows
from .slots import Context
from .table import EARLIER, LATER

GENERATIONS = (6, 7)
FULL = (1 << 64) - 1
TEXTURES, BINDLESS_BIT, MODE_FIELD, MODE_A1 = 5, 51, (29, 3), 7


@dataclass(frozen=True)
class Compiled:
    """A row with its masks worked out once."""

    row: Row
    owned: int
    delay_mask: int
    generations: tuple[int, ...]


def generations_of(row: Row) -> tuple[int, ...]:
    """Which have this form. Textures whose descriptor a1.x chooses (mode 7) carry the sampler's number on a6xx only."""
    if row.opcode in LATER:
        return GENERATIONS[1:]
    by_a1 = row.category == TEXTURES and row.fixed & row.key_mask & ones(BINDLESS_BIT)
    if row.opcode in EARLIER or (by_a1 and bits(row.fixed, *MODE_FIELD) == MODE_A1):
        return GENERATIONS[:1]
    return GENERATIONS


@cache
def _compiled(gen: int = GENERATIONS[0]) -> tuple[tuple[Compiled, ...], ...]:
    """The forms of a generation by category."""
    table: list[list[Compiled]] = [[] for _ in range(8)]
    for row in rows():
        delay = sum(ones(bit) for bit in row.delay) if row.delay else 0
        generations = generations_of(row)
        if gen in generations:
            table[row.category].append(Compiled(row, row.owned, delay, generations))
    return tuple(map(tuple, table))


@cache
def rows_of(opcode: str, gen: int) -> tuple[Compiled, ...]:
    return tuple(known for group in _compiled(gen) for known in group if known.row.opcode == opcode)


def candidates(word: int, gen: int) -> list[Compiled]:
    """Forms that the bits which name the opcode may stand for."""
    return [
        known for known in _compiled(gen)[word >> CATEGORY_LSB] if (word ^ known.row.fixed) & known.row.key_mask == 0
    ]


def elsewhere(forms: Iterable[Compiled], gen: int) -> list[str]:
    """What to say of those that only another generation has."""
    return [
        f"{known.row.opcode} in this form is not known for a{gen}xx" for known in forms if gen not in known.generations
    ]


def check_generation(gen: int) -> None:
    if gen not in GENERATIONS:
        raise Ir3Error(f"a{gen}xx: no instruction table; known are {', '.join(f'a{g}xx' for g in GENERATIONS)}")


def bit_list(mask: int) -> str:
    """The set bits as `63:61, 12`, high first."""
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


def _decode_row(known: Compiled, word: int, gen: int) -> Instruction:
    row = known.row
    repeat = bits(word, *row.repeat) if row.repeat else 0
    nop = 0
    if row.delay and not repeat:
        nop = bits(word, row.delay[0], 1) | bits(word, row.delay[1], 1) << 1
        word &= ~known.delay_mask
    wrong = (word ^ row.fixed) & ~known.owned
    if wrong:
        raise Ir3Error(f"{row.opcode} has no field for bits {bit_list(wrong)}")
    mods: dict[str, Value] = {name: mod.decode(word) for name, mod in row.mods.items()}
    src_half, dst_half = row.precision.read(word)
    context = Context(mods, src_half, dst_half)
    args: dict[str, Operand] = {name: slot.decode(word, context) for name, slot in row.slots.items()}
    flags = frozenset(flag for flag in row.flags if bits(word, FLAG_BITS[flag], 1))
    inst = Instruction(gen, row.category, row.opcode, mods, args, repeat, nop, flags)
    row.check(inst)
    return inst


@lru_cache(maxsize=1 << 16)
def decode(word: int, gen: int = 6) -> Instruction:
    """Decode one 64-bit word of an Adreno of generation `gen`.

    Raises:
        Ir3Error: unknown opcode, a bit that no field owns, or a field value without a meaning; with the word.
    """
    if not 0 <= word <= FULL:
        raise ValueError("an instruction is one word of 64 bits")
    check_generation(gen)
    category = word >> CATEGORY_LSB
    where = f"a{gen}xx word {word:#018x} (category {category})"
    reasons = []
    for known in candidates(word, gen):
        try:
            return _decode_row(known, word, gen)
        except Ir3Error as refusal:
            reasons.append(str(refusal))
    reasons += elsewhere((known for other in GENERATIONS for known in candidates(word, other)), gen)
    raise Ir3Error(f"{where}: {'; or '.join(dict.fromkeys(reasons)) or 'unknown opcode or form'}")


def _encode_row(known: Compiled, inst: Instruction) -> int:
    row = known.row
    if set(inst.mods) != set(row.mods) or set(inst.args) != set(row.slots):
        raise Ir3Error(f"fields {sorted(inst.mods)} and operands {sorted(inst.args)} are not those of this row")
    row.check(inst)
    context = row.context(inst.mods, inst.args)
    word = row.fixed | row.precision.write(context.src_half, inst.args.get("dst"))
    for flag in inst.flags:
        if flag not in row.flags:
            raise Ir3Error(f"flag {flag} is not possible here")
        word |= ones(FLAG_BITS[flag])
    if row.repeat:
        word |= put("repeat", inst.repeat, *row.repeat)
    for name, mod in row.mods.items():
        word |= mod.encode(inst.mods[name])
    for name, slot in row.slots.items():
        word |= slot.encode(inst.args[name], context)
    if row.delay and not inst.repeat and word & known.delay_mask:
        raise Ir3Error("(r) without a repeat is a delay")
    if row.delay and inst.nop:
        word |= bits(inst.nop, 0, 1) << row.delay[0] | bits(inst.nop, 1, 1) << row.delay[1]
    return word


def find(inst: Instruction) -> tuple[Row, int]:
    """The row that encodes `inst`, and its word. Raises Ir3Error."""
    check_generation(inst.gen)
    reasons: Iterable[str] = []
    for known in rows_of(inst.opcode, inst.gen):
        try:
            return known.row, _encode_row(known, inst)
        except Ir3Error as refusal:
            reasons = [*reasons, str(refusal)]
    others = (known for other in GENERATIONS for known in rows_of(inst.opcode, other))
    reasons = [*reasons, *elsewhere(others, inst.gen)]
    why = "; or ".join(dict.fromkeys(reasons)) or "no such instruction"
    raise Ir3Error(f"a{inst.gen}xx {inst.opcode} has no encoding: {why}")


def encode(inst: Instruction) -> int:
    """The word of `inst`; the exact inverse of `decode`. Raises Ir3Error."""
    return find(inst)[1]
