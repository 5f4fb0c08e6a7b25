"""Kernels that Mesa compiled, with inputs and what tinygrad's PYTHON device gave: made once by a program of its own."""

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

import pytest
from nak_corpus import NAK_CHIPS, PACKAGES, missing_packages

WORKER = Path(__file__).with_name("kernel_cases_worker.py")
NEEDS_MESA = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")


def make_cases(isa: str, path: Path) -> None:
    """Run the worker; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    # Its own environment: a DEV or DEBUG of the caller must not decide what is compiled.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    others = NAK_CHIPS[1:] if isa == "nak" else ()
    command = [sys.executable, str(WORKER), isa, str(partial), *others]
    subprocess.run(command, check=True, timeout=300, env=environment)
    partial.replace(path)


def kernel_cases(isa: str) -> list[dict[str, Any]]:
    """Kept between runs for as long as the worker and the packages are the same; 30 to 60 s when made anew."""
    versions = [f"{name}={importlib.metadata.version(name)}" for name in PACKAGES]
    key = hashlib.sha256(" ".join([isa, *NAK_CHIPS, *versions, WORKER.read_text()]).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"hcqrt-test-corpus-{os.getuid()}" / f"cases-{isa}-{key}.pickle"
    if not path.exists():
        make_cases(isa, path)
    found: list[dict[str, Any]] = pickle.loads(path.read_bytes())
    return found
