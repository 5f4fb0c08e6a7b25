"""A kernel with any number of pointer parameters, for timing launches that nothing executes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from gen.cubin_writer import KernelSource, Module, write_cubin
from gen.ir3_writer import CONST_STATE_BYTES, VARIANT_BYTES, Ir3Source, write_ir3


def with_pointers(code_of: bytes, kind: str, count: int) -> bytes:
    """A program file with `count` pointers whose code is that of another one of the same kind."""
    if kind == "NV":
        return write_cubin(Module(86, [KernelSource("k", code_of[128:256], 32, [8] * count)]))
    return write_ir3(Ir3Source(code_of[VARIANT_BYTES + CONST_STATE_BYTES :], 7, 0, 8 * count))
