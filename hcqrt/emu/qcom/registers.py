"""The register file of one context: what may be written, read and how, by offset. Source: the generated tables."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hcqrt.emu.qcom.generation import Fields, Generation
from hcqrt.emu.qcom.trouble import Refused

if TYPE_CHECKING:
    from hcqrt.emu.qcom.gpu import Gpu

WORD = 0xFFFFFFFF
COUNTER = "CP_ALWAYS_ON_COUNTER"
INVALIDATE = "HLSQ_INVALIDATE_CMD"
# Blocks whose registers command buffers of users may not write, but for the scratch registers of the CP
PROTECTED_PREFIXES = ("RBBM_", "CP_")
OPEN_PREFIXES = ("CP_SCRATCH",)
# Loading state by writing registers is what CP_LOAD_STATE6 does inside; shared constants and performance counters are
# not modelled
UNMODELLED_PREFIXES = ("HLSQ_LOAD_STATE", "HLSQ_SHARED_CONSTS_IMM", "RBBM_PERFCTR", "CP_PERFCTR")
# Where the known client writes bytes without their shift (qcom.md §3.1): with private memory they leave the field
UNSHIFTED = ("SP_CS_PVT_MEM_HW_STACK_OFFSET",)
UNSHIFTED_GRAIN = 0x1000
# The sheet's field ends at bit 25, and newer chips set bit 26 (qcom.md §1.10): the dispatch checks the whole value
WHOLE_WORDS = ("TPL1_DBG_ECO_CNTL",)
# State that a shader in flight may still read: to be left alone until CP_WAIT_FOR_IDLE
STATE_PREFIXES = ("SP_CS_", "HLSQ_CS_")


class Register(NamedTuple):
    """One 32-bit word of the register space. `mask` holds the bits that have a meaning."""

    name: str
    mask: int
    writable: bool
    readable: bool
    state: bool


def words_of(offset: int, fields: Fields, name: str) -> Iterable[tuple[int, Register]]:
    """A register's words; one without fields is 32 bits that all count."""
    mask = 0
    for msb, lsb, _ in fields.values():
        mask |= (1 << msb + 1) - (1 << lsb)
    if not mask or name in WHOLE_WORDS:
        mask = WORD
    modelled = not name.startswith(UNMODELLED_PREFIXES)
    writable = modelled and (not name.startswith(PROTECTED_PREFIXES) or name.startswith(OPEN_PREFIXES))
    state = name.startswith(STATE_PREFIXES)
    yield offset, Register(name, mask & WORD, writable, modelled, state)
    if mask > WORD:
        yield offset + 1, Register(f"{name} (high)", mask >> 32, writable, modelled, state)


@functools.cache
def table(generation: Generation) -> dict[int, Register]:
    """Every known word by its offset."""
    found: dict[int, Register] = {}
    for name, (offset, stride, count, _fields) in generation.arrays.items():
        for index in range(count * stride):
            found |= words_of(offset + index, {}, f"{name}[{index // stride}]")
    for name, (offset, fields) in generation.registers.items():
        found |= words_of(offset, fields, name)
    return found


def unpack(fields: Fields, value: int) -> dict[str, int]:
    """The fields of a register's value, each shifted back to its real size; a whole register is its field ''."""
    return {field: (value >> lsb & (1 << msb - lsb + 1) - 1) << shr for field, (msb, lsb, shr) in fields.items()}


class RegisterFile:
    """Values by offset. What was never written reads as zero, and `written` tells."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.generation = gpu.chip.generation
        self.table = table(self.generation)
        self.values: dict[int, int] = {}
        self.configs: dict[tuple[int | None, ...], Any] = {}  # configurations already checked, by their registers
        self.invalidated = 0  # bits written to HLSQ_INVALIDATE_CMD and not yet carried out
        self.offsets = self.generation.offsets
        self._invalidate = self.offsets[INVALIDATE]
        self._counter = self.offsets[COUNTER]

    def text(self, name: str) -> str:
        """A register with its offset, for texts."""
        return f"{name} ({self.offsets[name]:#x})"

    def write_many(self, offset: int, values: Sequence[int], busy: bool) -> None:
        """Consecutive registers. Raises Refused with offset and value; nothing is written then.

        `busy`: a shader is in flight, so its state must be left alone.
        """
        for at, value in enumerate(values, offset):
            register = self.table.get(at)
            if register is None:
                raise Refused(f"write of {value:#x} to unknown register {at:#x}")
            if not register.writable:
                raise Refused(f"write of {value:#x} to register {register.name} ({at:#x}), which users may not write")
            if value & ~register.mask and not self.known_mistake(register, value):
                raise Refused(
                    f"write of {value:#x} to register {register.name} ({at:#x}): "
                    f"bits {value & ~register.mask:#x} are in no known field"
                )
            if busy and register.state:
                raise Refused(
                    f"write of {value:#x} to register {register.name} ({at:#x}) while a shader may still use it: "
                    f"no CP_WAIT_FOR_IDLE came after its launch"
                )
        self.values.update(enumerate(values, offset))
        if offset <= self._invalidate < offset + len(values):
            self.invalidated |= self.values[self._invalidate]

    def known_mistake(self, register: Register, value: int) -> bool:
        """Bits outside of every field that a lenient GPU keeps: the configuration they are part of is checked."""
        return not self.gpu.strict and register.name in UNSHIFTED and value % UNSHIFTED_GRAIN == 0

    def take_invalidation(self) -> int:
        bits, self.invalidated = self.invalidated, 0
        return bits

    def read(self, offset: int) -> int:
        """One word, as packets read it. Raises Refused."""
        register = self.table.get(offset)
        if register is None:
            raise Refused(f"read of unknown register {offset:#x}")
        if not register.readable:
            raise Refused(f"read of register {register.name} ({offset:#x}): it is not modelled")
        if offset - self._counter in (0, 1):
            return self.gpu.ticks() >> 32 * (offset - self._counter) & WORD
        return self.values.get(offset, 0)

    def read_many(self, offset: int, count: int) -> list[int]:
        """Consecutive registers; the counter's two words come from one instant."""
        if offset == self._counter and count == 2:
            ticks = self.gpu.ticks()
            return [ticks & WORD, ticks >> 32 & WORD]
        return [self.read(at) for at in range(offset, offset + count)]

    def written(self, name: str) -> bool:
        return self.offsets[name] in self.values

    def get(self, name: str) -> int:
        """A 32-bit register by name, zero when it was never written."""
        return self.values.get(self.offsets[name], 0)

    def get64(self, name: str) -> int:
        offset = self.offsets[name]
        return self.values.get(offset, 0) | self.values.get(offset + 1, 0) << 32
