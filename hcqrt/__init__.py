"""hcqrt: GPU kernels with nothing between Python and the kernel driver. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.core.device import HCQDevice
    from hcqrt.core.info import DeviceInfo
    from hcqrt.core.program import HCQProgram
    from hcqrt.core.queue import HWQueue
    from hcqrt.core.signal import HCQSignal
    from hcqrt.core.sints import Variable
    from hcqrt.errors import (
        BinaryError,
        DeviceFault,
        DeviceNotFound,
        DriverError,
        HCQError,
        IoctlError,
        LaunchError,
        OutOfMemory,
        RMError,
        SignalTimeout,
        UVMError,
    )
    from hcqrt.fileio import System
    from hcqrt.opening import devices, open_device

_HOMES = {
    "hcqrt.errors": (
        "BinaryError", "DeviceFault", "DeviceNotFound", "DriverError", "HCQError", "IoctlError", "LaunchError",
        "OutOfMemory", "RMError", "SignalTimeout", "UVMError",
    ),
    "hcqrt.core.buffer": ("HCQBuffer",),
    "hcqrt.core.device": ("HCQDevice",),
    "hcqrt.core.info": ("DeviceInfo",),
    "hcqrt.core.program": ("HCQProgram",),
    "hcqrt.core.queue": ("HWQueue",),
    "hcqrt.core.signal": ("HCQSignal",),
    "hcqrt.core.sints": ("Variable",),
    "hcqrt.fileio": ("System",),
    "hcqrt.opening": ("devices", "open_device"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "BinaryError", "DeviceFault", "DeviceInfo", "DeviceNotFound", "DriverError", "HCQBuffer", "HCQDevice", "HCQError",
    "HCQProgram", "HCQSignal", "HWQueue", "IoctlError", "LaunchError", "OutOfMemory", "RMError", "SignalTimeout",
    "System", "UVMError", "Variable", "devices", "open_device",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hcqrt' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
