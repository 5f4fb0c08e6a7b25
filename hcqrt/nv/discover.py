"""Finding NVIDIA GPUs: which there are, which are visible, and why one cannot be used. Source: nv-driver facts 1."""

from __future__ import annotations

import errno as errno_codes
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hcqrt.config import Config
from hcqrt.core.info import DeviceInfo
from hcqrt.errors import NO_HARDWARE, DeviceNotFound, DriverError, HCQError
from hcqrt.fileio import FileIOInterface, System
from hcqrt.nv.arch import chip_for
from hcqrt.nv.confidential import check_not_confidential
from hcqrt.nv.rm import CTL, RmClient
from hcqrt.nv.uvm import NODE as UVM_NODE

LOAD_HINT = "load it with `nvidia-modprobe -c 0 -u` or `modprobe nvidia-uvm`; a container needs --device for it"
OPEN_REASONS = {
    errno_codes.EACCES: "no permission",
    errno_codes.EPERM: "refused by the device cgroup or the driver's list of excluded GPUs",
    errno_codes.ENODEV: "no GPU with this number, or it was removed or lost from the bus",
    errno_codes.ENXIO: "the node exists but no driver is behind it",
    errno_codes.EIO: "the driver could not start the GPU; see the kernel log (NVRM, Xid), it may need a reset",
    errno_codes.EMFILE: "this process has too many files open; see ulimit -n",
}


@dataclass(frozen=True)
class Card:
    """One GPU as the driver lists it. `minor` names its node, which is no index."""

    minor: int
    gpu_id: int
    pci: str

    @property
    def node(self) -> str:
        return f"/dev/nvidia{self.minor}"


def open_failed(system: System, path: str, error: OSError) -> DeviceNotFound:
    """The error for a node that exists in the driver's list but does not open."""
    code = errno_codes.errorcode.get(error.errno or 0, str(error.errno))
    reason = OPEN_REASONS.get(error.errno or 0, "it does not open")
    if error.errno == errno_codes.ENOENT:
        return DeviceNotFound(f"{path} does not exist [ENOENT]; {missing_reason(system, path)}")
    return DeviceNotFound(f"{path}: {reason} [{code}]; {system.stat_text(path)}")


def missing_reason(system: System, path: str) -> str:
    """Why a node is missing: the four cases that look alike."""
    if path == UVM_NODE:
        return f"the nvidia-uvm module is not loaded: {LOAD_HINT}"
    if path != CTL:
        return "make it with `nvidia-modprobe -c N`; a container needs --device for it"
    if system.exists("/dev/dxg"):
        return "this is WSL2 (/dev/dxg), whose driver hcqrt does not speak; use Linux, " + NO_HARDWARE
    if system.exists("/sys/module/nouveau"):
        return "the nouveau driver holds the GPU: install NVIDIA's kernel module and blacklist nouveau, " + NO_HARDWARE
    cards = nvidia_cards(system)
    if cards:
        return (
            f"the card {cards[0]} is there but the nvidia module is not loaded: `nvidia-modprobe -c 0` or "
            "`modprobe nvidia`; a container needs --device for the nodes"
        )
    return "there is no NVIDIA card in this machine: add one, " + NO_HARDWARE


def nvidia_cards(system: System) -> list[str]:
    """PCI addresses of NVIDIA's display controllers; a card's sound device has the vendor but another class."""
    folder = "/sys/bus/pci/devices"

    def read(card: str, name: str) -> str:
        return (system.read_text(f"{folder}/{card}/{name}") or "").strip()

    cards = [card for card in system.listdir(folder) if read(card, "vendor") == "0x10de"]
    return [card for card in cards if read(card, "class").startswith("0x03")]


def open_control(system: System, config: Config) -> RmClient:
    """A client of the driver. Raises DeviceNotFound when its node is missing; DriverError for an unknown driver."""
    try:
        return RmClient(system, config.nv_abi)
    except OSError as error:
        raise open_failed(system, CTL, error) from error


def uvm_missing(system: System) -> DeviceNotFound | None:
    """The error for a machine without the unified-memory node, else None."""
    if system.exists(UVM_NODE):
        return None
    return DeviceNotFound(f"{UVM_NODE} does not exist [ENOENT]; {missing_reason(system, UVM_NODE)}")


