"""ir3, the machine code of Adreno shader processors: decode, encode, print and assemble one 64-bit instruction."""

from __future__ import annotations

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
    Target,
    Value,
)
from .names import FLOAT_TABLE
from .text import text

__all__ = [
    "A0_X", "A1_X", "FIRST_PREDICATE", "FLOAT_TABLE", "Const", "ConstDst", "FloatImm", "Imm", "Instruction", "Ir3Error",
    "Operand", "Pred", "Reg", "Relative", "Target", "Value", "decode", "encode", "text",
]  # fmt: skip
