"""The error of a strict emulator that was asked for something it does not know."""

from __future__ import annotations

from hcqrt.errors import HCQError


class EmulatorRefusal(HCQError):
    """Strict mode: the emulated GPU met a method, class, field or packet it does not know. The text has its number."""
