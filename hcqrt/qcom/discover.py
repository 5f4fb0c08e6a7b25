"""Finding the Adreno GPU: its node, why it does not open, what it is. Source: qcom facts 1.1."""

from __future__ import annotations

import errno as errno_codes
import os
import warnings
from dataclasses import dataclass

from hcqrt.config import Config
from hcqrt.core.info import DeviceInfo
from hcqrt.errors import NO_HARDWARE, DeviceNotFound, HCQError
from hcqrt.fileio import System
from hcqrt.qcom.arch import Chip, chip_for
from hcqrt.qcom.kgsl import NODE, SYSFS, KgslClient

OPEN_REASONS = {
    errno_codes.ENODEV: "the node exists but the GPU does not start; see the kernel log (kgsl)",
    errno_codes.ENXIO: "the node exists but no driver is behind it",
    errno_codes.EIO: "the driver could not start the GPU; see the kernel log (kgsl)",
    errno_codes.EMFILE: "this process has too many files open; see ulimit -n",
}
REFUSED = (errno_codes.EACCES, errno_codes.EPERM)


def open_failed(system: System, error: OSError) -> DeviceNotFound:
    """The error for a node that is missing or does not open."""
    code = errno_codes.errorcode.get(error.errno or 0, str(error.errno))
    if error.errno == errno_codes.ENOENT:
        return DeviceNotFound(f"{NODE} does not exist [ENOENT]; {missing_reason(system)}")
    if error.errno in REFUSED:
        return DeviceNotFound(
            f"{NODE}: no permission [{code}]; {system.stat_text(NODE)}. Join the group that owns it or let udev open "
            "it to you; where mode and owner would do (Android), SELinux refuses it, or a sandbox"
        )
    reason = OPEN_REASONS.get(error.errno or 0, "it does not open")
    return DeviceNotFound(f"{NODE}: {reason} [{code}]; {system.stat_text(NODE)}")


def missing_reason(system: System) -> str:
    """Why there is no node: another driver, a container, or no such GPU."""
    if system.exists(SYSFS):
        return "the driver is loaded, so the node is hidden: a container needs --device for it"
    if system.exists("/dev/dri"):
        return (
            "/dev/dri exists: if this machine has an Adreno GPU, its kernel drives it with msm DRM, which is another "
            f"driver than KGSL and which hcqrt does not speak; use a kernel with KGSL, {NO_HARDWARE}"
        )
    return f"no driver for an Adreno GPU (KGSL) is loaded: use a machine with one, {NO_HARDWARE}"


def visible(config: Config) -> bool:
    """Whether HCQRT_VISIBLE_DEVICES lets GPU 0 through: there is never another one."""
    setting = config.visible_devices
    return setting is None or "0" in [entry.strip() for entry in setting.split(",")]


def open_client(system: System) -> KgslClient:
    """A client of the driver. Raises DeviceNotFound."""
    try:
        return KgslClient(system)
    except OSError as error:
        raise open_failed(system, error) from error


def open_visible(system: System, config: Config, name: str, index: int) -> KgslClient:
    """As `open_client`; DeviceNotFound also for an index that there is not, or that the setting hides."""
    if not visible(config):
        raise DeviceNotFound(
            f"no device {name}: HCQRT_VISIBLE_DEVICES={config.visible_devices!r} hides it; found are 0: {NODE}"
        )
    client = open_client(system)
    if index:
        client.close()
        raise DeviceNotFound(f"no device {name}: 1 visible; `hcqrt info` lists them")
    return client


@dataclass(frozen=True)
class Identity:
    """Who a GPU is, and its driver."""

    chip_id: int
    model: str
    driver: str


def identify(client: KgslClient) -> Identity:
    chip_id = int(client.device_info().chip_id)
    return Identity(chip_id, client.gpu_model() or f"Adreno {chip_id:#010x}", f"KGSL {client.driver_version()}")


def machine_bytes(system: System) -> int:
    """The machine's memory: the GPU has none of its own."""
    for line in (system.read_text("/proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def devices(system: System, config: Config) -> list[DeviceInfo]:
    """The Adreno GPU, usable or not; nothing where there is none. Never raises for what the machine lacks."""
    if not visible(config) or not (system.exists(NODE) or system.exists(SYSFS)):
        return []
    try:
        client = open_client(system)
    except HCQError as error:
        return [unusable("unknown", "", str(error))]
    try:
        who = identify(client)
        with warnings.catch_warnings():  # opening it warns of an untried chip, listing it does not
            warnings.simplefilter("ignore", RuntimeWarning)
            chip: Chip = chip_for(who.chip_id)
    except DeviceNotFound as error:
        return [unusable(who.model, who.driver, str(error))]
    except HCQError as error:
        return [unusable("unknown", "", str(error))]
    finally:
        client.close()
    return [DeviceInfo("QCOM:0", "QCOM", chip.name, who.model, who.driver, "", "", 0, True)]


def unusable(model: str, driver: str, reason: str) -> DeviceInfo:
    return DeviceInfo("QCOM:0", "QCOM", "unknown", model, driver, "", "", 0, False, reason)
