"""Emulated machines for tests: each one must end with nothing left in its drivers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rm_client import Machine, RmClient

from hcqrt.emu.system import EmulatedSystem


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Makes machines; afterwards none may hold an object, mapping or fd."""
    made: list[EmulatedSystem] = []

    def make(nv: Any = "sm_86", **options: Any) -> EmulatedSystem:
        made.append(EmulatedSystem(nv=nv, **options))
        return made[-1]

    yield make
    left = [str(item) for system in made for item in system.live_objects()]
    used = [system.memory.used_bytes for system in made]
    for system in made:
        system.close()
    assert left == []
    assert used == [0] * len(made)


@pytest.fixture
def client(machine: Machine) -> Iterator[RmClient]:
    """A client with device, subdevice and address space, registered with UVM."""
    opened = RmClient(machine())
    opened.open_device()
    opened.open_uvm()
    yield opened
    opened.close()
