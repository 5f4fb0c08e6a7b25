"""GETPROPERTY and SETPROPERTY. Source: qcom.md §1.4 and §1.9."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import (
    kgsl_capabilities,
    kgsl_capabilities_properties,
    kgsl_context_property,
    kgsl_context_property_fault,
    kgsl_device_constraint,
    kgsl_device_constraint_pwrlevel,
    kgsl_devinfo,
    kgsl_gpu_model,
    kgsl_qtimer_prop,
    kgsl_shadowprop,
    kgsl_ucode_version,
    kgsl_version,
)
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.errors import refuse
from hcqrt.emu.qcom.kgsl.ranges import ORDINARY, VA_BITS

if TYPE_CHECKING:
    from hcqrt.emu.qcom.driver import QcomDriver
    from hcqrt.emu.qcom.kgsl.node import KgslFile

DEVICE_ID = 1  # the only GPU
MEMSTORE_COOKIE = 0xFC00_0000_0000  # not an address: what mmap takes to show the memstore
DRIVER_MINOR = 1
UCHE_GMEM_BASE = 0x10_0000  # where shaders would see GMEM
UCHE_TRAP_BASE = 0x1_FFFF_FFFF_F000
UCODE = (0x016E_5193, 0x016D_D112)  # versions of the command processor's firmware: any will do
UBWC_2_0 = 2
MIN_ACCESS_BYTES = 32
MAX_POWER_LEVEL = 1  # KGSL_CONSTRAINT_PWR_MAX
U32, U64 = ctypes.c_uint32, ctypes.c_uint64


def raw32(value: int) -> bytes:
    return bytes(U32(value))


def raw64(value: int) -> bytes:
    return bytes(U64(value))


def device_info(driver: QcomDriver) -> bytes:
    options = driver.options
    return bytes(
        kgsl_devinfo(
            device_id=DEVICE_ID, chip_id=options.chip_id, mmu_enabled=1, gpu_id=options.gpu_id,
            gmem_sizebytes=options.chip.gmem_bytes,
        )
    )  # fmt: skip


def device_shadow(driver: QcomDriver) -> bytes:
    flags = c.KGSL_FLAGS_INITIALIZED | c.KGSL_FLAGS_PER_CONTEXT_TIMESTAMPS
    return bytes(kgsl_shadowprop(gpuaddr=MEMSTORE_COOKIE, size=driver.memstore.nbytes, flags=flags))


# What the Adreno part of the driver answers; newer kernels copy the shorter of both sizes
SIMPLE: dict[int, Callable[[QcomDriver], bytes]] = {
    c.KGSL_PROP_DEVICE_INFO: device_info,
    c.KGSL_PROP_DEVICE_SHADOW: device_shadow,
    c.KGSL_PROP_MMU_ENABLE: lambda driver: raw32(1),
    c.KGSL_PROP_UCHE_GMEM_VADDR: lambda driver: raw64(UCHE_GMEM_BASE),
    c.KGSL_PROP_UCODE_VERSION: lambda driver: bytes(kgsl_ucode_version(*UCODE)),
    c.KGSL_PROP_HIGHEST_BANK_BIT: lambda driver: raw32(driver.options.chip.highest_bank_bit),
    c.KGSL_PROP_DEVICE_BITNESS: lambda driver: raw32(VA_BITS),
    c.KGSL_PROP_MIN_ACCESS_LENGTH: lambda driver: raw32(MIN_ACCESS_BYTES),
    c.KGSL_PROP_UBWC_MODE: lambda driver: raw32(UBWC_2_0),
    c.KGSL_PROP_DEVICE_QTIMER: lambda driver: bytes(kgsl_qtimer_prop()),
    c.KGSL_PROP_SPEED_BIN: lambda driver: raw32(0),
    c.KGSL_PROP_GPU_MODEL: lambda driver: bytes(kgsl_gpu_model(driver.options.model.encode("ascii"))),
    c.KGSL_PROP_VK_DEVICE_ID: lambda driver: raw32(driver.options.chip_id),
    c.KGSL_PROP_IS_LPAC_ENABLED: lambda driver: raw32(driver.options.chip.lpac),
    c.KGSL_PROP_IS_RAYTRACING_ENABLED: lambda driver: raw32(0),
    c.KGSL_PROP_UCHE_TRAP_BASE: lambda driver: raw64(UCHE_TRAP_BASE),
    c.KGSL_PROP_IS_AQE_ENABLED: lambda driver: raw32(0),
}


def exact(a: Any, nbytes: int, what: str) -> None:
    if a.sizebytes != nbytes:
        refuse(errno_codes.EINVAL, f"{what}: {a.sizebytes} bytes, the property has {nbytes}")


def get_version(file: KgslFile, a: Any) -> None:
    version = kgsl_version(c.KGSL_VERSION_MAJOR, c.KGSL_VERSION_MINOR, c.KGSL_VERSION_MAJOR, DRIVER_MINOR)
    exact(a, ctypes.sizeof(version), "version")
    file.driver.user.write(a.value, version)


def get_reset_status(file: KgslFile, a: Any) -> None:
    """In: a context's id. Out: what happened to it; reading clears it."""
    exact(a, 4, "reset status")
    context = file.context(U32.from_buffer_copy(file.driver.user.read(a.value, 4)).value, "reset status")
    status, context.reset_status = context.reset_status, c.KGSL_CTX_STAT_NO_ERROR
    file.driver.user.write(a.value, raw32(status))


