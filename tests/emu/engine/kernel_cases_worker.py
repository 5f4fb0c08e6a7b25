"""Program of its own: compiles kernels with Mesa and records inputs and the outputs of tinygrad's PYTHON device.

Each kernel that tinygrad's scheduler makes is compiled twice from one description: for PYTHON, which computes it op
by op in Python numbers, and by Mesa (NAK for sm_86, ir3 for a630), whose machine code is only kept. So the expected
values share no code with the emulator. Usage: kernel_cases_worker.py nak|ir3 OUT [CHIP ...]; OUT gets a pickled list
of dicts. The further CHIPs, of NAK's, take turns: each case also has the code for one of them.
"""

from __future__ import annotations

import itertools
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.update(DEV="PYTHON", PARALLEL="0", CCACHE="0", DEBUG="0", NOOPT="0")

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.codegen import to_program
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.device import Device
from tinygrad.dtype import DType, _to_np_dtype
from tinygrad.engine import realize
from tinygrad.helpers import Context, Target, is_image_shape
from tinygrad.renderer.nir import IR3Renderer, NAKRenderer
from tinygrad.runtime.support.compiler_mesa import NAKCompiler
from tinygrad.uop.ops import Ops

CASES: list[dict[str, Any]] = []
SINKS: dict[bytes, Any] = {}  # program for PYTHON -> the description it was made from
LABEL = [""]
OPTS: list[Opt] = []  # the shape of the next kernels for NAK, instead of what tinygrad would choose
RNG = np.random.default_rng(20)
ISA = sys.argv[1]
RENDERER = {
    "nak": lambda: NAKRenderer(Target(device="NV", renderer="NAK", arch="sm_86")),
    "ir3": lambda: IR3Renderer(Target(device="QCOM", renderer="IR3", arch="a630,IMAGE_PITCH_ALIGNMENT=64")),
}[ISA]()

OTHERS = [(chip, NAKCompiler(chip)) for chip in sys.argv[3:]]

# ir3 has no f64; where a list below names it all the same, it is left out.
FLOATS = (dtypes.float32, dtypes.float16, dtypes.float64)[: 3 if ISA == "nak" else 2]
SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
INTS = (*SIGNED, *UNSIGNED)
ALL = (*FLOATS, *INTS, dtypes.bool)
Make = Callable[[], Tensor]


def known(*names: DType) -> list[DType]:
    return [dtype for dtype in names if dtype in ALL]


def name_of(dtype: DType) -> str:
    """The type as NumPy calls it."""
    return np.dtype(_to_np_dtype(dtype)).name


def image_shape(param: Any) -> tuple[int, int] | None:
    """Height and width of a buffer that the kernel reads or writes as an image."""
    return tuple(int(n) for n in param._shape[:2]) if is_image_shape(param._shape) else None


def other_code(source: str) -> tuple[str, bytes] | None:
    """The next chip in turn, and its code for a kernel that tinygrad shaped for the first one."""
    if not OTHERS:
        return None
    chip, compiler = OTHERS[len(CASES) % len(OTHERS)]
    return chip, compiler.compile(source)


def add_case(sink: Any, before: dict[int, bytes], after: dict[int, bytes], vals: tuple[int, ...] = ()) -> None:
    if OPTS:
        sink = sink.replace(arg=replace(sink.arg, opts_to_apply=tuple(OPTS)))
    made = to_program(sink, RENDERER)
    grid, block = made.arg.launch_dims({})
    params = {u.arg.slot: u for u in made.src[0].toposort() if u.op is Ops.PARAM}
    CASES.append(
        {
            "label": f"{LABEL[0]}: {made.arg.function_name}",
            "blob": made.src[-1].arg,
            "other": other_code(made.src[-2].arg),
            "grid": tuple(int(n) for n in grid),
            "block": tuple(int(n) for n in block),
            "vals": tuple(vals),
            "buffers": [(name_of(params[slot].dtype), before[slot]) for slot in made.arg.globals],
            "images": [image_shape(params[slot]) for slot in made.arg.globals],
            "outputs": {made.arg.globals.index(slot): after[slot] for slot in made.arg.outs},
        }
    )


def add_half_case(work: Tensor, expected: Any) -> None:
    """A kernel of one output whose values NumPy gives: before Python 3.12 PYTHON has no f16 reductions."""
    (call,) = (c for c in work.schedule_linear().toposort() if c.op is Ops.CALL and c.src[0].op is Ops.SINK)
    buffers = [b.buffer.ensure_allocated() for b in realize.get_call_arg_uops(call)]
    before = {slot: bytes(b.as_memoryview()) for slot, b in enumerate(buffers)}
    add_case(call.src[0], before, {0: np.asarray(expected, np.float16).tobytes()})


