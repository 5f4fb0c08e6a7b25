"""A program: runs tinygrad's own Qualcomm driver on the emulated KGSL and Adreno, and prints what came of it as JSON.

Usage: tinygrad_driver_worker.py numbers|profile|strict. It never touches a real device.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.update(DEV="QCOM:IR3", PARALLEL="0", CCACHE="0", DEBUG="0", BEAM="0", JIT="1", IMAGE="0")
os.environ["PROFILE"] = "1" if sys.argv[1] == "profile" else "0"

import numpy as np
import tinygrad_machine
from tinygrad import Device
from tinygrad.helpers import Context
from tinygrad_workloads import GROUPS, Case

from hcqrt.emu.system import EmulatedSystem

RELATIVE = {"float32": 1e-4, "float16": 4e-3}
ABSOLUTE = {"float32": 1e-5, "float16": 4e-3}


def verdict(case: Case) -> str:
    """Empty when the device was right."""
    _, got, right = case
    right = np.asarray(right)
    kind = right.dtype.name
    if got.dtype != right.dtype or got.shape != right.shape:
        return f"{got.dtype} {got.shape}, expected {right.dtype} {right.shape}"
    wrong = ~np.isclose(got, right, RELATIVE.get(kind, 0), ABSOLUTE.get(kind, 0))
    if not wrong.any():
        return ""
    return f"{wrong.sum()} of {wrong.size} wrong, as {got[wrong].flat[0]} instead of {right[wrong].flat[0]}"


def numbers() -> dict[str, Any]:
    machine = EmulatedSystem(qcom="a630", strict=False)
    cleaned: list[tuple[int, int]] = []
    tinygrad_machine.install(machine, cleaned)
    with Context(IMAGE=1):  # asked when the device opens; the kernels ask again
        device: Any = Device["QCOM"]
    groups = {name: {case[0]: verdict(case) for case in group()} for name, group in GROUPS.items()}
    device.synchronize()
    return {
        "groups": groups,
        "refusals": machine.refusals,
        "gpu_log": machine.drivers[0].gpu.log,
        "stats": machine.stats(),
        "ioctls": sorted({name for _, _, name, *_ in machine.ioctl_log}),
        "failed": sorted({(name, number) for _, _, name, _, _, _, number, _ in machine.ioctl_log if number}),
        "cleaned": len(cleaned),
    }


MODES = {"numbers": numbers}
print(json.dumps(MODES[sys.argv[1]](), default=str))
