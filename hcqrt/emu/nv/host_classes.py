"""The channel classes: what one host generation does otherwise than the one before."""

from __future__ import annotations

from dataclasses import dataclass

from hcqrt.emu.nv.classes import ClassTable, class_table
from hcqrt.emu.nv.trouble import PBDMA_ERROR, Refused


@dataclass(frozen=True)
class HostClass:
    """One channel class. Source: nv-engine.md §1.4 and §1.5."""

    number: int
    gp_get: bool = True  # whether USERD has a GP_GET that the host writes back
    extended_base: bool = False  # control entry SET_PB_SEGMENT_EXTENDED_BASE: pushbuffers beyond 40 bits

    @property
    def table(self) -> ClassTable:
        found = class_table(self.number)
        assert found is not None, f"no methods of class {self.number:#x}"
        return found


HOST_CLASSES = {
    kind.number: kind
    for kind in (
        HostClass(0xC46F),
        HostClass(0xC56F),
        HostClass(0xC86F, extended_base=True),
        HostClass(0xC96F, gp_get=False, extended_base=True),
        HostClass(0xCA6F, gp_get=False, extended_base=True),
    )
}


def host_class(number: int) -> HostClass:
    if number not in HOST_CLASSES:
        raise Refused(PBDMA_ERROR, f"channel class {number:#x} is not modelled")
    return HOST_CLASSES[number]
