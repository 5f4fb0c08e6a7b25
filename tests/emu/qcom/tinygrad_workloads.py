"""What the tests let tinygrad compute on its QCOM device, and what NumPy says of it.

A group yields (name, what the device gave, what is right). Integers must be equal, floats close by their precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit, Variable, dtypes, nn
from tinygrad.codegen import to_program
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.device import Device
from tinygrad.engine import realize
from tinygrad.helpers import Context
from tinygrad.uop.ops import Ops

Case = tuple[str, Any, Any]
RNG = np.random.default_rng(630)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float16")


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> Any:
    return RNG.uniform(low, high, shape).astype(dtype)


def integers(dtype: str, *shape: int) -> Any:
    """The whole range of the type, its ends among them."""
    info = np.iinfo(dtype)
    values = RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    values.flat[:2] = info.min, info.max
    return values


def elementwise() -> Iterator[Case]:
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "sub": lambda a, b: a - b, "lt": lambda a, b: a < b,
        "eq": lambda a, b: a == b,
    }  # fmt: skip
    whole = {name: calls[name] for name in ("add", "mul", "lt")} | {"xor": lambda a, b: a ^ b}
    with np.errstate(over="ignore"):
        for dtype, (name, op) in itertools.product(INTEGERS, whole.items()):
            a, b = integers(dtype, 3, 37), integers(dtype, 3, 37)
            yield f"{name} {dtype}", op(Tensor(a), Tensor(b)).numpy(), op(a, b)
    for dtype, (name, op) in itertools.product(FLOATS, calls.items()):
        a, b = floats(201, dtype=dtype), floats(201, dtype=dtype)
        yield f"{name} {dtype}", op(Tensor(a), Tensor(b)).numpy(), op(a, b)
    a = floats(333, low=0.1, high=4.0)
    for name in ("sqrt", "exp", "log", "sin", "tanh"):
        yield name, getattr(Tensor(a), name)().numpy(), getattr(np, name)(a)
    truth = RNG.integers(0, 2, 77).astype(bool)
    yield "not bool", Tensor(truth).logical_not().numpy(), ~truth
    yield "where", Tensor(truth).where(Tensor(a[:77]), 0).numpy(), np.where(truth, a[:77], 0).astype("float32")


def casts() -> Iterator[Case]:
    whole = RNG.integers(0, 100, 91)
    pairs = list(itertools.permutations((*FLOATS, *INTEGERS), 2))
    for source, target in pairs[::4]:  # each type comes up as both
        a = whole.astype(source)
        yield f"{source} to {target}", Tensor(a).cast(getattr(dtypes, target)).numpy(), a.astype(target)


def reduce() -> Iterator[Case]:
    for shape, axis in (((7, 300), 1), ((300, 7), 0), ((4001,), 0), ((5, 6, 7), (0, 2))):
        a = floats(*shape)
        yield f"sum {shape}", Tensor(a).sum(axis=axis).numpy(), a.sum(axis=axis, dtype="float64").astype("float32")
        yield f"max {shape}", Tensor(a).max(axis=axis).numpy(), a.max(axis=axis)
        n = RNG.integers(-1000, 1000, shape).astype("int32")
        yield f"int sum {shape}", Tensor(n).sum(axis=axis).numpy(), n.sum(axis=axis, dtype="int32")
    a = floats(13, 64)
    yield "argmax", Tensor(a).argmax(axis=1).numpy(), a.argmax(axis=1).astype("int32")
    yield "std", Tensor(a).std(axis=1).numpy(), a.std(axis=1, ddof=1)
    yield "cumsum", Tensor(a[0]).cumsum().numpy(), a[0].cumsum()
    half = floats(3, 500, dtype="float16")
    yield "half sum", Tensor(half).sum(axis=1).numpy(), half.sum(axis=1, dtype="float64").astype("float16")


def matmul() -> Iterator[Case]:
    for m, k, n in ((17, 33, 9), (64, 64, 64), (1, 100, 130), (50, 7, 1)):
        a, b = floats(m, k), floats(k, n)
        yield f"{m}x{k}x{n}", (Tensor(a) @ Tensor(b)).numpy(), a @ b
    a, b = RNG.integers(-50, 50, (20, 30)).astype("int32"), RNG.integers(-50, 50, (30, 10)).astype("int32")
    yield "int32", (Tensor(a) @ Tensor(b)).numpy(), a @ b
    h, g = floats(16, 24, dtype="float16"), floats(24, 8, dtype="float16")
    yield "float16", (Tensor(h) @ Tensor(g)).numpy(), (h.astype("float32") @ g.astype("float32")).astype("float16")


def conv_right(x: Any, w: Any, stride: int, padding: int) -> Any:
    """The sum as it is defined."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows, columns = ((extent - size) // stride + 1 for extent, size in zip(x.shape[2:], w.shape[2:], strict=True))
    out = np.zeros((x.shape[0], w.shape[0], rows, columns), "float64")
    for row, column in itertools.product(range(w.shape[2]), range(w.shape[3])):
        part = x[:, :, row : row + stride * rows : stride, column : column + stride * columns : stride]
        out += np.einsum("bchw,oc->bohw", part, w[:, :, row, column])
    return out.astype("float32")


