"""The generations of SASS: which chips share one encoding, and what of it differs from the table's own, sm_80 to 89."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from .model import SassError


@dataclass(frozen=True)
class Family:
    """Chips that share one encoding. The lines of table.py say themselves for which chips they hold."""

    chips: tuple[int, ...]
    urz: int  # number of the uniform register that reads zero
    ureg_bits: int  # width of a uniform register's field
    # Arithmetic takes a constant as an operand; else LDC and LDCU load it first.
    constant_operands: bool = True
    # Branch distances have eight bits more, their low byte at bits 23:16.
    far_targets: bool = False
    # The text shows the uniform register that holds a memory descriptor.
    shows_descriptors: bool = False
    # The text shows RZ as the 64-bit base of an address that has a uniform register.
    shows_zero_pairs: bool = True
    # Instructions that need a scoreboard here and elsewhere do not, and the other way round (schedule.py).
    variable_latency: frozenset[str] = frozenset()
    fixed_latency: frozenset[str] = frozenset()
    # Enumerations (names.py) that have other values here than their usual ones.
    enums: Mapping[str, str] = field(default_factory=dict, hash=False)


TURING_ENUMS = {name: f"{name}_75" for name in ("order_load", "order_store", "order_atomic", "f2f")}
FAST_DOUBLES = frozenset(["DADD", "DMUL", "DFMA", "DSETP"])
SLOW_UNIFORM = frozenset(["LDCU", "UFLO"])
FAMILIES = (
    Family((75,), 63, 6, shows_zero_pairs=False, enums=TURING_ENUMS),
    Family((80, 86, 87, 89), 63, 6),
    Family((90,), 63, 6, far_targets=True, shows_descriptors=True, fixed_latency=FAST_DOUBLES),
    Family((100, 103), 255, 8, False, far_targets=True, shows_descriptors=True, variable_latency=SLOW_UNIFORM),
    Family((120, 121), 255, 8, False, far_targets=True, shows_descriptors=True, variable_latency=SLOW_UNIFORM),
)
CHIPS = tuple(chip for known in FAMILIES for chip in known.chips)


@cache
def family(sm: int) -> Family:
    """The family of a chip. Raises SassError for one without an instruction table."""
    for known in FAMILIES:
        if sm in known.chips:
            return known
    raise SassError(f"sm_{sm}: no instruction table; known are {', '.join(f'sm_{chip}' for chip in CHIPS)}")


def chips_of(column: str) -> frozenset[int]:
    """The chips that a table line names: `75`, `80-89`, `90-` and up, `-90` and below; all when it names none."""
    found: set[int] = set()
    for item in column.split():
        first, dash, last = item.partition("-")
        low, high = int(first or 0), int(last or CHIPS[-1]) if dash else int(first)
        found.update(chip for chip in CHIPS if low <= chip <= high)
    return frozenset(found or CHIPS)
