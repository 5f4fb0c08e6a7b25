"""Prints one instruction the way Mesa's disassembler does."""

from __future__ import annotations

from dataclasses import replace

from .codec import find
from .model import Instruction
from .names import FLAG_TEXTS


def delay_text(inst: Instruction) -> str:
    if inst.repeat:
        return f"(rpt{inst.repeat})"
    return f"(nop{inst.nop}) " if inst.nop else ""


def text(inst: Instruction, exact: bool = False) -> str:
    """The instruction as text; branch targets are relative, `#-5`.

    `exact`: float immediates that six decimals cannot give are hexadecimal bits, so that the assembler gets them back.
    """
    row = find(inst)[0]
    context = replace(row.context(inst.mods, inst.args), exact=exact)
    out = []
    for at, part in enumerate(row.parts):
        if at % 2 == 0:
            out.append(part)
        elif part == "rpt":
            out.append(delay_text(inst))
        elif part in row.mods:
            out.append(row.mods[part].text(inst.mods[part]))
        elif part in row.slots:
            out.append(row.slots[part].text(inst.args[part], context))
        elif part in row.flags:
            out.append(FLAG_TEXTS[part] if part in inst.flags else "")
    return "".join(out)
