"""The NumPy core: runs micro-op programs on flat arrays over threads."""

from __future__ import annotations

from .grid import run

__all__ = ["run"]
