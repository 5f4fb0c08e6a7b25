"""DeviceInfo: one GPU that was found, usable or not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceInfo:
    """`name` is what `open_device` takes. When not `usable`, `reason` says why and what to do."""

    name: str
    kind: str  # "NV", "QCOM"
    arch: str
    model: str
    driver: str
    uuid: str
    pci: str
    minor: int
    usable: bool
    reason: str = ""