def networks() -> Iterator[Case]:
    a = floats(9, 40)
    e = np.exp(a - a.max(axis=1, keepdims=True))
    yield "softmax", Tensor(a).softmax(axis=1).numpy(), e / e.sum(axis=1, keepdims=True)
    right = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    yield "layernorm", Tensor(a).layernorm().numpy(), right
    for size, stride, padding in ((1, 1, 0), (3, 1, 1), (3, 2, 0)):
        x, w = floats(2, 3, 11, 13), floats(4, 3, size, size)
        got = Tensor(x).conv2d(Tensor(w), stride=stride, padding=padding).numpy()
        yield f"conv {size} {stride}", got, conv_right(x, w, stride, padding)
    x = floats(1, 2, 8, 10)
    yield "max_pool", Tensor(x).max_pool2d().numpy(), x.reshape(1, 2, 4, 2, 5, 2).max(axis=(3, 5))
    moved = Tensor(a).flip(0).pad(((1, 2), (0, 3))).T.contiguous()
    yield "flip, pad, permute", moved.numpy(), np.pad(a[::-1], ((1, 2), (0, 3))).T
    w = floats(5, 3, low=-1.0, high=1.0)
    t = Tensor(w).realize()
    loss = (t.tanh() * Tensor(a[:5, :3])).sum()
    yield "gradient", loss.gradient(t)[0].numpy(), a[:5, :3] * (1 - np.tanh(w) ** 2)


def images() -> Iterator[Case]:
    """Buffers read and written as images, where their sizes allow."""
    with Context(IMAGE=1):
        x, w = floats(1, 16, 8, 8), floats(16, 16, 3, 3)
        yield "conv", Tensor(x).conv2d(Tensor(w), padding=1).numpy(), conv_right(x, w, 1, 1)
        for dtype in FLOATS:
            a, b = floats(64, 64, dtype=dtype), floats(64, 64, dtype=dtype)
            right = a.astype("float32") @ b.astype("float32")  # tinygrad keeps the sums of half images in full
            yield f"matmul {dtype}", (Tensor(a) @ Tensor(b)).numpy(), right
            yield f"relu {dtype}", Tensor(a).relu().numpy(), np.maximum(a, 0)
            yield f"twice and flipped {dtype}", (Tensor(a) * 2 + Tensor(b)[::-1]).numpy(), a * 2 + b[::-1]


def sequences() -> Iterator[Case]:
    """Kernels that read what earlier ones wrote, with nothing but the queue between them."""
    x = right = floats(1000)
    t = Tensor(x).realize()
    for step in range(12):
        t = (t * 0.75 + step).realize()
        right = (right * np.float32(0.75) + np.float32(step)).astype("float32")
    yield "chain", t.numpy(), right
    total = Tensor.zeros(100).contiguous().realize()
    for step in range(10):
        total.assign(total + step).realize()
    yield "assign", total.numpy(), np.full(100, 45, "float32")
    total[3:7] = Tensor([1.0, 2.0, 3.0, 4.0])
    yield "setitem", total.numpy()[:9], np.array([45, 45, 45, 1, 2, 3, 4, 45, 45], "float32")


def jit() -> Iterator[Case]:
    """Graphs: one bound queue, whose words and argument blocks are patched for each replay."""

    @TinyJit
    def step(a: Tensor, b: Tensor) -> Tensor:
        c = (a @ b).realize()
        d = (c.relu() + a).realize()
        return (d.sum(axis=1) * 2).realize()

    for turn in range(6):
        a, b = floats(24, 24), floats(24, 24)
        right = 2 * (np.maximum(a @ b, 0) + a).sum(axis=1)
        yield f"replay {turn}", step(Tensor(a).realize(), Tensor(b).realize()).numpy(), right
    assert step.captured is not None

    @TinyJit
    def prefix(a: Tensor) -> Tensor:
        return ((a + 1).contiguous().sum() * 3).realize()

    data = floats(40)
    for n in (3, 10, 40, 1, 17):
        size = Variable("n", 1, 40).bind(n)
        yield f"symbolic {n}", prefix(Tensor(data).realize()[:size]).numpy(), np.float32(3 * (data[:n] + 1).sum())


