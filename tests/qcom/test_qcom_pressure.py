"""Small rings and a GPU that stalls at random: no command, argument or word of a bound queue is overwritten or lost."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

import hcqrt
from hcqrt import Variable
from hcqrt.qcom import device as qcom_device
from hcqrt.tools.check_frame import shipped_kernel

WAIT_MS = 20_000
FILL = shipped_kernel("a630", "fill")


def small(monkeypatch, machine, cmd_bytes=65536, kernargs_bytes=64 << 10, **options):
    """A device with a small ring of commands and of kernel arguments."""
    monkeypatch.setenv("HCQRT_CMD_BYTES", str(cmd_bytes))
    monkeypatch.setattr(qcom_device, "KERNARGS_BYTES", kernargs_bytes)
    return hcqrt.open_device("QCOM", machine((), qcom="a630", **options))


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


def test_ten_thousand_launches_in_one_queue_through_a_64_kib_ring(monkeypatch, machine):
    """Launch i writes i to its own words: sizes, and how many launches a submission holds, are random."""
    chance = random.Random(11)
    with small(monkeypatch, machine) as dev, dev.alloc(4 * 10_000) as buf:
        fill = dev.program(FILL)
        buf.fill(0xFF)
        stall_at_random(dev.system, 3)
        done = 0
        while done < 10_000:
            queue = dev.compute_queue()
            for value in range(done, min(10_000, done + chance.choice((1, 2, 7, 40, 150)))):
                count = chance.choice((1, 1, 3, 64))
                args = fill.fill_kernargs([buf.offset(4 * value, 4)], (value, 1))
                queue.exec(fill, args, (chance.choice((1, 2)), 1, 1), (count, 1, 1))
                done = value + 1
            before = dev.next_timeline() - 1
            whole = dev.compute_queue().wait(dev.timeline_signal, before).memory_barrier()
            whole.words += queue.words
            whole._args += queue._args
            whole.signal(dev.timeline_signal, before + 1).submit(dev)
        assert np.frombuffer(buf.copyout(), np.uint32).tolist() == list(range(10_000))
        assert dev.system.refusals == []
        dev.system.resume()


def test_ten_thousand_calls_through_a_64_kib_ring(monkeypatch, machine):
    chance = random.Random(12)
    with small(monkeypatch, machine) as dev, dev.alloc(4 * 10_000) as buf:
        fill = dev.program(FILL)
        stall_at_random(dev.system, 4)
        for value in range(10_000):
            fill(buf.offset(4 * value, 4), vals=(value, 1), local_size=(chance.choice((1, 32, 64, 100)),))
        assert np.frombuffer(buf.copyout(), np.uint32).tolist() == list(range(10_000))
        assert dev.system.stats()["launches"] >= 10_000 and dev.system.refusals == []
        dev.system.resume()


def test_one_queue_of_ten_thousand_launches_is_split_between_packets(monkeypatch, machine):
    """Far longer than the ring: submitted in pieces, each of which waits for room."""
    with small(monkeypatch, machine, kernargs_bytes=8 << 20) as dev, dev.alloc(4 * 10_000) as buf:
        fill = dev.program(FILL)
        before = dev.next_timeline() - 1
        queue = dev.compute_queue().wait(dev.timeline_signal, before).memory_barrier()
        for value in range(10_000):
            args = fill.fill_kernargs([buf.offset(4 * value, 4)], (value, 1))
            queue.exec(fill, args, (1, 1, 1), (1 + value % 5, 1, 1))
        queue.signal(dev.timeline_signal, before + 1)
        assert 4 * len(queue.words) > 10 * dev.config.cmd_bytes
        stall_at_random(dev.system, 5)
        queue.submit(dev)
        assert np.frombuffer(buf.copyout(), np.uint32).tolist() == list(range(10_000))
        assert dev.system.refusals == []
        dev.system.resume()


def test_bound_queues_and_others_keep_their_order(monkeypatch, machine):
    with small(monkeypatch, machine, cmd_bytes=16384) as dev:
        stall_at_random(dev.system, 5)
        count, word = dev.new_signal(), Variable("word")
        bound = dev.compute_queue().wait(count, word).signal(count, word + 1).bind(dev)
        for value in range(2000):
            if value % 9 == 8:
                bound.submit(dev, {word: value})
            else:
                dev.compute_queue().wait(count, value).signal(count, value + 1).submit(dev)
        count.wait(2000, WAIT_MS)
        assert count.value == 2000 and dev.system.refusals == []
        dev.system.resume()
        bound.close()


@pytest.mark.parametrize("emulator_threads", [1, 2])
def test_threads_share_a_device(machine, emulator_threads):
    failures = []

    def work(dev, fill, number):
        try:
            with dev.alloc(256) as buf:
                for i in range(40):
                    fill(buf, vals=(1000 * number + i, 64), global_size=(2,), local_size=(32,))
                    if i % 10 == 0:
                        assert np.frombuffer(buf.copyout(), np.uint32).tolist() == [1000 * number + i] * 64
                    dev.new_signal().close()
                    with dev.alloc(512) as other:
                        other.copyin(bytes(512))
        except (AssertionError, hcqrt.HCQError) as failure:
            failures.append(failure)

    with hcqrt.open_device("QCOM", machine((), qcom="a630", threads=emulator_threads)) as dev:
        fill = dev.program(FILL)
        threads = [threading.Thread(target=work, args=(dev, fill, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
