"""Semaphore records in GPU memory: releases, reductions and the comparisons of an acquire."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.memory import ATOMIC, READ, WRITE

FOUR_WORDS, ONE_WORD, TWO_WORDS = 0, 1, 2  # STRUCTURE_SIZE of QMD releases and report semaphores
RECORD_BYTES = {FOUR_WORDS: 16, ONE_WORD: 4, TWO_WORDS: 8}
WORD_TYPES = {4: ctypes.c_uint32, 8: ctypes.c_uint64}


def signed(value: int, nbytes: int) -> int:
    top = 1 << (8 * nbytes - 1)
    return (value & (2 * top - 1)) - ((value & top) << 1)


def load(space: GpuAddressSpace, va: int, nbytes: int) -> int:
    """One aligned load of 4 or 8 bytes. Raises MmuFault."""
    return WORD_TYPES[nbytes].from_address(space.pointer(va, nbytes, READ)).value


def store(space: GpuAddressSpace, va: int, value: int, nbytes: int, access: str = WRITE) -> None:
    """One aligned store of 4 or 8 bytes. Raises MmuFault."""
    WORD_TYPES[nbytes].from_address(space.pointer(va, nbytes, access)).value = value


def release(space: GpuAddressSpace, va: int, payload: int, nbytes: int, timestamp_ns: int | None) -> None:
    """Write a record: {payload, zero or its upper half, timestamp}, or the payload alone without a timestamp.

    The timestamp lands first, so whoever sees the payload has a valid time. Raises MmuFault and writes nothing.
    """
    if timestamp_ns is None:
        store(space, va, payload, nbytes)
        return
    pointer = space.pointer(va, 16, WRITE)
    ctypes.memmove(pointer + 8, struct.pack("<Q", timestamp_ns), 8)
    WORD_TYPES[8].from_address(pointer).value = payload  # a 32-bit payload clears the word after it


def inc_wrap(old: int, limit: int) -> int:
    return 0 if old >= limit else old + 1


def dec_wrap(old: int, limit: int) -> int:
    return limit if old == 0 or old > limit else old - 1


# Reduction operations by name; operands are already signed or unsigned as the format says
REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda old, value: old + value,
    "MIN": min,
    "MAX": max,
    "INC": inc_wrap,
    "DEC": dec_wrap,
    "AND": lambda old, value: old & value,
    "OR": lambda old, value: old | value,
    "XOR": lambda old, value: old ^ value,
}
# How the three interfaces number them: SEM_EXECUTE (clc56f.h), RED_* of compute class, I2M and QMD (clc7c0.h)
HOST_REDUCTIONS = ("MIN", "MAX", "XOR", "AND", "OR", "ADD", "INC", "DEC")
RED_REDUCTIONS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR")


def reduce(space: GpuAddressSpace, va: int, name: str, payload: int, nbytes: int, is_signed: bool) -> None:
    """Read, combine, write back. Raises MmuFault."""
    pointer = space.pointer(va, nbytes, ATOMIC)
    word = WORD_TYPES[nbytes].from_address(pointer)
    old, value = word.value, payload & ((1 << 8 * nbytes) - 1)
    if is_signed:
        old, value = signed(old, nbytes), signed(value, nbytes)
    word.value = REDUCTIONS[name](old, value) & ((1 << 8 * nbytes) - 1)


# Acquire comparisons, by the names of SEM_EXECUTE_OPERATION: (semaphore, payload, bytes) -> done
ACQUIRES: dict[str, Callable[[int, int, int], bool]] = {
    "ACQUIRE": lambda sem, payload, nbytes: sem == payload,
    "ACQ_STRICT_GEQ": lambda sem, payload, nbytes: sem >= payload,
    "ACQ_CIRC_GEQ": lambda sem, payload, nbytes: signed(sem - payload, nbytes) >= 0,
    "ACQ_AND": lambda sem, payload, nbytes: sem & payload != 0,
    "ACQ_NOR": lambda sem, payload, nbytes: ~(sem | payload) & ((1 << 8 * nbytes) - 1) != 0,
}
