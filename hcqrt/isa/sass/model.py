"""What one SASS instruction is made of: operands, scheduling fields, the instruction itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import BinaryError

RZ = 255  # register number that reads 0 and drops writes
PT = 7  # predicate number that reads true and drops writes


class SassError(BinaryError):
    """A word is no instruction that this table knows, or an instruction has no encoding."""


@dataclass(frozen=True)
class Reg:
    """General register. `neg`: arithmetic negation, `inv`: bitwise not, `half`: which 16-bit half is read."""

    index: int
    neg: bool = False
    abs: bool = False
    inv: bool = False
    half: str = ""


@dataclass(frozen=True)
class UReg:
    """Uniform register, one value per warp; URZ is `Family.urz`."""

    index: int
    neg: bool = False
    abs: bool = False
    inv: bool = False
    half: str = ""


@dataclass(frozen=True)
class Pred:
    """Predicate register P0..P6, 7 = PT."""

    index: int
    neg: bool = False


@dataclass(frozen=True)
class UPred:
    """Uniform predicate register UP0..UP6, 7 = UPT."""

    index: int
    neg: bool = False


@dataclass(frozen=True)
class Imm:
    """Immediate as its raw bits.

    `kind`: int, uint, f32, f64 (its high word), f16 and bf16 (high half, low half), f16s (one half).
    """

    value: int
    kind: str = "int"


@dataclass(frozen=True)
class Const:
    """Constant bank word c[bank][offset], offset in bytes; `index`: register added to the offset (LDC, ULDC)."""

    bank: int
    offset: int
    neg: bool = False
    abs: bool = False
    inv: bool = False
    half: str = ""
    index: Reg | UReg | None = None


@dataclass(frozen=True)
class Bindless:
    """Constant word cx[UR][offset]: the uniform register pair holds the bank's address and size."""

    handle: UReg
    offset: int
    neg: bool = False
    abs: bool = False
    inv: bool = False
    half: str = ""
    index: Reg | None = None


@dataclass(frozen=True)
class Mem:
    """Memory address base·scale + ureg + offset.

    `wide`: the base is a 64-bit register pair also where the opcode would take 32 bits (bit 90).
    `descriptor`: `ureg` holds a descriptor and is no part of the address.
    """

    base: Reg
    offset: int = 0
    ureg: UReg | None = None
    wide: bool = False
    descriptor: bool = False
    scale: int = 1


@dataclass(frozen=True)
class Target:
    """Branch target in bytes, relative to the end of the instruction."""

    relative: int


@dataclass(frozen=True)
class SpecialReg:
    index: int


@dataclass(frozen=True)
class Barrier:
    """Convergence barrier B0..B15."""

    index: int


@dataclass(frozen=True)
class Scoreboard:
    """Dependency counter SB0..SB5."""

    index: int


@dataclass(frozen=True)
class Num:
    """A plain number printed among the operands (look-up table, shift, mask)."""

    value: int


Operand = (
    Reg | UReg | Pred | UPred | Imm | Const | Bindless | Mem | Target | SpecialReg | Barrier | Scoreboard | Num
)  # fmt: skip
Value = str | int | bool

NO_BARRIER = 7  # write or read barrier field: none is set


@dataclass(frozen=True)
class Sched:
    """Scheduling fields: they steer timing only. `reuse`: one bit for each of the operand slots A, B, C."""

    stall: int = 0
    yield_: bool = False
    write_barrier: int = NO_BARRIER
    read_barrier: int = NO_BARRIER
    wait_mask: int = 0
    reuse: int = 0


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `mods` and `args` hold every field of its row, in the order they are printed."""

    sm: int
    opcode: int
    mnemonic: str
    mods: Mapping[str, Value]
    args: Mapping[str, Operand]
    guard: Pred | UPred = Pred(PT)
    sched: Sched = field(default_factory=Sched)
