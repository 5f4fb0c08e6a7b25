"""What one ir3 instruction is made of: operands, fields, the instruction itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import BinaryError

A0_X, A1_X = 0xF4, 0xF5  # register numbers of the two address registers
FIRST_PREDICATE = 0xF8  # p0.x; numbers above are p0.y to p0.w
COMPONENTS = "xyzw"


class Ir3Error(BinaryError):
    """A word is no instruction that this table knows, or an instruction has no encoding."""


@dataclass(frozen=True)
class Reg:
    """Register r<number / 4>.<component>; a0 is 0xF4, p0 0xF8.

    `half`: 16 bits wide, `r`: advances with each repeat, `neg`: arithmetic or bitwise as the opcode has it,
    `last`: a hint that nobody reads the value again.
    """

    number: int
    half: bool = False
    r: bool = False
    neg: bool = False
    abs: bool = False
    last: bool = False


@dataclass(frozen=True)
class Const:
    """Slot c<number / 4>.<component> of the constant file."""

    number: int
    half: bool = False
    r: bool = False
    neg: bool = False
    abs: bool = False


@dataclass(frozen=True)
class Relative:
    """Register a0.x + offset, or with `const` that slot of the constant file."""

    offset: int
    const: bool = False
    half: bool = False
    r: bool = False
    neg: bool = False
    abs: bool = False


@dataclass(frozen=True)
class Imm:
    """An integer; in a move the raw bits, whose `kind` (int, f16, f32) says how the text shows them."""

    value: int
    kind: str = "int"
    half: bool = False
    r: bool = False
    neg: bool = False
    abs: bool = False


@dataclass(frozen=True)
class FloatImm:
    """Entry `index` of FLOAT_TABLE."""

    index: int
    half: bool = False
    r: bool = False
    neg: bool = False
    abs: bool = False


@dataclass(frozen=True)
class Pred:
    """Component of p0 that a branch tests; `inv`: the branch goes when it is false."""

    component: int
    inv: bool = False


@dataclass(frozen=True)
class Target:
    """Branch target in instructions, relative to the branch itself."""

    relative: int


@dataclass(frozen=True)
class ConstDst:
    """Destination in the constant file, in 32-bit slots; `a1`: counted from a1.x."""

    offset: int
    a1: bool = False


@dataclass(frozen=True)
class Scaled:
    """Register offset of ldg.a and stg.a, in bytes ((register << shift) + offset) << e with 2**e bytes an element."""

    number: int
    shift: int = 0
    offset: int = 0


Operand = Reg | Const | Relative | Imm | FloatImm | Pred | Target | ConstDst | Scaled
Source = (Reg, Const, Relative, Imm, FloatImm)
Value = str | int | bool


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `mods` and `args` hold every field of its row, `args` in the order they are printed.

    `flags`: those of sy, ss, jp, ul, eq that are set; they and `nop` (a delay) steer timing only.
    """

    gen: int
    category: int
    opcode: str
    mods: Mapping[str, Value]
    args: Mapping[str, Operand]
    repeat: int = 0
    nop: int = 0
    flags: frozenset[str] = frozenset()
