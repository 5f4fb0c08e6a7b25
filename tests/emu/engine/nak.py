"""Runs NAK shader blobs on the engine without a device: arrays as GPU memory, arguments in constant bank 0."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

# Layout of the info block in front of the code: nak_shader_info of the Mesa build that made it.
INFO_BYTES = 728
CODE_VA = 0x7F00_0000_0000
BUFFERS_VA = 0x7F10_0000_0000
GAP_BYTES = 0x1000  # nothing is mapped between two buffers


class Shader:
    """What a launch needs to know of one blob."""

    def __init__(self, blob: bytes) -> None:
        stage, self.sm, self.registers, self.barriers = struct.unpack_from("<IBBB", blob, 0)
        (instructions,) = struct.unpack_from("<I", blob, 12)
        (self.local_bytes,) = struct.unpack_from("<I", blob, 36)
        self.block = struct.unpack_from("<3H", blob, 44)
        (self.shared_bytes,) = struct.unpack_from("<H", blob, 50)
        self.code = blob[INFO_BYTES:]
        if stage != 5 or len(self.code) != 16 * instructions:
            raise ValueError(f"no NAK compute shader: stage {stage}, {len(self.code)} bytes for {instructions} words")


class ArrayMemory:
    """GPU memory made of NumPy arrays, one mapping each."""

    def __init__(self, arrays: list[np.ndarray[Any, Any]]) -> None:
        self.arrays = arrays
        self.addresses: list[int] = []
        va = BUFFERS_VA
        for array in arrays:
            self.addresses.append(va)
            va += (array.nbytes + 255) // 256 * 256 + GAP_BYTES

    def ranges(self) -> list[tuple[int, int, int, bool, bool]]:
        pairs = zip(self.addresses, self.arrays, strict=True)
        return [(va, array.nbytes, array.ctypes.data, True, True) for va, array in pairs if array.nbytes]


def arguments(addresses: list[int], vals: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Bank 0: pointers, then 32-bit values, each at the next multiple of its size."""
    packed = struct.pack(f"<{len(addresses)}Q{len(vals)}i", *addresses, *vals)
    return np.frombuffer(bytearray(packed.ljust((len(packed) + 15) // 16 * 16, b"\0")), np.uint8)


def differs(name: str, actual: bytes, expected: bytes, absolute: float = 0.0) -> str:
    """What is wrong with an output of this type, or an empty string. `absolute`: allowed on top, for every value."""
    a, e = np.frombuffer(actual, name), np.frombuffer(expected, name)
    if a.dtype.kind != "f":
        bad = a != e
        return f"{int(bad.sum())} of {a.size} differ, first {a[bad][0]} for {e[bad][0]}" if bad.any() else ""
    # A few roundings apart: sums are taken in another order, quotients and curves by approximation.
    relative = {2: 4e-3, 4: 2e-5, 8: 1e-11}[a.itemsize]
    wide, wanted = a.astype(np.float64), e.astype(np.float64)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    close = np.isclose(wide, wanted, rtol=relative, atol=relative * 0.1 * scale + absolute, equal_nan=True)
    if close.all():
        return ""
    return f"{int((~close).sum())} of {a.size} differ, first {wide[~close][0]!r} for {wanted[~close][0]!r}"
