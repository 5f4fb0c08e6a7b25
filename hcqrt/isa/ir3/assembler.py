"""Assembles whole programs in the text of Mesa's disassembler, and prints programs as such text."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from .codec import decode, encode
from .fields import parse_integer
from .model import Instruction, Ir3Error
from .parse import parse
from .text import text

INSTRUCTION_BYTES = 8
LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*):")
COMMENT = re.compile(r"/\*.*?\*/|//.*|;.*")


def _read_lines(source: str) -> tuple[list[tuple[int, str]], dict[str, int]]:
    lines: list[tuple[int, str]] = []
    labels: dict[str, int] = {}
    for number, line in enumerate(source.splitlines(), 1):
        body = COMMENT.sub("", line)
        while match := LABEL.match(body):
            if match[1] in labels:
                raise Ir3Error(f"line {number}: label {match[1]} is defined twice")
            labels[match[1]] = len(lines)
            body = body[match.end() :]
        if body.strip():
            lines.append((number, body.strip()))
    return lines, labels


def assemble_instructions(source: str, gen: int = 6) -> list[Instruction]:
    """Read a program: one instruction a line, `label:`, comments after `//` or `;` or inside `/* */`.

    A branch goes to `#5`, so many instructions ahead, to a label, or to an instruction's number.

    Raises:
        Ir3Error: with the number of the line.
    """
    lines, labels = _read_lines(source)
    code = []
    for at, (number, body) in enumerate(lines):

        def resolve(name: str, at: int = at) -> int:
            return (labels[name] if name in labels else parse_integer(name)) - at

        try:
            code.append(parse(body, gen, resolve))
        except Ir3Error as bad:
            raise Ir3Error(f"line {number}: {bad}") from bad
    return code


def assemble(source: str, gen: int = 6) -> list[int]:
    """Words of the program `source`; see `assemble_instructions`."""
    return [encode(inst) for inst in assemble_instructions(source, gen)]


def pack(words: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<Q", word) for word in words)


def disassemble(code: bytes, gen: int = 6, *, exact: bool = False) -> list[str]:
    """One line of text per instruction of `code`; `exact` as in `text`."""
    if len(code) % INSTRUCTION_BYTES:
        raise Ir3Error(f"{len(code)} bytes of code are no whole number of instructions")
    return [text(decode(word, gen), exact) for (word,) in struct.iter_unpack("<Q", code)]