def open_client(system: System, config: Config) -> RmClient:
    """As `open_control`, and DeviceNotFound where only the unified-memory node is missing."""
    rm = open_control(system, config)
    error = uvm_missing(system)
    if error is not None:
        rm.close()
        raise error
    return rm


def list_cards(rm: RmClient) -> list[Card]:
    return [
        Card(
            minor=card.minor_number,
            gpu_id=card.gpu_id,
            pci=f"{card.pci_info.domain:04x}:{card.pci_info.bus:02x}:{card.pci_info.slot:02x}.{card.pci_info.function}",
        )
        for card in rm.cards()
    ]


def open_card(rm: RmClient, card: Card) -> FileIOInterface:
    """Open a GPU's node, which starts it, and tie it to the client. Raises DeviceNotFound."""
    try:
        fd = rm.system.open(card.node)
    except OSError as error:
        failure = open_failed(rm.system, card.node, error)
        raise DeviceNotFound(f"{failure}{others_here(rm)}") from error
    try:
        rm.register_fd(fd)
    except BaseException:
        fd.close()
        raise
    return fd


def others_here(rm: RmClient) -> str:
    """The GPUs whose nodes a container was given, when these are some of those that the driver lists, else nothing."""
    cards = list_cards(rm)
    here = [(index, card) for index, card in enumerate(cards) if rm.system.exists(card.node)]
    if not 0 < len(here) < len(cards):
        return ""
    indices = ",".join(str(index) for index, _ in here)
    return f"; nodes are there of {listing(here)}: HCQRT_VISIBLE_DEVICES={indices} leaves out the rest"


def listing(cards: Iterable[tuple[int, Card]], uuids: Mapping[Card, str] | None = None) -> str:
    """GPUs in words: index in the driver's list, node, PCI address, and uuid where those were asked."""
    known = {} if uuids is None else {card: f", {uuid or 'uuid unknown'}" for card, uuid in uuids.items()}
    return ", ".join(f"{index}: {card.node} ({card.pci}{known.get(card, '')})" for index, card in cards) or "none"


def uuid_text(uuid: bytes) -> str:
    digits = uuid.hex()
    return "GPU-" + "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


@dataclass(frozen=True)
class Identity:
    """Who a GPU is, asked through a subdevice."""

    uuid: bytes
    model: str
    sm_version: int


def identify(rm: RmClient, subdevice: int) -> Identity:
    from hcqrt.nv.queries import gr_info

    binary = 2  # NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY at 1:0
    gid = rm.control(subdevice, "NV2080_CTRL_CMD_GPU_GET_GID_INFO", flags=binary)
    name = rm.control(subdevice, "NV2080_CTRL_CMD_GPU_GET_NAME_STRING")
    text = bytes(name.gpuNameString.ascii).split(b"\0")[0].decode(errors="replace")
    return Identity(bytes(gid.data[:16]), text, gr_info(rm, subdevice, "SM_VERSION"))


def add_subdevice(rm: RmClient, card: Card) -> tuple[int, int]:
    """Device and subdevice objects of an open GPU."""
    ids = rm.control(rm.root, "NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2", gpuId=card.gpu_id)
    multiple_va_spaces = 2  # NV_DEVICE_ALLOCATION_VAMODE_MULTIPLE_VASPACES: no default address space
    device = rm.alloc(
        "NV01_DEVICE_0", rm.root, deviceId=ids.deviceInstance, hClientShare=rm.root, vaMode=multiple_va_spaces
    )
    return device, rm.alloc("NV20_SUBDEVICE_0", device, subDeviceId=0)


def choose_card(rm: RmClient, config: Config, name: str, index: int) -> Card:
    """The GPU that a device's name means. Raises DeviceNotFound where there are not as many."""
    cards = visible_cards(rm, config)
    if index < len(cards):
        return cards[index]
    setting, variable = visibility(config)
    hidden = "" if setting is None else f" with {variable}={setting!r} of {len(list_cards(rm))} found"
    raise DeviceNotFound(f"no device {name}: {len(cards)} visible{hidden}; `hcqrt info` lists them")


