"""The bench of the tests of the emulated Adreno."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from adreno_bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.fixture
def lenient() -> Iterator[Bench]:
    """Not strict: what is refused only stops the context, and the known mistakes of one client pass."""
    made = Bench(strict=False)
    yield made
    made.close()
