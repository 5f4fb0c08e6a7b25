"""`hcqrt info`: the GPUs found, usable or not, and why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from hcqrt.errors import DeviceNotFound
from hcqrt.fileio import System
from hcqrt.opening import devices, parse_name


def run_info(system: System, names: Sequence[str], *, as_json: bool) -> int:
    """All GPUs, or those named. Raises DeviceNotFound for one that is not there."""
    found = devices(system)
    if names:
        by_name = {info.name: info for info in found}
        wanted = ["{}:{}".format(*parse_name(name)) for name in names]
        missing = [name for name in wanted if name not in by_name]
        if missing:
            raise DeviceNotFound(f"no device {', '.join(missing)}; there are {', '.join(by_name) or 'none'}")
        found = [by_name[name] for name in wanted]
    if as_json:
        print(json.dumps({"system": system.name, "devices": [asdict(info) for info in found]}, indent=1))
        return 0
    print(f"{system.name} machine: {len(found)} GPU{'' if len(found) == 1 else 's'}")
    for info in found:
        state = "usable" if info.usable else f"not usable: {info.reason}"
        print(f"{info.name:6} {info.arch:8} {info.model}  driver {info.driver}  {info.uuid}  {info.pci}  {state}")
    return 0
