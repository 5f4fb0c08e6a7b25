"""Where operands of ir3 lie in the engine: register files, constants, registers that a0.x chooses.

Engine registers: full rN.c at 4N + c, where r48 and up (one value per wave) are splats and a0, a1 lie at their own
numbers; half hrN.c at HALF_BASE + 4N + c, a value in the low 16 bits and zeros above, always. With a merged file a
half register is a half of a full one instead: read by extracting, written by inserting. p0.c is predicate c.
"""

from __future__ import annotations

import struct

from ....isa.ir3 import FLOAT_TABLE, Const, FloatImm, Imm, Operand, Reg, Relative
from .. import uops as u
from ..launch import Ir3Setup
from ..lowering import ZERO, Emitter, Source, immediate, register

HALF_BASE = 256
SCRATCH = range(480, 509)  # a record's register number is at most 508
SHARED = range(0xC0, 0xE0)
A0, A1, FIRST_PREDICATE = 0xF4, 0xF5, 0xF8
PREDICATES = range(FIRST_PREDICATE, FIRST_PREDICATE + 4)
EXCLUDED = 4  # engine predicate: this fibre takes no part since predt or predf
CONST_FILE, TEXTURES, IMAGES, UBOS = range(4)  # banks of a launch
HALF_MASK, HALF_SIGN = 0xFFFF, 0x8000
A_AND_B, A_AND_NOT_B, A_XOR_B = 0xC0, 0x30, 0x3C  # LOP3 tables
LOW_HALF, HIGH_HALF = 0x4410, 0x4432  # PRMT selectors with a zero third operand
INSERT = (0x7610, 0x1054)  # a's low half into c's low or high one
FLOAT, INTEGER, BITS = "float", "integer", "bits"  # what an opcode takes its operands for


