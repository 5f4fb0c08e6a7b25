"""The emulated KGSL with threads, forks and a GPU that runs beside its callers."""

from __future__ import annotations

import os
import threading

from kgsl_client import PAGE, QUEUED, WRITEBACK, Kgsl, MakeKgsl, Stream, errno_of

THREADED = {"threads": 2}


def test_a_gpu_beside_the_caller(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(options=THREADED)
    stream, context = Stream(kgsl), kgsl.context()
    for value in range(1, 30):
        assert kgsl.submit(context, stream.write(value)) == value
        kgsl.wait(context, value)
        assert stream.out[0] == value


def test_a_queue_that_waits_for_the_cpu(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(options=THREADED)
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.wait(1, index=1), stream.write(5))
    kgsl.submit(two, stream.write(7, index=2))
    kgsl.wait(two, 1)
    assert (stream.out[0], stream.out[2]) == (0, 7)
    stream.out[1] = 1
    kgsl.wait(one, 1)
    assert stream.out[0] == 5


def test_a_store_during_a_wait(make_kgsl: MakeKgsl) -> None:
    for options in ({}, THREADED):
        kgsl = make_kgsl(options=options)
        stream, context = Stream(kgsl), kgsl.context()
        kgsl.submit(context, stream.wait(1, index=1), stream.write(5))
        store = threading.Timer(0.03, stream.out.__setitem__, (1, 1))
        store.start()
        kgsl.wait(context, 1)
        store.join(5)
        assert stream.out[0] == 5


def test_faults_and_stalls_beside_the_caller(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(options=THREADED)
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1, va=0x50_0000_0000))
    assert errno_of(kgsl.wait, context, 1, 20) == "ETIMEDOUT"
    kgsl.system.resume()
    assert errno_of(kgsl.wait, context, 1) == "EPROTO"


def test_callers_of_several_threads(make_kgsl: MakeKgsl) -> None:
    for options in ({}, THREADED):
        kgsl = make_kgsl(options=options)
        failures: list[BaseException] = []

        def work(kgsl: Kgsl = kgsl, failures: list[BaseException] = failures) -> None:
            client = Kgsl(kgsl.system)
            try:
                stream, context = Stream(client), client.context()
                for value in range(1, 40):
                    timestamp = client.submit(context, stream.write(value))
                    client.wait(context, timestamp)
                    assert stream.out[0] == value
                    number = client.alloc(PAGE, WRITEBACK)
                    client.sync((number, 1))
                    client.call("free", id=number)
            except (OSError, AssertionError) as error:
                failures.append(error)
            finally:
                client.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_sleeping_call_lets_others_in(kgsl: Kgsl) -> None:
    stream, one, two = Stream(kgsl), kgsl.context(), kgsl.context()
    kgsl.submit(one, stream.wait(1, index=1))
    waiter = threading.Thread(target=lambda: kgsl.wait(one, 1))
    waiter.start()
    kgsl.submit(two, stream.write(1, index=1))
    waiter.join(5)
    assert not waiter.is_alive() and kgsl.stamp(one) == 1


def test_a_seed_changes_the_order_of_contexts(make_kgsl: MakeKgsl) -> None:
    orders = set()
    for seed in range(1, 8):
        kgsl = make_kgsl(options={"seed": seed})
        stream = Stream(kgsl)
        contexts = [kgsl.context() for _ in range(3)]
        kgsl.system.inject("stall")
        for index, context in enumerate(contexts):
            kgsl.submit(context, stream.write(index))
        kgsl.system.resume()
        orders.add(stream.out[0])
    assert len(orders) > 1


def test_a_child_has_a_driver_of_its_own(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.write(1))
    child = os.fork()
    if child == 0:
        good = errno_of(kgsl.call, "context_create", flags=0x12) == "EINVAL"  # a file from before the fork
        other = Kgsl(kgsl.system)
        own = other.context()
        good &= own == 1 and other.submit(own) == 1
        kgsl.file.close()
        other.close()
        os._exit(0 if good and kgsl.system.ioctl_log else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert kgsl.submit(context, stream.write(2)) == 2 and kgsl.stamp(context, QUEUED) == 2
    assert stream.out[0] == 2
