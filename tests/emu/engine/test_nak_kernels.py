"""Kernels that Mesa's NAK compiled, run on the engine and compared with tinygrad's PYTHON device."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cores import CORES, execute
from nak import CODE_VA, ArrayMemory, Shader, arguments, differs
from nak_corpus import PACKAGES, missing_packages

from hcqrt.emu.engine.launch import Launch

WORKER = Path(__file__).with_name("kernel_cases_worker.py")


NEEDS_NAK = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")


def make_cases(path: Path) -> None:
    """Run the worker; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    # Its own environment: a DEV or DEBUG of the caller must not decide what is compiled.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    subprocess.run([sys.executable, str(WORKER), "nak", str(partial)], check=True, timeout=300, env=environment)
    partial.replace(path)


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    """Kept between runs for as long as the worker and the packages are the same; about 30 s when made anew."""
    versions = [f"{name}={importlib.metadata.version(name)}" for name in PACKAGES]
    key = hashlib.sha256(" ".join([*versions, WORKER.read_text()]).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"hcqrt-test-corpus-{os.getuid()}" / f"cases-{key}.pickle"
    if not path.exists():
        make_cases(path)
    found: list[dict[str, Any]] = pickle.loads(path.read_bytes())
    return found


def run_case(case: dict[str, Any], core: str) -> str:
    """What differs in the outputs of one launch; empty when all is right."""
    shader = Shader(case["blob"])
    assert shader.block == case["block"]
    arrays = [np.frombuffer(bytearray(content), np.uint8) for _, content in case["buffers"]]
    memory = ArrayMemory(arrays)
    bank = arguments(memory.addresses, case["vals"])
    launch = Launch(
        fetch=lambda va, nbytes: shader.code[va - CODE_VA : va - CODE_VA + nbytes],
        entry_va=CODE_VA,
        memory=memory,
        grid=case["grid"],
        block=case["block"],
        registers=shader.registers,
        shared_bytes=shader.shared_bytes,
        local_low_bytes=(shader.local_bytes + 15) // 16 * 16,
        constants={0: (bank.ctypes.data, bank.nbytes)},
        barriers=shader.barriers,
        budget=50_000_000,
    )
    result = execute(launch, core)
    if result.fault is not None:
        return f"fault {result.fault}"
    found = [(case["buffers"][i][0], arrays[i].tobytes(), wanted) for i, wanted in case["outputs"].items()]
    return "; ".join(filter(None, (differs(*one) for one in found)))


@NEEDS_NAK
@pytest.mark.parametrize("core", CORES)
def test_outputs_are_those_of_the_python_device(cases: list[dict[str, Any]], core: str) -> None:
    assert len({case["blob"] for case in cases}) >= 300
    wrong = {case["label"]: text for case in cases if (text := run_case(case, core))}
    assert not wrong, "\n".join(f"{label}: {text}" for label, text in wrong.items())
