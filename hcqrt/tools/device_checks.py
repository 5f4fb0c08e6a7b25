"""Checks of signals, clocks and copies: what works without a kernel."""

from __future__ import annotations

from typing import Any

from hcqrt.tools.check_frame import WAIT_MS, Context, expect, same


def open_and_name(c: Context) -> str:
    dev = c.open()
    return f"{dev.arch}, {dev.memory_stats()['total'] >> 20} MiB, {dev.place}"


def submit_and_signal(c: Context) -> None:
    """The GPU sets a signal, also with the largest kind of value that it can."""
    for value in (1, (5 << c.dev.signal_bits - 4) + 7):
        signal = c.dev.new_signal()
        c.dev.compute_queue().signal(signal, value).submit(c.dev)
        signal.wait(value, WAIT_MS)
        c.dev.synchronize(WAIT_MS)
        signal.close()


def wait_for_host(c: Context) -> None:
    """The GPU waits for a value that the host sets later."""
    go, done = c.dev.new_signal(), c.dev.new_signal()
    c.dev.compute_queue().wait(go, 3).signal(done, 1).submit(c.dev)
    expect(done.value == 0, "the queue did not wait")
    go.value = 3
    done.wait(1, WAIT_MS)
    go.close()
    done.close()


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


def fill_on_device(c: Context) -> None:
    import numpy as np

    for size in (4, 7, 1 << 20):
        with c.dev.alloc(size) as buf:
            buf.fill(0x5A)
            same(c.download(buf, np.empty(size, np.uint8)), np.full(size, 0x5A, np.uint8), f"fill of {size} bytes")


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
