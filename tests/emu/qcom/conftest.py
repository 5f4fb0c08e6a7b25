"""The bench of the tests of the emulated Adreno."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from adreno_bench import Bench
from kgsl_client import Kgsl, MakeKgsl

from hcqrt.emu.system import EmulatedSystem


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.fixture
def bench7() -> Iterator[Bench]:
    """An a750."""
    made = Bench("a750")
    yield made
    made.close()


@pytest.fixture
def lenient() -> Iterator[Bench]:
    """Not strict: what is refused only stops the context, and the known mistakes of one client pass."""
    made = Bench(strict=False)
    yield made
    made.close()


@pytest.fixture
def make_kgsl() -> Iterator[MakeKgsl]:
    """Opens the node of a new machine; `entry` keys are those of its qcom entry. Nothing may be left at the end."""
    made: list[Kgsl] = []

    def make(chip: str = "a630", *, options: dict[str, Any] | None = None, **entry: Any) -> Kgsl:
        made.append(Kgsl(EmulatedSystem(qcom={"chip": chip, **entry}, **{"threads": 1, **(options or {})})))
        return made[-1]

    yield make
    for kgsl in made:
        kgsl.close()
    left = [str(item) for kgsl in made for item in kgsl.system.live_objects()]
    drivers: list[Any] = [kgsl.system.drivers[0] for kgsl in made]
    used = [memory.used_bytes for driver in drivers for memory in (driver.dram, driver.cpu_caches, driver.shadows)]
    for kgsl in made:
        kgsl.system.close()
    assert left == [] and not any(used)


@pytest.fixture
def kgsl(make_kgsl: MakeKgsl) -> Kgsl:
    return make_kgsl()