def visibility(config: Config) -> tuple[str | None, str]:
    """The setting that counts, None where there is none, and its name."""
    if config.visible_devices is not None:
        return config.visible_devices, "HCQRT_VISIBLE_DEVICES"
    return config.cuda_visible_devices, "CUDA_VISIBLE_DEVICES"


def visible_cards(rm: RmClient, config: Config) -> list[Card]:
    """The GPUs that the visibility setting lets through, in its order. Raises DeviceNotFound for a bad entry."""
    cards = list_cards(rm)
    setting, name = visibility(config)
    if setting is None:
        return cards
    by_index = {str(index): card for index, card in enumerate(cards)}
    uuids: dict[Card, str] = {}
    chosen: list[Card] = []
    for entry in filter(None, (part.strip() for part in setting.split(","))):
        named = [by_index[entry]] if entry in by_index else []
        if entry.upper().startswith("GPU-"):
            uuids = uuids or {card: ask_uuid(rm, card) for card in cards}
            named = [card for card, uuid in uuids.items() if uuid.lower().startswith(entry.lower())]
        if len(named) != 1 or named[0] in chosen:
            uuids = uuids or {card: ask_uuid(rm, card) for card in cards}
            what = f"no GPU {entry!r}"
            if named:
                what = f"{entry!r} is the start of several uuids" if len(named) > 1 else f"{entry!r} is there already"
            raise DeviceNotFound(f"{name}={setting!r}: {what}; found are {listing(enumerate(cards), uuids)}")
        chosen.append(named[0])
    return chosen


def ask_uuid(rm: RmClient, card: Card) -> str:
    """A GPU's uuid; empty where the GPU does not say it, which must not hide the others."""
    try:
        with open_card(rm, card):
            device, subdevice = add_subdevice(rm, card)
            try:
                return uuid_text(identify(rm, subdevice).uuid)
            finally:
                rm.free(device, rm.root)
    except (DeviceNotFound, DriverError):
        return ""


def devices(system: System, config: Config) -> list[DeviceInfo]:
    """Every visible GPU, usable or not; never raises for what the machine lacks."""
    try:
        rm = open_control(system, config)
    except HCQError as error:
        return without_driver(system, str(error))
    try:
        found = [look_at(rm, index, card) for index, card in enumerate(visible_cards(rm, config))]
    except HCQError as error:
        found = [unusable("NV:0", "", -1, rm.abi.driver, str(error))]
    with suppress(DriverError):  # a driver that cannot even free says so when the device is opened
        rm.close()
    return found


def without_driver(system: System, reason: str) -> list[DeviceInfo]:
    """The GPUs of a machine whose driver cannot be asked: those on the bus, or one where only a node shows them."""
    cards = nvidia_cards(system)
    if not cards and (system.exists(CTL) or system.exists("/dev/dxg")):
        cards = [""]
    return [unusable(f"NV:{index}", pci, -1, "", reason) for index, pci in enumerate(cards)]


def look_at(rm: RmClient, index: int, card: Card) -> DeviceInfo:
    name = f"NV:{index}"
    try:
        with open_card(rm, card):
            device, subdevice = add_subdevice(rm, card)
            try:
                who = identify(rm, subdevice)
                facts: dict[str, Any] = dict(model=who.model, uuid=uuid_text(who.uuid))
                chip = chip_for(who.sm_version)
                check_not_confidential(rm, chip.arch)
            finally:
                rm.free(device, rm.root)
    except (DeviceNotFound, DriverError) as failure:
        return unusable(name, card.pci, card.minor, rm.abi.driver, str(failure))
    error = uvm_missing(rm.system)
    facts.update(driver=rm.abi.driver, pci=card.pci, minor=card.minor, usable=error is None, reason=str(error or ""))
    return DeviceInfo(name, "NV", chip.name, **facts)


def unusable(name: str, pci: str, minor: int, driver: str, reason: str) -> DeviceInfo:
    return DeviceInfo(name, "NV", "unknown", "unknown", driver, "", pci, minor, False, reason)
