"""The checks of `hcqrt smoke`, in order. Each takes the context and returns a detail to show, or raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from typing import Any

from hcqrt.core.device import HCQDevice
from hcqrt.core.program import HCQProgram
from hcqrt.core.sints import Variable
from hcqrt.errors import HCQError
from hcqrt.fileio import System
from hcqrt.opening import open_device

WAIT_MS = 60_000
SMALL_RING = 32  # entries
Check = Callable[["Context"], "str | None"]


class CheckFailed(Exception):
    """A result is wrong."""


def expect(condition: bool, text: str) -> None:
    if not condition:
        raise CheckFailed(text)


def same(got: Any, wanted: Any, what: str) -> None:
    """Arrays equal bit for bit, or the first place where they are not."""
    import numpy as np

    differ = np.flatnonzero(np.ravel(got != wanted))
    if differ.size:
        at = int(differ[0])
        raise CheckFailed(f"{what}: {differ.size} of {got.size} differ, first at {at}: "
                          f"{np.ravel(got)[at]!r}, expected {np.ravel(wanted)[at]!r}")  # fmt: skip


class Context:
    """The device under test and what the checks share."""

    def __init__(self, system: System, name: str, quick: bool) -> None:
        self.system, self.name, self.quick = system, name, quick
        self._device: HCQDevice | None = None
        self._programs: dict[str, HCQProgram] = {}

    @property
    def dev(self) -> HCQDevice:
        if self._device is None:
            raise HCQError(f"{self.name} is not open")
        return self._device

    def open(self) -> HCQDevice:
        self._device = open_device(self.name, self.system)
        return self._device

    def kernel(self, name: str) -> HCQProgram:
        """A shipped kernel for this chip, loaded once."""
        if name not in self._programs:
            self._programs[name] = self.dev.program(shipped_kernel(self.dev.arch, name), None)
        return self._programs[name]

    def random(self, shape: Any, seed: int = 1) -> Any:
        """float32 in [-1, 1)."""
        import numpy as np

        return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)

    def upload(self, array: Any) -> Any:
        buf = self.dev.alloc(array.nbytes)
        buf.copyin(array)
        return buf

    def download(self, buf: Any, like: Any) -> Any:
        import numpy as np

        out = np.empty_like(like)
        buf.copyout(out)
        return out

    def close(self) -> None:
        self._programs.clear()
        if self._device is not None:
            self._device.close()


def shipped_kernel(arch: str, name: str) -> bytes:
    """The binary `hcqrt/kernels/NAME.ARCH.*`. Raises HCQError listing what is shipped for the chip."""
    folder = resources.files("hcqrt.kernels")
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        parts = entry.name.split(".")
        if parts[:2] == [name, arch] and parts[-1] in ("cubin", "nak"):
            return entry.read_bytes()
    raise HCQError(f"no kernel {name} is shipped for {arch}; scripts/gen_kernels.py makes them")


CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


@check
def open_and_name(c: Context) -> str:
    dev = c.open()
    return f"{dev.arch}, {dev.memory_stats()['total'] >> 20} MiB"


@check
def submit_and_signal(c: Context) -> None:
    """The GPU sets a signal, with a value above 32 bits too."""
    for value in (1, (5 << 32) + 7):
        signal = c.dev.new_signal()
        c.dev.compute_queue().signal(signal, value).submit(c.dev)
        signal.wait(value, WAIT_MS)
        c.dev.synchronize(WAIT_MS)
        signal.close()


@check
def wait_for_host(c: Context) -> None:
    """The GPU waits for a value that the host sets later."""
    go, done = c.dev.new_signal(), c.dev.new_signal()
    c.dev.compute_queue().wait(go, 3).signal(done, 1).submit(c.dev)
    expect(done.value == 0, "the queue did not wait")
    go.value = 3
    done.wait(1, WAIT_MS)
    go.close()
    done.close()


@check
def wait_across_queues(c: Context) -> str:
    """The copy queue and the compute queue wait for each other."""
    copy = c.dev.copy_queue()
    if copy is None:
        return "no copy queue"
    first, second = c.dev.new_signal(), c.dev.new_signal()
    copy.wait(first, 1).signal(second, 1).submit(c.dev)
    c.dev.compute_queue().signal(first, 1).wait(second, 1).signal(second, 2).submit(c.dev)
    second.wait(2, WAIT_MS)
    first.close()
    second.close()
    return ""


@check
def timestamps(c: Context) -> str:
    start, end = c.dev.new_signal(), c.dev.new_signal()
    last = c.dev.new_signal()
    c.dev.compute_queue().timestamp(start).timestamp(end).signal(last, 1).submit(c.dev)
    last.wait(1, WAIT_MS)
    elapsed = end.timestamp - start.timestamp
    expect(start.timestamp > 0 and elapsed >= 0, f"timestamps {start.timestamp} and {end.timestamp} us")
    for signal in (start, end, last):
        signal.close()
    return f"{elapsed} us apart"


@check
def copies_of_odd_sizes(c: Context) -> str:
    import numpy as np

    sizes = (1, 3, 4, 63, 4095, 4097, 65537, (2 << 20) + 5, (5 << 20) + 3)
    for size in sizes:
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        with c.dev.alloc(size + 64) as buf:
            buf.fill(0xA5)
            part = buf.offset(32, size)
            part.copyin(data)
            whole = c.download(buf, np.empty(size + 64, np.uint8))
            same(whole[32:-32], data, f"{size} bytes")
            expect(
                bool((whole[:32] == 0xA5).all() and (whole[-32:] == 0xA5).all()), f"{size} bytes: neighbours changed"
            )
    return f"{len(sizes)} sizes up to {sizes[-1]} bytes"


@check
def fill_on_device(c: Context) -> None:
    import numpy as np

    for size in (4, 7, 1 << 20):
        with c.dev.alloc(size) as buf:
            buf.fill(0x5A)
            same(c.download(buf, np.empty(size, np.uint8)), np.full(size, 0x5A, np.uint8), f"fill of {size} bytes")


@check
def copy_2d(c: Context) -> str:
    """Rows between two pitches, on the copy engine."""
    import numpy as np

    queue: Any = c.dev.copy_queue()
    if queue is None or not hasattr(queue, "copy_2d"):
        return "no copy queue for it"
    rows, width, from_pitch, to_pitch = 33, 50, 64, 80
    data = np.random.default_rng(2).integers(0, 256, (rows, from_pitch), np.uint8)
    src, dest = c.upload(data), c.dev.alloc(rows * to_pitch)
    dest.fill(0xEE)
    value = c.dev.next_timeline()
    queue.wait(c.dev.timeline_signal, value - 1).copy_2d(dest, src, width, rows, to_pitch, from_pitch)
    queue.signal(c.dev.timeline_signal, value).submit(c.dev)
    wanted = np.full((rows, to_pitch), 0xEE, np.uint8)
    wanted[:, :width] = data[:, :width]
    same(c.download(dest, wanted), wanted, "2D copy")
    src.close()
    dest.close()
    return f"{rows} rows of {width} bytes"


@check
def kernel_fill(c: Context) -> None:
    import numpy as np

    n = 1000
    with c.dev.alloc(4 * n + 64) as buf:
        buf.fill(0)
        c.kernel("fill")(buf, vals=(0xDEADBEEF, n), global_size=(8, 1, 1), local_size=(128, 1, 1))
        wanted = np.zeros(n + 16, np.uint32)
        wanted[:n] = 0xDEADBEEF
        same(c.download(buf, wanted), wanted, "fill kernel")


@check
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


@check
def kernel_saxpy(c: Context) -> None:
    import numpy as np

    n, alpha = 5000, 1.75
    x, y = c.random(n, 3), c.random(n, 4)
    bufs = [c.upload(y), c.upload(x)]
    c.kernel("saxpy")(*bufs, vals=(alpha, n), global_size=(20, 1, 1), local_size=(256, 1, 1))
    wanted = (np.float64(alpha) * x.astype(np.float64) + y.astype(np.float64)).astype(np.float32)  # one rounding: fma
    same(c.download(bufs[0], y), wanted, "saxpy")
    for buf in bufs:
        buf.close()


@check
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


@check
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


@check
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


@check
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


@check
def kernel_from_nak(c: Context) -> str:
    """The other kind of program file: Mesa's NAK, code and metadata without an ELF around them."""
    try:
        prg = c.kernel("vector_add_nak")
    except HCQError as error:
        if "no kernel" in str(error):
            return "none is shipped for this chip"
        raise
    n = 1024
    a, b = c.random(n, 8), c.random(n, 9)
    bufs = [c.dev.alloc(4 * n), c.upload(a), c.upload(b)]
    threads = prg.resources.max_threads
    prg(*bufs, global_size=(n // (4 * threads), 1, 1), local_size=(threads, 1, 1))
    same(c.download(bufs[0], a), a + b, "vector add from NAK")
    for buf in bufs:
        buf.close()
    return f"{threads} threads a block"


@check
def bound_queue(c: Context) -> str:
    """One bound queue, submitted again and again with a changing symbol."""
    import numpy as np

    times = 100 if c.quick else 1000
    n = 64
    buf = c.dev.alloc(4 * n)
    value, done = Variable("value", 0, 0xFFFF_FFFF), Variable("done")
    prg, signal = c.kernel("fill"), c.dev.new_signal()
    args = prg.fill_kernargs([buf], (value, n))
    queue = (
        c.dev.compute_queue().memory_barrier().exec(prg, args, (1, 1, 1), (64, 1, 1)).signal(signal, done).bind(c.dev)
    )
    for i in range(1, times + 1):
        queue.submit(c.dev, {value: i * 3, done: i})
    signal.wait(times, WAIT_MS)
    same(c.download(buf, np.empty(n, np.uint32)), np.full(n, times * 3, np.uint32), "bound queue")
    queue.close()
    signal.close()
    buf.close()
    return f"{times} submissions"


@check
def many_submissions(c: Context) -> str:
    """Far more submissions than a small ring has entries, each adding to the same counter signal."""
    times = 1000 if c.quick else 10_000
    config = replace(c.dev.config, ring_entries=SMALL_RING)
    with open_device(c.name, c.system, config=config) as dev:
        signal = dev.new_signal()
        for i in range(1, times + 1):
            dev.compute_queue().wait(signal, i - 1).signal(signal, i).submit(dev)
        signal.wait(times, WAIT_MS)
        expect(signal.value == times, f"the counter is {signal.value}, expected {times}")
        signal.close()
    return f"{times} submissions through {SMALL_RING} entries"


@check
def clean_close(c: Context) -> str:
    c.dev.synchronize(WAIT_MS)
    c.close()
    c._device = None
    live = getattr(c.system, "live_objects", None)
    if live is None:
        return ""
    left = live()
    expect(not left, f"the driver still holds {len(left)} objects: {left[:3]}")
    return "the driver holds nothing"
