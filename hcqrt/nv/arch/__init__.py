"""What differs between chips: one `Chip` value each, with the `Arch` value of its generation in it."""

from __future__ import annotations

from hcqrt.errors import DriverError
from hcqrt.nv.arch import ada, ampere, blackwell, hopper, turing
from hcqrt.nv.arch.base import Arch, Chip

__all__ = ["CHIPS", "Arch", "Chip", "chip_for"]

# Every chip by name. A chip that is added here, with an Arch of its own, can be opened like the others.
CHIPS: dict[str, Chip] = {
    chip.name: chip for module in (turing, ampere, ada, hopper, blackwell) for chip in module.CHIPS
}


def chip_for(sm_version: int) -> Chip:
    """The chip with this SM_VERSION. Raises DriverError naming it and what is supported."""
    for chip in CHIPS.values():
        if sm_version in chip.sm_versions:
            return chip
    raise DriverError(f"GPU architecture not supported: SM_VERSION {sm_version:#x}; supported are {', '.join(CHIPS)}")
