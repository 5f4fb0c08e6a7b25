"""Versions for diagnostics: the running module's layouts, and the vendor's libraries where they differ from it."""

from __future__ import annotations

import re

from hcqrt.fileio import System
from hcqrt.nv.abi import find_release, version_text

LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d+(?:\.\d+)+)")
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def library_version(system: System) -> str:
    """The version in the file names of the vendor's user libraries; empty where there are none.

    Nothing is chosen by it: after an upgrade without a reboot the libraries are newer than the running module.
    """
    for folder in FOLDERS:
        for name in system.listdir(folder):
            found = LIBRARY.fullmatch(name)
            if found:
                return found.group(1)
    return ""


def version_report(system: System, driver: str, override: str) -> dict[str, str]:
    """`abi`: the release whose layouts are in use for a driver; `libraries`: their version if it is another."""
    report = {"abi": version_text(find_release(driver, override)[0])}
    libraries = library_version(system)
    if libraries and libraries != driver:
        report["libraries"] = libraries
    return report
