"""The facts' worked dispatch through the emulated KGSL: memory at its very addresses, a shader that runs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from adreno_bench import CODE, CODE_VA, COMMAND_VA, CONST_VA, CONSTANTS, IN_VA, OUT_VA, SIGNAL_VA, dispatch
from kgsl_client import CPU_MAP, PAGE, Kgsl, errno_of

from hcqrt.mmio import MMIOInterface

COUNT = 128


class Worked:
    """qcom.md §3.3: out[i] = in[i] + 5."""

    def __init__(self, kgsl: Kgsl) -> None:
        self.kgsl = kgsl
        self.base = kgsl.system.reserve(1 << 20, 1 << 20, 0x40_0000_0000, COMMAND_VA)
        assert self.base == COMMAND_VA
        words = dispatch()
        self.command = (COMMAND_VA, 4 * len(words))
        self.object(COMMAND_VA, struct.pack(f"<{len(words)}I", *words))
        self.object(CODE_VA, struct.pack(f"<{len(CODE)}Q", *CODE))
        self.object(CONST_VA, struct.pack("<4I", *CONSTANTS))
        self.object(IN_VA, struct.pack(f"<{COUNT}I", *range(COUNT)))
        self.out = self.object(OUT_VA, b"").view(fmt="I")
        self.signal = self.object(SIGNAL_VA, b"").view(fmt="I")
        self.context = kgsl.context()

    def object(self, va: int, data: bytes) -> MMIOInterface:
        number = self.kgsl.alloc(PAGE, CPU_MAP)
        view = self.kgsl.mmap(number, address=va)
        view[: len(data)] = data
        return view

    def close(self) -> None:
        self.kgsl.maps.clear()
        self.kgsl.system.unmap(self.base, 1 << 20)


@pytest.fixture
def worked(kgsl: Kgsl) -> Iterator[Worked]:
    made = Worked(kgsl)
    yield made
    made.close()


def test_the_worked_dispatch(worked: Worked) -> None:
    kgsl = worked.kgsl
    assert kgsl.submit(worked.context, worked.command) == 1
    kgsl.wait(worked.context, 1)
    assert list(worked.out[:COUNT]) == [value + 5 for value in range(COUNT)] and worked.signal[0] == 1
    stats = kgsl.system.stats()
    assert (stats["launches"], stats["faults"]) == (1, 0) and stats["instructions"] > COUNT


def test_an_injected_fault_spoils_one_launch(worked: Worked) -> None:
    kgsl = worked.kgsl
    kgsl.system.inject("fault", nth=2)
    kgsl.submit(worked.context, worked.command)
    worked.out[0] = worked.signal[0] = 0
    kgsl.submit(worked.context, worked.command)
    assert errno_of(kgsl.wait, worked.context, 2) == "EPROTO"
    assert (worked.out[0], worked.signal[0]) == (0, 0)
    kgsl.submit(worked.context, worked.command)
    kgsl.wait(worked.context, 3)
    assert (worked.out[0], worked.signal[0]) == (5, 1)
    assert kgsl.system.stats()["faults"] == 1
