"""Names of the packets of type 7 on a6xx, for texts and for the table of those that are modelled."""

from __future__ import annotations

from hcqrt.autogen.qcom import a6xx

NAMES = {number: name for name, number in a6xx.OPCODES.items()}


def opcode_text(number: int) -> str:
    return f"{NAMES.get(number, 'with unknown opcode')} ({number:#x})"
