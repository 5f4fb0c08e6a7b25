"""A QMD's fields by name. Source: cl*qmd.h through autogen."""

from __future__ import annotations

from typing import Any

from hcqrt.autogen.nv.qmd import QMD, QMD_VALUES
from hcqrt.bits import get_bits

# Elements of array fields, by the start of their names; the headers give strides only.
ELEMENTS = {"RELEASE_": 3, "DEPENDENT_QMD_": 2}
ELEMENTS_ELSE = 8  # constant banks, TPC masks


def elements(name: str, *stride: int) -> range:
    count = next((number for start, number in ELEMENTS.items() if name.startswith(start)), ELEMENTS_ELSE)
    return range(count if stride else 1)


def decode_qmd(data: bytes | bytearray | memoryview, version: str = "V03_00") -> dict[str, int]:
    """Every field that is not zero; elements of arrays as NAME[i]. Fields that share bits with others all appear."""
    found: dict[str, int] = {}
    bits = len(data) * 8
    for name, (msb, lsb, *stride) in QMD[version].items():
        for index in elements(name, *stride):
            move = stride[0] * index if stride else 0
            if msb + move >= bits:
                break
            value = get_bits(data, msb + move, lsb + move)
            if value:
                found[f"{name}[{index}]" if stride else name] = value
    return found


def unknown_bits(data: bytes | bytearray | memoryview, version: str = "V03_00") -> int:
    """A mask of the set bits that belong to no field."""
    whole = int.from_bytes(bytes(data), "little")
    for name, (msb, lsb, *stride) in QMD[version].items():
        for index in elements(name, *stride):
            move = stride[0] * index if stride else 0
            whole &= ~(((1 << msb - lsb + 1) - 1) << lsb + move)
    return whole


def qmd_text(data: bytes | bytearray | memoryview, version: str = "V03_00") -> str:
    """One line per field, values by name where the header names them."""
    values: Any = QMD_VALUES.get(version, {})
    lines = []
    for name, value in decode_qmd(data, version).items():
        names = {number: text for text, number in values.get(name.split("[")[0], {}).items()}
        lines.append(f"{name} {names.get(value, f'{value:#x}')}\n")
    return "".join(lines)
