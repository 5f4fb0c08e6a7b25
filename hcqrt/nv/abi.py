"""Which struct layouts a driver version takes: per struct, by full version, per device."""

from __future__ import annotations

import re
import warnings
from ctypes import sizeof
from functools import cache
from typing import Any

from hcqrt.autogen.nv import ioctls, layout
from hcqrt.errors import DriverError
from hcqrt.ioctl import Ioctl, iowr

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """ "580.95.05" -> (580, 95, 5). Raises ValueError."""
    if not re.fullmatch(r"\d+(\.\d+){1,3}", text):
        raise ValueError(f"{text!r} is not a driver version such as 580.95.05")
    return tuple(int(part) for part in text.split("."))


def wanted_version(driver: str, override: str) -> Version:
    """The version whose layouts are asked for; a bare branch such as (580,) only as an override. Raises DriverError."""
    if override.isascii() and override.isdigit():
        return (int(override),)
    try:
        return parse_version(override or driver)
    except ValueError as error:
        where = f"HCQRT_NV_ABI: {error}, nor a branch such as 580" if override else str(error)
        raise DriverError(f"driver {driver}: {where}") from error


def version_text(version: Version) -> str:
    return ".".join([str(version[0]), *(f"{part:02}" for part in version[1:])])


@cache
def known_releases() -> tuple[Version, ...]:
    """Every release at which some struct that hcqrt knows got its layout, ascending."""
    from hcqrt.autogen.nv.structs import LAYOUTS

    return tuple(sorted({first for layouts in LAYOUTS.values() for first, _ in layouts}))


def choose_release(driver: str, override: str) -> Version:
    """The release whose layouts to use for `driver`: its own, or the newest known of its branch with one warning.

    Raises:
        DriverError: the branch is unknown; the text says which are known and how to go on all the same.
    """
    releases = known_releases()
    branches = sorted({release[0] for release in releases})
    wanted = wanted_version(driver, override)
    if wanted in releases:
        return wanted
    in_branch = [release for release in releases if release[0] == wanted[0]]
    if in_branch and len(wanted) == 1:
        return in_branch[-1]
    if not in_branch:
        age = (
            "too old"
            if wanted[0] < branches[0]
            else "newer than any known ABI"
            if wanted[0] > branches[-1]
            else "unknown"
        )
        raise DriverError(
            f"driver {driver} is {age} (known branches: {', '.join(map(str, branches))}); "
            f"set HCQRT_NV_ABI={version_text(releases[-1])} to try the closest"
        )
    warnings.warn(
        f"driver {driver}: this release is not in hcqrt's tables; using the layouts of {version_text(in_branch[-1])}",
        RuntimeWarning,
        stacklevel=2,
    )
    return max(wanted, in_branch[0])


class Abi:
    """The layouts and calls of one release."""

    def __init__(self, driver: str, override: str = "") -> None:
        self.driver = driver  # what runs, for error texts
        self.release = choose_release(driver, override)
        self._calls: dict[str, Ioctl[Any]] = {}

    def struct(self, name: str) -> Any:
        """The ctypes class of a struct at this release."""
        return layout(name, self.release)

    def escape(self, name: str) -> Ioctl[Any]:
        """An RM escape: a sized ioctl of type 'F'."""
        if name not in self._calls:
            nr, struct_name = ioctls.ESCAPES[name]
            struct = self.struct(str(struct_name))
            self._calls[name] = Ioctl(name, iowr("F", nr, sizeof(struct)), struct)
        return self._calls[name]

    def uvm(self, name: str) -> Ioctl[Any]:
        """A UVM call: the number carries no size."""
        if name not in self._calls:
            request, struct_name = ioctls.UVM[name]
            self._calls[name] = Ioctl(name, request, self.struct(str(struct_name)), sized=False)
        return self._calls[name]

    def control(self, name: str) -> tuple[int, Any]:
        """(command, params struct or None) of an RM control."""
        command, struct_name = ioctls.CONTROLS[name]
        return command, None if struct_name is None else self.struct(struct_name)

    def alloc_class(self, name: str) -> tuple[int, Any]:
        """(class number, alloc params struct or None) of an RM class."""
        number, struct_name = ioctls.CLASSES[name]
        return number, None if struct_name is None else self.struct(struct_name)
