"""The project's copy of the fact tables about NVIDIA's headers; another tool than scripts/gen_nv.py made them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

FACTS = Path(__file__).resolve().parent.parent / "facts"
NAMES = ("nv-abi.json", "nv-qmd.json", "nv-qmd-enums.json")


@cache
def load(name: str) -> Any:
    return json.loads((FACTS / name).read_text())


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def generated_versions() -> list[tuple[int, ...]]:
    """Driver versions that the generated tables were made from, ascending."""
    return sorted(version(tree["tag"]) for tree in manifest_inputs())


def manifest_inputs() -> list[dict[str, Any]]:
    """What MANIFEST.json says of each driver version."""
    from hcqrt import autogen

    manifest = json.loads((Path(autogen.__file__).parent / "MANIFEST.json").read_text())
    return [entry for entry in manifest["nv"]["inputs"] if "tag" in entry]


def struct_at(entries: list[dict[str, Any]], driver: tuple[int, ...]) -> dict[str, Any] | None:
    """The layout a driver version has, None where it has none."""
    known = [entry for entry in entries if version(entry["from"]) <= driver]
    return known[-1] if known and not known[-1].get("absent") else None


def consts_at(driver: tuple[int, ...]) -> Iterator[tuple[str, int | tuple[int, int]]]:
    """Constants of a driver version, bit ranges as pairs."""
    for name, value in load("nv-abi.json")["consts"].items():
        if isinstance(value, list):
            known = [entry[1] for entry in value if version(entry[0]) <= driver]
            value = known[-1] if known else None
        if isinstance(value, str):
            msb, lsb = value.split(":")
            yield name, (int(msb), int(lsb))
        elif value is not None:
            yield name, value
