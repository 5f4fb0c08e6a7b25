"""Cubins made by the tests: code from our assembler, files from the writer, in both ABI forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gen.cubin_writer import PARAM_BASE, KernelSource, Module, param_layout, write_cubin

from hcqrt.isa.sass import assemble

REGISTERS = 16
ABIS = (7, 8)
EXIT = assemble("EXIT", 86)


def kernel(name: str = "k", source: str = "EXIT", **fields: Any) -> KernelSource:
    fields.setdefault("registers", REGISTERS)
    return KernelSource(name, assemble(source, 86), **fields)


def cubin(*kernels: KernelSource, sm: int = 86, **fields: Any) -> bytes:
    return write_cubin(Module(sm, kernels or (kernel(),), **fields))


def dump_parameters(sizes: Sequence[int], name: str = "dump", **fields: Any) -> KernelSource:
    """A kernel that stores its parameter bytes to its last parameter, a pointer."""
    assert sizes[-1] == 8
    base, last = PARAM_BASE[86], param_layout(sizes)[-1]
    lines = [f"MOV R2, c[0x0][{base + last:#x}]", f"MOV R3, c[0x0][{base + last + 4:#x}]"]
    for offset in range(0, last + 8, 4):
        lines += [f"MOV R0, c[0x0][{base + offset:#x}]", f"STG.E [R2+{offset:#x}], R0"]
    return kernel(name, "\n".join([*lines, "EXIT"]), params=sizes, **fields)
