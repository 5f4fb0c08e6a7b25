"""Where something was made: the nearest callers outside the emulator, cheap enough to keep for every object."""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
BASE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
PLUMBING = (BASE + "ioctl.py", BASE + "fileio.py")
DEPTH = 3

Where = tuple[tuple[str, int, str], ...]


def caller() -> Where:
    """Up to three frames, innermost first."""
    found: list[tuple[str, int, str]] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < DEPTH:
        name = frame.f_code.co_filename
        if not name.startswith((HERE, "<")) and name not in PLUMBING:
            found.append((name, frame.f_lineno, frame.f_code.co_name))
        next_frame = frame.f_back
        if next_frame is None:
            break
        frame = next_frame
    return tuple(found)


def text(where: Where) -> str:
    return " < ".join(f"{os.path.basename(name)}:{line} {function}" for name, line, function in where) or "?"
