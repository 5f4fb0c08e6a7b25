"""Command streams as decoded text, the decoder on good and bad words, and symbols in place of numbers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcqrt.core.sints import Variable, compile_sints, evaluate
from hcqrt.decode.pm4 import decode, to_text, walk
from hcqrt.qcom import pm4
from hcqrt.qcom.arch.a6xx import A630, A690
from hcqrt.qcom.arch.a7xx import A730, A750
from hcqrt.qcom.dispatch import Place, Shape, dispatch
from hcqrt.qcom.queue import QCOMComputeQueue
from hcqrt.qcom.shader import Shader

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "qcom_streams.txt"
SIGNAL = SimpleNamespace(value_va=0x10_0005_0000, timestamp_va=0x10_0005_0008)
SHADER = Shader(
    name="k", code=bytes(512), instrlen=4, entry=0, full_regs=9, half_regs=3, branch_stack=1, constlen=8,
    arguments=None, ranges=(), group_id=0xC0, local_id=0x00, shared_bytes=4096, private_bytes=100,
    private_per_wave=True,
)  # fmt: skip
OPENCL = replace(
    SHADER, opencl_launch=True, isam_cl=True, constant_demotion=False, group_id=0xCF, group_size=0xC0,
    group_offset=0xCC, constlen=256, private_bytes=0, textures=(0, 1), samplers=2, images=1,
)  # fmt: skip


def queue(chip=A630):
    """A queue of a device that is only what the words need."""
    dev = SimpleNamespace(chip=chip, flush_va=0x10_0007_0000, low_word=lambda signal, value: value, lock=None)
    return QCOMComputeQueue(dev)


def place(slot=0x10_0002_0000):
    return Place(
        code=0x10_0001_0000,
        private=0x11_0000_0000,
        border=0x10_0006_0000,
        samplers=0x10_0001_0400,
        textures=slot + 256,
        images=slot + 192,
        constants=((slot, 0, 4), (0x10_0001_0300, 6, 1)),
    )


def streams():
    words = {
        "setup": queue().setup().words,
        "wait_signal": queue().wait(SIGNAL, 7).signal(SIGNAL, 8).timestamp(SIGNAL).words,
        "barrier": queue().memory_barrier().words,
        "progress": A630.arch.events.release(SIGNAL.value_va, 9),
    }
    words |= {
        "setup_a750": queue(A750).setup().words,
        "wait_signal_a750": queue(A750).wait(SIGNAL, 7).signal(SIGNAL, 8).words,
        "barrier_a750": queue(A750).memory_barrier().words,
    }
    kernels = [
        ("ir3_a630", A630, SHADER),
        ("ir3_a690", A690, SHADER),
        ("opencl_a630", A630, OPENCL),
        ("ir3_a730", A730, SHADER),
        ("images_a750", A750, replace(SHADER, textures=(0, 1), samplers=2, images=1)),
    ]
    for name, chip, shader in kernels:
        shape = Shape((5, 3, 2), (16, 4, 1), shader.shared_bytes)
        words[name] = dispatch(chip, shader, shape, place(), chip.private_layout(shader.private_bytes))
    return words


def generation(stream):
    return "a7xx" if "_a7" in stream else "a6xx"


def test_streams_equal_their_golden_text(update_golden):
    text = "".join(f"== {name}\n{to_text(words, generation(name))}" for name, words in streams().items())
    if update_golden:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_a_signal_waits_stamps_and_only_then_writes():
    names = [packet.name for packet in decode(queue().signal(SIGNAL, 1).words)]
    assert names == ["CP_WAIT_FOR_IDLE", "CP_REG_TO_MEM", "CP_WAIT_MEM_WRITES", "CP_EVENT_WRITE"]


def test_a_barrier_is_the_one_of_the_facts():
    """CACHE_FLUSH_TS, CACHE_INVALIDATE, WAIT_MEM_WRITES, WAIT_FOR_IDLE (qcom facts 3)."""
    words = queue().memory_barrier().words
    assert words == [0x70460004, 4, 0x70000, 0x10, 0, 0x70460001, 0x31, 0x70928000, 0x70268000]


@pytest.mark.parametrize("kind", [SHADER, OPENCL], ids=["ir3", "opencl"])
def test_symbols_give_the_words_that_their_values_give(kind):
    rng = random.Random(3)
    slot, *sizes = (Variable(name) for name in ("slot", "gx", "gy", "gz", "lx", "ly", "lz"))
    layout = A630.private_layout(kind.private_bytes)
    symbolic = dispatch(A630, kind, Shape((*sizes[:3],), (*sizes[3:],), 0), place(slot), layout)
    function = compile_sints(symbolic, [slot, *sizes])
    locals_ = [[1024, 1, 1], [1, 1024, 1], [1, 1, 1024], [8, 16, 8], [1, 1, 1], [7, 11, 13]]
    for _ in range(50):
        values = [rng.randrange(1, 65536) for _ in range(3)] + rng.choice(locals_)
        address = rng.randrange(1 << 32, 1 << 40) & ~255
        plain = dispatch(A630, kind, Shape((*values[:3],), (*values[3:],), 0), place(address), layout)
        assert list(function(address, *values)) == plain


def test_symbols_as_signal_addresses_and_values():
    va, value = Variable("va"), Variable("value")
    signal = SimpleNamespace(value_va=va, timestamp_va=va + 8)
    symbolic = queue().wait(signal, value).signal(signal, value + 1).words
    plain = queue().wait(SIGNAL, 41).signal(SIGNAL, 42).words
    assert [evaluate(word, {va: SIGNAL.value_va, value: 41}) for word in symbolic] == plain


@given(st.lists(st.sampled_from(sorted(streams())), min_size=1, max_size=4))
def test_packets_walk_back_to_the_words(names):
    words = [word for name in names for word in streams()[name]]
    rebuilt = []
    for at, register, opcode, payload in walk(words):
        assert at == len(rebuilt)
        header = pm4.type4(register, len(payload)) if register is not None else pm4.type7(opcode, len(payload))
        assert pm4.packet_words(header) == 1 + len(payload)
        rebuilt += [header, *payload]
    assert rebuilt == words


def test_what_was_encoded_is_decoded_by_name():
    packets = {str(item.name): item for packet in decode(streams()["ir3_a630"]) for item in packet.items}
    assert packets["SP_CS_CTRL_REG0"].fields == {"FULLREGFOOTPRINT": 9, "HALFREGFOOTPRINT": 3, "BRANCHSTACK": 1}
    assert packets["HLSQ_CS_CNTL"].fields == {"CONSTLEN": 8, "ENABLED": 1}
    assert packets["SP_CS_PVT_MEM_PARAM"].fields == {"MEMSIZEPERITEM": 512}
    assert packets["SP_CS_PVT_MEM_SIZE"].fields == {"TOTALPVTMEMSIZE": 1 << 20, "PERWAVEMEMLAYOUT": 1}
    assert packets["SP_CS_PVT_MEM_HW_STACK_OFFSET"].fields == {"OFFSET": 1 << 20}
    assert packets["SP_CS_OBJ_START_HI"].value == 0x10
    event = decode(A630.arch.events.forget())[0]
    assert event.items[0].fields == {"EVENT": "CACHE_INVALIDATE"}


@pytest.mark.parametrize("word", [0, 0x30000000, 0x70268000 ^ 0x800000, 0x40BB0801 ^ 0x80, 0x74268000, 0x44BB0801])
def test_bad_headers_are_named_with_their_place(word):
    with pytest.raises(ValueError, match=rf"word 1: {word:#010x}"):
        decode([0x70268000, word])


def test_a_packet_past_the_end_is_named():
    with pytest.raises(ValueError, match="word 0: header 0x70460004 wants 4 words, 2 follow"):
        decode([0x70460004, 4, 0])


def test_unknown_registers_and_opcodes_are_shown_as_such():
    text = to_text([pm4.type4(0x3FFFF, 1), 5, pm4.type7(0x7F, 1), 6])
    assert "3ffff unknown 0x5" in text
    assert "unknown 0x7f" in text


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 0xFFFFFFFF) | st.sampled_from([0x70268000, 0x70460001, 0x40A9B08A]), max_size=40))
def test_garbage_decodes_or_raises_valueerror(words):
    try:
        assert isinstance(to_text(words), str)
    except ValueError as error:
        assert "word" in str(error)


@given(st.integers(0, 0x3FFFF), st.lists(st.integers(0, 0xFFFFFFFF), min_size=1, max_size=6))
def test_any_write_decodes(register, values):
    (packet,) = decode([pm4.type4(register, len(values)), *values])
    assert [item.value for item in packet.items] == values


@given(st.integers(0, 0x7F), st.lists(st.integers(0, 0xFFFFFFFF), max_size=8))
def test_any_command_decodes(opcode, values):
    (packet,) = decode([pm4.type7(opcode, len(values)), *values])
    assert [item.value for item in packet.items] == values
