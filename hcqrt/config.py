"""HCQRT_* settings, read once when a device is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from hcqrt.bits import is_pow2


def _integer(environ: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text, 0)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not an integer") from None
    if value < least:
        raise ValueError(f"{name}={value}: the least is {least}")
    return value


@dataclass(frozen=True)
class Config:
    """The settings of one device. Source: the table of settings in README.md."""

    system: str = ""  # HCQRT_SYSTEM
    visible_devices: str | None = None  # HCQRT_VISIBLE_DEVICES, None: all
    cuda_visible_devices: str | None = None  # CUDA_VISIBLE_DEVICES, honoured for NV only
    nv_abi: str = ""  # HCQRT_NV_ABI: driver version whose layouts to use instead of the running one's
    wait_timeout_ms: int = 30_000  # HCQRT_WAIT_TIMEOUT_MS: a wait without progress for this long fails
    ring_entries: int = 1024  # HCQRT_RING_ENTRIES: entries of a channel's ring, a power of two
    cmd_bytes: int = 2 << 20  # HCQRT_CMD_BYTES: command memory of a channel
    cache: bool = True  # HCQRT_CACHE=0: return freed device memory to the driver at once
    emu_threads: int = 1  # HCQRT_EMU_THREADS: read by the emulator

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Config:
        """Read the settings; raises ValueError naming the variable when one is malformed."""
        env = os.environ if environ is None else environ
        entries = _integer(env, "HCQRT_RING_ENTRIES", cls.ring_entries, 4)
        if not is_pow2(entries):
            raise ValueError(f"HCQRT_RING_ENTRIES={entries} is not a power of two")
        return cls(
            system=env.get("HCQRT_SYSTEM", ""),
            visible_devices=env.get("HCQRT_VISIBLE_DEVICES"),
            cuda_visible_devices=env.get("CUDA_VISIBLE_DEVICES"),
            nv_abi=env.get("HCQRT_NV_ABI", "").strip(),
            wait_timeout_ms=_integer(env, "HCQRT_WAIT_TIMEOUT_MS", cls.wait_timeout_ms, 1),
            ring_entries=entries,
            cmd_bytes=_integer(env, "HCQRT_CMD_BYTES", cls.cmd_bytes, 16 << 10),
            cache=_integer(env, "HCQRT_CACHE", 1, 0) != 0,
            emu_threads=_integer(env, "HCQRT_EMU_THREADS", 1, 1),
        )