class Registers(Emitter[Operand]):
    """Operands as sources, by the state of the dispatch."""

    scratch_registers = SCRATCH
    setup: Ir3Setup

    def full(self, number: int, words: int = 1) -> int:
        """The engine's number of a full register, or of the first of several."""
        last = number + words - 1
        if number in SHARED and last in SHARED:
            return number
        if last >= 4 * self.setup.full_regs:
            raise self.refuse(f"r{last >> 2}.{'xyzw'[last & 3]}: the program has {self.setup.full_regs} full vectors")
        return number

    def half(self, number: int) -> int:
        """The engine's number of a half register of a split file."""
        if number not in SHARED and number >= 4 * self.setup.half_regs:
            raise self.refuse(
                f"hr{number >> 2}.{'xyzw'[number & 3]}: the program has {self.setup.half_regs} half vectors"
            )
        return HALF_BASE + number

    def merged(self, number: int) -> int:
        """The full register that a half one is part of, in a merged file."""
        if number in SHARED:
            raise self.refuse(f"hr{number >> 2}: where shared halves lie in a merged file is not known")
        return self.full(number >> 1)

    def read(self, reg: Reg) -> Source:
        """A register's value; of a half one zero-extended."""
        if reg.neg or reg.abs:
            raise AssertionError("modifiers of a plain register")
        if not reg.half:
            return register(self.full(reg.number))
        if not self.setup.merged:
            return register(self.half(reg.number))
        d, value = self.temporary()
        selector = (LOW_HALF, HIGH_HALF)[reg.number & 1]
        self.emit("PRMT", d, register(self.merged(reg.number)), immediate(selector), ZERO)
        return value

    # sources

    def value(self, name: str, kind: str) -> Source:
        """The operand as it lies in its register, zero-extended; its `neg` and `abs` are left to the caller."""
        operand = self.arg(name)
        source = self.bare(operand, kind)
        assert isinstance(operand, (Reg, Const, Relative, Imm, FloatImm))
        return source._replace(neg=operand.neg, abs=operand.abs)

    def bare(self, operand: Operand, kind: str) -> Source:
        """As `value`, without its modifiers."""
        if isinstance(operand, Reg):
            if operand.number in PREDICATES or operand.number in (A0, A1):
                raise self.refuse(f"operand {operand!r}: reading it as a value is not implemented")
            return self.read(Reg(operand.number, operand.half))
        if isinstance(operand, Const):
            return self._constant(operand, kind)
        if isinstance(operand, Relative):
            return self._relative(operand, kind)
        if isinstance(operand, Imm):
            if kind == FLOAT:
                raise self.refuse(f"operand {operand!r}: what an integer means to a float operation is not known")
            return immediate(operand.value & (HALF_MASK if operand.half else 0xFFFFFFFF))
        if isinstance(operand, FloatImm):
            if kind != FLOAT:
                raise self.refuse(f"operand {operand!r}: what a float means to an integer operation is not known")
            number, word = ("<e", "<H") if operand.half else ("<f", "<I")
            (bits,) = struct.unpack(word, struct.pack(number, FLOAT_TABLE[operand.index]))
            return immediate(bits)
        raise self.refuse(f"operand {operand!r} is no value")

    def _constant(self, operand: Const, kind: str) -> Source:
        if not operand.half:
            return Source(u.CONST, CONST_FILE << 16 | 4 * operand.number)
        if self.setup.constant_demotion:
            return self.demoted(Source(u.CONST, CONST_FILE << 16 | 4 * operand.number), kind)
        d, value = self.temporary()
        selector = (LOW_HALF, HIGH_HALF)[operand.number & 1]
        self.emit("PRMT", d, Source(u.CONST, CONST_FILE << 16 | 4 * (operand.number >> 1)), immediate(selector), ZERO)
        return value

    def demoted(self, word: Source, kind: str) -> Source:
        """A 32-bit constant as a half: converted for float operations, else its low 16 bits."""
        d, value = self.temporary()
        if kind == FLOAT:
            self.emit("F2F", d, word, flags=u.FTZ, mod=u.F16 | u.F32 << u.FORMAT_SHIFT)
            return self.flushed(value)
        self.emit("LOP3", d, word, immediate(HALF_MASK), mod=A_AND_B)
        return value

    def _relative(self, operand: Relative, kind: str) -> Source:
        if not operand.const:
            return self._relative_register(operand)
        small = operand.half and not self.setup.constant_demotion
        (to_at, at), (d, value) = self.temporary(), self.temporary()
        self.emit("MAD", to_at, register(A0), immediate(2 if small else 4))
        width, imm = (u.W_U16, 2 * operand.offset) if small else (u.W_32, 4 * operand.offset)
        self.emit("LD", d, at, ZERO, immediate(CONST_FILE), imm=imm, width=width, space=u.S_CONST)
        return self.demoted(value, kind) if operand.half and not small else value

    def _relative_register(self, operand: Relative) -> Source:
        d, value = self.temporary()
        base, mod = self._relative_range(operand)
        self.emit("RGET", d, register(A0), imm=base + operand.offset, mod=mod)
        return value

    def _relative_range(self, operand: Relative) -> tuple[int, int]:
        """First register of the file, and the range that RGET and RPUT may choose from."""
        if operand.half and self.setup.merged:
            raise self.refuse(
                f"operand {operand!r}: a half register chosen by a0.x in a merged file is not implemented"
            )
        base = HALF_BASE if operand.half else 0
        vectors = self.setup.half_regs if operand.half else self.setup.full_regs
        if not vectors:
            raise self.refuse(f"operand {operand!r}: the program has no such registers")
        return base, base | (base + 4 * vectors - 1) << 16

    def flushed(self, value: Source) -> Source:
        """A half float with denormals as zeros: x + -0 with FTZ; the upper half stays zero."""
        d, flushed = self.temporary()
        self.emit("HADD2", d, value, immediate(HALF_SIGN), flags=u.FTZ)
        return flushed
