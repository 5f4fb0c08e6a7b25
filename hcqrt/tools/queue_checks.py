"""Checks of queues under load, and of closing."""

from __future__ import annotations

from dataclasses import replace

from hcqrt.core.sints import Variable
from hcqrt.opening import open_device
from hcqrt.tools.check_frame import WAIT_MS, Context, expect, same

SMALL_RING = 32  # entries


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
