"""What the register descriptions of a6xx and a7xx agree on: what moved from one to the other is not in here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hcqrt.autogen.qcom import a6xx, a7xx

Fields = Mapping[str, tuple[int, int, int]]
Registers = Mapping[str, tuple[int, Fields]]


def alike(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """The entries that two tables have in common, tables in them likewise."""
    common: dict[Any, Any] = {}
    for key, value in one.items():
        if isinstance(value, dict) and key in other:
            common[key] = alike(value, other[key])
        elif key in other and other[key] == value:
            common[key] = value
    return common


REGISTERS: Registers = alike(a6xx.REGISTERS, a7xx.REGISTERS)
ENUMS: Mapping[str, Mapping[str, int]] = alike(a6xx.ENUMS, a7xx.ENUMS)
PACKETS: Mapping[str, Mapping[int, Fields]] = alike(a6xx.PACKETS, a7xx.PACKETS)
DESCRIPTORS: Mapping[str, Mapping[int, Fields]] = alike(a6xx.DESCRIPTORS, a7xx.DESCRIPTORS)
OPCODES: Mapping[str, int] = a6xx.OPCODES | a7xx.OPCODES  # a name has one number, whichever generation knows it
