"""Whatever a queue method is given, the words decode to the same: by the decoder, which shares no code with queues."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hcqrt import Variable
from hcqrt.core.sints import compile_sints
from hcqrt.decode.pushbuffer import decode

ADDRESS = st.integers(0, (1 << 40) - 1)
U64, U32 = st.integers(0, (1 << 64) - 1), st.integers(1, (1 << 31) - 1)
COPY_PIECE = 1 << 31


class Signal(NamedTuple):
    value_va: int


def semaphore(va, value, operation):
    return [("SEM_ADDR_LO", va & 0xFFFF_FFFF), ("SEM_ADDR_HI", va >> 32), ("SEM_PAYLOAD_LO", value & 0xFFFF_FFFF),
            ("SEM_PAYLOAD_HI", value >> 32), ("SEM_EXECUTE", operation)]  # fmt: skip


def wait(queue, a, b, size, value):
    queue.wait(Signal(a // 16 * 16), value)
    return semaphore(a // 16 * 16, value, 0x0100_1003)


def signal(queue, a, b, size, value):
    queue.signal(Signal(a // 16 * 16), value)
    return semaphore(a // 16 * 16, value, 0x0310_0001)


def copy(queue, a, b, size, value):
    total = size * (1 + value % 3)
    queue.copy(a, b, total)
    wanted = []
    for done in range(0, total, COPY_PIECE):
        to, source = a + done, b + done
        wanted += [("OFFSET_IN_UPPER", source >> 32), ("OFFSET_IN_LOWER", source & 0xFFFF_FFFF),
                   ("OFFSET_OUT_UPPER", to >> 32), ("OFFSET_OUT_LOWER", to & 0xFFFF_FFFF),
                   ("LINE_LENGTH_IN", min(COPY_PIECE, total - done)), ("LAUNCH_DMA", 0x186)]  # fmt: skip
    return wanted


def fill(queue, a, b, size, value):
    queue.fill(a, size, value % 256)
    wide = a % 4 == size % 4 == 0
    return [("SET_REMAP_CONST_B", value % 256 * (0x0101_0101 if wide else 1)),
            ("SET_REMAP_COMPONENTS", 0x30005 if wide else 5), ("OFFSET_OUT_UPPER", a >> 32),
            ("OFFSET_OUT_LOWER", a & 0xFFFF_FFFF), ("LINE_LENGTH_IN", size // 4 if wide else size),
            ("LAUNCH_DMA", 0x586)]  # fmt: skip


STEP = st.tuples(st.sampled_from([wait, signal, copy, fill]), ADDRESS, ADDRESS, U32, U64)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=12))
def test_words_say_what_was_asked_for(dev, steps):
    queue = dev.copy_queue()
    wanted = [pair for method, *given_values in steps for pair in method(queue, *given_values)]
    assert [(m.name, m.data) for m in decode(queue.words)] == wanted


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ADDRESS, ADDRESS, U32, U64)
def test_symbols_become_the_words_of_their_values(dev, to, source, size, value):
    a, b, n, v = (Variable(name) for name in ("a", "b", "n", "v"))
    symbolic, plain = dev.copy_queue(), dev.copy_queue()
    symbolic.wait(Signal(to // 16 * 16), v).copy(a, b, n).signal(Signal(to // 16 * 16), v)
    plain.wait(Signal(to // 16 * 16), value).copy(to, source, size).signal(Signal(to // 16 * 16), value)
    assert list(compile_sints(symbolic.words, [a, b, n, v])(to, source, size, value)) == plain.words
    assert set(symbolic.variables) == {a, b, n, v}
