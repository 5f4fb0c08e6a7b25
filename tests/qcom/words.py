"""Command words of the tests, written by hand from qcom facts 2: no encoder of the project."""

from __future__ import annotations

from typing import Any


def mem_write(va: int, *data: int) -> list[int]:
    """CP_MEM_WRITE of one or two words: golden headers 703D8003 and, by the same parities, 703D0004."""
    return [{1: 0x703D8003, 2: 0x703D0004}[len(data)], va & 0xFFFF_FFFF, va >> 32, *data]


def nop(payload: int, word: int = 0) -> list[int]:
    """CP_NOP with that many words, at most 15: opcode 10 has one bit, so its parity bit is clear."""
    odd = 1 ^ payload.bit_count() & 1
    return [0x7010_0000 | odd << 15 | payload, *[word] * payload]


def on_timeline(dev: Any, *words: int) -> Any:
    """A queue that runs the words between the timeline's last value and its next, not submitted."""
    value = dev.next_timeline()
    return dev.compute_queue().wait(dev.timeline_signal, value - 1).q(*words).signal(dev.timeline_signal, value)


def entries(system: Any, name: str) -> list[Any]:
    """The log's entries of an ioctl: (t, path, name, inner, fields in, fields out, errno, status)."""
    return [entry for entry in system.ioctl_log if entry[2] == f"IOCTL_KGSL_{name}"]
