"""Packed queues: known words as bytes, symbols in place, the same memory as word by word."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.core.queue import PackedQueue, constant_runs
from hcqrt.core.sints import Variable, evaluate

WORD = st.integers(0, 0xFFFFFFFF)


class Channel:
    def progress_words(self, progress):
        return [0xC0FFEE, progress]


class Queue:
    memory_patches: tuple[()] = ()

    def __init__(self, words):
        self.words = words


@given(st.lists(WORD | st.none(), max_size=40), WORD, WORD)
def test_a_packed_queue_fills_memory_as_its_words_say(shape, value, progress):
    v, p = Variable("v"), Variable("p")
    words = [v if word is None else word for word in shape]
    packed = PackedQueue(Queue(words), Channel(), [v], p)
    memory = bytearray(packed.nbytes + 8)
    packed.pack_into(memory, 4, *packed.words(value, progress))
    whole = [*words, 0xC0FFEE, p]
    plain = [evaluate(word, {v: value, p: progress}) for word in whole]
    assert memory == bytes(4) + struct.pack(f"<{len(plain)}I", *plain) + bytes(4)
    assert (packed.nwords, packed.slot_bytes % 256) == (len(plain), 0)


def test_runs_of_known_words_are_one_item():
    v = Variable("v")
    items = constant_runs([1, 2, v, 3])
    assert items == [struct.pack("<2I", 1, 2), v, struct.pack("<I", 3)]


@pytest.mark.parametrize("word", [1 << 32, -1])
def test_a_word_that_is_none_is_refused_when_packed(word):
    with pytest.raises(struct.error):
        constant_runs([word])
    v = Variable("v")
    packed = PackedQueue(Queue([v]), Channel(), [v], Variable("p"))
    with pytest.raises(struct.error):
        packed.pack_into(bytearray(packed.nbytes), 0, *packed.words(word, 0))
