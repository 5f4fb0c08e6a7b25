"""NV_ESC_RM_CONTROL: find the command, check its size exactly, run it on the object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv.ioctls import CONTROLS
from hcqrt.autogen.nv.status import (
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_NOT_SUPPORTED,
    NV_ERR_OBJECT_NOT_FOUND,
)
from hcqrt.emu.nv.abi import Refused, control_names
from hcqrt.emu.nv.rm import confidential, controls_debug, controls_fifo, controls_gpu, controls_gr
from hcqrt.emu.nv.rm.tree import Client, Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver
    from hcqrt.emu.nv.rm.node import NvFile


@dataclass(frozen=True)
class Control:
    """A command: the kind of object it is for and what it does with (driver, object, parameters)."""

    on: type[Resource]
    run: Callable[[NvDriver, Any, Any], None]


TABLES = (controls_gpu.TABLE, controls_gr.TABLE, controls_fifo.TABLE, controls_debug.TABLE, confidential.TABLE)
HANDLERS = {name: Control(on, run) for table in TABLES for name, (on, run) in table.items()}


def control_object(file: NvFile, client: Client, a: Any) -> None:
    """Run a control; its parameters are read, checked and written in the caller's memory."""
    driver = file.driver
    target = client.objects.get(a.hObject)
    if target is None:
        raise Refused(NV_ERR_OBJECT_NOT_FOUND, f"object {a.hObject:#x} does not exist")
    name = control_names().get(a.cmd, "")
    if name and not driver.abi.has(name):
        raise Refused(NV_ERR_NOT_SUPPORTED, f"driver {driver.abi.text} has no control {a.cmd:#x} {name}")
    check_size(driver, name, a)
    handler = HANDLERS.get(name)
    if handler is None:
        driver.refusals.append(f"RM_CONTROL {a.cmd:#x} {name} on {target.class_name}")
        raise Refused(NV_ERR_NOT_SUPPORTED, f"control {a.cmd:#x} {name} is not emulated")
    if not isinstance(target, handler.on):
        raise Refused(NV_ERR_NOT_SUPPORTED, f"{name} is not a control of {target.class_name}")
    if a.flags:
        driver.refusals.append(f"RM_CONTROL {name} flags {a.flags:#x}")
        raise Refused(NV_ERR_NOT_SUPPORTED, f"control flags {a.flags:#x} are not emulated")
    struct_name = CONTROLS[name][1]
    assert struct_name is not None, "every control emulated here takes parameters"
    handler.run(driver, target, driver.abi.struct(struct_name).from_address(a.params))


def check_size(driver: NvDriver, name: str, a: Any) -> None:
    """The caller must send exactly the size that this version's parameters have, whoever would take the command."""
    if bool(a.paramsSize) != bool(a.params):
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"{a.paramsSize} bytes at {a.params:#x}")
    struct_name = CONTROLS[name][1] if name else None
    if struct_name is None:
        return
    size = driver.abi.size(struct_name)
    if a.paramsSize != size:
        raise Refused(driver.abi.control_size_status, f"{name}: {a.paramsSize} bytes sent, {size} expected")
