"""Fixtures of the NVIDIA backend's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nv_bench import Bench, Machine, opened


@pytest.fixture
def bench(machine: Machine) -> Iterator[Bench]:
    """A GPU of an emulated machine, opened as far as an address space."""
    with opened(machine()) as made:
        yield made
