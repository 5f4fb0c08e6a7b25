"""Copies from buffer to buffer: within a device, between two by one's copy engine, or through host memory."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from hcqrt.errors import DriverError

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.core.device import HCQDevice

CHUNK_BYTES = 16 << 20  # of host memory that a copy between two devices takes


class Peers(Protocol):
    """Which other devices' memory one device can name in its copies."""

    def enable(self, other: HCQDevice) -> None:
        """Raises DriverError naming both GPUs."""

    def reaches(self, other: HCQDevice) -> bool:
        """Whether `enable` was called for that GPU, and went well."""

    def window(self, buffer: HCQBuffer) -> AbstractContextManager[HCQBuffer]:
        """A peer's buffer at an address of the device's own. Leave it only when no work uses it any more."""


class NoPeers:
    """Of a device whose driver knows nothing like it."""

    def __init__(self, dev: HCQDevice) -> None:
        self._dev = dev

    def enable(self, other: HCQDevice) -> None:
        raise no_peers(self._dev, other)

    def reaches(self, other: HCQDevice) -> bool:
        return False

    def window(self, buffer: HCQBuffer) -> AbstractContextManager[HCQBuffer]:
        raise DriverError(f"{self._dev.name} has no peers")


def no_peers(dev: HCQDevice, other: HCQDevice) -> DriverError:
    """The error for two devices that no driver joins."""
    return DriverError(
        f"no driver lets {dev.identity} reach the memory of {other.identity}; "
        "leave enable_peer out: copies between them then go through host memory"
    )


def copy_between(dest: HCQBuffer, src: HCQBuffer) -> None:
    """Copy all of `src` to the start of `dest`, after the earlier work of both devices, before the later."""
    here, there = dest._placed(), src._placed()
    if src.size > dest.size:
        raise ValueError(f"{src.size} bytes do not fit the buffer of {dest.size}")
    if here is there:
        if dest.va_addr < src.va_addr + src.size and src.va_addr < dest.va_addr + src.size:
            raise ValueError(f"{dest!r} and {src!r} overlap; copy through another buffer")
        here.copy(dest, src)
    elif dest.memory is None or src.memory is None:  # only an address
        through_host(dest, src)
    elif here.peers.reaches(there):
        by_one_engine(here, there, dest, src)
    elif there.peers.reaches(here):
        by_one_engine(there, here, dest, src)
    else:
        through_host(dest, src)


def through_host(dest: HCQBuffer, src: HCQBuffer) -> None:
    """Read what `src` holds once the earlier work of its device is done, and write it to `dest`."""
    if dest.image is not None or src.image is not None:  # images have no parts
        dest.copyin(src.copyout())
        return
    chunk = memoryview(bytearray(min(CHUNK_BYTES, src.size)))
    for done in range(0, src.size, CHUNK_BYTES):
        data = chunk[: src.size - done]
        src.offset(done, len(data)).copyout(data)
        dest.offset(done, len(data)).copyin(data)


def by_one_engine(engine: HCQDevice, other: HCQDevice, dest: HCQBuffer, src: HCQBuffer) -> None:
    """`engine` copies, and `other` rests meanwhile: neither has signals that the other's queues could wait for."""
    other.synchronize()
    theirs = src if src.dev is other else dest
    with engine.lock:
        engine.check_usable()
        with engine.peers.window(theirs) as window:
            engine.copy(*((dest, window) if theirs is src else (window, src)))
            engine.synchronize()
