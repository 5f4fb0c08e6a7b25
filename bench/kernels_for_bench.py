"""A kernel with any number of pointer parameters, for timing launches that nothing executes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from gen.cubin_writer import KernelSource, Module, write_cubin


def with_pointers(code_of: bytes, count: int) -> bytes:
    """A cubin for sm_86 with `count` pointers, whose code is the first section of another cubin."""
    code = code_of[128:256]
    return write_cubin(Module(86, [KernelSource("k", code, 32, [8] * count)]))
