"""Reads one instruction from its text: tries the rows of its name until one matches as a whole and encodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from .codec import check_generation, encode
from .fields import Enum, Flag, Mod, Number
from .model import FloatImm, Imm, Instruction, Ir3Error, Operand, Value
from .row import FLAG_BITS, Row
from .rows import rows
from .slots import Context
from .text import text

PREFIX = re.compile(r"\((sy|ss|jp|eq|ul|sat|rpt(\d+)|nop(\d+))\)\s*")
PREFIX_NAMES = (*FLAG_BITS, "sat", "rpt")
Resolver = Callable[[str], int]  # label -> distance in instructions


def _literal(piece: str) -> str:
    """Regular expression of fixed text; blanks around its punctuation are free."""
    parts = re.split(r"(\s*[,\[\]]\s*|\s+)", piece)
    return "".join(
        r"\s+" if part.isspace() else rf"\s*{re.escape(part.strip())}\s*" if at % 2 else re.escape(part)
        for at, part in enumerate(parts)
        if part
    )


@cache
def _body(row: Row) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Expression of the text after the prefixes, and which field each of its groups is."""
    parts = list(row.parts)
    while len(parts) > 1 and not parts[0] and parts[1] in PREFIX_NAMES:
        del parts[:2]
    expression, names = "", []
    for at, part in enumerate(parts):
        if at % 2 == 0:
            expression += _literal(part)
            continue
        names.append(part)
        field = row.mods.get(part) or row.slots[part]
        expression += f"({field.pattern})"
    return re.compile(expression), tuple(names)


def _first_word(row: Row) -> str:
    body = row.parts[0] or next(part for part in row.parts[::2] if part)
    return re.split(r"[. ]", body)[0]


@cache
def _by_word() -> Mapping[str, tuple[Row, ...]]:
    found: dict[str, list[Row]] = {}
    for row in rows():
        found.setdefault(_first_word(row), []).append(row)
    return {word: tuple(group) for word, group in found.items()}


class Prefixes:
    """What stands in parentheses before the name."""

    def __init__(self, line: str) -> None:
        self.flags: set[str] = set()
        self.sat, self.repeat, self.nop = False, 0, 0
        while match := PREFIX.match(line):
            if match[2] or match[3]:
                self.repeat, self.nop = int(match[2] or self.repeat), int(match[3] or self.nop)
            elif match[1] == "sat":
                self.sat = True
            else:
                self.flags.add(match[1])
            line = line[match.end() :]
        self.rest = line


def _hidden(mod: Mod) -> Value:
    """The value of a field that the text does not show: the only one its row allows."""
    if isinstance(mod, Enum) and len(mod.names) == 1:
        return next(iter(mod.names.values()))
    if isinstance(mod, (Flag, Number)) and mod.only is not None:
        return mod.only
    raise AssertionError(f"table: field {mod.name} is not printed")


def _widen(row: Row, mods: Mapping[str, Value], args: dict[str, Operand]) -> None:
    """Give immediates, which may be written without their h, the width of the other sources."""
    half = row.context(mods, args).src_half
    for name, operand in args.items():
        if row.slots[name].half == "src" and isinstance(operand, (Imm, FloatImm)):
            args[name] = replace(operand, half=half)


def _read(row: Row, prefixes: Prefixes, gen: int, resolve: Resolver) -> Instruction:
    pattern, names = _body(row)
    match = pattern.fullmatch(prefixes.rest)
    if match is None:
        raise Ir3Error("another form")
    texts = dict(zip(names, match.groups(), strict=True))
    mods: dict[str, Value] = {}
    for name, mod in row.mods.items():
        if name == "sat":
            mods[name] = prefixes.sat
        else:
            mods[name] = mod.parse(texts[name]) if name in texts else _hidden(mod)
    if prefixes.sat and "sat" not in row.mods:
        raise Ir3Error("(sat) is not possible here")
    context = Context(mods, resolve=resolve)
    args = {name: slot.parse(texts[name].strip(), context) for name, slot in row.slots.items()}
    _widen(row, mods, args)
    flags = frozenset(prefixes.flags)
    return Instruction(gen, row.category, row.opcode, mods, args, prefixes.repeat, prefixes.nop, flags)


def _candidates(prefixes: Prefixes, gen: int, resolve: Resolver) -> Iterator[Instruction | Ir3Error]:
    for row in _by_word().get(re.split(r"[. ]", prefixes.rest)[0], ()):
        try:
            inst = _read(row, prefixes, gen, resolve)
            encode(inst)
        except Ir3Error as refusal:
            yield refusal
        else:
            yield inst


def _no_labels(name: str) -> int:
    raise Ir3Error(f"{name!r} is no branch target: write #distance, or assemble a whole program")


def parse(line: str, gen: int = 6, resolve: Resolver = _no_labels) -> Instruction:
    """The instruction that prints as `line`.

    Also read: prefixes in any order, immediates without their h, float immediates as `(0x3f800000)`, and branch
    targets that `resolve` knows.

    Raises:
        Ir3Error: no row of the table fits.
    """
    check_generation(gen)
    line = " ".join(line.split())
    prefixes = Prefixes(line)
    fallback = None
    reasons = []
    for found in _candidates(prefixes, gen, resolve):
        if isinstance(found, Ir3Error):
            reasons.append(str(found))
            continue
        if line == text(found) or line == text(found, exact=True):
            return found
        fallback = fallback or found
    if fallback is None:
        why = "; or ".join(reason for reason in dict.fromkeys(reasons) if reason != "another form")
        raise Ir3Error(f"a{gen}xx: no instruction has the form {line!r}{': ' + why if why else ''}")
    return fallback
