"""Small kernels for every chip: the same lines, in each generation's spelling, as cubins."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from gen.cubin_writer import PARAM_BASE, KernelSource, Module, param_layout, write_cubin

from hcqrt.isa.sass import assemble

STORE = {75: "STG.E.SYS"}
LOAD_CONSTANT = "LDC"  # of sm_90 and later; before, any instruction takes a constant


class Code:
    """Lines of one kernel for one chip. R2:R3 is the first parameter, a pointer, once `pointer` was called."""

    def __init__(self, sm: int) -> None:
        self.sm, self.lines = sm, []

    def constant(self, register: int, offset: int) -> Code:
        name = LOAD_CONSTANT if self.sm >= 90 else "MOV"
        return self.line(f"{name} R{register}, c[0x0][{offset:#x}]")

    def parameter(self, register: int, offset: int) -> Code:
        return self.constant(register, PARAM_BASE[self.sm] + offset)

    def pointer(self) -> Code:
        return self.parameter(2, 0).parameter(3, 4)

    def store(self, offset: int, register: int) -> Code:
        return self.line(f"{STORE.get(self.sm, 'STG.E')} [R2+{offset:#x}], R{register}")

    def line(self, text: str) -> Code:
        self.lines.append(text)
        return self

    def kernel(self, name: str = "k", **fields: Any) -> KernelSource:
        fields.setdefault("registers", 16)
        return KernelSource(name, assemble("\n".join([*self.lines, "EXIT"]), self.sm), **fields)


def cubin_of(sm: int, *kernels: KernelSource, **fields: Any) -> bytes:
    return write_cubin(Module(sm, kernels, **fields))


def nothing(sm: int, **fields: Any) -> bytes:
    """A kernel that ends at once."""
    return cubin_of(sm, Code(sm).kernel(**fields))


def store_value(sm: int, **fields: Any) -> bytes:
    """*(u32 *)a = b"""
    code = Code(sm).pointer().parameter(0, 8).store(0, 0)
    return cubin_of(sm, code.kernel(params=(8, 4), **fields))


def dump_bank0(sm: int, offsets: Sequence[int]) -> bytes:
    """Stores the words of constant bank 0 at these offsets, one after another."""
    code = Code(sm).pointer()
    for place, offset in enumerate(offsets):
        code.constant(0, offset).store(4 * place, 0)
    return cubin_of(sm, code.kernel(params=(8,)))


def dump_parameters(sm: int, sizes: Sequence[int]) -> bytes:
    """Stores all parameter bytes to the last of them, a pointer."""
    base, last = PARAM_BASE[sm], param_layout(sizes)[-1]
    code = Code(sm).constant(2, base + last).constant(3, base + last + 4)
    for offset in range(0, last + 8, 4):
        code.constant(0, base + offset).store(offset, 0)
    return cubin_of(sm, code.kernel(params=sizes))


def words(data: Any, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}I", data)


def use_scratch(sm: int, threads: int) -> bytes:
    """Each thread keeps its number on its stack while its block meets at a barrier; a[number] = what it finds there."""
    stack_top = 0x37C if sm >= 100 else 0x28
    code = Code(sm).pointer().constant(1, stack_top)
    code.line("S2R R4, SR_TID.X").line("S2R R5, SR_CTAID.X").line(f"IMAD R4, R5, {threads:#x}, R4")
    for offset in (0x10, 0x800):
        code.line(f"STL [R1+-{offset:#x}], R4")
    code.line("BAR.SYNC.DEFER_BLOCKING 0x0")
    code.line("LDL R6, [R1+-0x10]").line("LDL R7, [R1+-0x800]").line("IADD3 R6, R6, R7, RZ")
    code.line("IMAD.WIDE R2, R4, 0x4, R2").store(0, 6)
    return cubin_of(sm, code.kernel(params=(8,), stack=0x800, barriers=1))