def keep_descriptions() -> None:
    """Remember which description each PYTHON program came from (to_program caches, so this costs one look-up)."""
    inner = realize.lower_and_compile

    def lower_and_compile(linear: Any) -> Any:
        for call in linear.toposort():
            if call.op is Ops.CALL and call.src[0].op is Ops.SINK:
                SINKS[to_program(call.src[0], Device["PYTHON"].renderer).key] = call.src[0]
        return inner(linear)

    realize.lower_and_compile = lower_and_compile


def record_runs() -> None:
    """Wrap every runtime so that a run on PYTHON leaves a case: blob, launch, buffers before, outputs after."""
    inner = realize.get_runtime

    def get_runtime(device: str, program: Any, cache: bool = True) -> Any:
        runtime = inner(device, program, cache)

        def run(*bufs: Any, vals: tuple[int, ...] = (), **keywords: Any) -> Any:
            before = {slot: bytes(b) for slot, b in zip(program.arg.globals, bufs, strict=True)}
            result = runtime(*bufs, vals=vals, **keywords)
            add_case(SINKS[program.key], before, dict(zip(program.arg.globals, map(bytes, bufs), strict=True)), vals)
            return result

        return run

    realize.get_runtime = get_runtime


def data(dtype: DType, *shape: int, low: float | None = None, high: float = 9.0) -> Tensor:
    """A realized tensor of plain values: no NaN, no denormal, never 0 (so that a quotient is defined)."""
    if low is None:
        low = 1.0 if dtypes.is_unsigned(dtype) else -9.0
    if dtype == dtypes.bool:
        return Tensor(RNG.integers(0, 2, shape).astype(bool), dtype=dtype).realize()
    if dtypes.is_float(dtype):
        values = RNG.uniform(low, high, shape)
        return Tensor(values.astype(np.float32), dtype=dtypes.float32).cast(dtype).realize()
    values = RNG.integers(int(low), int(high) + 1, shape)
    values[values == 0] = 3
    return Tensor(values.astype(np.int64), dtype=dtypes.int64).cast(dtype).realize()


def wide(dtype: DType, *shape: int) -> Tensor:
    """Integers over the whole range of the type, the ends among them."""
    kind = np.dtype(name_of(dtype))
    info = np.iinfo(kind)
    values = RNG.integers(info.min, info.max, shape, dtype=kind, endpoint=True).reshape(-1)
    values[:2] = info.min + 1, info.max
    values[values == 0] = 1
    return Tensor(values.reshape(shape)).realize()


def unary() -> Iterator[tuple[str, Make]]:
    plain = "reciprocal trunc floor ceil round abs neg relu isnan sign square"
    for dtype, name in itertools.product(FLOATS, plain.split()):
        x = data(dtype, 45)
        yield f"{name} {name_of(dtype)}", lambda x=x, name=name: getattr(x, name)()
    for dtype, name in itertools.product(FLOATS, ("sqrt", "rsqrt")):
        x = data(dtype, 45, low=0.1)
        yield f"{name} {name_of(dtype)}", lambda x=x, name=name: getattr(x, name)()
    curves = "exp2 sin cos exp sigmoid tanh gelu silu erf"
    for dtype, name in itertools.product(FLOATS[:2], curves.split()):
        x = data(dtype, 45, low=-4.0, high=4.0)
        yield f"{name} {name_of(dtype)}", lambda x=x, name=name: getattr(x, name)()
    for dtype, name in itertools.product(FLOATS[:2], ("log2", "log", "sqrt")):
        x = data(dtype, 45, low=0.1)
        yield f"{name} {name_of(dtype)}", lambda x=x, name=name: getattr(x, name)()
    for dtype in INTS:
        x = wide(dtype, 45)
        yield f"neg {name_of(dtype)}", lambda x=x: -x
        yield f"not {name_of(dtype)}", lambda x=x: x.bitwise_not()
        yield f"shl {name_of(dtype)}", lambda x=x: x << 3
        yield f"shr {name_of(dtype)}", lambda x=x: x >> 2
    for dtype in SIGNED:
        x = wide(dtype, 45)
        yield f"abs {name_of(dtype)}", lambda x=x: x.abs()


