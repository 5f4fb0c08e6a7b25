"""Command words: the encodings that the facts compute, and streams as decoded text."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hcqrt.decode.pushbuffer import to_text
from hcqrt.decode.qmd import qmd_text, unknown_bits
from hcqrt.nv.gpfifo import pushbuffer_entry
from hcqrt.nv.methods import COMPUTE, COPY, HOST, IMMD, INCR, SemExecute, header
from hcqrt.tools.check_frame import shipped_kernel

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

# nv-engine facts 1.3: (subchannel, method offset, count, word)
HEADERS = [
    (COMPUTE, 0x0000, 1, 0x20012000), (COPY, 0x0000, 1, 0x20018000), (HOST, 0x5C, 5, 0x20050017),
    (HOST, 0x20, 1, 0x20010008), (HOST, 0x78, 1, 0x2001001E), (COMPUTE, 0x2A0, 2, 0x200220A8),
    (COMPUTE, 0x7B0, 2, 0x200221EC), (COMPUTE, 0x790, 2, 0x200221E4), (COMPUTE, 0x2E4, 3, 0x200320B9),
    (COMPUTE, 0x1698, 1, 0x200125A6), (COMPUTE, 0x2B4, 1, 0x200120AD), (COMPUTE, 0x2BC, 1, 0x200120AF),
    (COMPUTE, 0x2C0, 1, 0x200120B0), (COPY, 0x400, 4, 0x20048100), (COPY, 0x410, 4, 0x20048104),
    (COPY, 0x418, 1, 0x20018106), (COPY, 0x418, 2, 0x20028106), (COPY, 0x300, 1, 0x200180C0),
    (COPY, 0x240, 3, 0x20038090), (COPY, 0x240, 4, 0x20048090), (COPY, 0x700, 3, 0x200381C0),
]  # fmt: skip
EXECUTES = [
    (dict(operation=3, payload_size=1), 0x01000003),
    (dict(operation=3), 0x00000003),
    (dict(operation=2, payload_size=1), 0x01000002),
    (dict(operation=1, release_wfi=1, payload_size=1, release_timestamp=1), 0x03100001),
    (dict(operation=1), 0x00000001),
]


@pytest.mark.parametrize(("subchannel", "offset", "count", "word"), HEADERS, ids=lambda v: hex(v))
def test_headers_equal_the_facts(subchannel, offset, count, word):
    assert header(subchannel, offset, count) == word


def test_an_immediate_header_carries_its_data():
    assert header(COMPUTE, 0x2C0, 3, IMMD) == 0x800320B0


@pytest.mark.parametrize(("fields", "word"), EXECUTES)
def test_semaphore_execute_words_equal_the_facts(fields, word):
    assert int(SemExecute(**fields)) == word


def test_a_ring_entry_equals_the_facts():
    level_subroutine = 1 << 41  # reporting only; hcqrt leaves it 0
    assert pushbuffer_entry(0x12_3456_7890, 10) | level_subroutine == 0x00002A1234567890


@pytest.mark.parametrize(("va", "words"), [(1 << 40, 1), (2, 1), (0x1000, 0), (0x1000, 1 << 21), (-4, 1)])
def test_bad_ring_entries_are_refused(va, words):
    with pytest.raises(ValueError, match="pushbuffer at"):
        pushbuffer_entry(va, words)


@pytest.mark.parametrize(("count", "sec_op"), [(1 << 13, INCR), (1 << 13, IMMD)])
def test_counts_too_wide_are_refused(count, sec_op):
    with pytest.raises(ValueError, match="13 bits"):
        header(COMPUTE, 0, count, sec_op)


def words_of(queue) -> str:
    return to_text(queue.words)


def streams(dev) -> dict[str, str]:
    """Every kind of command, at addresses that do not depend on the run."""

    class Signal:
        value_va = 0x10_0000_1230

    def compute():
        return type(dev.compute_queue())(dev)

    def copy():
        return type(dev.copy_queue())(dev)

    return {
        "compute_setup": words_of(compute().setup(shared_window_va=0x729400000000, local_window_va=0x729300000000)),
        "local_memory": words_of(compute().local_memory(0x1020000000, 0x48000, 0x1FF)),
        "wait_signal": words_of(compute().wait(Signal, (3 << 32) + 7).signal(Signal, 1 << 33).timestamp(Signal)),
        "barrier_launch": words_of(compute().memory_barrier().launch(0x1000300200)),
        "copy": words_of(copy().setup().copy(0x1234567890, 0x987654000, (5 << 30) + 3)),
        "copy_2d": words_of(copy().copy_2d(0x1000000000, 0x1000100000, 50, 33, 80, 64)),
        "fill": words_of(copy().fill(0x1000000000, 64, 0xA5).fill(0x1000000001, 7, 1)),
    }


def compare(name: str, text: str, update: bool) -> None:
    path = GOLDEN / f"{name}.txt"
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"no golden text {path.name}; make it with --update-golden"
    assert text == path.read_text()


def test_streams_equal_their_golden_text(dev, update_golden):
    text = "".join(f"== {name}\n{body}" for name, body in streams(dev).items())
    compare("nv_streams", text, update_golden)


def test_the_qmd_of_a_launch_equals_its_golden_text(dev, update_golden):
    with dev.alloc(4096) as buf:
        prg = dev.program(shipped_kernel("sm_86", "sum"))
        args = prg.fill_kernargs([buf, buf], (100,))
        dev.compute_queue().exec(prg, args, (3, 1, 1), (256, 1, 1)).signal(dev.timeline_signal, 1 << 40)
        qmd = bytearray(args.mv[args.offset + prg.qmd_offset :][:256])
        assert unknown_bits(qmd) == 0
        for word in (24, 25, 32, 33, 48, 49):  # addresses: they differ from run to run
            flags = struct.unpack_from("<I", qmd, 4 * word)[0] & 0xFFFFFF00 if word in (25, 33) else 0
            struct.pack_into("<I", qmd, 4 * word, flags)
        prg.close()
    compare("nv_qmd_sum", qmd_text(qmd), update_golden)
