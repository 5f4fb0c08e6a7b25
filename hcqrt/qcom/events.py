"""Cache events, which each generation writes its own way: forget, write back, store a value behind earlier work."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hcqrt.core.sints import lo_hi
from hcqrt.qcom.pm4 import command, payload, wait_for_idle

RELEASE_WORDS = 6  # of `CacheEvents.release`; the value is the last of them


@dataclass(frozen=True)
class CacheEvents:
    """How a generation writes events; `storing` is what the first word of one that stores a value says besides."""

    packet: str
    flush: int  # writes back what the GPU's caches hold
    invalidate: int  # forgets what they hold
    storing: Mapping[str, int] = field(default_factory=dict, hash=False)

    def forget(self) -> list[Any]:
        """Whatever is read from now on comes from memory."""
        return command(self.packet, payload(self.packet, 0, EVENT=self.invalidate))

    def flush_and_write(self, va: Any, value: Any) -> list[Any]:
        """Write back the GPU's caches, then store `value` (32 bits) at `va`."""
        return [*self._flush_head, *lo_hi(va), value]

    @functools.cached_property
    def _flush_head(self) -> tuple[Any, ...]:
        first = payload(self.packet, 0, EVENT=self.flush, **self.storing)
        return tuple(command(self.packet, first, 0, 0, 0)[:2])

    def release(self, va: Any, value: Any) -> list[Any]:
        """Store `value` (32 bits) at `va` once all earlier work is done and its writes are visible."""
        return wait_for_idle() + self.flush_and_write(va, value)
