"""What the checks of `hcqrt smoke` share: the device under test, data, comparisons, the shipped kernels."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any

from hcqrt.core.device import HCQDevice
from hcqrt.core.program import HCQProgram
from hcqrt.errors import HCQError
from hcqrt.fileio import System
from hcqrt.opening import open_device

WAIT_MS = 60_000
KERNEL_FILES = ("cubin", "nak", "ir3")
SAME_CODE = {"a6": "a630", "a7": "a730"}  # chips of one Adreno generation run the same code
Check = Callable[["Context"], "str | None"]


class CheckFailed(Exception):
    """A result is wrong."""


def expect(condition: bool, text: str) -> None:
    if not condition:
        raise CheckFailed(text)


def same(got: Any, wanted: Any, what: str) -> None:
    """Arrays equal bit for bit, or the first place where they are not."""
    import numpy as np

    differ = np.flatnonzero(np.ravel(got != wanted))
    if differ.size:
        at = int(differ[0])
        raise CheckFailed(f"{what}: {differ.size} of {got.size} differ, first at {at}: "
                          f"{np.ravel(got)[at]!r}, expected {np.ravel(wanted)[at]!r}")  # fmt: skip


class Context:
    """The device under test and what the checks share."""

    def __init__(self, system: System, name: str, quick: bool) -> None:
        self.system, self.name, self.quick = system, name, quick
        self._device: HCQDevice | None = None
        self._programs: dict[str, HCQProgram] = {}

    @property
    def dev(self) -> HCQDevice:
        if self._device is None:
            raise HCQError(f"{self.name} is not open")
        return self._device

    def open(self) -> HCQDevice:
        self._device = open_device(self.name, self.system)
        return self._device

    def kernel(self, name: str) -> HCQProgram:
        """A shipped kernel for this chip, loaded once."""
        if name not in self._programs:
            self._programs[name] = self.dev.program(shipped_kernel(self.dev.arch, name), None)
        return self._programs[name]

    def random(self, shape: Any, seed: int = 1) -> Any:
        """float32 in [-1, 1)."""
        import numpy as np

        return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)

    def upload(self, array: Any) -> Any:
        buf = self.dev.alloc(array.nbytes)
        buf.copyin(array)
        return buf

    def download(self, buf: Any, like: Any) -> Any:
        import numpy as np

        out = np.empty_like(like)
        buf.copyout(out)
        return out

    def close(self) -> None:
        self._programs.clear()
        if self._device is not None:
            self._device.close()


def shipped(arch: str, name: str) -> dict[str, str]:
    """The files `hcqrt/kernels/NAME.CHIP.*` that this chip runs, by the chip they are for."""
    found = {}
    for entry in resources.files("hcqrt.kernels").iterdir():
        stem, _, rest = entry.name.partition(".")
        chip, _, suffix = rest.partition(".")
        if stem == name and suffix in KERNEL_FILES and runs_code_of(arch, chip):
            found[chip] = entry.name
    return found


def shipped_kernel(arch: str, name: str) -> bytes:
    """The binary for this chip, or for the newest whose code it runs. Raises HCQError naming both."""
    found = shipped(arch, name)
    if not found:
        raise HCQError(f"no kernel {name} is shipped for {arch}; scripts/gen_kernels.py makes them")
    newest = max(found, key=lambda chip: (len(chip), chip))
    return resources.files("hcqrt.kernels").joinpath(found[newest]).read_bytes()


def runs_code_of(arch: str, chip: str) -> bool:
    """Whether `arch` runs code for `chip`: NVIDIA's newer minor versions run the older ones' of the same major."""
    if not arch.startswith("sm_") or not chip.startswith("sm_"):
        return SAME_CODE.get(arch[:2], arch) == chip
    own, other = int(arch[3:]), int(chip[3:])
    return own // 10 == other // 10 and other <= own
