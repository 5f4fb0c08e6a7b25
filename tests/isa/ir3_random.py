"""Random words that have a chance to be instructions: rows of the table with random fields."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hcqrt.isa.ir3.codec import Compiled, _compiled
from hcqrt.isa.ir3.fields import Enum, Flag, Number
from hcqrt.isa.ir3.slots import FixedReg

BY_CATEGORY = [group for group in _compiled() if group]
ROWS = [known for group in BY_CATEGORY for known in group]


def single_values(known: Compiled) -> Iterator[tuple[int, int]]:
    """Mask and value of each field with one legal value; random bits would almost never hit it."""
    for mod in known.row.mods.values():
        if isinstance(mod, Enum) and len(mod.names) == 1:
            yield mod.mask, mod.encode(next(iter(mod.names.values())))
        elif isinstance(mod, (Flag, Number)) and mod.only is not None:
            yield mod.mask, mod.encode(mod.only)
    for slot in known.row.slots.values():
        if isinstance(slot, FixedReg):
            yield slot.mask, slot.number << slot.lsb


def random_word(known: Compiled, rng: random.Random) -> int:
    """A word of this row. Half of them have few bits set, so that small values occur too."""
    noise = rng.getrandbits(64) & (rng.getrandbits(64) | -rng.randrange(2))
    word = known.row.fixed | (noise & (known.owned | known.delay_mask))
    for mask, value in single_values(known):
        word = word & ~mask | value
    if known.row.opcode == "mov":  # equal types: destination bits 48:46, source 52:50
        word = word & ~(7 << 46) | (word >> 50 & 7) << 46
    if known.row.opcode in ("mov", "cov", "mova", "mova1") and rng.randrange(2):
        word &= ~(3 << 53 | 0xFFFFFF00)  # a register source, which leaves most bits no choice
    return word


def flip_some(word: int, rng: random.Random, chance: float) -> int:
    return word ^ (1 << rng.randrange(64)) if rng.random() < chance else word
