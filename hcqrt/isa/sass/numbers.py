"""Immediates as the vendor's disassembler spells them, and back."""

from __future__ import annotations

import re
import struct

from .model import Imm, SassError

SPECIAL_FLOATS = {"+INF": "inf", "-INF": "-inf", "+QNAN": "nan", "-QNAN": "-nan", "+SNAN": "snan", "-SNAN": "-snan"}


def hexadecimal(value: int) -> str:
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"


def signed32(value: int) -> int:
    return value - (value >> 31 << 32)


def _decimal(value: float) -> str:
    return f"{value:.20e}" if abs(value) >= 1e9 else f"{value:.20g}"


def _float(value: int, exponent_bits: int, fraction_bits: int, as_float: float) -> str:
    fraction = value & ((1 << fraction_bits) - 1)
    exponent = value >> fraction_bits & ((1 << exponent_bits) - 1)
    sign = "-" if value >> (exponent_bits + fraction_bits) & 1 else "+"
    if exponent == (1 << exponent_bits) - 1:
        if not fraction:
            return f"{sign}INF "
        return f"{sign}QNAN " if fraction >> (fraction_bits - 1) else f"{sign}SNAN "
    return _decimal(as_float)


def _f16(value: int) -> str:
    return _float(value, 5, 10, struct.unpack("<e", value.to_bytes(2, "little"))[0])


def _bf16(value: int) -> str:
    return _float(value, 8, 7, struct.unpack("<f", (value << 16).to_bytes(4, "little"))[0])


def immediate(imm: Imm) -> str:
    value = imm.value
    if imm.kind == "f32":
        return _float(value, 8, 23, struct.unpack("<f", value.to_bytes(4, "little"))[0])
    if imm.kind == "f64":
        return _float(value << 32, 11, 52, struct.unpack("<d", (value << 32).to_bytes(8, "little"))[0])
    if imm.kind in ("f16", "bf16"):
        half = _f16 if imm.kind == "f16" else _bf16
        return f"{half(value >> 16)}, {half(value & 0xFFFF)}"
    if imm.kind == "f16s":
        return _f16(value)
    return hexadecimal(signed32(value) if imm.kind == "int" else value)


def _nearest(text: str, kind: str) -> int:
    """Bits of one float; the text must round to it exactly as this format rounds."""
    form = {"f32": "<f", "f64": "<d", "f16": "<e", "bf16": "<f"}[kind]
    try:
        value = float(SPECIAL_FLOATS.get(text.strip(), text))
        raw = int.from_bytes(struct.pack(form, value), "little")
    except (ValueError, OverflowError) as bad:
        raise SassError(f"{text!r} is no {kind} immediate") from bad
    for bits, dropped in (("f64", 32), ("bf16", 16)):
        if kind == bits:
            if raw & ((1 << dropped) - 1):
                raise SassError(f"{text!r} needs more bits than a {kind} immediate has")
            raw >>= dropped
    return raw


def parse_immediate(text: str, kind: str) -> Imm:
    """The immediate that prints as `text` (a pair of halves: `high, low`). Raises SassError."""
    text = text.strip()
    if kind in ("f16", "bf16"):
        high, _, low = text.partition(",")
        return Imm(_nearest(high, kind) << 16 | _nearest(low or high, kind), kind)
    if kind == "f16s":
        return Imm(_nearest(text, "f16"), kind)
    if kind in ("f32", "f64"):
        if re.fullmatch(r"0[xX][0-9a-fA-F]{8}", text):  # raw bits, an extension for values without a decimal spelling
            return Imm(int(text, 16), kind)
        return Imm(_nearest(text, kind), kind)
    value = parse_integer(text)
    if not -(1 << 31) <= value < 1 << 32:
        raise SassError(f"{text!r} does not fit 32 bits")
    return Imm(value & 0xFFFF_FFFF, kind)


def parse_integer(text: str) -> int:
    if not re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)", text.strip()):
        raise SassError(f"{text!r} is no integer")
    return int(text.strip(), 0)
