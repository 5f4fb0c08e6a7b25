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
SAME_CODE = {"a6": "a630"}  # chips of one Adreno generation run the same code
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


def shipped_kernel(arch: str, name: str) -> bytes:
    """The binary `hcqrt/kernels/NAME.ARCH.*`. Raises HCQError listing what is shipped for the chip."""
    wanted = [name, SAME_CODE.get(arch[:2], arch)]
    folder = resources.files("hcqrt.kernels")
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        parts = entry.name.split(".")
        if parts[:2] == wanted and parts[-1] in KERNEL_FILES:
            return entry.read_bytes()
    raise HCQError(f"no kernel {name} is shipped for {arch}; scripts/gen_kernels.py makes them")
