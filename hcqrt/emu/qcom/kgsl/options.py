"""What an entry of `EmulatedSystem(qcom=…)` may say about the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hcqrt.autogen.qcom import kgsl_consts, kgsl_ioctls
from hcqrt.emu.qcom.chips import CHIPS, EmuChip

GIB = 1 << 30
DEFAULT_CHIP = "a630"
PATCH_BITS = 8
# Queue of a context: 49 with the dispatcher in the kernel, 126 where the GPU's own controller schedules (qcom.md §1.7)
SOFTWARE_QUEUE_DEPTH, HWSCHED_QUEUE_DEPTH = 49, 126
# Faults within this time count together (qcom.md §1.8)
SOFTWARE_FAULT_WINDOW_MS, HWSCHED_FAULT_WINDOW_MS = 3_000, 2_000
COHERENCY = (False, True, "always")


@dataclass(frozen=True)
class KgslOptions:
    """One emulated KGSL machine."""

    chip: EmuChip
    chip_id: int
    gpu_id: int
    model: str
    memory_bytes: int = 8 * GIB  # sparse
    iocoherent: bool | str = False  # True: kept when asked for; "always": on every cached buffer
    missing_properties: frozenset[int] = frozenset()
    missing_ioctls: frozenset[int] = frozenset()
    queue_depth: int = SOFTWARE_QUEUE_DEPTH
    queue_timeout_ms: int = 10_000
    ib_timeout_ms: int = 2_000  # how long a command may take in a context with fault tolerance
    fault_burst: int = 3  # so many faults within fault_window_ms are recovered from
    fault_window_ms: int = SOFTWARE_FAULT_WINDOW_MS
    contexts_per_process: int = 200
    preemption: bool = False  # without, the kernel ignores a context's preemption style


NUMBERS = (
    "memory_bytes", "queue_depth", "queue_timeout_ms", "ib_timeout_ms", "fault_burst", "fault_window_ms",
    "contexts_per_process",
)  # fmt: skip
KEYS = ("chip", "chip_id", "gpu_id", "model", "iocoherent", "missing_properties", "missing_ioctls", "preemption")


def number_of(value: str | int, prefix: str, names: Mapping[str, int]) -> int:
    """A name of the header, with or without its prefix, or a number."""
    if isinstance(value, int):
        return value
    found = names.get(value.removeprefix(prefix))
    if found is None:
        raise ValueError(f"qcom entry: {value!r} is not in the KGSL header")
    return found


def property_numbers(values: Iterable[str | int]) -> frozenset[int]:
    prefix = "KGSL_PROP_"
    names = {name.removeprefix(prefix): value for name, value in vars(kgsl_consts).items() if name.startswith(prefix)}
    return frozenset(number_of(value, prefix, names) for value in values)


def ioctl_numbers(values: Iterable[str | int]) -> frozenset[int]:
    prefix = "IOCTL_KGSL_"
    names = {ioctl.name.removeprefix(prefix): nr for nr, ioctl in kgsl_ioctls.IOCTLS.items()}
    return frozenset(number_of(value, prefix, names) for value in values)


def scheduling(chip: EmuChip) -> dict[str, int]:
    """What depends on who schedules: the kernel's dispatcher or the GPU's own controller."""
    if chip.hwsched:
        return {"queue_depth": HWSCHED_QUEUE_DEPTH, "fault_window_ms": HWSCHED_FAULT_WINDOW_MS}
    return {"queue_depth": SOFTWARE_QUEUE_DEPTH, "fault_window_ms": SOFTWARE_FAULT_WINDOW_MS}


def chip_of(chip_id: int | None) -> str:
    """The chip of an entry that says no more than an id: its last byte, the patch, may be any."""
    if chip_id is None:
        return DEFAULT_CHIP
    for name, chip in CHIPS.items():
        if chip.chip_id >> PATCH_BITS == int(chip_id) >> PATCH_BITS:
            return name
    known = ", ".join(f"{chip.chip_id:#010x} ({name})" for name, chip in CHIPS.items())
    raise ValueError(
        f"qcom entry: no chip has the id {chip_id:#010x}; known are {known}; or say chip= which it is like"
    )


def parse_options(entry: str | Mapping[str, Any]) -> KgslOptions:
    """Raises ValueError for what is not known or out of range."""
    given: Mapping[str, Any] = {"chip": entry} if isinstance(entry, str) else entry
    unknown = sorted(set(given) - {*NUMBERS, *KEYS})
    if unknown:
        known = ", ".join(sorted({*NUMBERS, *KEYS}))
        raise ValueError(f"qcom entry: unknown key {', '.join(unknown)}; known are {known}")
    name = given.get("chip") or chip_of(given.get("chip_id"))
    if name not in CHIPS:
        raise ValueError(f"chip {name!r}: the emulator knows {', '.join(CHIPS)}")
    chip = CHIPS[name]
    changes: dict[str, Any] = scheduling(chip) | {key: int(given[key]) for key in NUMBERS if key in given}
    for key, value in changes.items():
        if value < 1:
            raise ValueError(f"qcom entry: {key}={value} is not positive")
    if given.get("iocoherent", False) not in COHERENCY:
        raise ValueError(f"qcom entry: iocoherent={given['iocoherent']!r}: say False, True or 'always'")
    return KgslOptions(
        chip,
        int(given.get("chip_id", chip.chip_id)),
        int(given.get("gpu_id", chip.gpu_id)),
        str(given.get("model", chip.model)),
        iocoherent=given.get("iocoherent", False),
        missing_properties=property_numbers(given.get("missing_properties", ())),
        missing_ioctls=ioctl_numbers(given.get("missing_ioctls", ())),
        preemption=bool(given.get("preemption", False)),
        **changes,
    )
