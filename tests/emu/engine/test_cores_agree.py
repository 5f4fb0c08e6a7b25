"""All cores leave the same bits: on random micro-op programs and on every shipped kernel."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from cores import CORES, direct
from random_programs import random_case

import hcqrt
from hcqrt.emu.engine import run
from hcqrt.emu.system import EmulatedSystem
from hcqrt.tools.check_frame import shipped_kernel

pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="the C core was not built: there is no second core")
SEEDS = {32: 140, 64: 80, 128: 60}
CHIP = "sm_86"
# name -> shapes in words of the buffers (the first is written), scalars, grid, block
KERNELS: dict[str, tuple[tuple[int, ...], tuple[Any, ...], tuple[int, int, int], tuple[int, int, int]]] = {
    "fill": ((1000,), (0xDEADBEEF, 999), (8, 1, 1), (128, 1, 1)),
    "vector_add": ((3000, 3000, 3000), (2999,), (12, 1, 1), (256, 1, 1)),
    "vector_add_mesa": ((1024, 1024, 1024), (), (8, 1, 1), (32, 1, 1)),
    "saxpy": ((3000, 3000), (1.75, 2990), (12, 1, 1), (256, 1, 1)),
    "matmul": ((32 * 48, 32 * 64, 64 * 48), (32, 48, 64), (3, 2, 1), (16, 16, 1)),
    "sum": ((7, 7 * 256), (7 * 256 - 3,), (7, 1, 1), (256, 1, 1)),
    "ids": ((12 * 24 * 12,), (), (3, 2, 2), (4, 3, 2)),
    "spill": ((512,), (), (8, 1, 1), (64, 1, 1)),
}


@pytest.mark.parametrize("lanes", SEEDS)
def test_random_programs_leave_the_same_bits(lanes: int) -> None:
    for seed in range(SEEDS[lanes]):
        code, make = random_case(seed, lanes)
        outcomes = []
        for core in CORES:
            described, buffers = make()
            outcomes.append((direct(core)(code, described), *(array.tobytes() for array in buffers.arrays)))
        assert outcomes[0] == outcomes[1], f"seed {seed}"


def any_bits(words: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Floats near 1, among them NaNs, infinities, zeros, denormals and any pattern."""
    draw = np.random.default_rng(seed)
    plain = draw.uniform(-2, 2, words).astype(np.float32).view(np.uint32)
    odd = draw.choice(np.array([0, 1 << 31, 0x7F800000, 0xFFC12345, 0x7F812345, 1, 0x807FFFFF], np.uint32), words)
    raw = draw.integers(0, 1 << 32, words, np.uint32)
    kind = draw.integers(0, 40, words)
    return np.where(kind == 0, odd, np.where(kind == 1, raw, plain))


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a shipped kernel on a machine of its own whose kernels are executed by one core; all its buffers after."""
    launch = run.launch

    def on(core: str, name: str) -> list[bytes]:
        monkeypatch.setattr(run, "launch", functools.partial(launch, core=core))
        sizes, scalars, grid, block = KERNELS[name]
        with hcqrt.open_device("NV:0", system=EmulatedSystem(nv=[CHIP])) as dev:
            buffers = []
            for seed, words in enumerate(sizes):
                buffers.append(dev.alloc(4 * words))
                buffers[-1].copyin(any_bits(words, seed))
            dev.program(shipped_kernel(CHIP, name))(*buffers, vals=scalars, global_size=grid, local_size=block)
            dev.synchronize(60_000)
            found = []
            for words, buffer in zip(sizes, buffers, strict=True):
                content = np.empty(words, np.uint32)
                buffer.copyout(content)
                found.append(content.tobytes())
                buffer.close()
        return found

    return on


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_shipped_kernel_leaves_the_same_bits(outputs: Any, name: str) -> None:
    first, second = (outputs(core, name) for core in CORES)
    assert first == second
    assert first[0] != any_bits(KERNELS[name][0][0], 0).tobytes()


def test_every_shipped_kernel_is_compared() -> None:
    from importlib import resources

    names = {path.name.split(".")[0] for path in resources.files("hcqrt.kernels").iterdir() if f".{CHIP}." in path.name}
    assert names == set(KERNELS)
