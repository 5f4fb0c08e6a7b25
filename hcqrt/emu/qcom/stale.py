"""An optional model of what the shader processors hold on to: it refuses to run on contents that changed meanwhile.

Hardware would run with the old contents, sometimes. Here a launch that could see them is an error with the address.
"""

from __future__ import annotations

import zlib

from hcqrt.emu.qcom.trouble import Refused

LINE_BYTES = 64  # a line of UCHE


class Stale:
    """Checksums of what UCHE and the instruction caches hold. Does nothing unless enabled."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.lines: dict[int, int] = {}  # part of a line that state was loaded from -> checksum
        self.code: dict[int, int] = {}  # 128 bytes of code -> checksum

    def invalidate_memory(self) -> None:
        """CACHE_INVALIDATE."""
        self.lines.clear()

    def invalidate_code(self) -> None:
        """HLSQ_INVALIDATE_CMD with CS_STATE."""
        self.code.clear()

    def loaded(self, va: int, raw: bytes, what: str) -> None:
        """State was read from memory, through UCHE."""
        if self.enabled:
            self.expect(self.lines, va, raw, LINE_BYTES, what, "CACHE_INVALIDATE")

    def fetched(self, va: int, raw: bytes) -> None:
        """Code was read: it comes through UCHE into the instruction caches."""
        if self.enabled:
            self.expect(self.lines, va, raw, LINE_BYTES, "code", "CACHE_INVALIDATE")
            self.expect(self.code, va, raw, 128, "code", "HLSQ_INVALIDATE_CMD with CS_STATE")

    def expect(self, known: dict[int, int], va: int, raw: bytes, unit: int, what: str, remedy: str) -> None:
        at = va
        while at < va + len(raw):
            end = min(at // unit * unit + unit, va + len(raw))
            checksum = zlib.crc32(raw[at - va : end - va])
            if known.setdefault(at << 8 | end - at, checksum) != checksum:
                raise Refused(f"{what} at {at:#x} changed while cached: no {remedy} came before this launch")
            at = end
