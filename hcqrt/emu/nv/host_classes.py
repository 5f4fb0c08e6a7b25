"""The channel classes: what one host generation does otherwise than the one before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from hcqrt.autogen.nv import clc46f, clc56f
from hcqrt.emu.nv.classes import ClassTable
from hcqrt.emu.nv.trouble import PBDMA_ERROR, Refused

# From c86f on a semaphore's address has 57 bits; the other fields stay (nv-engine.md §2). The headers of these
# classes list a part of the methods only, so the table of c56f serves for all of them.
WIDE_SEMAPHORES = {("SEM_ADDR_HI", "OFFSET"): 24}


@dataclass(frozen=True)
class HostClass:
    """One channel class. Source: nv-engine.md §1.4, §1.5 and §2."""

    number: int
    wider: Mapping[tuple[str, str], int] = field(default_factory=dict)
    gp_get: bool = True  # whether USERD has a GP_GET that the host writes back
    extended_base: bool = False  # control entry SET_PB_SEGMENT_EXTENDED_BASE: pushbuffers beyond 40 bits

    @property
    def table(self) -> ClassTable:
        return host_table(self.number)


HOST_CLASSES = {
    kind.number: kind
    for kind in (
        HostClass(0xC46F),
        HostClass(0xC56F),
        HostClass(0xC86F, WIDE_SEMAPHORES, extended_base=True),
        HostClass(0xC96F, WIDE_SEMAPHORES, gp_get=False, extended_base=True),
        HostClass(0xCA6F, WIDE_SEMAPHORES, gp_get=False, extended_base=True),
    )
}


@cache
def host_table(number: int) -> ClassTable:
    return ClassTable(clc46f if number == clc46f.CLASS else clc56f, number, HOST_CLASSES[number].wider)


def host_class(number: int) -> HostClass:
    if number not in HOST_CLASSES:
        raise Refused(PBDMA_ERROR, f"channel class {number:#x} is not modelled")
    return HOST_CLASSES[number]
