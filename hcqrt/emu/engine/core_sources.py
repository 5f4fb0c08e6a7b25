"""The files that the C core is made of, and their digest: a compiled core of other sources must not be used."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADERS = (
    "abi", "base", "round", "special", "integer", "bits", "float", "half", "convert", "memory", "warp", "control",
    "run",
)  # fmt: skip
FILES = ("uops.py", "special.py", "core.c", *(f"core_{name}.h" for name in HEADERS))


def digest() -> str:
    """Of the contents of all files. Raises OSError where one is missing."""
    whole = hashlib.sha256()
    for name in FILES:
        whole.update((HERE / name).read_bytes())
    return whole.hexdigest()