def training() -> Iterator[Case]:
    """Gradient descent in a graph that changes its own parameters, step by step."""
    x, y, start = floats(32, 6), floats(32, 3), floats(6, 3)
    weights = Tensor(start).realize()
    optimizer = nn.optim.SGD([weights], lr=0.1)

    @TinyJit
    def step(a: Tensor, b: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (a @ weights - b).square().mean().backward()
        return loss.realize(*optimizer.schedule_step())

    right = start.astype("float64")
    for turn in range(8):
        error = x @ right - y
        with Context(TRAINING=1):
            loss = step(Tensor(x).realize(), Tensor(y).realize())
        yield f"loss {turn}", loss.numpy(), np.float32((error**2).mean())
        right -= 0.1 * 2 * x.T @ error / error.size
    yield "weights", weights.numpy(), right.astype("float32")


def copies() -> Iterator[Case]:
    for nbytes in (1, 3, 64, 4095, 4097, 1 << 16, (3 << 20) + 5):
        a = RNG.integers(0, 256, nbytes).astype("uint8")
        yield f"{nbytes} bytes", Tensor(a).realize().numpy(), a
    a = floats(40, 50)
    yield "to and fro", Tensor(a).realize().to("PYTHON").realize().to("QCOM").realize().numpy(), a
    t = Tensor(a).realize()
    yield "part of a buffer", (t[10:20].contiguous() + 1).numpy(), a[10:20] + 1


def external() -> Iterator[Case]:
    """Memory of the process, pinned where it lies; and a pointer into memory of the GPU, which is told by its errno."""
    a = floats(3000)
    for first in (0, 5):
        part = a[first:]
        t = Tensor.from_blob(part.ctypes.data, part.shape, dtype=dtypes.float32)
        yield f"pinned from {first}", (t + 1).numpy(), part + 1
    out = np.zeros(3000, "float32")
    Tensor.from_blob(out.ctypes.data, out.shape, dtype=dtypes.float32).assign(Tensor(a) * 2).realize()
    Device["QCOM"].synchronize()
    yield "written where it lies", out, a * 2
    own = Tensor(a).realize()
    there = Tensor.from_blob(int(own.uop.buffer._buf.va_addr), a.shape, dtype=dtypes.float32)
    yield "memory of the GPU", (there - 1).numpy(), a - 1


def grids() -> Iterator[Case]:
    """Sizes that no power of two divides, in one, two and three dimensions."""
    for shape in ((70001,), (65, 33), (129, 127), (3, 5, 7), (2, 63, 65), (1,)):
        a, b = floats(*shape), floats(*shape)
        yield f"{shape}", (Tensor(a) * Tensor(b) + 1).numpy(), a * b + 1
        moved = Tensor(a).permute(*reversed(range(a.ndim))).contiguous()
        yield f"{shape} transposed", moved.numpy(), a.T


def many() -> Iterator[Case]:
    """Far more launches than the kernel's queue holds, and both bump allocators past their ends."""
    device: Any = Device["QCOM"]
    t = Tensor.zeros(64, dtype=dtypes.int32).contiguous().realize()
    for _ in range(300):
        t = (t + 1).realize()
    yield "300 launches", t.numpy(), np.full(64, 300, "int32")
    for name, allocator in (("arguments", device.kernargs_offset_allocator), ("commands", device.cmd_buf_allocator)):
        allocator.ptr = allocator.size - 8192
        for _ in range(20):
            t = (t + 1).realize()
        assert allocator.ptr < allocator.size // 2, "it did start over"
        yield f"{name} from the start again", t.numpy()[:1], np.array([320 if name == "arguments" else 340], "int32")


def run_shaped(work: Tensor, opts: list[Opt]) -> tuple[Any, float]:
    """One kernel in a given shape, launched through the driver's own program object: (result, its seconds)."""
    device: Any = Device["QCOM"]
    (call,) = (c for c in work.schedule_linear().toposort() if c.op is Ops.CALL and c.src[0].op is Ops.SINK)
    sink = call.src[0].replace(arg=replace(call.src[0].arg, opts_to_apply=tuple(opts)))
    made = to_program(sink, device.renderer)
    buffers = [b.buffer.ensure_allocated()._buf for b in realize.get_call_arg_uops(call)]
    grid, block = made.arg.launch_dims({})
    seconds = device.runtime(made.to_elf())(*buffers, global_size=grid, local_size=block, wait=True)
    return work.numpy(), seconds


def shapes() -> Iterator[Case]:
    """Local memory with barriers between many waves; private memory and code beyond the instruction cache."""
    a = floats(6, 1024)
    right = a.sum(axis=1, dtype="float64").astype("float32")
    for size in (16, 64, 256):
        got, seconds = run_shaped(Tensor(a).realize().sum(axis=1), [Opt(OptOps.GROUPTOP, 0, size)])
        yield f"group of {size}", got, right
        assert 0 < seconds < 60
    a, b = floats(32, 8), floats(8, 32)
    opts = [Opt(OptOps.UPCAST, 0, 16), Opt(OptOps.UPCAST, 1, 16), Opt(OptOps.UNROLL, 0, 4)]
    yield "256 sums in a fiber", run_shaped(Tensor(a).realize() @ Tensor(b).realize(), opts)[0], a @ b


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    group.__name__: group
    for group in (elementwise, casts, reduce, matmul, networks, images, sequences, jit, training, copies, external,
                  grids, many, shapes)
}  # fmt: skip
