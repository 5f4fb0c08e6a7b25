"""A machine as text: `emulated[:CHIP[@DRIVER],…]`, as HCQRT_SYSTEM and --emulated take it."""

from __future__ import annotations

DEFAULT_CHIP = "sm_86"


def parse_spec(text: str) -> tuple[list[str], str]:
    """(chips, driver version or ""). A plain `emulated` has one GPU. Raises ValueError."""
    head, _, rest = text.partition(":")
    if head != "emulated":
        raise ValueError(f"system {text!r}: say emulated or emulated:CHIP[@DRIVER],…")
    chips: list[str] = []
    versions: set[str] = set()
    for item in (rest or DEFAULT_CHIP).split(","):
        chip, _, version = item.strip().partition("@")
        chips.append(chip)
        versions |= {version} - {""}
    if len(versions) > 1:
        raise ValueError(f"system {text!r}: one machine has one driver, not {', '.join(sorted(versions))}")
    return chips, versions.pop() if versions else ""
