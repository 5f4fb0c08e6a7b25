"""Opening devices by name, and listing those that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hcqrt.config import Config
from hcqrt.errors import DeviceNotFound
from hcqrt.fileio import System

if TYPE_CHECKING:
    from hcqrt.core.device import HCQDevice
    from hcqrt.core.info import DeviceInfo

KINDS = ("NV", "QCOM")


def parse_name(name: str) -> tuple[str, int]:
    """ "NV" -> ("NV", 0), "QCOM:0" -> ("QCOM", 0). Raises DeviceNotFound for anything else."""
    kind, _, index = name.partition(":")
    if kind.upper() not in KINDS or (index and not (index.isascii() and index.isdigit())) or name.endswith(":"):
        raise DeviceNotFound(f"no device {name!r}: names are {', '.join(KINDS)}, with an optional index as in NV:1")
    return kind.upper(), int(index or 0)


def open_device(name: str = "NV", system: System | None = None, *, config: Config | None = None) -> HCQDevice:
    """Open a GPU; a context manager. `system=None` is the real machine, unless HCQRT_SYSTEM says otherwise.

    `config` takes the place of the HCQRT_* settings.

    Raises:
        DeviceNotFound: no such GPU, or a node or driver is missing; the text says which and what to do.
        DriverError: the driver refused a step of bring-up. Nothing stays open.
    """
    kind, index = parse_name(name)
    config = config or Config.from_environ()
    machine = system if system is not None else System.default(config.system)
    if kind == "QCOM":
        from hcqrt.qcom.device import QCOMDevice

        return QCOMDevice(f"{kind}:{index}", machine, config, index)
    from hcqrt.nv.device import NVDevice

    return NVDevice(f"{kind}:{index}", machine, config, index)


def devices(system: System | None = None) -> list[DeviceInfo]:
    """Every GPU found, usable or not, with the reason; never raises. Where a setting is malformed none is usable."""
    from hcqrt.nv.discover import devices as nv_devices
    from hcqrt.nv.discover import unusable
    from hcqrt.qcom.discover import devices as qcom_devices

    try:
        config = Config.from_environ()
        machine = system if system is not None else System.default(config.system)
    except ValueError as error:
        return [unusable("NV:0", "", -1, "", str(error))]
    return [*nv_devices(machine, config), *qcom_devices(machine, config)]
