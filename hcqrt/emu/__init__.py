"""Emulated drivers and GPUs: the other side of the ioctls, written from the headers a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hcqrt.emu.system import EmulatedSystem

__all__ = ["EmulatedSystem"]


def __getattr__(name: str) -> Any:
    if name == "EmulatedSystem":
        from hcqrt.emu.system import EmulatedSystem

        return EmulatedSystem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
