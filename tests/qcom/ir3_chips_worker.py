"""A program: compiles some kernels with Mesa's ir3 for several Adreno chips, through tinygrad. Needs no device.

Usage: ir3_chips_worker.py OUT. tinygrad's compiler class takes an A630 alone, so the others' objects are made here. OUT
gets a pickled dict: chip -> images, those of one kernel at one place in each list.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.update(DEV="NULL:IR3:a630,IMAGE_PITCH_ALIGNMENT=64", PARALLEL="0", CCACHE="0", DEBUG="0")

from tinygrad import Tensor, dtypes
from tinygrad.helpers import Context
from tinygrad.runtime.support.compiler_mesa import IR3Compiler, mesa

IDS = {"a660": (660, 0x06060001), "a730": (730, 0x07030001), "a740": (740, 0x43050A01), "a750": (750, 0x43051401)}
IMAGES: dict[str, list[bytes]] = {chip: [] for chip in ("a630", *IDS)}


def compiler_for(chip: str) -> IR3Compiler:
    made = IR3Compiler.__new__(IR3Compiler)
    made.arch, made.dev_id = chip, mesa.struct_fd_dev_id(*IDS[chip])
    options = mesa.struct_ir3_compiler_options(disable_cache=True)
    made.cc = mesa.ir3_compiler_create(None, made.dev_id, mesa.fd_dev_info(made.dev_id), options).contents
    made.cc.has_preamble = False
    made.nir_options = bytes(mesa.ir3_get_compiler_options(made.cc).contents)
    return made


def keep_images() -> None:
    compile_one, others = IR3Compiler.compile, {chip: compiler_for(chip) for chip in IDS}

    def compile_and_keep(self: IR3Compiler, source: str) -> bytes:
        image: bytes = compile_one(self, source)
        IMAGES["a630"].append(image)
        for chip, other in others.items():
            IMAGES[chip].append(compile_one(other, source))
        return image

    IR3Compiler.compile = compile_and_keep


def kernels() -> Iterator[Tensor]:
    for dtype in (dtypes.float32, dtypes.float16, dtypes.int32, dtypes.int64, dtypes.uint8):
        a, b = (Tensor.empty(3, 35, dtype=dtype) for _ in range(2))
        yield from (a + b, a * b, a.maximum(b), (a < b).where(a, b), a.sum(axis=1))
    yield Tensor.empty(32, dtype=dtypes.int64) // Tensor.empty(32, dtype=dtypes.int64)
    for op in (Tensor.sqrt, Tensor.exp2, Tensor.log2, Tensor.sin, Tensor.reciprocal):
        yield op(Tensor.empty(45))
    yield Tensor.empty(64, 64) @ Tensor.empty(64, 64)
    yield Tensor.empty(256, 256).sum(axis=1)
    yield Tensor.empty(64, 256, dtype=dtypes.float16).softmax(axis=1)
    yield Tensor.empty(300).cumsum()
    yield Tensor.empty(50, 8)[Tensor.empty(6, dtype=dtypes.int32)]


if __name__ == "__main__":
    keep_images()
    for kernel in kernels():
        kernel.realize()
    with Context(IMAGE=1):
        (Tensor.empty(64, 64) + Tensor.empty(64, 64)).realize()
        (Tensor.empty(64, 64, dtype=dtypes.float16) @ Tensor.empty(64, 64, dtype=dtypes.float16)).realize()
    Path(sys.argv[1]).write_bytes(pickle.dumps(IMAGES))
