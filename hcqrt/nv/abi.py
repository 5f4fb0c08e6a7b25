"""Which struct layouts a driver version takes: per struct, by full version, per device."""

from __future__ import annotations

import re
import warnings
from ctypes import sizeof
from typing import Any

from hcqrt.autogen.nv import constant, ioctls, layout, status
from hcqrt.autogen.nv.releases import RELEASES
from hcqrt.errors import DriverError
from hcqrt.ioctl import Ioctl, iowr

Version = tuple[int, ...]
FIRST_MOVED_STATUS = 0x7C  # nvstatuscodes.h: all below are the same in every release


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


def find_release(driver: str, override: str) -> tuple[Version, bool]:
    """The release whose layouts to use for `driver`, and whether it is the very one that was asked for.

    An unknown patch takes the newest of its branch, and not the last one before its number: patches that the tables do
    not have are mostly newer, and a beta driver's number does not tell what it holds (550.40.53 has 550.54.14's).

    Raises:
        DriverError: the branch is unknown; the text says which are known and how to go on all the same.
    """
    wanted = wanted_version(driver, override)
    if wanted in RELEASES:
        return wanted, True
    in_branch = [release for release in RELEASES if release[0] == wanted[0]]
    if not in_branch:
        raise unknown_branch(driver, wanted)
    return in_branch[-1], len(wanted) == 1


def choose_release(driver: str, override: str) -> Version:
    """As find_release, with one warning for an unknown patch."""
    release, known = find_release(driver, override)
    if not known:
        named = f"HCQRT_NV_ABI={override}" if override else f"driver {driver}"
        warnings.warn(
            f"{named}: this release is not in hcqrt's tables; using the layouts of {version_text(release)}",
            RuntimeWarning,
            stacklevel=2,
        )
    return release


def unknown_branch(driver: str, wanted: Version) -> DriverError:
    """The error for a branch without layouts: older, newer, or left out."""
    oldest, newest = RELEASES[0][0], RELEASES[-1][0]
    branches = sorted({release[0] for release in RELEASES})
    age = "of no known branch"
    if not oldest <= wanted[0] <= newest:
        age = "too old" if wanted[0] < oldest else "newer than any known ABI"
    closest = max((branch for branch in branches if branch < wanted[0]), default=oldest)
    name = f"driver {driver}" if driver_branch(driver) == wanted[0] else f"driver {driver}: HCQRT_NV_ABI={wanted[0]}"
    return DriverError(
        f"{name} is {age}; known are {oldest} to {newest} (branches {', '.join(map(str, branches))}); "
        f"set HCQRT_NV_ABI={closest} to try the closest"
    )


def driver_branch(driver: str) -> int:
    """580 of "580.95.05"; -1 of what is no version."""
    first = driver.partition(".")[0]
    return int(first) if first.isascii() and first.isdigit() else -1


class Abi:
    """The layouts and calls of one release."""

    def __init__(self, driver: str, override: str = "") -> None:
        self.driver = driver  # what runs, for error texts
        self.release = choose_release(driver, override)
        own = version_text(self.release) == driver
        self.text = f"driver {driver}" + ("" if own else f" with the layouts of {version_text(self.release)}")
        self.classes = dict(ioctls.CLASSES)  # and those that a generation brings along
        self._calls: dict[str, Ioctl[Any]] = {}

    def status_name(self, code: int) -> str:
        """The name of a status at this release (some have moved); empty where no release has it."""
        name = status.NV_STATUS.get(code, "")
        if code < FIRST_MOVED_STATUS or not name or constant(name, self.release) == code:
            return name
        names = (n for n in vars(status) if n.startswith("NV_ERR_"))
        return next((n for n in names if constant(n, self.release) == code), name)

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
        number, struct_name = self.classes[name]
        return number, None if struct_name is None else self.struct(struct_name)