def get_va64_size(file: KgslFile, a: Any) -> None:
    exact(a, 8, "size of GPU addresses")
    file.driver.user.write(a.value, raw64(ORDINARY[1] - ORDINARY[0]))


def get_context_property(file: KgslFile, a: Any) -> None:
    exact(a, ctypes.sizeof(kgsl_context_property), "context property")
    user = file.driver.user
    wanted = user.record(kgsl_context_property, a.value, a.sizebytes)
    context = file.context(wanted.contextid, "context property")
    if wanted.type != c.KGSL_CONTEXT_PROP_FAULTS:
        refuse(errno_codes.EOPNOTSUPP, f"context property {wanted.type}")
    answer = kgsl_context_property_fault(context.fault_count, context.last_fault_timestamp)
    if wanted.size:
        user.write(wanted.data, bytes(answer)[: min(wanted.size, ctypes.sizeof(answer))])
    else:
        wanted.size = ctypes.sizeof(answer)
        user.write(a.value, wanted)


def get_capabilities(file: KgslFile, a: Any) -> None:
    """Which properties there are. A size of 0 asks for the size of the record, also of the inner one."""
    user = file.driver.user
    if not a.sizebytes:
        a.sizebytes = ctypes.sizeof(kgsl_capabilities)
        return
    nbytes = min(a.sizebytes, ctypes.sizeof(kgsl_capabilities))
    wanted = user.record(kgsl_capabilities, a.value, nbytes)
    if wanted.querytype != c.KGSL_QUERY_CAPS_PROPERTIES:
        known = wanted.querytype == 0
        refuse(errno_codes.EINVAL if known else errno_codes.EOPNOTSUPP, f"capability query {wanted.querytype}")
    if not wanted.size:
        wanted.size = ctypes.sizeof(kgsl_capabilities_properties)
        user.write(a.value, bytes(wanted)[:nbytes])
        return
    inner = min(wanted.size, ctypes.sizeof(kgsl_capabilities_properties))
    listed = user.record(kgsl_capabilities_properties, wanted.data, inner)
    numbers = [number for number in (*SIMPLE, *GENERIC) if number not in file.driver.options.missing_properties]
    if listed.count:
        numbers = numbers[: listed.count]
        user.write(listed.list, b"".join(raw32(number) for number in numbers))
    listed.count = len(numbers)
    user.write(wanted.data, bytes(listed)[:inner])


GENERIC: dict[int, Callable[[KgslFile, Any], None]] = {
    c.KGSL_PROP_VERSION: get_version,
    c.KGSL_PROP_GPU_RESET_STAT: get_reset_status,
    c.KGSL_PROP_QUERY_CAPABILITIES: get_capabilities,
    c.KGSL_PROP_CONTEXT_PROPERTY: get_context_property,
    c.KGSL_PROP_GPU_VA64_SIZE: get_va64_size,
}


@handles(k.DEVICE_GETPROPERTY)
def getproperty(file: KgslFile, a: Any) -> None:
    driver = file.driver
    if a.type in driver.options.missing_properties:
        refuse(errno_codes.EINVAL, f"this kernel has no property {a.type:#x}")
    if a.type in GENERIC:
        GENERIC[a.type](file, a)
    elif a.type in SIMPLE:
        driver.user.write(a.value, SIMPLE[a.type](driver)[: a.sizebytes])
    else:
        refuse(errno_codes.ENODEV, f"property {a.type:#x}")


@handles(k.SETPROPERTY)
def setproperty(file: KgslFile, a: Any) -> None:
    """A power level for submissions that ask for it."""
    user = file.driver.user
    if a.type != c.KGSL_PROP_PWR_CONSTRAINT or a.type in file.driver.options.missing_properties:
        refuse(errno_codes.EINVAL, f"property {a.type:#x} cannot be set")
    exact(a, ctypes.sizeof(kgsl_device_constraint), "constraint")
    wanted = user.record(kgsl_device_constraint, a.value, a.sizebytes)
    context = file.context(wanted.context_id, "constraint")
    if wanted.type == c.KGSL_CONSTRAINT_NONE:
        context.constraint = None
        file.driver.release_constraint(context)
        return
    if wanted.type != c.KGSL_CONSTRAINT_PWRLEVEL or wanted.size != ctypes.sizeof(kgsl_device_constraint_pwrlevel):
        refuse(errno_codes.EINVAL, f"constraint type {wanted.type} with {wanted.size} bytes")
    level = user.record(kgsl_device_constraint_pwrlevel, wanted.data, wanted.size).level
    if level > MAX_POWER_LEVEL:
        refuse(errno_codes.EINVAL, f"power level {level}")
    context.constraint = level
