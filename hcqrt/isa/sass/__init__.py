"""SASS, the machine code of NVIDIA GPUs since Volta: decode, encode, print and assemble one 128-bit instruction."""

from __future__ import annotations

from .assembler import assemble, disassemble
from .codec import decode, encode
from .model import (
    PT,
    RZ,
    Barrier,
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
    Sched,
    Scoreboard,
    SpecialReg,
    Target,
    UPred,
    UReg,
    Value,
)
from .parse import parse
from .text import text

__all__ = [
    "PT", "RZ", "Barrier", "Bindless", "Const", "Imm", "Instruction", "Mem", "Num", "Operand", "Pred", "Reg",
    "SassError", "Sched", "Scoreboard", "SpecialReg", "Target", "UPred", "UReg", "Value", "assemble", "decode",
    "disassemble", "encode", "parse", "text",
]  # fmt: skip
