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

    `exact`: what the assembler needs for the same word: float immediates that six decimals cannot give as hexadecimal
    bits, and an offset of zero where an instruction without offset would be another word.
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
            mod = row.mods[part]
            out.append(mod.exact_text(inst.mods[part]) if exact else mod.text(inst.mods[part]))
        elif part in row.slots:
            out.append(row.slots[part].text(inst.args[part], context))
        elif part in row.flags:
            out.append(FLAG_TEXTS[part] if part in inst.flags else "")
    return "".join(out)
