"""Queues on an emulated device against a model: any order of commands, any symbol, bound and not, wrapped timelines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hcqrt
from hcqrt import HCQBuffer, HCQError, LaunchError, Variable
from hcqrt.tools.check_frame import shipped_kernel

WAIT_MS = 20_000
WORDS = 64
ONE_DEVICE = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def fill(dev):
    return dev.program(shipped_kernel("sm_86", "fill"))


@pytest.fixture
def bufs(dev):
    made = [dev.alloc(4 * WORDS) for _ in range(3)]
    yield made
    for buf in made:
        buf.close()


WORK = st.one_of(
    st.tuples(st.just("copy"), st.permutations(range(3)), st.integers(0, 4 * WORDS)),
    st.tuples(st.just("fill"), st.integers(0, 2), st.integers(0, 255)),
    st.tuples(st.just("kernel"), st.integers(0, 2), st.integers(0, 2**32 - 1), st.integers(1, WORDS)),
    st.tuples(st.just("call"), st.integers(0, 2), st.integers(0, 2**32 - 1), st.integers(1, WORDS)),
    st.tuples(st.just("copyin"), st.integers(0, 2), st.binary(max_size=4 * WORDS)),
    st.tuples(st.just("stall")),
    st.tuples(st.just("resume")),
)


def on_timeline(dev, queue, emit):
    value = dev.next_timeline()
    queue.wait(dev.timeline_signal, value - 1)
    if hasattr(queue, "launch"):
        queue.memory_barrier()
    emit(queue).signal(dev.timeline_signal, value).submit(dev)


@ONE_DEVICE
@given(st.lists(WORK, max_size=25))
def test_work_on_both_queues_runs_in_the_order_of_the_timeline(system, dev, fill, bufs, steps):
    model = [np.zeros(4 * WORDS, np.uint8) for _ in bufs]
    for buf in bufs:
        buf.fill(0)
    for kind, *args in steps:
        if kind == "copy":
            (to, source, _), nbytes = args
            on_timeline(dev, dev.copy_queue(), lambda q: q.copy(bufs[to], bufs[source], nbytes))  # noqa: B023
            model[to][:nbytes] = model[source][:nbytes]
        elif kind == "fill":
            bufs[args[0]].fill(args[1])
            model[args[0]][:] = args[1]
        elif kind == "copyin":
            bufs[args[0]].copyin(args[1])
            model[args[0]][: len(args[1])] = np.frombuffer(args[1], np.uint8)
        elif kind in ("kernel", "call"):
            at, value, count = args
            if kind == "call":
                fill(bufs[at], vals=(value, count), global_size=(2,), local_size=(32,))
            else:
                state = fill.fill_kernargs([bufs[at]], (value, count))
                on_timeline(dev, dev.compute_queue(), lambda q: q.exec(fill, state, (2,), (32,)))  # noqa: B023
            model[at].view(np.uint32)[:count] = value
        elif kind == "stall":
            system.inject("stall")
        else:
            system.resume()
    system.resume()
    for buf, wanted in zip(bufs, model, strict=True):
        assert buf.copyout() == wanted.tobytes()


@ONE_DEVICE
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2**32 - 1), st.integers(1, WORDS)), min_size=1, max_size=8),
       st.booleans())  # fmt: skip
def test_chained_launches_run_in_order_whatever_comes_between(dev, fill, bufs, launches, bound):
    done = dev.new_signal()
    queue, model = dev.compute_queue().memory_barrier(), [np.zeros(WORDS, np.uint32) for _ in bufs]
    for buf in bufs:
        buf.fill(0)
    dev.synchronize(WAIT_MS)
    for number, (at, value, count) in enumerate(launches, 1):
        queue.exec(fill, fill.fill_kernargs([bufs[at]], (value, count)), (2, 1, 1), (32, 1, 1))
        for _ in range(value % 4):
            queue.signal(done, number)  # the third of a launch goes through the host
        if value % 3 == 0:
            queue.memory_barrier()
        model[at][:count] = value
    queue.signal(done, len(launches))
    (queue.bind(dev) if bound else queue).submit(dev)
    done.wait(len(launches), WAIT_MS)
    for buf, wanted in zip(bufs, model, strict=True):
        assert buf.copyout() == wanted.tobytes()
    queue.close()
    done.close()


@pytest.mark.parametrize("bound", [False, True])
def test_a_symbol_stands_for_any_address_size_dimension_value_or_argument(dev, fill, bound):
    address, groups, threads, count, value = (Variable(n) for n in ("address", "groups", "threads", "count", "value"))
    nbytes, final = Variable("nbytes", 0, 256), Variable("final")
    whole, copy = dev.alloc(4096), dev.alloc(4096)
    signals = [dev.new_signal(), dev.new_signal()]
    args = fill.fill_kernargs([HCQBuffer(address, 256)], (value * 3, count))
    kernel = dev.compute_queue().memory_barrier().exec(fill, args, (groups, 1, 1), (threads + 1, 1, 1))
    kernel.signal(signals[0], final).signal(signals[0], final + 1).signal(signals[0], final + 2)
    copies = dev.copy_queue().wait(signals[0], final + 2).copy(copy.offset(nbytes), HCQBuffer(address, 256), nbytes)
    copies.fill(copy, nbytes // 2, 0x77).signal(signals[1], final * 2)
    if bound:
        kernel.bind(dev)
        copies.bind(dev)
    for step in range(1, 8):
        whole.fill(0)
        copy.fill(0)
        dev.synchronize(WAIT_MS)
        given_values = {address: whole.va_addr + 256 * step, groups: step, threads: 7, count: 8 * step, value: step,
                        nbytes: 4 * step, final: (step << 32) + 5}  # fmt: skip
        kernel.submit(dev, given_values)
        copies.submit(dev, given_values)
        signals[1].wait(((step << 32) + 5) * 2, WAIT_MS)
        wanted = np.zeros(1024, np.uint32)
        wanted[64 * step : 64 * step + 8 * step] = 3 * step
        assert whole.copyout() == wanted.tobytes()
        moved = bytearray(4096)
        moved[4 * step : 8 * step] = np.full(step, 3 * step, np.uint32).tobytes()
        moved[: 2 * step] = b"\x77" * (2 * step)
        assert copy.copyout() == moved
    with pytest.raises(KeyError, match="no value for variable"):
        kernel.submit(dev, {groups: 1})
    with pytest.raises(ValueError, match="does not fit"):
        kernel.submit(dev, given_values | {groups: 1 << 32})
    with pytest.raises(ValueError, match="nbytes = 257 is outside"):
        copies.submit(dev, given_values | {nbytes: 257})
    for thing in (kernel, copies, *signals, whole, copy):
        thing.close()


def test_a_bound_queue_without_symbols_may_be_submitted_again_in_flight(system, dev):
    gate, fifo = dev.new_signal(), dev.copy_fifo
    queue = dev.copy_queue().wait(gate, 1).signal(gate, 0).bind(dev)  # a run closes the gate before the next
    fifo.wait_progress(fifo.submitted)
    ends = []
    system.inject("stall")  # so that nothing is fetched before all is submitted
    for _ in range(3):
        queue.submit(dev)
        ends.append(fifo.submitted)
    system.resume()
    for end, later in zip(ends, [*ends[1:], None], strict=True):
        gate.value = 1
        fifo.wait_progress(end)
        dev.system.back_off(0)
        assert gate.value == 0
        assert later is None or fifo.retired < later, "what has not run must not count as retired"
    queue.close()


def test_commands_added_after_a_submission_leave_it_alone(system, dev, fill, bufs):
    done = dev.new_signal()
    queue = dev.compute_queue().exec(fill, fill.fill_kernargs([bufs[0]], (1, 4)), (1,), (32,))
    system.inject("stall")
    queue.submit(dev)
    queue.signal(done, 5).exec(fill, fill.fill_kernargs([bufs[1]], (2, 4)), (1,), (32,)).signal(done, 6)
    system.resume()
    dev.compute_fifo.wait_progress(dev.compute_fifo.submitted)
    assert done.value == 0 and bufs[1].copyout(bytearray(4)) != b"\2\0\0\0"
    queue.submit(dev)
    done.wait(6, WAIT_MS)
    assert bufs[1].copyout(bytearray(4)) == b"\2\0\0\0"


def test_a_signal_of_another_device_is_refused(machine, dev, fill, bufs):
    """It lies at an address that is one of ours too."""
    with hcqrt.open_device("NV:0", machine()) as other:
        theirs = other.new_signal()
        launched = dev.compute_queue().exec(fill, fill.fill_kernargs([bufs[0]], (1, 4)), (1,), (32,))
        for queue, use in ((launched, "signal"), (dev.copy_queue(), "wait"), (dev.compute_queue(), "wait")):
            with pytest.raises(HCQError, match=r"another device \(NV:0\), which NV:0 cannot reach"):
                getattr(queue, use)(theirs, 1)


def test_a_queue_of_ones_own_waits_for_the_code_it_runs(system, dev, bufs):
    """Code is copied to the GPU; a queue without a wait for the timeline must not overtake the copy."""
    dev.synchronize(WAIT_MS)
    before = dev.next_timeline()
    gate = dev.new_signal()
    dev.copy_queue().wait(gate, 1).signal(dev.timeline_signal, before).submit(dev)  # holds the copies back
    fill, done = dev.program(shipped_kernel("sm_86", "fill")), dev.new_signal()
    queue = dev.compute_queue().exec(fill, fill.fill_kernargs([bufs[0]], (7, 4)), (1,), (32,)).signal(done, 1)
    queue.submit(dev)
    assert done.value == 0, "the kernel ran before its code was there"
    gate.value = 1
    done.wait(1, WAIT_MS)
    assert bufs[0].copyout(bytearray(4)) == b"\7\0\0\0"


@pytest.mark.parametrize("start", [2**32 - 4, 2**64 - 9, 2**64 - 1])
def test_the_timeline_wraps(dev, fill, bufs, start):
    dev.synchronize(WAIT_MS)
    dev.timeline_signal.value, dev.timeline_value = start, (start + 1) % 2**64
    for value in range(1, 12):
        fill(bufs[0], vals=(value, WORDS), global_size=(2,), local_size=(32,))
        bufs[1].fill(value)
        bufs[2].copyin(bytes([value]) * 4)
        assert bufs[0].copyout() == np.full(WORDS, value, np.uint32).tobytes()
        assert bufs[1].copyout(bytearray(1))[0] == bufs[2].copyout(bytearray(1))[0] == value
    assert fill(bufs[0], vals=(1, 1), wait=True) >= 0
    dev.synchronize(WAIT_MS)


def test_a_direct_call_takes_known_sizes_of_any_integer_type(dev, fill, bufs):
    fill(bufs[0], vals=(np.uint32(5), np.int64(WORDS)), global_size=(np.int64(2),), local_size=[np.uint16(32)])
    assert bufs[0].copyout() == np.full(WORDS, 5, np.uint32).tobytes()
    n = Variable("n", 1, 64)
    for sizes in ({"global_size": (n,)}, {"local_size": (n,)}):
        with pytest.raises(LaunchError, match="symbol"):
            fill(bufs[0], vals=(1, 1), **sizes)
    for wait in (False, True):
        with pytest.raises(LaunchError, match=r"symbol|neither"):
            fill(bufs[0], vals=(n, 1), wait=wait)


def test_a_refused_launch_leaves_nothing_to_wait_for(dev, fill, bufs):
    refused = [
        dict(vals=(1,)),
        dict(vals=(1, 2**32)),
        dict(vals=(1, 2), local_size=(2000,)),
        dict(vals=(1, "x")),
        dict(vals=(2.0, 1e300)),
        dict(vals=(1, 2), global_size=(0,)),
        dict(vals=(1, 2), dynamic_shared=1 << 30),
    ]
    for wrong in refused:
        for wait in (False, True):
            with pytest.raises(LaunchError):
                fill(bufs[0], wait=wait, **wrong)
    dev.synchronize(1000)
    fill(bufs[0], vals=(7, 1))
    assert bufs[0].copyout(bytearray(4)) == b"\7\0\0\0"


def test_words_that_do_not_fit_are_refused_by_name_and_leak_nothing(dev):
    before, n = dev.memory_stats()["in_use"], Variable("n")
    for word in (1 << 32, -1):
        with pytest.raises(ValueError, match=f"command word {word} does not fit 32 bits"):
            dev.compute_queue().q(word).submit(dev)
        with pytest.raises(ValueError, match="does not fit 32 bits"):
            dev.compute_queue().q(word).bind(dev)
    with pytest.raises(ValueError, match=r"Variable\('n'.* does not fit 32 bits"):
        dev.compute_queue().q(n).submit(dev, {n: 1 << 32})
    assert dev.memory_stats()["in_use"] == before


def test_queues_and_arguments_must_belong_together(machine):
    system = machine(nv=["sm_86", "sm_86"])
    with hcqrt.open_device("NV:0", system) as dev, hcqrt.open_device("NV:1", system) as other:
        fill, add = (dev.program(shipped_kernel("sm_86", name)) for name in ("fill", "vector_add"))
        with dev.alloc(64) as buf:
            args = fill.fill_kernargs([buf], (1, 1))
            with pytest.raises(LaunchError, match="vector_add of NV:0 cannot run on NV:0 with arguments of fill"):
                dev.compute_queue().exec(add, args, (1,), (32,))
            with pytest.raises(LaunchError, match="cannot run on NV:1"):
                other.compute_queue().exec(fill, args, (1,), (32,))


def test_a_closed_queue_says_so(dev):
    queue = dev.compute_queue().signal(dev.new_signal(), 1).bind(dev)
    with pytest.raises(HCQError, match="bound; make another"):
        queue.memory_barrier()
    queue.close()
    queue.close()
    for use in (lambda: queue.submit(dev), queue.memory_barrier, lambda: queue.bind(dev)):
        with pytest.raises(HCQError, match="closed; make another"):
            use()


def test_stores_of_symbols_stay_in_their_memory(dev):
    n = Variable("n")
    with dev.alloc(64, host=True) as buf:
        buf.fill(0)
        dev.synchronize(WAIT_MS)
        view = buf.cpu_view()
        queue = dev.compute_queue().bind_sints_to_mem(7, n, n + 1, mem=view, fmt="I", offset=52)
        for bound in (False, True):
            queue = queue.bind(dev) if bound else queue
            for value in (5, 6, 7):
                queue.submit(dev, {n: value})
                assert view.view(52, 12, "I")[:].tolist() == [7, value, value + 1]
        for offset in (-4, 56, 64):
            with pytest.raises(ValueError, match="leave memory of 64 bytes"):
                dev.compute_queue().bind_sints_to_mem(n, n, n, mem=view, fmt="I", offset=offset)
        queue.close()
