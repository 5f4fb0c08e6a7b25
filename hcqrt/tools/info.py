"""`hcqrt info`: the GPUs found, usable or not, and why not."""

from __future__ import annotations

import json
from dataclasses import asdict

from hcqrt.fileio import System
from hcqrt.opening import devices


def run_info(system: System, as_json: bool) -> int:
    found = devices(system)
    if as_json:
        print(json.dumps({"system": system.name, "devices": [asdict(info) for info in found]}, indent=1))
        return 0
    print(f"{system.name} machine: {len(found)} GPU{'' if len(found) == 1 else 's'}")
    for info in found:
        state = "usable" if info.usable else f"not usable: {info.reason}"
        print(f"{info.name:6} {info.arch:8} {info.model}  driver {info.driver}  {info.uuid}  {info.pci}  {state}")
    return 0
