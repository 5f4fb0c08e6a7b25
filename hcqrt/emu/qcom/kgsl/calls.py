"""Read a KGSL ioctl: by its number alone, into a record of the kernel's size, as the driver's dispatcher does."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts, kgsl_structs
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.user import UserMemory
from hcqrt.emu.trace import Call
from hcqrt.ioctl import IOC_READ, IOC_WRITE, Ioctl, ioc_size

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

PREFIX = "IOCTL_KGSL_"
Run = Callable[[Any, Any], None]
HANDLERS: dict[int, Run] = {}
PROPERTY_NAMES = {
    value: name for name, value in vars(kgsl_consts).items() if name.startswith("KGSL_PROP_")
}  # fmt: skip
PROPERTY_STRUCTS: dict[int, type[ctypes.Structure]] = {
    kgsl_consts.KGSL_PROP_DEVICE_INFO: kgsl_structs.kgsl_devinfo,
    kgsl_consts.KGSL_PROP_DEVICE_SHADOW: kgsl_structs.kgsl_shadowprop,
    kgsl_consts.KGSL_PROP_VERSION: kgsl_structs.kgsl_version,
    kgsl_consts.KGSL_PROP_PWR_CONSTRAINT: kgsl_structs.kgsl_device_constraint,
    kgsl_consts.KGSL_PROP_UCODE_VERSION: kgsl_structs.kgsl_ucode_version,
    kgsl_consts.KGSL_PROP_CONTEXT_PROPERTY: kgsl_structs.kgsl_context_property,
    kgsl_consts.KGSL_PROP_GPU_MODEL: kgsl_structs.kgsl_gpu_model,
}


@dataclass
class KgslCall(Call):
    """An ioctl and the caller's record; `raw` is None when the record cannot be read."""

    nr: int = 0
    raw: bytes | None = None


def handles(ioctl: Ioctl[Any]) -> Callable[[Run], Run]:
    """Register what answers an ioctl. It changes the record it is given, and raises OSError to refuse."""

    def register(run: Run) -> Run:
        HANDLERS[ioctl.request & 0xFF] = run
        return run

    return register


def short_name(name: str) -> str:
    return name.removeprefix(PREFIX)


def read_call(user: UserMemory, request: int, argument: int) -> KgslCall:
    """Names and structs of a request; unknown numbers keep theirs as their name."""
    nr, size = request & 0xFF, ioc_size(request)
    ioctl = k.IOCTLS.get(nr)
    if ioctl is None:
        return KgslCall(f"ioctl {request:#x}", request, None, numbers=(nr,), nr=nr)
    known = ctypes.sizeof(ioctl.struct)
    copied = min(size, known)
    raw = user.peek(argument, copied)
    struct = ioctl.struct if copied == known and raw is not None else None
    call = KgslCall(ioctl.name, request, struct, numbers=(nr,), aliases=(short_name(ioctl.name),), nr=nr, raw=raw)
    if struct is not None and raw is not None:
        read_inner(user, call, struct.from_buffer_copy(raw))
    return call


def read_inner(user: UserMemory, call: KgslCall, a: Any) -> None:
    """Fill in what a record's pointer leads to, where that says what the call is about."""
    struct: type[ctypes.Structure] | None = None
    address = 0
    if call.nr in (k.DEVICE_GETPROPERTY.request & 0xFF, k.SETPROPERTY.request & 0xFF):
        call.inner_name = PROPERTY_NAMES.get(a.type, f"property {a.type:#x}")
        call.aliases = (*call.aliases, call.inner_name.removeprefix("KGSL_PROP_"))
        struct, address = PROPERTY_STRUCTS.get(a.type), a.value
        if struct is not None and a.sizebytes != ctypes.sizeof(struct):
            struct = None
    elif call.nr == k.GPU_COMMAND.request & 0xFF and a.numcmds:
        struct, address = kgsl_structs.kgsl_command_object, a.cmdlist
    if struct is not None and user.peek(address, ctypes.sizeof(struct)) is not None:
        call.inner_struct, call.inner_address = struct, address


def run_call(file: KgslFile, call: KgslCall, argument: int) -> None:
    """Dispatch; results go back to the caller only when nothing was refused."""
    driver = file.driver
    run = HANDLERS.get(call.nr)
    if run is None or call.nr in driver.options.missing_ioctls:
        if run is None:
            driver.refusals.append(f"{call.name} on {file.path} (nr {call.nr:#x})")
        refuse(errno_codes.ENOTTY, f"{short_name(call.name)}: this kernel has no such ioctl")
    if call.raw is None:
        refuse(errno_codes.EFAULT, f"{short_name(call.name)}: record at {argument:#x} cannot be read")
    ioctl: Any = k.IOCTLS[call.nr]
    known = ctypes.sizeof(ioctl.struct)
    both = ioctl.request >> 30 & call.request >> 30
    given = call.raw if both & IOC_WRITE else b""
    record = ioctl.struct.from_buffer_copy(given.ljust(known, b"\0"))
    run(file, record)
    if both & IOC_READ:
        driver.user.write(argument, bytes(record)[: min(known, ioc_size(call.request))])