def binary() -> Iterator[tuple[str, Make]]:
    names = "add mul sub maximum minimum eq ne lt where"
    calls: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "lt": lambda a, b: a < b,
        "where": lambda a, b: (a < b).where(a, b),
        "idiv": lambda a, b: a // b,
        "mod": lambda a, b: a % b,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "div": lambda a, b: a / b,
        "fma": lambda a, b: a * b + b,
    }
    for dtype, name in itertools.product(ALL, names.split()):
        if dtype == dtypes.bool and name == "sub":
            continue
        a, b = (wide(dtype, 3, 33) if dtype in INTS else data(dtype, 3, 33) for _ in range(2))
        op = calls.get(name) or getattr(Tensor, name)
        yield f"{name} {name_of(dtype)}", lambda a=a, b=b, op=op: op(a, b)
    for dtype, name in itertools.product(INTS, ("idiv", "mod", "and", "or", "xor")):
        a, b = wide(dtype, 31), data(dtype, 31) if name in ("idiv", "mod") else wide(dtype, 31)
        yield f"{name} {name_of(dtype)}", lambda a=a, b=b, op=calls[name]: op(a, b)
    for dtype, name in itertools.product(FLOATS, ("div", "fma")):
        a, b = data(dtype, 50), data(dtype, 50)
        yield f"{name} {name_of(dtype)}", lambda a=a, b=b, op=calls[name]: op(a, b)


def casts() -> Iterator[tuple[str, Make]]:
    for source, target in itertools.permutations(ALL, 2):
        # A negative float to an unsigned integer, or a value out of range, has no defined result in C.
        if source in INTS and target not in FLOATS:
            x = wide(source, 37)
        else:
            x = data(source, 37, low=0.0 if target in UNSIGNED else None, high=100.0)
        yield f"cast {name_of(source)} {name_of(target)}", lambda x=x, target=target: x.cast(target)


def reductions() -> Iterator[tuple[str, Make]]:
    for dtype in known(dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8, dtypes.int64):
        for shape, axis in (((16, 16), 1), ((4000,), 0), ((8, 300), 1), ((64, 40), 0)):
            x = data(dtype, *shape)
            yield f"sum{axis} {shape} {name_of(dtype)}", lambda x=x, a=axis: x.sum(axis=a)
            yield f"max{axis} {shape} {name_of(dtype)}", lambda x=x, a=axis: x.max(axis=a)
    x = data(dtypes.float32, 16, 64, low=-2.0, high=2.0)
    yield "softmax", lambda: x.softmax(axis=1)
    yield "argmax", lambda: x.argmax(axis=1)
    yield "layernorm", lambda: x.layernorm()
    yield "cumsum", lambda: data(dtypes.float32, 100).cumsum()
    yield "sort", lambda: data(dtypes.float32, 32).sort()[0]
    yield "prod", lambda: data(dtypes.float32, 8, 20, low=0.9, high=1.2).prod(axis=1)


def matrices() -> Iterator[tuple[str, Make]]:
    for dtype in known(dtypes.float32, dtypes.float64, dtypes.int32):
        for size in (4, 16, 24):
            a, b = data(dtype, size, size), data(dtype, size, size)
            yield f"matmul {size} {name_of(dtype)}", lambda a=a, b=b: a @ b
        a, b = data(dtype, 30, 70), data(dtype, 70)
        yield f"matvec {name_of(dtype)}", lambda a=a, b=b: a @ b
    for kernel, stride in itertools.product((1, 3), (1, 2)):
        x, w = data(dtypes.float32, 1, 2, 9, 9), data(dtypes.float32, 3, 2, kernel, kernel)
        yield f"conv {kernel} {stride}", lambda x=x, w=w, s=stride: x.conv2d(w, stride=s, padding=1)
    x = data(dtypes.float32, 1, 2, 8, 8)
    yield "max_pool", lambda: x.max_pool2d()
    yield "avg_pool", lambda: x.avg_pool2d()
    q, k, v = (data(dtypes.float32, 1, 2, 8, 8, low=-1.0, high=1.0) for _ in range(3))
    yield "attention", lambda: q.scaled_dot_product_attention(k, v)


def halves() -> Iterator[tuple[str, Tensor, Any]]:
    for shape, axis in (((16, 16), 1), ((800,), 0), ((8, 300), 1), ((64, 40), 0)):
        values = RNG.uniform(-1, 1, shape).astype(np.float16)
        x = Tensor(values.view(np.uint16)).realize().bitcast(dtypes.float16)
        yield f"sum{axis} {shape} float16", x.sum(axis=axis), values.astype(np.float64).sum(axis=axis)
        yield f"max{axis} {shape} float16", x.max(axis=axis), values.max(axis=axis)
    for size in (4, 16, 24):
        pair = [RNG.uniform(-1, 1, (size, size)).astype(np.float16) for _ in range(2)]
        a, b = (Tensor(values.view(np.uint16)).realize().bitcast(dtypes.float16) for values in pair)
        yield f"matmul {size} float16", a @ b, np.matmul(*(values.astype(np.float64) for values in pair))


