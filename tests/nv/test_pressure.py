"""Small rings, stalled GPUs, held arguments, several threads, Ctrl-C: nothing is overwritten, lost or left behind."""

from __future__ import annotations

import gc
import random
import signal as os_signal
import sys
import threading
import time

import numpy as np
import pytest

import hcqrt
from hcqrt import HCQBuffer, SignalTimeout, Variable
from hcqrt.core import staging
from hcqrt.nv import device as nv_device
from hcqrt.tools.check_frame import shipped_kernel

WAIT_MS = 20_000


def small(monkeypatch, machine, entries=16):
    """A device with the smallest rings there are: of commands, kernel arguments and staged bytes."""
    monkeypatch.setenv("HCQRT_CMD_BYTES", "16384")
    monkeypatch.setenv("HCQRT_RING_ENTRIES", str(entries))
    monkeypatch.setattr(nv_device, "KERNARGS_BYTES", 64 << 10)
    monkeypatch.setattr(staging, "STAGING_BYTES", 64 << 10)
    return hcqrt.open_device("NV", machine())


def stall_at_random(system, seed):
    """From now on the GPU stops at random, and goes on when somebody waits for it."""
    chance, back_off = random.Random(seed), system.back_off

    def back_off_and_toss(spins):
        system.resume()
        if chance.random() < 0.5:
            system.inject("stall")
        back_off(spins)

    system.back_off = back_off_and_toss
    system.inject("stall")


def test_ten_thousand_launches_through_a_small_command_ring(monkeypatch, machine):
    monkeypatch.setenv("HCQRT_CMD_BYTES", "65536")
    with hcqrt.open_device("NV", machine()) as dev, dev.alloc(4 * 64) as buf:
        fill = dev.program(shipped_kernel("sm_86", "fill"))
        dev.synchronize(WAIT_MS)
        runs = []
        dev.system.drivers[0].boards[0].gpu.engines.launch = lambda job: runs.append(None) or no_work()
        stall_at_random(dev.system, 3)
        for value in range(10_000):
            fill(buf, vals=(value, 64), local_size=(64,))
        dev.synchronize(WAIT_MS)
        assert len(runs) == 10_000 and dev.system.refusals == []
        dev.system.resume()


def no_work():
    from hcqrt.emu.engine.launch import Result

    return Result(1, None)


@pytest.mark.parametrize("entries", [16, 1024])  # the ring of entries is full first, or that of commands
def test_no_command_is_overwritten_in_rings_of_the_least_size(monkeypatch, machine, entries):
    with small(monkeypatch, machine, entries) as dev:
        stall_at_random(dev.system, 5)
        count, word = dev.new_signal(), Variable("word")
        bound = dev.compute_queue().wait(count, word).signal(count, word + 1).bind(dev)
        for value in range(4000):
            if value % 900 == 899:
                bound.submit(dev, {word: value})
            else:
                dev.compute_queue().wait(count, value).signal(count, value + 1).submit(dev)
        count.wait(4000, WAIT_MS)
        assert count.value == 4000 and dev.system.refusals == []
        dev.system.resume()
        bound.close()


@pytest.mark.parametrize("entries", [16, 1024])
@pytest.mark.parametrize("way", ["call", "queue", "copyin"])
def test_no_argument_or_staged_byte_is_overwritten(monkeypatch, machine, entries, way):
    with small(monkeypatch, machine, entries) as dev, dev.alloc(400 << 10) as buf:
        fill = dev.program(shipped_kernel("sm_86", "fill"))
        buf.fill(0xFF)
        stall_at_random(dev.system, entries)
        for value in range(400):
            part = buf.offset(value << 10, 1 << 10)
            if way == "call":
                fill(part, vals=(value, 1))
            elif way == "queue":
                args, before = fill.fill_kernargs([part], (value, 1)), dev.next_timeline() - 1
                queue = dev.compute_queue().wait(dev.timeline_signal, before).memory_barrier()
                queue.exec(fill, args, (1,), (1,)).signal(dev.timeline_signal, before + 1).submit(dev)
            else:
                part.copyin(value.to_bytes(4, "little") * 256)
        assert np.frombuffer(buf.copyout(), np.uint32)[::256].tolist() == list(range(400))
        dev.system.resume()


def test_a_queue_longer_than_the_command_ring_is_split_between_methods(monkeypatch, machine):
    with small(monkeypatch, machine) as dev:
        count, queue = dev.new_signal(), dev.compute_queue()
        for value in range(2000):
            queue.wait(count, value).signal(count, value + 1)
        queue.submit(dev)
        count.wait(2000, WAIT_MS)
        assert 4 * len(queue.words) > dev.config.cmd_bytes and dev.system.refusals == []
        before = dev.compute_fifo.submitted
        wide = dev.compute_queue().signal(count, 1).method(0, 0x8, *[0] * 3000)
        with pytest.raises(ValueError, match="3000 words does not fit"):
            wide.submit(dev)
        assert dev.compute_fifo.submitted == before, "nothing of it ran"


