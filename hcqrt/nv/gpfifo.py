"""Handing command words to a channel: ring entry, GP_PUT, doorbell."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import clc56f as host
from hcqrt.bits import is_pow2
from hcqrt.core.channel import RingChannel
from hcqrt.core.signal import HCQSignal
from hcqrt.core.sints import Sint, lo_hi
from hcqrt.nv.methods import RELEASE, header, method_count

if TYPE_CHECKING:
    from hcqrt.nv.device import NVDevice

VA_LIMIT = 1 << 40  # clc56f.h NVC56F_GP_ENTRY1_GET_HI 7:0: command words lie below this
WORDS_MAX = (1 << 21) - 1  # NVC56F_GP_ENTRY1_LENGTH 30:10
LENGTH_SHIFT = 42
DOORBELL_WORD = 0x90 // 4  # clc461.h: NOTIFY_CHANNEL_PENDING
PROGRESS_HEADER = header(0, host.NVC56F_SEM_ADDR_LO, 5)


def pushbuffer_entry(va: int, words: int) -> int:
    """Encode one 64-bit GPFIFO entry that runs `words` 32-bit words at `va`.

    Args:
        va: GPU address, 4-byte aligned, below 2**40.
        words: length, 1 to 2**21 - 1.
    Raises:
        ValueError: an argument is out of range or misaligned; nothing was written.
    Source: clc56f.h, NVC56F_GP_ENTRY0_GET, NVC56F_GP_ENTRY1_GET_HI and NVC56F_GP_ENTRY1_LENGTH.
    """
    if va % 4 or not 0 <= va < VA_LIMIT:
        raise ValueError(f"pushbuffer at {va:#x}: needs 4-byte alignment below 2**40")
    if not 1 <= words <= WORDS_MAX:
        raise ValueError(f"pushbuffer at {va:#x}: {words} words, allowed are 1 to {WORDS_MAX}")
    return va | words << LENGTH_SHIFT


class GpFifo(RingChannel):
    """The submitting side of one channel.

    The progress value counts ring entries. So the entry index known to be retired is the progress value itself,
    whatever GP_GET says (it may be stale, and is gone on Blackwell), and a ring of n entries holds at most n - 1.
    """

    COMMAND_MEMORY = (False, True, False, True)  # on the device, mapped for the host, below 2**40
    WORDS_MAX = WORDS_MAX
    PROGRESS_WORDS, PAYLOAD_FROM_END = 6, 3  # payload low and high are the last words but the execute word

    def __init__(
        self,
        dev: NVDevice,
        *,
        ring: Any,
        gp_put: Any,
        entries: int,
        token: int,
        doorbell: Any,
        progress: HCQSignal,
        cmd_bytes: int,
    ) -> None:
        if not is_pow2(entries):
            raise ValueError(f"a ring of {entries} entries is no power of two")
        super().__init__(dev, progress=progress, cmd_bytes=cmd_bytes, room=entries - 1)
        self._ring, self._gp_put, self._doorbell, self._token = ring, gp_put, doorbell, token
        self._mask = entries - 1

    def progress_words(self, progress: Sint) -> list[Any]:
        return [PROGRESS_HEADER, *lo_hi(self.progress.value_va), *lo_hi(progress), RELEASE]

    def progress_packer(self) -> Callable[[memoryview, int, int], None]:
        return struct.Struct("<Q").pack_into

    def command_words(self, word: int) -> int:
        return 1 + method_count(word)

    def check_place(self, va: int, nwords: int) -> None:
        pushbuffer_entry(va, nwords)

    def _kick(self, va: int, nwords: int) -> None:
        """Order: words and entry, fence, GP_PUT, fence, doorbell. Source: nv-engine facts 1.5, dev_pbdma.ref.txt."""
        submitted = self.submitted
        put = (submitted + 1) & self._mask
        self._ring[submitted & self._mask] = va | nwords << LENGTH_SHIFT
        self.submitted = submitted + 1
        try:
            self._fence()
            self._gp_put[0] = put
            self._fence()
            self._doorbell[DOORBELL_WORD] = self._token
        except KeyboardInterrupt:  # half done would be neither submitted nor not: finish, then let it through
            self._fence()
            self._gp_put[0] = put
            self._fence()
            self._doorbell[DOORBELL_WORD] = self._token
            raise
