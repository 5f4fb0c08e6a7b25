"""Fence file descriptors: real ones of this process, so that poll and close work on them as on sync files."""

from __future__ import annotations

import contextlib
import errno as errno_codes
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hcqrt.emu.files import LiveObject
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.where import Where, caller

OPEN_FILES = "/proc/self/fd"
Key = tuple[int, int]


def no_action() -> None:
    return None


@dataclass(eq=False)
class Fence:
    """One fence. The driver's end of a socket pair makes the caller's end readable, or reset where it failed."""

    name: str
    driver_end: socket.socket
    key: Key  # device and inode of the caller's end: what finds it again from any descriptor of it
    state: int = 0  # 0 pending, 1 signalled, -1 failed
    actions: list[Callable[[], None]] = field(default_factory=list)
    cancel: Callable[[], None] = no_action  # what waits for it elsewhere
    where: Where = field(default_factory=caller)

    @property
    def done(self) -> bool:
        return self.state != 0

    def when_done(self, action: Callable[[], None]) -> None:
        if self.done:
            action()
        else:
            self.actions.append(action)

    def finish(self, *, failed: bool = False) -> None:
        """Signal it: poll says POLLIN, and POLLERR as well when it failed."""
        if self.done:
            return
        self.state = -1 if failed else 1
        self.cancel = no_action
        if failed:
            self.driver_end.close()  # with a byte unread on this side: the other one sees a reset connection
        else:
            with contextlib.suppress(BrokenPipeError):  # the caller closed his end, so nobody looks
                self.driver_end.send(b"\1")
        actions, self.actions = self.actions, []
        for action in actions:
            action()


class Fences:
    """Every fence whose descriptor is still open somewhere in this process."""

    def __init__(self) -> None:
        self._all: dict[Key, Fence] = {}

    def create(self, name: str) -> tuple[Fence, int]:
        """A pending fence and the caller's descriptor for it."""
        self.forget_closed()
        driver_end, user_end = socket.socketpair()
        user_end.send(b"\0")
        fd = user_end.detach()
        status = os.fstat(fd)
        fence = Fence(name, driver_end, (status.st_dev, status.st_ino))
        self._all[fence.key] = fence
        return fence, fd

    def find(self, fd: int) -> Fence:
        """The fence behind a descriptor. Raises OSError EBADF or EINVAL."""
        try:
            status = os.fstat(fd)
        except (OSError, OverflowError):
            refuse(errno_codes.EBADF if fd >= 0 else errno_codes.EINVAL, f"fence fd {fd} is not open")
        found = self._all.get((status.st_dev, status.st_ino))
        if found is None:
            refuse(errno_codes.EINVAL, f"fd {fd} is no fence")
        return found

    def forget_closed(self) -> None:
        """Drop fences that nobody can look at any more, unless something waits for them."""
        if not self._all:
            return
        keys: set[Key] = set()
        for name in os.listdir(OPEN_FILES):
            try:
                status = os.fstat(int(name))
            except OSError:  # the listing's own descriptor
                continue
            keys.add((status.st_dev, status.st_ino))
        for key in [key for key, fence in self._all.items() if key not in keys and not fence.actions]:
            fence = self._all.pop(key)
            fence.cancel()
            fence.cancel = no_action
            fence.driver_end.close()

    def live(self) -> Iterator[LiveObject]:
        self.forget_closed()
        for fence in self._all.values():
            yield LiveObject("fence", fence.name, fence.where)

    def close(self) -> None:
        for fence in self._all.values():
            fence.driver_end.close()
        self._all.clear()
