"""Machines of several cards: different chips, peers over PCIe and NVLink, cards in use elsewhere or confidential."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rm_client import SYSMEM, VIDMEM, Machine, RmClient, call

from hcqrt.emu.nv.board import CONFIDENTIAL_MODES
from hcqrt.emu.nv.rm.confidential import MODES

BASE, MIB = 1 << 36, 1 << 20


def device_of(client: RmClient, instance: int) -> tuple[int, int, bytes]:
    """(device, address space, uuid) of one card of the machine."""
    device = client.alloc(client.root, 0x80, struct.pack("<II8xI28xI4x", instance, client.root, 0, 2))
    subdevice = client.alloc(device, 0x2080)
    params = struct.pack("<IIQ16xI4xQII", 0, 0x48, 0x1FFFFFB000000, 0, 0x1000, 0, 0)
    va_space = client.alloc(device, 0x90F1, params)
    status, gid = client.control(subdevice, 0x2080014A, struct.pack("<III256x", 0, 2, 0))
    assert status == 0
    return device, va_space, gid.bytes(12, 16)


class Pair:
    """Two cards of a machine, registered with UVM."""

    def __init__(self, client: RmClient) -> None:
        self.client = client
        other = client.system.open("/dev/nvidia1")
        client.files.append(other)
        client.open_device()
        self.device, self.va_space, self.uuid = device_of(client, 1)
        client.open_uvm()
        assert client.register_gpu(self.uuid) == 0
        assert client.register_va_space(self.va_space, self.uuid) == 0

    def peer(self, number: int) -> int:
        return self.client.uvm_call(number, self.client.uuid + self.uuid + bytes(8), 32)

    def map_on_other(self, kind: int = VIDMEM) -> int:
        """Map memory of the first card on the second one."""
        status, memory = self.client.memory(kind, 2 * MIB)
        assert status == 0
        assert self.client.create_range(BASE, 2 * MIB) == 0
        status = self.client.map_external(BASE, 2 * MIB, memory, uuid=self.uuid)
        assert self.client.uvm_free(BASE, 2 * MIB) == 0
        assert self.client.free(memory) == 0
        return status


@pytest.fixture
def pair(machine: Machine) -> Iterator[Callable[..., Pair]]:
    clients: list[RmClient] = []

    def make(*cards: Any) -> Pair:
        clients.append(RmClient(machine(cards)))
        return Pair(clients[-1])

    yield make
    for client in clients:
        client.close()


ENABLE, DISABLE = 29, 30


def test_data_centre_cards_are_peers_over_pcie_when_asked(pair: Callable[..., Pair]) -> None:
    two = pair("sm_80", "sm_80")
    assert two.map_on_other() == 0x26
    assert two.peer(DISABLE) == 0x26
    assert two.peer(ENABLE) == 0
    assert two.peer(ENABLE) == 0x26
    assert two.map_on_other() == 0
    assert two.peer(DISABLE) == 0
    assert two.map_on_other() == 0x26
    assert two.map_on_other(SYSMEM) == 0  # system memory needs no peer


@pytest.mark.parametrize(
    "cards",
    [
        ("sm_89", "sm_89"),
        ("sm_120", "sm_120"),
        ({"chip": "sm_80", "peer_access": False}, "sm_80"),
        ("sm_80", "sm_90"),
        ("sm_100", "sm_103"),
        ({"chip": "sm_86", "peer_access": True}, {"chip": "sm_89", "peer_access": True}),
    ],
)
def test_peers_that_the_driver_forbids(pair: Callable[..., Pair], cards: tuple[Any, Any]) -> None:
    two = pair(*cards)
    assert two.peer(ENABLE) == 0x56
    assert two.map_on_other() == 0x26


def test_a_consumer_card_may_be_told_to_allow_peers(pair: Callable[..., Pair]) -> None:
    card = {"chip": "sm_86", "peer_access": True}
    assert pair(card, card).peer(ENABLE) == 0


def test_nvlink_peers_are_on_from_registration(pair: Callable[..., Pair]) -> None:
    card = {"chip": "sm_90", "nvlink": "switch"}
    two = pair(card, card)
    assert two.map_on_other() == 0
    assert two.peer(ENABLE) == 0x26
    assert two.peer(DISABLE) == 0x26
    assert two.map_on_other() == 0


def test_two_nvlink_domains_are_pcie_peers_only(pair: Callable[..., Pair]) -> None:
    two = pair({"chip": "sm_90", "nvlink": "a"}, {"chip": "sm_90", "nvlink": "b"})
    assert two.map_on_other() == 0x26
    assert two.peer(ENABLE) == 0
    assert two.map_on_other() == 0


def test_cards_of_different_chips_in_one_machine(machine: Machine) -> None:
    chips = ("sm_75", "sm_120", "sm_90")
    system = machine(chips)
    client = RmClient(system)
    cards = call(client.ctl, 200, bytes(72 * 32))
    assert [cards.bytes(72 * row + 14, 2) for row in range(4)] == [b"\x07\x1e", b"\x85\x2b", b"\x30\x23", b"\0\0"]
    for minor in (1, 2):
        client.files.append(system.open(f"/dev/nvidia{minor}"))
    computes = []
    for instance in range(3):
        device, _, _ = device_of(client, instance)
        status, out = client.control(device, 0x800201, struct.pack("<I4xQ", 0, 0))
        computes.append((status, out.u32(0)))
    assert computes == [(0, 91), (0, 117), (0, 101)]
    client.close()


def id_info(client: RmClient, gpu_id: int) -> int:
    data = struct.pack("<I", gpu_id) + bytes(28)
    return client.control(client.root, 0x205, data)[0]


@pytest.mark.parametrize("held", [False, True])
def test_ids_of_a_card_that_nobody_opened(machine: Machine, held: bool) -> None:
    system = machine(["sm_80", {"chip": "sm_80", "held": held}])
    client = RmClient(system)
    second = system.drivers[0].boards[1].gpu_id  # type: ignore[attr-defined]
    assert id_info(client, second) == (0 if held else 0x1F)
    file = system.open("/dev/nvidia1")
    assert id_info(client, second) == 0
    file.close()
    assert id_info(client, second) == (0 if held else 0x1F)
    client.close()


# Confidential computing: mode -> ccFeature, bAcceptClientRequest, status of a device, of a map of video memory
CONFIDENTIAL = {
    "": (0, 1, 0, 0),
    "apm": (1, 1, 0, 0),
    "hcc": (2, 1, 0, 0x56),
    "not ready": (1, 0, 0x55, None),
}


@pytest.mark.parametrize("driver", ["535.54.03", "580.95.05"])
@pytest.mark.parametrize("mode", CONFIDENTIAL)
def test_confidential_computing(machine: Machine, mode: str, driver: str) -> None:
    feature, accepts, device_status, map_status = CONFIDENTIAL[mode]
    client = RmClient(machine({"chip": "sm_90", "confidential": mode}, nv_driver=driver))
    item = client.alloc(client.root, 0xCB33)
    status, out = client.control(item, 0xCB330101, bytes(5 if driver < "550" else 6))
    assert (status, out.bytes(1, 1)[0], out.bytes(3, 1)[0]) == (0, feature, feature)
    status, out = client.control(item, 0xCB330104, bytes(1))
    assert (status, out.bytes(0, 1)[0]) == (0, accepts)
    params = struct.pack("<II8xI28xI4x", 0, client.root, 0, 2)
    status, device = client.alloc_raw(client.root, client.root, 0x80, params)
    assert status == device_status
    if map_status is not None:
        client.device, client.subdevice = device, client.alloc(device, 0x2080)
        _, memory = client.memory(VIDMEM, 65536)
        file = client.device_file()
        assert client.map_status(memory, 65536, file.fd)[0] == map_status
    client.close()


@pytest.mark.parametrize("mig", [False, True])
def test_a_card_that_is_cut_into_instances(machine: Machine, mig: bool) -> None:
    client = RmClient(machine({"chip": "sm_80", "mig": mig}))
    device = client.alloc(client.root, 0x80, struct.pack("<II8xI28xI4x", 0, client.root, 0, 2))
    subdevice = client.alloc(device, 0x2080)
    status, out = client.control(subdevice, 0x2080018B, bytes(40))
    assert (status, out.u32(36)) == (0, int(mig))
    params = struct.pack("<IIQ16xI4xQII", 0, 0x48, 0x1FFFFFB000000, 0, 0x1000, 0, 0)
    wanted = 0x40 if mig else 0
    assert client.alloc_raw(client.root, device, 0x90F1, params)[0] == wanted
    assert client.alloc_raw(client.root, device, 0xA06C, struct.pack("<IIIIB3x", 0, 0, 0, 1, 0))[0] == wanted
    client.close()


def test_turing_knows_no_confidential_computing(machine: Machine) -> None:
    client = RmClient(machine("sm_75"))
    assert client.alloc_raw(client.root, client.root, 0xCB33, None)[0] == 0x56
    client.close()


def test_entries_that_are_wrong(machine: Machine) -> None:
    assert tuple(MODES) == CONFIDENTIAL_MODES
    with pytest.raises(ValueError, match="confidential='on' is not one of"):
        machine({"chip": "sm_90", "confidential": "on"})
    for chip, mode in (("sm_75", "apm"), ("sm_80", "hcc"), ("sm_89", "hcc")):
        with pytest.raises(ValueError, match=f"{chip} cannot be confidential='{mode}'"):
            machine({"chip": chip, "confidential": mode})
    with pytest.raises(ValueError, match="sm_75 cannot be cut into instances"):
        machine({"chip": "sm_75", "mig": True})
    with pytest.raises(ValueError, match="unknown key nvlinks; known are"):
        machine({"chip": "sm_90", "nvlinks": "a"})
    with pytest.raises(ValueError, match="chip 'sm_88': the emulator knows sm_75, sm_80"):
        machine("sm_88")
