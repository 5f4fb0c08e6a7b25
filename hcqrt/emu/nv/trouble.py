"""How work on the emulated GPU ends early: refused words, faults that hardware reports, and waits."""

from __future__ import annotations

from hcqrt.emu.memory import MmuFault
from hcqrt.emu.nv.gpu import COPY_ENGINE_TYPES, GR_CLASS_ERROR, GR_EXCEPTION, MMU_FAULT, PBDMA_ERROR, SmError

# nverror.h ROBUST_CHANNEL_CE0_ERROR.. : the numbers are not in a row (nv-engine.md §9)
CE_ERRORS: tuple[int, ...] = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))

__all__ = [
    "GR_CLASS_ERROR",
    "GR_EXCEPTION",
    "MMU_FAULT",
    "PBDMA_ERROR",
    "Blocked",
    "HardwareFault",
    "Hung",
    "MmuFault",
    "Refused",
    "SmError",
    "copy_error",
]


class Refused(Exception):
    """A word that this GPU does not know or must not get. `detail` holds its number; `code` is the channel's error."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class HardwareFault(Exception):
    """Correct words, and yet an error that hardware reports: a kernel went wrong, or a fault was asked for."""

    def __init__(self, code: int, detail: str, *, mmu: MmuFault | None = None, sm: SmError | None = None) -> None:
        super().__init__(detail)
        self.code, self.detail, self.mmu, self.sm = code, detail, mmu, sm


class Blocked(Exception):
    """A method has to wait: the same word runs again later."""


class Hung(Exception):
    """The engine will never finish this channel's work: an endless kernel. Nothing reports it, as on hardware."""


def copy_error(engine_type: int) -> int:
    """Channel error of a copy engine: COPYn's own number; a copy object on a graphics channel reports as CE0."""
    number = COPY_ENGINE_TYPES.index(engine_type) if engine_type in COPY_ENGINE_TYPES else 0
    return CE_ERRORS[number]
