"""One emulated NVIDIA card: where it sits on the bus, what it is called, and its GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hcqrt.emu.memory import PhysicalMemory
from hcqrt.emu.nv.chips import CHIPS, Chip
from hcqrt.emu.nv.gpu import Gpu
from hcqrt.fileio import Libc

NVIDIA = 0x10DE
ENTRY_KEYS = (
    "chip",
    "memory_bytes",
    "tpcs",
    "warps_per_sm",
    "minor",
    "gpu_id",
    "uuid",
    "pci",
    "bar1_bytes",
    "peer_access",
    "nvlink",
    "held",
    "confidential",
    "mig",
)
MAX_MINOR = 247
PARTITION_CLASS = 0xC637  # AMPERE_SMC_PARTITION_REF
CONFIDENTIAL_MODES = ("", "apm", "hcc", "not ready")
# What a chip that can run so lists: NV_CONFIDENTIAL_COMPUTE; HOPPER_SEC2_WORK_LAUNCH_A to hide its memory
CONFIDENTIAL_CLASSES = {"apm": 0xCB33, "not ready": 0xCB33, "hcc": 0xCBA2}


@dataclass(eq=False)
class Board:
    """Identity of a card as every interface reports it."""

    gpu: Gpu
    index: int
    minor: int
    gpu_id: int
    uuid: bytes
    pci: tuple[int, int, int, int]  # domain, bus, slot, function
    bar1_free: int
    opens: int = 0  # open device files and attachments: the GPU is initialised while any is left

    @property
    def chip(self) -> Chip:
        return self.gpu.chip

    @property
    def device_instance(self) -> int:
        return self.index

    @property
    def node(self) -> str:
        return f"/dev/nvidia{self.minor}"

    @property
    def pci_text(self) -> str:
        domain, bus, slot, function = self.pci
        return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"

    @property
    def uuid_text(self) -> str:
        raw = self.uuid.hex()
        return "GPU-" + "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


def parse_uuid(value: str | bytes) -> bytes:
    try:
        raw = value if isinstance(value, bytes) else bytes.fromhex(value.removeprefix("GPU-").replace("-", ""))
    except ValueError:
        raise ValueError(f"uuid {value!r}: say GPU- and 32 hexadecimal digits") from None
    if len(raw) != 16:
        raise ValueError(f"uuid {value!r}: {len(raw)} bytes, a GPU's has 16")
    return raw


def parse_pci(value: str) -> tuple[int, int, int, int]:
    try:
        domain, bus, rest = value.split(":")
        slot, function = rest.split(".")
        return int(domain, 16), int(bus, 16), int(slot, 16), int(function, 16)
    except ValueError:
        raise ValueError(f"pci {value!r}: say dddd:bb:ss.f") from None


def chip_of(entry: Mapping[str, Any]) -> Chip:
    """The chip of an `EmulatedSystem` entry with the board's own sizes."""
    unknown = sorted(set(entry) - set(ENTRY_KEYS))
    if unknown:
        raise ValueError(f"nv entry: unknown key {', '.join(unknown)}; known are {', '.join(ENTRY_KEYS)}")
    name = entry.get("chip", "sm_86")
    if name not in CHIPS:
        raise ValueError(f"chip {name!r}: the emulator knows {', '.join(CHIPS)}")
    changes: dict[str, Any] = {}
    for key in ("memory_bytes", "tpcs", "warps_per_sm", "bar1_bytes"):
        if key in entry:
            changes[key] = int(entry[key])
            if changes[key] < 1:
                raise ValueError(f"nv entry: {key}={entry[key]} is not positive")
    if "peer_access" in entry:
        changes["peer_access"] = bool(entry["peer_access"])
    changes["nvlink"] = str(entry.get("nvlink", ""))
    changes["confidential"] = mode = str(entry.get("confidential", ""))
    if mode not in CONFIDENTIAL_MODES:
        raise ValueError(f"nv entry: confidential={mode!r} is not one of {', '.join(CONFIDENTIAL_MODES)}")
    if mode and CONFIDENTIAL_CLASSES[mode] not in CHIPS[name].engine_classes:
        raise ValueError(f"nv entry: {name} cannot be confidential={mode!r}")
    changes["mig"] = bool(entry.get("mig", False))
    if changes["mig"] and PARTITION_CLASS not in CHIPS[name].other_classes:
        raise ValueError(f"nv entry: {name} cannot be cut into instances")
    return replace(CHIPS[name], **changes)


def make_board(
    libc: Libc, index: int, entry: str | Mapping[str, Any], seed: int, clock_ns: Callable[[], int], *, strict: bool
) -> Board:
    """One card of a machine."""
    given: Mapping[str, Any] = {"chip": entry} if isinstance(entry, str) else entry
    chip = chip_of(given)
    pci = parse_pci(given.get("pci", f"0000:{index + 1:02x}:00.0"))
    minor = int(given.get("minor", index))
    if not 0 <= minor <= MAX_MINOR:
        raise ValueError(f"nv entry: minor {minor} is not in 0..{MAX_MINOR}")
    digest = hashlib.sha256(f"hcqrt {seed} {index} {chip.name}".encode()).digest()
    return Board(
        gpu=Gpu(chip, PhysicalMemory(libc, f"hcqrt-vidmem{index}", chip.memory_bytes), clock_ns, strict=strict),
        index=index,
        minor=minor,
        gpu_id=int(given.get("gpu_id", pci[0] << 16 | pci[1] << 8 | pci[2])),
        uuid=parse_uuid(given["uuid"]) if "uuid" in given else digest[:16],
        pci=pci,
        bar1_free=chip.bar1_bytes,
        opens=int(bool(given.get("held", False))),  # a daemon, or another process, keeps it initialised
    )
