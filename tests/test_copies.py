"""What the project keeps of the shared facts is current, where those lie beside it; shipped kernels are current too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared facts do not lie beside this clone")
def test_the_copy_of_the_bench_is_current():
    assert (ROOT / "bench" / "tinygrad_hcq.py").read_bytes() == (SHARED / "bench" / "tinygrad_hcq.py").read_bytes()


def test_the_shipped_kernels_are_what_their_sources_give():
    command = [sys.executable, str(ROOT / "scripts" / "gen_kernels.py"), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