def shaped() -> Iterator[tuple[str, list[Opt], Make]]:
    """Kernels in shapes that bring barriers between warps (large groups) and spills (many accumulators)."""
    for dtype, size in itertools.product(known(dtypes.float32, dtypes.float64, dtypes.int32), (64, 256)):
        x = data(dtype, 6, 512)
        yield f"grouped sum {size} {name_of(dtype)}", [Opt(OptOps.GROUPTOP, 0, size)], lambda x=x: x.sum(axis=1)
        yield f"grouped max {size} {name_of(dtype)}", [Opt(OptOps.GROUP, 0, size)], lambda x=x: x.max(axis=1)
    for dtype, wide in itertools.product(known(dtypes.float32, dtypes.float64, dtypes.int32), (16,)):
        a, b = data(dtype, 32, 8), data(dtype, 8, 32)
        opts = [Opt(OptOps.UPCAST, 0, wide), Opt(OptOps.UPCAST, 1, wide), Opt(OptOps.UNROLL, 0, 4)]
        yield f"upcast matmul {wide} {name_of(dtype)}", opts, lambda a=a, b=b: a @ b
    a, b = data(dtypes.float32, 64, 16), data(dtypes.float32, 16, 64)
    opts = [Opt(OptOps.LOCAL, 0, 8), Opt(OptOps.LOCAL, 1, 8), Opt(OptOps.GROUPTOP, 0, 4)]
    yield "grouped matmul", opts, lambda: a @ b


def movement() -> Iterator[tuple[str, Make]]:
    x = data(dtypes.float32, 10, 12)
    yield "pad", lambda: x.pad(((1, 2), (3, 4))).contiguous()
    yield "permute", lambda: x.permute(1, 0).contiguous()
    yield "flip", lambda: x.flip(0).contiguous()
    yield "slice", lambda: x[2:9:3, ::-2].contiguous()
    yield "gather", lambda: x[Tensor([3, 1, 9, 0], dtype=dtypes.int32).realize()]
    yield "arange", lambda: Tensor.arange(300).contiguous()
    yield "rand", lambda: Tensor.rand(100)
    yield "randn", lambda: Tensor.randn(40)
    yield "tril", lambda: x.tril().contiguous()
    yield "cat", lambda: Tensor.cat(x, x[:3])
    yield "full", lambda: Tensor.full((33,), 7, dtype=dtypes.int16).contiguous()


def images() -> Iterator[tuple[str, Make]]:
    """Kernels that read buffers as images and write them as images, where the sizes allow it."""
    for dtype in (dtypes.float32, dtypes.float16):
        x, w = data(dtype, 1, 16, 8, 8, low=-1.0, high=1.0), data(dtype, 16, 16, 3, 3, low=-1.0, high=1.0)
        yield f"image conv {name_of(dtype)}", lambda x=x, w=w: x.conv2d(w, padding=1)
        a, b = (data(dtype, 64, 64, low=-1.0, high=1.0) for _ in range(2))
        yield f"image matmul {name_of(dtype)}", lambda a=a, b=b: a @ b
        yield f"image add {name_of(dtype)}", lambda a=a, b=b: a + b
        yield f"image relu {name_of(dtype)}", lambda a=a: a.relu()
        yield f"image mul-add {name_of(dtype)}", lambda a=a, b=b: a * 2 + b[::-1]
    q = data(dtypes.float32, 64, 64)
    yield "image softmax", lambda: q.softmax(axis=1)
    yield "image max", lambda: q.max(axis=0)
    yield "image pad", lambda: q.pad(((1, 1), (4, 4))).contiguous()


def main(path: Path) -> None:
    keep_descriptions()
    record_runs()
    for label, work in itertools.chain(unary(), binary(), casts(), reductions(), matrices(), movement()):
        LABEL[0] = label
        work().realize()
    for label, opts, work in shaped():
        LABEL[0], OPTS[:] = label, opts
        work().realize()
        OPTS.clear()
    for label, tensor, expected in halves():
        LABEL[0] = label
        add_half_case(tensor, expected)
    for label, work in images() if ISA == "ir3" else ():
        LABEL[0] = label
        with Context(IMAGE=1):
            work().realize()
    path.write_bytes(pickle.dumps(CASES))


if __name__ == "__main__":
    main(Path(sys.argv[2]))
