"""An optional model of caches that software must invalidate: it refuses to run on stale contents.

Hardware would run with the old contents, sometimes. Here a launch that could see them is an error with the address.
"""

from __future__ import annotations

import zlib

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.memory import FETCH
from hcqrt.emu.nv.qmd import Qmd
from hcqrt.emu.nv.trouble import GR_EXCEPTION, Refused

CODE_BYTES = 4096  # how much code after an entry point is watched
CONSTANT_LINE_BYTES = 64


class Caches:
    """Checksums of what SKED, the constant caches and the instruction caches hold. Does nothing unless enabled."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.qmds: dict[int, int] = {}  # address -> checksum
        self.lines: dict[int, int] = {}  # constant line -> checksum
        self.code: dict[int, int] = {}  # page of code -> checksum

    def qmd(self, va: int, raw: bytes) -> bytes:
        """A descriptor is read: SKED may hold an older one from this address."""
        if self.enabled:
            self.expect(self.qmds, va, raw, "QMD", "PCAS action 3 or INVALIDATE_SKED_CACHES")
        return raw

    def expect(self, known: dict[int, int], va: int, raw: bytes, what: str, remedy: str) -> None:
        checksum = zlib.crc32(raw)
        if known.setdefault(va, checksum) != checksum:
            raise Refused(GR_EXCEPTION, f"{what} at {va:#x} changed while cached: no {remedy} came before this launch")

    def invalidate(self, *, instructions: bool = False, constants: bool = False) -> None:
        if instructions:
            self.code.clear()
        if constants:
            self.lines.clear()

    def invalidate_qmds(self, va: int | None = None) -> None:
        """Forget the descriptor at `va`, or all of them."""
        if va is None:
            self.qmds.clear()
        else:
            self.qmds.pop(va, None)

    def before_launch(self, qmd: Qmd, qmd_va: int, space: GpuAddressSpace) -> None:
        if not self.enabled:
            return
        self.invalidate(instructions=qmd.invalidate_instructions, constants=qmd.invalidate_constants)
        for buffer in qmd.constants:
            data = space.read(buffer.va, buffer.nbytes)
            for start in range(0, buffer.nbytes, CONSTANT_LINE_BYTES):
                if buffer.invalidate:
                    self.lines.pop(buffer.va + start, None)
                line = data[start : start + CONSTANT_LINE_BYTES]
                self.expect(self.lines, buffer.va + start, line, "constants", "constant cache invalidate")
        code = b"".join(
            space.read(va, 16, FETCH)
            for va in range(qmd.program_va, qmd.program_va + CODE_BYTES, 16)
            if mapped(space, va)
        )
        self.expect(self.code, qmd.program_va, code, "code", "instruction cache invalidate")


def mapped(space: GpuAddressSpace, va: int) -> bool:
    return any(start <= va and va + 16 <= start + nbytes for start, nbytes, *_ in space.ranges())
