"""The packed launch and the straight line of queue methods: the same arguments, QMD and words."""

from __future__ import annotations

import struct

import pytest

from hcqrt.decode.pushbuffer import decode
from hcqrt.decode.qmd import decode_qmd
from hcqrt.tools.check_frame import shipped_kernel

GRID, BLOCK = (5, 2, 1), (32, 4, 1)


class Recorder:
    """Keeps what goes to the ring in place of the doorbell, and retires it."""

    def __init__(self, fifo):
        self.fifo, self.doorbell = fifo, fifo._doorbell
        self.streams: list[list[int]] = []

    def __setitem__(self, index, token):
        entry = self.fifo._ring[(self.fifo.submitted - 1) & self.fifo._mask]
        va, count = entry & (1 << 40) - 1, entry >> 42 & 0x1FFFFF
        ring = self.fifo._cmd
        self.streams.append(list(struct.unpack_from(f"<{count}I", ring.mv, va - ring.va)))
        self.doorbell[index] = token


@pytest.fixture
def recorder(dev):
    dev.synchronize()
    dev.compute_fifo._doorbell = kept = Recorder(dev.compute_fifo)
    yield kept
    dev.compute_fifo._doorbell = kept.doorbell


def straight_line(dev, prg, bufs, vals):
    args = prg.fill_kernargs(bufs, vals)
    value = dev.next_timeline()
    queue = dev.compute_queue().wait(dev.timeline_signal, value - 1).memory_barrier()
    queue.exec(prg, args, GRID, BLOCK).signal(dev.timeline_signal, value).submit(dev)
    dev.timeline_signal.wait(value)
    return bytes(args.mv[args.offset : args.offset + prg.slot_bytes])


def packed(dev, prg, bufs, vals):
    offset = dev.kernargs.cursor
    prg(*bufs, vals=vals, global_size=GRID, local_size=BLOCK)
    dev.synchronize()
    return bytes(dev.kernargs.mv[offset : offset + prg.slot_bytes])


def without_addresses(words):
    """Method writes, less those that hold an address or a value that grows with every submission."""
    moving = ("SEM_PAYLOAD_LO", "SEND_PCAS_A")
    return [(m.offset, None if m.name in moving else m.data) for m in decode(words)]


def test_the_packed_launch_emits_what_the_queue_methods_emit(dev, recorder):
    bufs = [dev.alloc(4096), dev.alloc(4096), dev.alloc(4096)]
    prg = dev.program(shipped_kernel("sm_86", "vector_add"))
    slot_a, slot_b = packed(dev, prg, bufs, (9,)), straight_line(dev, prg, bufs, (9,))
    assert without_addresses(recorder.streams[0]) == without_addresses(recorder.streams[1])
    assert slot_a[: prg.bank0_bytes] == slot_b[: prg.bank0_bytes]
    first, second = (decode_qmd(slot[prg.qmd_offset :][:256]) for slot in (slot_a, slot_b))
    for field in ("CONSTANT_BUFFER_ADDR_LOWER[0]", "RELEASE0_PAYLOAD_LOWER"):
        assert first.pop(field) != second.pop(field)
    assert first == second


def test_the_arguments_lie_where_the_parameters_are(dev, recorder):
    bufs = [dev.alloc(4096), dev.alloc(4096), dev.alloc(4096)]
    prg = dev.program(shipped_kernel("sm_86", "vector_add"))
    slot = packed(dev, prg, bufs, (0x12345678,))
    assert struct.unpack_from("<3QI", slot, 0x160) == (*(buf.va_addr for buf in bufs), 0x12345678)
    assert struct.unpack_from("<6I", slot, 0) == (*BLOCK, *GRID)
    assert struct.unpack_from("<2QI", slot, 0x18) == (0x729400000000, 0x729300000000, 0xFFFDC0)
    assert struct.unpack_from("<I", slot, 0x114) == (0x400,)
