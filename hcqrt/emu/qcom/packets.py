"""The packets of type 7 that command buffers of users may hold, one function each."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from hcqrt.emu.qcom import events, packets7
from hcqrt.emu.qcom.compute import start_dispatch
from hcqrt.emu.qcom.generation import Generation
from hcqrt.emu.qcom.opcodes import opcode_text
from hcqrt.emu.qcom.trouble import Blocked, Refused

if TYPE_CHECKING:
    from hcqrt.emu.qcom.cp import CommandProcessor

Handler = Callable[["CommandProcessor", "list[int]"], None]
WORD, QWORD = 0xFFFFFFFF, (1 << 64) - 1
SIGN = 1 << 31
REGISTER_BITS = 0x3FFFF
POLL_REGISTER, POLL_MEMORY, POLL_SCRATCH = 0, 1, 2
SCRATCH_REGISTERS = 8
COMPARISONS: dict[int, Callable[[int, int], bool]] = {
    0: lambda value, ref: True,  # WRITE_ALWAYS
    1: operator.lt,
    2: operator.le,
    3: operator.eq,
    4: operator.ne,
    5: operator.ge,
    6: operator.gt,
}
SIGNED_COMPARE, WRITE_MEMORY = 1 << 3, 1 << 8
MARKER_KIND, IFPC_MODE = 1 << 8, 1
DOUBLE, WAIT_FOR_MEM_WRITES = 1 << 29, 1 << 30


def address(what: str, lo: int, hi: int, alignment: int = 4) -> int:
    va = hi << 32 | lo
    if va % alignment:
        raise Refused(f"{what}: address {va:#x} is not {alignment}-byte aligned")
    return va


def signed(value: int) -> int:
    return (value & WORD) - ((value & SIGN) << 1)


def expect(name: str, payload: list[int], *counts: int) -> None:
    if len(payload) not in counts:
        wanted = " or ".join(map(str, counts))
        raise Refused(f"{name}: {len(payload)} dwords, it takes {wanted}")


def zero(name: str, word: int, what: str) -> None:
    if word:
        raise Refused(f"{name}: {what} is {word:#x}, it must be 0")


def known_bits(name: str, word: int, mask: int) -> None:
    if word & ~mask:
        raise Refused(f"{name} = {word:#010x}: bits {word & ~mask:#x} are not known")


def nop(cp: CommandProcessor, payload: list[int]) -> None:
    """CP_NOP: any data."""


def no_payload(name: str) -> Handler:
    """A wait for something that has always happened here: each packet ends before the next one begins."""

    def run(cp: CommandProcessor, payload: list[int]) -> None:
        expect(name, payload, 0)

    return run


def wait_for_idle(cp: CommandProcessor, payload: list[int]) -> None:
    expect("CP_WAIT_FOR_IDLE", payload, 0)
    cp.drain()


def indirect_buffer(cp: CommandProcessor, payload: list[int]) -> None:
    """The words of the other buffer run after this packet, before the next: its frame goes on top."""
    name = "CP_INDIRECT_BUFFER"
    expect(name, payload, 3)
    lo, hi, size = payload
    known_bits(name, size, 0xFFFFF)
    cp.enter(address(name, lo, hi), size)


def set_marker(cp: CommandProcessor, payload: list[int]) -> None:
    name = "CP_SET_MARKER"
    expect(name, payload, 1)
    word = payload[0]
    if word & MARKER_KIND:
        known_bits(name, word, MARKER_KIND | IFPC_MODE)
        return
    known_bits(name, word, 0xF)
    if word not in cp.generation.markers:
        raise Refused(f"{name} = {word:#x}: mode {word} is not known")
    cp.marker = word


def invalidate_state(cp: CommandProcessor, payload: list[int]) -> None:
    """Nobody says what the bits of its mask mean: only none is accepted."""
    expect("CP_INVALIDATE_STATE", payload, 1)
    zero("CP_INVALIDATE_STATE", payload[0], "the mask")


def mem_write(cp: CommandProcessor, payload: list[int]) -> None:
    name = "CP_MEM_WRITE"
    if len(payload) < 3:
        raise Refused(f"{name}: {len(payload)} dwords, it takes an address and at least one of data")
    va = address(name, payload[0], payload[1])
    cp.space.write(va, b"".join(word.to_bytes(4, "little") for word in payload[2:]))


def reg_to_mem(cp: CommandProcessor, payload: list[int]) -> None:
    name = "CP_REG_TO_MEM"
    expect(name, payload, 3)
    word, lo, hi = payload
    register, count, wide = word & REGISTER_BITS, word >> 18 & 0xFFF, word >> 30 & 1
    if word >> 31:
        raise Refused(f"{name} = {word:#010x}: accumulating is not modelled")
    if wide and (count == 0 or count % 2):
        raise Refused(f"{name} = {word:#010x}: {count} words are no pairs, and 64 bits are asked for")
    va = address(name, lo, hi, 8 if wide else 4)
    values = cp.registers.read_many(register, max(count, 1))
    cp.space.write(va, b"".join(value.to_bytes(4, "little") for value in values))


def mem_to_reg(cp: CommandProcessor, payload: list[int]) -> None:
    name = "CP_MEM_TO_REG"
    expect(name, payload, 3)
    word, lo, hi = payload
    if word & (1 << 31 | 1 << 18):
        raise Refused(f"{name} = {word:#010x}: bits {word & (1 << 31 | 1 << 18):#x} are not known")
    register, count, shift = word & REGISTER_BITS, max(word >> 19 & 0x7FF, 1), word >> 30 & 1
    va = address(name, lo, hi)
    values = [cp.space.read_u32(va + 4 * index) << 2 * shift & WORD for index in range(count)]
    cp.write_registers(register, values)


def mem_to_mem(cp: CommandProcessor, payload: list[int]) -> None:
    """dst = A + B + C, each negated if its bit says so, in 32 or 64 bits."""
    name = "CP_MEM_TO_MEM"
    expect(name, payload, 5, 7, 9)
    flags, *words = payload
    sources = len(words) // 2 - 1
    known_bits(name, flags, DOUBLE | WAIT_FOR_MEM_WRITES | (1 << sources) - 1)
    nbytes = 8 if flags & DOUBLE else 4
    vas = [address(name, lo, hi, nbytes) for lo, hi in zip(words[::2], words[1::2], strict=True)]
    load = cp.space.read_u64 if flags & DOUBLE else cp.space.read_u32
    total = sum(-load(va) if flags >> index & 1 else load(va) for index, va in enumerate(vas[1:]))
    if flags & DOUBLE:
        cp.space.write_u64(vas[0], total & QWORD)
    else:
        cp.space.write_u32(vas[0], total & WORD)


def polled(cp: CommandProcessor, name: str, payload: list[int], flags: int) -> bool:
    """Whether the condition of CP_WAIT_REG_MEM and CP_COND_WRITE5 holds now."""
    word, lo, hi, ref, mask = payload[:5]
    known_bits(name, word, 0x3F | flags)
    poll, function = word >> 4 & 3, word & 7
    if function not in COMPARISONS:
        raise Refused(f"{name} = {word:#x}: function {function} is not known")
    if poll == POLL_MEMORY:
        value = cp.space.read_u32(address(name, lo, hi))
    elif poll == POLL_REGISTER:
        zero(name, hi, "the upper half of a register number")
        value = cp.registers.read(lo)
    elif poll == POLL_SCRATCH and not hi and lo < SCRATCH_REGISTERS:
        value = cp.registers.read(cp.generation.arrays["CP_SCRATCH"][0] + lo)
    else:
        raise Refused(f"{name} = {word:#x}: poll {poll} of {lo:#x}, {hi:#x} is not known")
    value &= mask
    if word & SIGNED_COMPARE:
        return COMPARISONS[function](signed(value), signed(ref))
    return COMPARISONS[function](value, ref)


def wait_reg_mem(cp: CommandProcessor, payload: list[int]) -> None:
    """The sixth dword, cycles between two looks, changes nothing here."""
    expect("CP_WAIT_REG_MEM", payload, 6)
    if not polled(cp, "CP_WAIT_REG_MEM", payload, 0):
        raise Blocked


def wait_mem_gte(cp: CommandProcessor, payload: list[int]) -> None:
    name = "CP_WAIT_MEM_GTE"
    expect(name, payload, 4)
    reserved, lo, hi, ref = payload
    zero(name, reserved, "dword 0")
    if signed(cp.space.read_u32(address(name, lo, hi))) < signed(ref):
        raise Blocked


def cond_write(cp: CommandProcessor, payload: list[int]) -> None:
    name = "CP_COND_WRITE5"
    expect(name, payload, 8)
    if not polled(cp, name, payload, WRITE_MEMORY):
        return
    lo, hi, data = payload[5:]
    if payload[0] & WRITE_MEMORY:
        cp.space.write_u32(address(name, lo, hi), data)
        return
    zero(name, hi, "the upper half of a register number")
    cp.write_registers(lo, [data])


def load_state(stages: str) -> Handler:
    name = f"CP_LOAD_STATE6{stages}"

    def run(cp: CommandProcessor, payload: list[int]) -> None:
        if len(payload) < 3:
            raise Refused(f"{name}: {len(payload)} dwords, it takes at least 3")
        if cp.in_flight:
            raise Refused(f"{name} = {payload[0]:#010x}: a shader may still use what it replaces, no CP_WAIT_FOR_IDLE")
        cp.state.load(name, payload)

    return run


def run_opencl(cp: CommandProcessor, payload: list[int]) -> None:
    expect("CP_RUN_OPENCL", payload, 1)
    zero("CP_RUN_OPENCL", payload[0], "dword 0")
    names = [f"HLSQ_CS_KERNEL_GROUP_{axis}" for axis in "XYZ"]
    for name in names:
        if not cp.registers.written(name):
            raise Refused(f"CP_RUN_OPENCL: {name} was never written in this context")
    x, y, z = (cp.registers.get(name) for name in names)
    start_dispatch(cp, "CP_RUN_OPENCL", (x, y, z))


def exec_cs(cp: CommandProcessor, payload: list[int]) -> None:
    expect("CP_EXEC_CS", payload, 4)
    zero("CP_EXEC_CS", payload[0], "dword 0")
    x, y, z = payload[1:]
    start_dispatch(cp, "CP_EXEC_CS", (x, y, z))


def exec_cs_indirect(cp: CommandProcessor, payload: list[int]) -> None:
    name = "CP_EXEC_CS_INDIRECT"
    expect(name, payload, 4)
    reserved, lo, hi, sizes = payload
    zero(name, reserved, "dword 0")
    known_bits(name, sizes, 0xFFFFFFFC)
    va = address(name, lo, hi)
    x, y, z = (cp.space.read_u32(va + 4 * index) for index in range(3))
    local = (sizes >> 2 & 0x3FF) + 1, (sizes >> 12 & 0x3FF) + 1, (sizes >> 22 & 0x3FF) + 1
    start_dispatch(cp, name, (x, y, z), local)


BY_NAME: dict[str, Handler] = {
    "CP_NOP": nop,
    "CP_WAIT_MEM_WRITES": no_payload("CP_WAIT_MEM_WRITES"),
    "CP_WAIT_FOR_ME": no_payload("CP_WAIT_FOR_ME"),
    "CP_WAIT_FOR_IDLE": wait_for_idle,
    "CP_RUN_OPENCL": run_opencl,
    "CP_EXEC_CS": exec_cs,
    "CP_EXEC_CS_INDIRECT": exec_cs_indirect,
    "CP_LOAD_STATE6_GEOM": load_state("_GEOM"),
    "CP_LOAD_STATE6_FRAG": load_state("_FRAG"),
    "CP_LOAD_STATE6": load_state(""),
    "CP_MEM_WRITE": mem_write,
    "CP_REG_TO_MEM": reg_to_mem,
    "CP_MEM_TO_REG": mem_to_reg,
    "CP_MEM_TO_MEM": mem_to_mem,
    "CP_WAIT_REG_MEM": wait_reg_mem,
    "CP_WAIT_MEM_GTE": wait_mem_gte,
    "CP_COND_WRITE5": cond_write,
    "CP_EVENT_WRITE": events.event_write,
    "CP_EVENT_WRITE7": packets7.event_write7,
    "CP_INDIRECT_BUFFER": indirect_buffer,
    "CP_INVALIDATE_STATE": invalidate_state,
    "CP_SET_MARKER": set_marker,
    "CP_THREAD_CONTROL": packets7.thread_control,
    "CP_CCHE_INVALIDATE": packets7.cche_invalidate,
    "CP_WAIT_TIMESTAMP": packets7.wait_timestamp,
}


@functools.cache
def packets_of(generation: Generation) -> dict[int, Handler]:
    """Those that this generation has, by its numbers."""
    opcodes = generation.opcodes
    return {opcodes[name]: handler for name, handler in BY_NAME.items() if name in opcodes}


def no_handler(generation: Generation, opcode: int, count: int) -> Refused:
    """The complaint about a packet that is unknown, privileged, or for graphics."""
    return Refused(f"packet {opcode_text(generation, opcode)} with {count} dwords is unknown here, or privileged")
