"""The project's copy of the Adreno fact tables (another tool than scripts/gen_adreno.py made them) and Mesa's tree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FACTS = Path(__file__).resolve().parent.parent / "facts" / "adreno.json"
SHARED = FACTS.parent.parent.parent.parent / "shared" / "facts" / "adreno.json"
ADRENO: Any = json.loads(FACTS.read_text())

# Mesa's source, of the version that MANIFEST.json names: switches the comparisons with gcc and with Mesa's own tool on.
MESA = os.environ.get("HCQRT_MESA")
NO_MESA = "HCQRT_MESA names no source tree of Mesa"

GENERATIONS = ("a6xx", "a7xx")

Bits = tuple[int, int, int]


def of(entry: dict[str, Any], generation: str) -> dict[str, Any]:
    """An entry of the facts as one generation has it."""
    found: dict[str, Any] = entry.get(generation, entry)
    return found


def bits(entry: dict[str, Any]) -> dict[str, Bits]:
    """Fields of a register or dword: (msb, lsb, shr). One without fields is a field as a whole."""
    if not entry.get("fields"):
        return {"": (entry["bits"] - 1, 0, 0)}
    return {name: (f["msb"], f["lsb"], f.get("shr", 0)) for name, f in entry["fields"].items()}


def types(entry: dict[str, Any]) -> dict[str, str]:
    """Types of fields, with the fraction bits of fixed-point ones."""
    fields = entry.get("fields") or {"": entry}
    found = {name: f for name, f in fields.items() if "type" in f}
    return {name: f["type"] + (f".{f['radix']}" if "radix" in f else "") for name, f in found.items()}
