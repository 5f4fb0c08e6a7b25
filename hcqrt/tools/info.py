"""`hcqrt info`: the GPUs found, usable or not, and why not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from hcqrt.config import Config
from hcqrt.core.info import DeviceInfo
from hcqrt.errors import DeviceNotFound
from hcqrt.fileio import System
from hcqrt.opening import devices, parse_name


def run_info(chosen: Sequence[tuple[System, str]], names: Sequence[str], *, as_json: bool) -> int:
    """All GPUs of the chosen machines, or those named. Raises DeviceNotFound for one that is not there."""
    machines = list(dict.fromkeys(system for system, _ in chosen))
    found = {info.name: (system, info) for system in machines for info in devices(system)}
    if names:
        wanted = ["{}:{}".format(*parse_name(name)) for name in names]
        missing = [name for name in wanted if name not in found]
        if missing:
            raise DeviceNotFound(f"no device {', '.join(missing)}; there are {', '.join(found) or 'none'}")
        found = {name: found[name] for name in wanted}
    if as_json:
        listed = [{**asdict(info), **versions(system, info), "system": system.name} for system, info in found.values()]
        print(json.dumps({"system": machines[0].name, "devices": listed}, indent=1))
        return 0
    for machine in machines:
        infos = [info for system, info in found.values() if system is machine]
        print(f"{machine.name} machine: {len(infos)} GPU{'' if len(infos) == 1 else 's'}")
        for info in infos:
            state = "usable" if info.usable else f"not usable: {info.reason}"
            driver = f"driver {info.driver}{versions_text(versions(machine, info))}"
            print(f"{info.name:6} {info.arch:8} {info.model}  {driver}  {info.uuid}  {info.pci}  {state}")
    return 0


def versions(system: System, info: DeviceInfo) -> dict[str, str]:
    """What else there is to know of an NVIDIA driver's version: the layouts in use, libraries that differ."""
    if info.kind != "NV" or not info.driver:
        return {}
    from hcqrt.nv.versions import version_report

    return version_report(system, info.driver, Config.from_environ().nv_abi)


def versions_text(known: Mapping[str, str]) -> str:
    if not known:
        return ""
    libraries = known.get("libraries", "")
    differ = f"; libraries {libraries}: the module counts, reload it or reboot to have both alike" if libraries else ""
    return f" (ABI {known['abi']}{differ})"
