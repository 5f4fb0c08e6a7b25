"""Writes OpenCL binaries as qcom facts 5.1 describe them, for tests: header, tables, kernel description, code."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

BUFFER, TEXTURE, IMAGE = 0, 1, 2


@dataclass
class ClBinary:
    """What goes into the file; `arguments` are (offset in bytes of the constant file, kind)."""

    code: bytes = bytes(8)
    name: str = "kernel"
    arguments: Sequence[tuple[int, int]] = ()
    constants: Sequence[tuple[int, int, int]] = ()  # value, offset in units of its size, 1 for 32 bits
    full_regs: int = 4
    half_regs: int = 0
    first_exec: int = 0
    private: int = 0
    shared: int = 0
    samplers: int = 0
    branch_stack: int = 0  # as the file holds it: twice the register's
    record_bytes: int = 0x30
    places: dict[str, int] = field(default_factory=dict)

    def build(self) -> bytes:
        data = bytearray(0x200)

        def put(offset: int, value: int) -> None:
            data[offset : offset + 4] = struct.pack("<I", value)

        def add(chunk: bytes) -> int:
            data.extend(bytes(-len(data) % 4))
            start = len(data)
            data.extend(chunk)
            return start

        self.places["registers"] = registers = add(bytes(0x20))
        put(registers + 0x14, self.full_regs)
        put(registers + 0x18, self.half_regs)
        put(0x034, registers)
        self.places["constants"] = constants = add(b"")
        for value, units, wide in self.constants:
            add(struct.pack("<I12xI4xI12x", value, units, wide))
        put(0x0AC, constants)
        put(0x0B0, len(self.constants))
        self.places["code"] = code = add(self.code)
        put(0x0C0, code)
        put(0x100, len(self.code))
        self.places["kernel"] = kernel = add(bytes(0x158))
        put(0x110, kernel)
        for offset, value in (
            (0x0C4, self.first_exec),
            (0x0C8, self.private),
            (0x0D8, self.shared),
            (0x0DC, self.samplers),
            (0x108, self.branch_stack),
        ):
            put(kernel + offset, value)
        data.extend(self.name.encode())
        data.extend(bytes(-len(data) % 4))
        data.extend(bytes(8 * self.samplers))
        self.places["arguments"] = len(data)
        for offset, kind in self.arguments:
            record = struct.pack("<I8xI12xI", self.record_bytes, offset // 4, kind)
            data.extend(record.ljust(self.record_bytes, b"\0"))
        data.extend(bytes(4))
        return bytes(data)
