"""A program: compiles many small kernels with Mesa through tinygrad and keeps each blob. Needs no device.

Usage: mesa_corpus_worker.py ARCH OUT [ARCH OUT ...]; ARCH sm_86 and the like compile with NAK, a630 with ir3, image
kernels included. The kernels are those that tinygrad makes for the first chip; the others, of the same vendor, get
each of them from its own compiler.
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.update(
    DEV=f"NULL:NAK:{sys.argv[1]}"
    if sys.argv[1].startswith("sm_")
    else f"NULL:IR3:{sys.argv[1]},IMAGE_PITCH_ALIGNMENT=64",
    PARALLEL="0",
    CCACHE="0",
    DEBUG="0",
)

from tinygrad import Tensor, dtypes
from tinygrad.helpers import Context
from tinygrad.runtime.support.compiler_mesa import IR3Compiler, NAKCompiler

IS_NAK = sys.argv[1].startswith("sm_")
OUTPUTS = dict(zip(sys.argv[1::2], map(Path, sys.argv[2::2]), strict=True))
BLOBS: dict[str, dict[bytes, None]] = {arch: {} for arch in OUTPUTS}  # in order, so that two runs give the same file
Work = Callable[[], Tensor]


def keep_blobs() -> None:
    compiler = NAKCompiler if IS_NAK else IR3Compiler
    compile_one = compiler.compile
    first, *others = OUTPUTS
    compilers = {arch: compiler(arch) for arch in others}

    def compile_and_keep(self: object, source: str) -> bytes:
        blob: bytes = compile_one(self, source)
        BLOBS[first][blob] = None
        for arch, other in compilers.items():
            BLOBS[arch][compile_one(other, source)] = None
        return blob

    compiler.compile = compile_and_keep


FLOATS = (dtypes.float32, dtypes.float16, dtypes.float64)[: 3 if IS_NAK else 2]  # ir3 has no f64
INTS = (
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64,
)  # fmt: skip
ALL = (*FLOATS, *INTS, dtypes.bool)

# Double exp2, log2 and sin do not compile in this Mesa: the library panics and returns NULL.
UNARY_FLOAT = (
    Tensor.sqrt, Tensor.reciprocal, Tensor.trunc, Tensor.floor, Tensor.ceil, Tensor.round, Tensor.abs, Tensor.neg,
    Tensor.relu, Tensor.isnan, Tensor.isinf, Tensor.sign,
)  # fmt: skip
UNARY_TRANSCENDENTAL = (
    Tensor.exp2, Tensor.log2, Tensor.sin, Tensor.cos, Tensor.exp, Tensor.log, Tensor.sigmoid, Tensor.tanh, Tensor.gelu,
)  # fmt: skip
BINARY_ANY = (Tensor.add, Tensor.mul, Tensor.sub, Tensor.maximum, Tensor.minimum, Tensor.eq, Tensor.ne)
BINARY_ORDERED = (lambda a, b: a < b, lambda a, b: (a < b).where(a, b))
BINARY_INT = (lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b)
SHIFTS = (lambda a: a << 3, lambda a: a >> 2)


def unary() -> Iterator[Work]:
    for dtype in FLOATS:
        for op in UNARY_FLOAT:
            yield lambda op=op, dtype=dtype: op(Tensor.empty(45, dtype=dtype))
    for dtype, op in itertools.product((dtypes.float32, dtypes.float16), UNARY_TRANSCENDENTAL):
        yield lambda op=op, dtype=dtype: op(Tensor.empty(45, dtype=dtype))
    for dtype, op in itertools.product(INTS, (Tensor.neg, Tensor.abs, Tensor.bitwise_not, *SHIFTS)):
        yield lambda op=op, dtype=dtype: op(Tensor.empty(45, dtype=dtype))


def binary() -> Iterator[Work]:
    for dtype, op in itertools.product(ALL, (*BINARY_ANY, *BINARY_ORDERED)):
        yield lambda op=op, dtype=dtype: op(Tensor.empty(3, 33, dtype=dtype), Tensor.empty(3, 33, dtype=dtype))
    for dtype, op in itertools.product(INTS, BINARY_INT):
        yield lambda op=op, dtype=dtype: op(Tensor.empty(31, dtype=dtype), Tensor.empty(31, dtype=dtype))
    for dtype in FLOATS:
        yield lambda dtype=dtype: Tensor.empty(31, dtype=dtype) / Tensor.empty(31, dtype=dtype)
        yield lambda d=dtype: Tensor.empty(64, dtype=d) * Tensor.empty(64, dtype=d) + Tensor.empty(64, dtype=d)


def casts() -> Iterator[Work]:
    for source, target in itertools.permutations(ALL, 2):
        yield lambda source=source, target=target: Tensor.empty(37, dtype=source).cast(target)


def reductions() -> Iterator[Work]:
    for dtype in (*FLOATS, dtypes.int32, dtypes.uint8, dtypes.int64):
        for shape, axis in (((16, 16), 1), ((70000,), 0), ((8, 1024), 1), ((256, 256), 0)):
            yield lambda d=dtype, s=shape, a=axis: Tensor.empty(*s, dtype=d).sum(axis=a)
            yield lambda d=dtype, s=shape, a=axis: Tensor.empty(*s, dtype=d).max(axis=a)
    yield lambda: Tensor.empty(64, 256).softmax(axis=1)
    yield lambda: Tensor.empty(64, 256).argmax(axis=1)
    yield lambda: Tensor.empty(64, 256).layernorm()
    yield lambda: Tensor.empty(300).cumsum()
    yield lambda: Tensor.empty(64).sort()[0]


def matrices() -> Iterator[Work]:
    for dtype in (*FLOATS, dtypes.int32):
        for size in (4, 16, 45, 64, 128):
            yield lambda d=dtype, n=size: Tensor.empty(n, n, dtype=d) @ Tensor.empty(n, n, dtype=d)
        yield lambda d=dtype: Tensor.empty(300, 700, dtype=d) @ Tensor.empty(700, dtype=d)
    for kernel, stride in itertools.product((1, 3, 5), (1, 2)):
        weights = Tensor.empty(8, 4, kernel, kernel)
        yield lambda w=weights, s=stride: Tensor.empty(2, 4, 20, 20).conv2d(w, stride=s, padding=1)
    yield lambda: Tensor.empty(2, 4, 16, 16).max_pool2d()
    yield lambda: Tensor.empty(2, 8, 16, 16).avg_pool2d()
    head = Tensor.empty(1, 2, 16, 8)
    yield lambda: head.scaled_dot_product_attention(head, head)


def movement() -> Iterator[Work]:
    yield lambda: Tensor.empty(10, 10).pad(((1, 2), (3, 4))).contiguous()
    yield lambda: Tensor.empty(10, 12).permute(1, 0).contiguous()
    yield lambda: Tensor.empty(10, 12).flip(0).contiguous()
    yield lambda: Tensor.empty(10, 12)[2:9:3, ::-2].contiguous()
    yield lambda: Tensor.empty(50, 8)[Tensor.empty(6, dtype=dtypes.int32)]
    yield lambda: Tensor.arange(1000).contiguous()
    yield lambda: Tensor.rand(100)
    yield lambda: Tensor.randn(100)
    yield lambda: Tensor.empty(8, 8).tril().contiguous()
    yield lambda: Tensor.cat(Tensor.empty(5, 4), Tensor.empty(3, 4))
    yield lambda: Tensor.full((33,), 7, dtype=dtypes.int16).contiguous()


def images() -> Iterator[Work]:
    for dtype in FLOATS:
        a, b = (Tensor.empty(64, 64, dtype=dtype) for _ in range(2))
        for op in (*UNARY_FLOAT, *UNARY_TRANSCENDENTAL):
            if (op, dtype) != (Tensor.abs, dtypes.float16):  # rejected by tinygrad's own check of what it lowered
                yield lambda op=op, a=a: op(a)
        for op in (*BINARY_ANY, *BINARY_ORDERED, Tensor.matmul):
            yield lambda op=op, a=a, b=b: op(a, b)
        for kernel, stride in itertools.product((1, 3), (1, 2)):
            x, weights = Tensor.empty(1, 16, 8, 8, dtype=dtype), Tensor.empty(16, 16, kernel, kernel, dtype=dtype)
            yield lambda x=x, w=weights, s=stride: x.conv2d(w, stride=s, padding=1)
        yield lambda a=a: a.pad(((1, 1), (4, 4))).contiguous()
    yield lambda: Tensor.empty(64, 64).softmax(axis=1)
    yield lambda: Tensor.empty(64, 64).max(axis=0)


def run_all() -> None:
    for work in itertools.chain(unary(), binary(), casts(), reductions(), matrices(), movement()):
        work().realize()
    if not IS_NAK:
        with Context(IMAGE=1):
            for work in images():
                work().realize()


def write(path: Path, blobs: dict[bytes, None]) -> None:
    """A file of records: length as a little-endian u32, then the blob."""
    path.write_bytes(b"".join(struct.pack("<I", len(blob)) + blob for blob in blobs))


if __name__ == "__main__":
    keep_blobs()
    run_all()
    for arch, path in OUTPUTS.items():
        write(path, BLOBS[arch])