def test_arguments_that_are_held_are_never_reused(dev):
    fill = dev.program(shipped_kernel("sm_86", "fill"))
    bufs = [dev.alloc(64) for _ in range(8)]
    kept = [fill.fill_kernargs([bufs[i % 8]], (i, 4)) for i in range(7000)]
    assert len(dev.kernargs.memories) > 1
    assert len({state.va for state in kept}) == len(kept)
    queue = dev.compute_queue()
    for state in kept[:64]:
        queue.exec(fill, state, (1,), (32,))
    value = dev.next_timeline()
    queue.wait(dev.timeline_signal, value - 1).signal(dev.timeline_signal, value).submit(dev)
    assert [int.from_bytes(buf.copyout(bytearray(4)), "little") for buf in bufs] == list(range(56, 64))
    del kept, queue, state
    gc.collect()
    grown = len(dev.kernargs.memories)
    for i in range(7000):
        fill.fill_kernargs([HCQBuffer(Variable("x"), 4)], (i, 4))
    assert len(dev.kernargs.memories) == grown and sum(s.holds for s in dev.kernargs.segments) == 0
    for buf in bufs:
        buf.close()


@pytest.mark.parametrize("emulator_threads", [1, 2])
def test_threads_share_a_device(machine, emulator_threads):
    failures = []

    def work(dev, fill, number):
        try:
            with dev.alloc(256) as buf:
                for i in range(60):
                    fill(buf, vals=(1000 * number + i, 64), global_size=(2,), local_size=(32,))
                    if i % 10 == 0:
                        assert np.frombuffer(buf.copyout(), np.uint32).tolist() == [1000 * number + i] * 64
                    dev.new_signal().close()
                    with dev.alloc(512) as other:
                        other.copyin(bytes(512))
        except (AssertionError, hcqrt.HCQError) as failure:
            failures.append(failure)

    with hcqrt.open_device("NV", machine(threads=emulator_threads)) as dev:
        fill = dev.program(shipped_kernel("sm_86", "fill"))
        threads = [threading.Thread(target=work, args=(dev, fill, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(dev._signals.pages) == 1


def test_ctrl_c_loses_nothing(dev, monkeypatch):
    fill = dev.program(shipped_kernel("sm_86", "fill"))
    interrupts, swallowed = 0, []  # Python swallows one that comes in a finaliser, and says so
    monkeypatch.setattr(sys, "unraisablehook", swallowed.append)
    previous = os_signal.signal(os_signal.SIGALRM, lambda *_: os_signal.raise_signal(os_signal.SIGINT))
    try:
        with dev.alloc(256) as buf:
            for attempt in range(40):
                os_signal.setitimer(os_signal.ITIMER_REAL, 0.0002 * (attempt % 9 + 1))
                try:
                    for value in range(20_000):
                        fill(buf, vals=(value, 64), local_size=(64,))
                        buf.copyin(b"1234")
                except KeyboardInterrupt:
                    interrupts += 1
                os_signal.setitimer(os_signal.ITIMER_REAL, 0)
                dev.synchronize(2000)
            fill(buf, vals=(5, 64), local_size=(64,))
            assert buf.copyout() == b"\5\0\0\0" * 64
    finally:
        os_signal.setitimer(os_signal.ITIMER_REAL, 0)
        os_signal.signal(os_signal.SIGALRM, previous)
    assert interrupts + len(swallowed) == 40
    assert all(ignored.exc_type is KeyboardInterrupt for ignored in swallowed)


def test_a_wait_times_out_only_without_progress(dev):
    gate, count = dev.new_signal(), dev.new_signal()
    start = time.monotonic()
    with pytest.raises(SignalTimeout, match=r"stuck at 0, waited 0\.\d s for 1; last launch"):
        gate.wait(1, 50)
    assert time.monotonic() - start < 2

    def steps():
        for value in range(1, 9):
            time.sleep(0.04)
            count.value = value

    thread = threading.Thread(target=steps)
    thread.start()
    count.wait(8, 250)  # 320 ms in all, never 250 ms without a change
    thread.join()


def test_a_timed_launch_that_never_ends_keeps_its_signals(dev, system):
    fill = dev.program(shipped_kernel("sm_86", "fill"))
    dev.wait_timeout_ms = 50
    with dev.alloc(64) as buf:
        system.inject("stall")
        with pytest.raises(SignalTimeout):
            fill(buf, vals=(1, 1), wait=True)
        mine = [dev.new_signal(7), dev.new_signal(7)]
        system.resume()
        dev.synchronize(WAIT_MS)
        assert [signal.value for signal in mine] == [7, 7], "the GPU wrote to a slot that was given away"
