"""Fixtures of the whole suite: emulated machines that must hold nothing when a test ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from hcqrt.emu.system import EmulatedSystem  # noqa: E402


@pytest.fixture
def machine() -> Iterator[Callable[..., EmulatedSystem]]:
    """Makes emulated machines. At the test's end none may hold a handle, mapping, file or context."""
    made: list[EmulatedSystem] = []

    def make(nv: Any = ("sm_86",), **options: Any) -> EmulatedSystem:
        system = EmulatedSystem(nv=nv, **options)
        made.append(system)
        return system

    yield make
    for system in made:
        assert system.live_objects() == []


@pytest.fixture
def system(machine) -> EmulatedSystem:
    return machine()


@pytest.fixture
def dev(system) -> Iterator[Any]:
    """An open emulated sm_86, closed at the end."""
    import hcqrt

    with hcqrt.open_device("NV:0", system) as device:
        yield device


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Every wait in a test has a timeout that a person would wait for."""
    monkeypatch.setenv("HCQRT_WAIT_TIMEOUT_MS", "20000")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew")


@pytest.fixture
def update_golden(request) -> bool:
    return request.config.getoption("--update-golden")
