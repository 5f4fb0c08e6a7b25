"""Assembles whole programs in the vendor-like text, and prints programs as such text."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .codec import decode, encode
from .families import family
from .model import NO_BARRIER, Instruction, SassError, Sched
from .numbers import parse_integer
from .parse import parse
from .schedule import SCOREBOARDS, schedule
from .text import text

INSTRUCTION_BYTES = 16
LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*):")
SCHED = re.compile(r"\[((?:(?:stall|wr|rd|wait|yield|reuse)(?:=\w+)?\s*)+)\]\s*;?\s*$")


@dataclass(frozen=True)
class SourceLine:
    number: int
    body: str
    sched: Sched | None


def _sched(spec: str) -> Sched:
    """`stall=4 wr=1 rd=2 wait=0x3 yield`: what is left out is none."""
    values = {"stall": 1, "wr": NO_BARRIER, "rd": NO_BARRIER, "wait": 0, "reuse": 0}
    use_yield = False
    for item in spec.split():
        name, _, number = item.partition("=")
        if name == "yield" and not number:
            use_yield = True
        elif name in values and number:
            values[name] = parse_integer(number)
        else:
            raise SassError(f"scheduling field {item!r}")
    for name in ("wr", "rd"):
        if values[name] >= SCOREBOARDS and values[name] != NO_BARRIER:
            raise SassError(f"{name}={values[name]}: there are {SCOREBOARDS} scoreboards")
    return Sched(values["stall"], use_yield, values["wr"], values["rd"], values["wait"], values["reuse"])


def _read_lines(source: str) -> tuple[list[SourceLine], dict[str, int]]:
    lines: list[SourceLine] = []
    labels: dict[str, int] = {}
    for number, line in enumerate(source.splitlines(), 1):
        body = re.sub(r"//.*|/\*.*?\*/", "", line)
        while match := LABEL.match(body):
            if match[1] in labels:
                raise SassError(f"line {number}: label {match[1]} is defined twice")
            labels[match[1]] = len(lines) * INSTRUCTION_BYTES
            body = body[match.end() :]
        control = SCHED.search(body)
        sched = _sched(control[1]) if control else None
        body = (body[: control.start()] if control else body).strip().rstrip(";").strip()
        if body:
            lines.append(SourceLine(number, body, sched))
        elif sched is not None:
            raise SassError(f"line {number}: scheduling fields without an instruction")
    return lines, labels


def assemble_instructions(source: str, sm: int) -> list[Instruction]:
    """Read a program: one instruction a line, `label:`, `//` comments, and scheduling fields in brackets at the end.

    Lines without scheduling fields get safe ones (schedule.py).

    Raises:
        SassError: with the number of the line.
    """
    lines, labels = _read_lines(source)

    def resolve(name: str) -> int:
        return labels[name] if name in labels else parse_integer(name)

    code = []
    for at, line in enumerate(lines):
        try:
            inst = parse(line.body, sm, at * INSTRUCTION_BYTES, resolve)
        except SassError as bad:
            raise SassError(f"line {line.number}: {bad}") from bad
        if line.sched is not None:
            inst = replace(inst, sched=replace(line.sched, reuse=line.sched.reuse | inst.sched.reuse))
        code.append(inst)
    entries = {address // INSTRUCTION_BYTES for address in labels.values()}
    starts = [at in entries for at in range(len(code))]
    return schedule(code, starts, [line.sched is not None for line in lines], family(sm).urz)


def pack(code: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack("<QQ", *encode(inst)) for inst in code)


def assemble(source: str, sm: int) -> bytes:
    """Machine code of the program `source`; see `assemble_instructions`."""
    return pack(assemble_instructions(source, sm))


def sched_text(sched: Sched) -> str:
    parts = [f"stall={sched.stall}"]
    parts += [f"wr={sched.write_barrier}"] if sched.write_barrier != NO_BARRIER else []
    parts += [f"rd={sched.read_barrier}"] if sched.read_barrier != NO_BARRIER else []
    parts += [f"wait={sched.wait_mask:#x}"] if sched.wait_mask else []
    parts += ["yield"] if sched.yield_ else []
    return f"[{' '.join(parts)}]"


def disassemble(code: bytes, sm: int, *, scheduling: bool = False) -> list[str]:
    """One line of text per instruction of `code`; targets are addresses relative to its start."""
    if len(code) % INSTRUCTION_BYTES:
        raise SassError(f"{len(code)} bytes of code are no whole number of instructions")
    lines = []
    for at, (lo, hi) in enumerate(struct.iter_unpack("<QQ", code)):
        inst = decode(lo, hi, sm)
        line = text(inst, at * INSTRUCTION_BYTES)
        lines.append(f"{line} {sched_text(inst.sched)}" if scheduling else line)
    return lines
