"""Checks of the shipped kernels, each against NumPy."""

from __future__ import annotations

from hcqrt.tools.check_frame import Context, expect, same, shipped

IMAGE_COPIES = (
    ("image_copy_f16", "FMT6_16_16_16_16_FLOAT", "float16"),
    ("image_copy_f32", "FMT6_32_32_32_32_FLOAT", "float32"),
)


def kernel_fill(c: Context) -> None:
    import numpy as np

    n = 1000
    with c.dev.alloc(4 * n + 64) as buf:
        buf.fill(0)
        c.kernel("fill")(buf, vals=(0xDEADBEEF, n), global_size=(8, 1, 1), local_size=(128, 1, 1))
        wanted = np.zeros(n + 16, np.uint32)
        wanted[:n] = 0xDEADBEEF
        same(c.download(buf, wanted), wanted, "fill kernel")


def kernel_vector_add(c: Context) -> str:
    n = 10_000 if c.quick else 100_003
    a, b = c.random(n, 1), c.random(n, 2)
    bufs = [c.dev.alloc(4 * n), c.upload(a), c.upload(b)]
    grid = (-(-n // 256), 1, 1)
    seconds = c.kernel("vector_add")(*bufs, vals=(n,), global_size=grid, local_size=(256, 1, 1), wait=True)
    same(c.download(bufs[0], a), a + b, "vector add")
    for buf in bufs:
        buf.close()
    return f"{n} elements, {seconds or 0:.6f} s on the GPU"


def kernel_saxpy(c: Context) -> None:
    import numpy as np

    n, alpha = 5000, 1.75
    x, y = c.random(n, 3), c.random(n, 4)
    bufs = [c.upload(y), c.upload(x)]
    c.kernel("saxpy")(*bufs, vals=(alpha, n), global_size=(20, 1, 1), local_size=(256, 1, 1))
    got = c.download(bufs[0], y)
    fused = (np.float64(alpha) * x.astype(np.float64) + y.astype(np.float64)).astype(np.float32)
    rounded_twice = np.float32(alpha) * x + y  # what a GPU without a fused multiply-add gives
    same(got, fused if (got == fused).all() else rounded_twice, "saxpy")
    for buf in bufs:
        buf.close()


def kernel_matmul(c: Context) -> str:
    import numpy as np

    m, n, k = (32, 48, 64) if c.quick else (64, 96, 128)
    a, b = c.random((m, k), 5), c.random((k, n), 6)
    bufs = [c.dev.alloc(4 * m * n), c.upload(a), c.upload(b)]
    c.kernel("matmul")(*bufs, vals=(m, n, k), global_size=(n // 16, m // 16, 1), local_size=(16, 16, 1))
    got = c.download(bufs[0], np.empty((m, n), np.float32))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    worst = float(np.abs(got - wanted).max())
    expect(worst < 1e-6 * k, f"matmul is off by {worst}")
    for buf in bufs:
        buf.close()
    return f"{m}x{k} by {k}x{n}, off by {worst:.1e} at most"


def kernel_sum(c: Context) -> None:
    """Reduction through shared memory; small integers, so that the order of additions does not matter."""
    import numpy as np

    blocks, threads = 7, 256
    data = np.random.default_rng(7).integers(-1000, 1000, blocks * threads).astype(np.float32)
    bufs = [c.dev.alloc(4 * blocks), c.upload(data)]
    c.kernel("sum")(*bufs, vals=(data.size,), global_size=(blocks, 1, 1), local_size=(threads, 1, 1))
    wanted = data.reshape(blocks, threads).sum(axis=1)
    same(c.download(bufs[0], wanted), wanted, "sum")
    for buf in bufs:
        buf.close()


def kernel_ids(c: Context) -> str:
    """Every thread stores its indices and the launch's dimensions."""
    import numpy as np

    grid, block = (3, 2, 2), (4, 3, 2)
    shape = (*grid[::-1], *block[::-1], 12)
    buf = c.dev.alloc(4 * int(np.prod(shape)))
    c.kernel("ids")(buf, global_size=grid, local_size=block)
    got = c.download(buf, np.empty(shape, np.uint32))
    z, y, x, tz, ty, tx = np.indices(shape[:-1], np.uint32)
    sizes = [np.full_like(x, n) for n in (*block, *grid)]
    same(got, np.stack([tx, ty, tz, x, y, z, *sizes], axis=-1), "ids")
    buf.close()
    return f"{got.size // 12} threads"


def kernel_spill(c: Context) -> None:
    """Every thread writes its own local memory, and reads it back in another order."""
    import numpy as np

    blocks, threads = 5, 64
    n = blocks * threads
    buf = c.dev.alloc(4 * n)
    c.kernel("spill")(buf, global_size=(blocks, 1, 1), local_size=(threads, 1, 1))
    i = np.arange(n, dtype=np.uint32)
    wanted = sum(((i * 32 + slot) * (slot + 1) for slot in range(32)), np.zeros(n, np.uint32)).astype(np.uint32)
    same(c.download(buf, wanted), wanted, "spill")
    buf.close()


def kernel_from_mesa(c: Context) -> str:
    """The other kind of program file: a shader of Mesa's compilers, code and metadata without an ELF around them."""
    if not shipped(c.dev.arch, "vector_add_mesa"):
        return f"Mesa compiles none for {c.dev.arch}"
    n = 1024
    a, b = c.random(n, 8), c.random(n, 9)
    bufs = [c.dev.alloc(4 * n), c.upload(a), c.upload(b)]
    prg = c.kernel("vector_add_mesa")
    threads = prg.resources.max_threads
    prg(*bufs, global_size=(n // (4 * threads), 1, 1), local_size=(threads, 1, 1))
    same(c.download(bufs[0], a), a + b, "vector add from Mesa")
    for buf in bufs:
        buf.close()
    return f"{threads} threads a block"


def image_copies(c: Context) -> str:
    """Images whose rows are no multiple of anything, copied by kernels that read a texture and write an image."""

    if not c.dev.has_images:
        return "no images"
    sizes = ((1, 1), (65, 3), (128, 2)) if c.quick else ((1, 1), (3, 2), (63, 5), (65, 31), (129, 33), (257, 2))
    for kernel, form, dtype in IMAGE_COPIES:
        for width, height in sizes:
            data = c.random((height, width, 4), width).astype(dtype)
            shape = (width, height, form)
            src, dest = (c.dev.alloc(data.nbytes, image=shape) for _ in range(2))
            src.copyin(data)
            grid = (-(-width // 16), -(-height // 4), 1)
            c.kernel(kernel)(dest, src, global_size=grid, local_size=(16, 4, 1))
            same(c.download(dest, data), data, f"{form} image of {width} by {height}")
            src.close()
            dest.close()
    return f"{len(sizes)} sizes in fp16 and fp32"
