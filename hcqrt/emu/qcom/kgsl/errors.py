"""How the emulated driver refuses a call."""

from __future__ import annotations

from typing import NoReturn

ENOTSUPP = 524  # kernel-internal "not supported"; some paths of KGSL hand it out as it is


def refuse(number: int, why: str) -> NoReturn:
    """Fail the ioctl at hand with errno `number`; `why` ends up in `last_refusal`."""
    raise OSError(number, why)
