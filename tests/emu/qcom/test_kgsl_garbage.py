"""Whatever bytes a client sends, the emulated KGSL answers with a result or an errno, and frees all at the end."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import struct
from typing import Any

import pytest
from kgsl_client import CALLS, PAGE, PLAIN, WRITEBACK, Buffer, Kgsl, MakeKgsl, Stream

from hcqrt.emu.refusal import EmulatorRefusal

SMALL = (0, 0, 1, 2, 3, 4, 8, 16, 24, 32, 64, PAGE, 1 << 20, 0xFFFFFFFF, 1 << 26, PLAIN, WRITEBACK)
# What sleeps as it is told to, or hands out descriptors that somebody must close
LEFT_OUT = {"waittimestamp", "timeline_wait", "timestamp_event", "timeline_fence"}


def noise(rng: random.Random, nbytes: int, pool: list[int]) -> bytes:
    """Values that are often plausible: small numbers, and ids and addresses that exist."""
    words: list[bytes] = []
    while len(words) * 4 < nbytes:
        if rng.random() < 0.4:
            words += [struct.pack("<I", rng.choice(pool) & 0xFFFFFFFF)]
        elif rng.random() < 0.8:
            raw = struct.pack("<Q", rng.choice(pool))
            words += [raw[:4], raw[4:]]
        else:
            words += [struct.pack("<I", rng.getrandbits(32))]
    return b"".join(words)[:nbytes]


@pytest.mark.parametrize("seed", range(4))
def test_garbage_gets_an_answer(make_kgsl: MakeKgsl, seed: int) -> None:
    rng = random.Random(seed)
    kgsl = make_kgsl(memory_bytes=64 << 20, queue_timeout_ms=1, options={"strict": False})
    stream = Stream(kgsl)
    kgsl.keep.append(Buffer(noise(rng, PAGE, [1, 2, 3])))
    names = [name for name in CALLS if name not in LEFT_OUT]
    for _ in range(1500):
        driver: Any = kgsl.system.drivers[0]
        file = driver.files[0]
        ids = [*list(file.memory.objects)[-4:], *list(file.contexts)[-4:], *driver.timelines.by_id]
        places = [kgsl.keep[-1].address, stream.va, stream.data_va, stream.view.addr]
        request = CALLS[rng.choice(names)][0]
        if rng.random() < 0.05:
            request ^= 1 << rng.randrange(8, 32)  # size, direction, type; not the number
        buffer = Buffer(noise(rng, 256, [*SMALL, *ids, *places]))
        with contextlib.suppress(OSError):
            kgsl.file.ioctl(request, buffer.address)
        with contextlib.suppress(OSError):
            view = kgsl.file.mmap(PAGE * rng.choice((1, 2)), rng.choice([*SMALL, *ids, *places]) << 12)
            kgsl.maps.append(view)


def test_garbage_command_buffers(make_kgsl: MakeKgsl) -> None:
    rng = random.Random(5)
    kgsl = make_kgsl()
    stream = Stream(kgsl)
    for _ in range(100):
        context = kgsl.context()
        stream.used = 0
        words = [rng.getrandbits(32) for _ in range(8)]
        with contextlib.suppress(OSError, EmulatorRefusal):
            kgsl.submit(context, stream.put(words))
            kgsl.wait(context, 1, 1)
        with contextlib.suppress(EmulatorRefusal):
            kgsl.call("context_destroy", id=context)


def test_work_leaves_no_rings_of_objects(kgsl: Kgsl) -> None:
    """Everything goes when its last reference does: a process may run without the garbage collector."""
    stream, context = Stream(kgsl), kgsl.context()
    number = kgsl.alloc(PAGE, WRITEBACK)
    fields = kgsl.command_fields(context, [stream.write(1)])
    target = kgsl.pointer("i", -1)
    entry = kgsl.pointer("QQII", 0, 0, number, 1)

    def work(count: int) -> int:
        for _ in range(count):
            timestamp = kgsl.call("command", **fields)["timestamp"]
            kgsl.wait(context, timestamp)
            kgsl.call("sync", objs=entry, obj_len=24, count=1)
            kgsl.call("timestamp_event", type=2, context=context, timestamp=timestamp, priv=target, len=4)
            os.close(struct.unpack("<i", fence.raw[:4])[0])
            kgsl.call("free", id=kgsl.alloc())
            kgsl.system.ioctl_log.clear()
        return len(gc.get_objects())

    fence = next(buffer for buffer in kgsl.keep if buffer.address == target)
    work(20)
    gc.collect()
    gc.disable()
    try:
        before = work(1)
        assert work(100) - before < 20
    finally:
        gc.enable()


def test_many_objects_leave_nothing(kgsl: Kgsl) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        number, _, view = kgsl.memory(PAGE, WRITEBACK)
        kgsl.call("free", id=number)
        kgsl.unmap(view)
    assert len(os.listdir("/proc/self/fd")) == before
    assert [item.kind for item in kgsl.system.live_objects()] == ["fd"]
