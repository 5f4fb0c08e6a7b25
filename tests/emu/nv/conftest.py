"""The bench of the GPU tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.fixture
def lenient() -> Iterator[Bench]:
    """Not strict: what is refused only kills the channel, as on hardware."""
    made = Bench(strict=False)
    yield made
    made.close()
