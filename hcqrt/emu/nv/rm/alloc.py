"""NV_ESC_RM_ALLOC: find the class, read its parameters as the driver would, make the object."""

from __future__ import annotations

import errno as errno_codes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.nv import consts as c
from hcqrt.autogen.nv.ioctls import CLASSES
from hcqrt.autogen.nv.status import (
    NV_ERR_INVALID_ARGUMENT,
    NV_ERR_INVALID_CLASS,
    NV_ERR_INVALID_CLIENT,
    NV_ERR_OBJECT_NOT_FOUND,
)
from hcqrt.emu.files import os_error
from hcqrt.emu.nv.abi import Refused, class_names, read_struct, write_struct
from hcqrt.emu.nv.chips import Chip
from hcqrt.emu.nv.rm import channels, confidential, memory, resources
from hcqrt.emu.nv.rm.calls import RmCall
from hcqrt.emu.nv.rm.tree import Client, Resource

if TYPE_CHECKING:
    from hcqrt.emu.nv.driver import NvDriver
    from hcqrt.emu.nv.rm.node import NvFile

ROOT_CLASSES = (c.NV01_ROOT, c.NV01_ROOT_NON_PRIV, c.NV01_ROOT_CLIENT)
EVENT_CLASSES = (c.NV01_EVENT, c.NV01_EVENT_OS_EVENT)  # the only ones that a device file may allocate


@dataclass
class Request:
    """One allocation: parameters are a copy, written back only when it succeeds."""

    driver: NvDriver
    client: Client
    parent: Resource
    handle: int
    number: int
    params: Any


Make = Callable[[Request], Resource]

# Class number -> (maker, whether NULL parameters are refused). Per-chip classes are added by `makers_of`.
COMMON: dict[int, tuple[Make, bool]] = {
    c.NV01_DEVICE_0: (resources.make_device, True),
    c.NV20_SUBDEVICE_0: (resources.make_subdevice, False),
    c.NV01_MEMORY_SYSTEM: (memory.make_sysmem, True),
    c.NV01_MEMORY_LOCAL_USER: (memory.make_vidmem, True),
    c.FERMI_VASPACE_A: (resources.make_va_space, True),
    c.FERMI_CONTEXT_SHARE_A: (channels.make_ctx_share, True),
    c.KEPLER_CHANNEL_GROUP_A: (channels.make_group, True),
    c.GT200_DEBUGGER: (resources.make_debugger, True),
    c.NV_CONFIDENTIAL_COMPUTE: (confidential.make_confidential, False),
}


def makers_of(chip: Chip) -> dict[int, tuple[Make, bool]]:
    """What can be allocated on a chip."""
    found = dict(COMMON)
    found |= dict.fromkeys(chip.usermode_classes, (resources.make_usermode, False))
    found |= dict.fromkeys(chip.channel_classes, (channels.make_channel, True))
    found |= dict.fromkeys((*chip.compute_classes, *chip.copy_classes), (channels.make_engine_object, False))
    return found


def alloc_object(file: NvFile, a: Any, call: RmCall) -> None:
    """NV_ESC_RM_ALLOC with either of its structs."""
    driver = file.driver
    if file.kind != "ctl" and a.hClass not in EVENT_CLASSES:
        raise os_error(errno_codes.EINVAL, f"RM_ALLOC of {call.inner_name} on {file.path}: use the control node")
    if a.hClass in ROOT_CLASSES:
        alloc_client(file, a)
        return
    client = driver.clients.get(a.hRoot)
    if client is None or client.file is not file.ctl:
        raise Refused(NV_ERR_INVALID_CLIENT, f"client {a.hRoot:#x} does not belong to this file")
    parent = client.objects.get(a.hObjectParent)
    if parent is None:
        raise Refused(NV_ERR_OBJECT_NOT_FOUND, f"parent {a.hObjectParent:#x} does not exist")
    make, needs_params = maker_for(driver, parent, a.hClass)
    struct_name = next((CLASSES[name][1] for name in class_names()[a.hClass] if name in CLASSES), None)
    params = None
    if struct_name is not None and a.pAllocParms:
        # the driver copies its own size from the pointer, whatever paramsSize says
        params = read_struct(driver.abi.struct(struct_name), a.pAllocParms)
    elif needs_params:
        raise Refused(NV_ERR_INVALID_ARGUMENT, f"class {a.hClass:#x} needs parameters")
    request = Request(driver, client, parent, client.new_handle(a.hObjectNew), a.hClass, params)
    client.add(make(request))
    a.hObjectNew = request.handle
    if params is not None:
        write_struct(params, a.pAllocParms)


def maker_for(driver: NvDriver, parent: Resource, number: int) -> tuple[Make, bool]:
    """The maker of a class, refused when the driver, the chip or this emulator does not have it."""
    device = parent.ancestor(resources.Device)
    chip = device.board.chip if device is not None else None
    makers = makers_of(chip) if chip is not None else COMMON
    if number in makers:
        return makers[number]
    driver.refusals.append(f"RM_ALLOC of class {number:#x} ({', '.join(class_names().get(number, ('unknown',)))})")
    raise Refused(NV_ERR_INVALID_CLASS, f"class {number:#x} is not on this chip or not emulated")


def alloc_client(file: NvFile, a: Any) -> None:
    """A root object: hRoot and parent are 0, RM picks the handle."""
    from hcqrt.emu.nv.rm.node import CtlFile

    assert isinstance(file, CtlFile), "checked by the caller: root classes are for the control node"
    if a.hRoot or a.hObjectParent or a.hObjectNew:
        file.driver.refusals.append(f"client with a handle of its own, {a.hObjectNew:#x}")
        raise Refused(NV_ERR_INVALID_ARGUMENT, "a client with chosen handles is not emulated")
    client = file.driver.new_client(file, c.NV01_ROOT_CLIENT)
    a.hRoot = a.hObjectNew = client.handle
