"""Names of the packets of type 7 of a generation, for texts."""

from __future__ import annotations

import functools

from hcqrt.emu.qcom.generation import Generation


@functools.cache
def names_of(generation: Generation) -> dict[int, str]:
    return {number: name for name, number in generation.opcodes.items()}


def opcode_text(generation: Generation, number: int) -> str:
    return f"{names_of(generation).get(number, 'with unknown opcode')} ({number:#x})"
