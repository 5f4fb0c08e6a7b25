"""A machine as text: `emulated[:CHIP[@DRIVER],…]`, as HCQRT_SYSTEM and --emulated take it."""

from __future__ import annotations

import re

DEFAULT_CHIP = "sm_86"
ADRENO = re.compile(r"a[0-9]+")


def parse_spec(text: str) -> tuple[list[str], str, str | None]:
    """(NVIDIA chips, their driver's version or "", Adreno chip or None). A plain `emulated` has one GPU.

    Raises ValueError.
    """
    head, _, rest = text.partition(":")
    if head != "emulated":
        raise ValueError(f"system {text!r}: say emulated or emulated:CHIP[@DRIVER],…")
    chips: list[str] = []
    adreno: list[str] = []
    versions: set[str] = set()
    for item in (rest or DEFAULT_CHIP).split(","):
        chip, _, version = item.strip().partition("@")
        if not ADRENO.fullmatch(chip):
            chips.append(chip)
            versions |= {version} - {""}
            continue
        adreno.append(chip)
        if version:
            raise ValueError(f"system {text!r}: KGSL has no driver version to choose")
    if len(versions) > 1:
        raise ValueError(f"system {text!r}: one machine has one driver, not {', '.join(sorted(versions))}")
    if len(adreno) > 1:
        raise ValueError(f"system {text!r}: a machine has one Adreno, not {', '.join(adreno)}")
    return chips, versions.pop() if versions else "", adreno[0] if adreno else None
