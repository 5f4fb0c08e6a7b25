"""ir3, the machine code of Adreno shader processors: decode, encode, print and assemble one 64-bit instruction."""

from __future__ import annotations

from .assembler import assemble, disassemble, pack
from .codec import decode, encode
from .model import (
    A0_X,
    A1_X,
    FIRST_PREDICATE,
    Const,
    ConstDst,
    FloatImm,
    Imm,
    Instruction,
    Ir3Error,
    Operand,
    Pred,
    Reg,
    Relative,
    Scaled,
    Target,
    Value,
)
from .names import FLOAT_TABLE
from .parse import parse
from .text import text

__all__ = [
    "A0_X", "A1_X", "FIRST_PREDICATE", "FLOAT_TABLE", "Const", "ConstDst", "FloatImm", "Imm", "Instruction", "Ir3Error",
    "Operand", "Pred", "Reg", "Relative", "Scaled", "Target", "Value", "assemble", "decode",
    "disassemble", "encode", "pack", "parse", "text",
]  # fmt: skip
