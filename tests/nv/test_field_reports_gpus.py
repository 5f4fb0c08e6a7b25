"""Field reports 16 and 17: choosing among several GPUs, and copies between them with and without peer access."""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.config import Config
from hcqrt.emu import EmulatedSystem
from hcqrt.errors import DeviceNotFound, DriverError, HCQError, SignalTimeout, UVMError

VISIBLE = ("HCQRT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
NBYTES = (1 << 20) + 3
DATA = random.Random(17).randbytes(NBYTES + 16)
# Index, minor, PCI address and gpu_id all disagree, as on machines that were rebuilt; uuids share a start.
CARDS = (
    dict(chip="sm_86", minor=7, pci="0000:c1:00.0", uuid="GPU-aa000000-0000-0000-0000-0000000000c1"),
    dict(chip="sm_75", minor=0, pci="0000:41:00.0", uuid="GPU-aa000000-0000-0000-0000-000000000041"),
    dict(chip="sm_90", minor=2, pci="0001:01:00.0", uuid="GPU-bb000000-0000-0000-0000-000000000101"),
)
UUIDS = [str(card["uuid"]) for card in CARDS]
UVM, PEERS = "/dev/nvidia-uvm", "UVM_ENABLE_PEER_ACCESS"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VISIBLE:
        monkeypatch.delenv(name, raising=False)


def opened_all(system: EmulatedSystem, count: int) -> list[tuple[str, str, str, str]]:
    """(arch, uuid, PCI address, node) of each device, opened by index one after the other."""
    found = []
    for index in range(count):
        with hcqrt.open_device(f"NV:{index}", system) as dev:
            found.append((dev.arch, dev.uuid_name, dev.card.pci, dev.card.node))
            assert all(part in dev.identity for part in (f"NV:{index}", *found[-1][1:]))  # which GPU was opened
    return found


A, B, C = (
    ("sm_86", UUIDS[0], "0000:c1:00.0", "/dev/nvidia7"),
    ("sm_75", UUIDS[1], "0000:41:00.0", "/dev/nvidia0"),
    ("sm_90", UUIDS[2], "0001:01:00.0", "/dev/nvidia2"),
)


def test_16_index_minor_uuid_and_pci_address_are_kept_apart(machine: Machine) -> None:
    system = machine(CARDS)
    infos = hcqrt.devices(system)
    assert [(i.name, i.arch, i.uuid, i.pci, i.minor, i.usable) for i in infos] == [
        ("NV:0", *A[:3], 7, True),
        ("NV:1", *B[:3], 0, True),
        ("NV:2", *C[:3], 2, True),
    ]
    assert opened_all(system, 3) == [A, B, C]


@pytest.mark.parametrize("name", VISIBLE)
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("2,0", [C, A]),
        (" 1 , 2 ,", [B, C]),
        ("0", [A]),
        (f"{UUIDS[2]},1", [C, B]),
        ("GPU-bb", [C]),
        (UUIDS[1].upper(), [B]),
        (f"{UUIDS[1]},{UUIDS[0]}", [B, A]),
        ("", []),
        (" , ", []),
    ],
)
def test_16_the_setting_chooses_and_orders(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, setting: str, expected: list[Any]
) -> None:
    system = machine(CARDS)
    monkeypatch.setenv(name, setting)
    infos = hcqrt.devices(system)
    assert [(i.name, i.uuid) for i in infos] == [(f"NV:{n}", card[1]) for n, card in enumerate(expected)]
    assert opened_all(system, len(expected)) == expected
    with pytest.raises(DeviceNotFound) as failure:
        hcqrt.open_device(f"NV:{len(expected)}", system)
    for part in (f"NV:{len(expected)}", f"{len(expected)} visible", name, repr(setting), "3 found", "hcqrt info"):
        assert part in str(failure.value)


@pytest.mark.parametrize("name", VISIBLE)
@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("7", "no GPU '7'"),
        ("3", "no GPU '3'"),
        ("a", "no GPU 'a'"),
        ("-1", "no GPU '-1'"),
        ("0,0", "'0' is there already"),
        (f"2,{UUIDS[2]}", "is there already"),
        ("GPU-aa", "'GPU-aa' is the start of several uuids"),
        ("GPU-cc", "no GPU 'GPU-cc'"),
        ("9" * 5000, "no GPU '999"),
        ("/dev/nvidia0", "no GPU '/dev/nvidia0'"),
    ],
)
def test_16_a_bad_entry_lists_the_gpus_found(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, setting: str, why: str
) -> None:
    system = machine(CARDS)
    monkeypatch.setenv(name, setting)
    with pytest.raises(DeviceNotFound) as failure:
        hcqrt.open_device("NV:0", system)
    assert system.live_objects() == []
    parts = (f"{n}: {node} ({pci}, {uuid})" for n, (_, uuid, pci, node) in enumerate((A, B, C)))
    for part in (name, why, "found are", *parts):
        assert part in str(failure.value)
    (info,) = hcqrt.devices(system)
    assert not info.usable and why in info.reason


@pytest.mark.parametrize("setting", [None, "0,1,2", f"{UUIDS[0]},1,{UUIDS[2]}"])
def test_16_a_card_that_is_not_usable_leaves_the_others_where_they_are(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    system = machine(CARDS)
    del system.nodes["/dev/nvidia0"]  # a container was not given the GPU in the middle
    if setting is not None:
        monkeypatch.setenv(VISIBLE[0], setting)
    assert [(i.minor, i.usable) for i in hcqrt.devices(system)] == [(7, True), (0, False), (2, True)]
    for index, expected in ((0, A), (2, C)):
        with hcqrt.open_device(f"NV:{index}", system) as dev:
            assert (dev.arch, dev.uuid_name, dev.card.pci, dev.card.node) == expected
    with pytest.raises(DeviceNotFound) as failure:
        hcqrt.open_device("NV:1", system)
    for part in ("/dev/nvidia0 does not exist", "0: /dev/nvidia7", "2: /dev/nvidia2", "HCQRT_VISIBLE_DEVICES=0,2"):
        assert part in str(failure.value)


def test_16_a_gpu_that_does_not_answer_is_listed_without_a_uuid(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = machine(CARDS)
    system.nodes["/dev/nvidia0"] = (0o600, 5)  # EIO: it did not start
    monkeypatch.setenv(VISIBLE[0], UUIDS[1])
    with pytest.raises(DeviceNotFound, match=r"no GPU 'GPU-aa.*1: /dev/nvidia0 \(0000:41:00.0, uuid unknown\)"):
        hcqrt.open_device("NV:0", system)
    monkeypatch.setenv(VISIBLE[0], UUIDS[2])
    assert opened_all(system, 1) == [C]


def test_16_the_adreno_gpu_follows_our_own_setting_only(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    system = machine(CARDS, qcom="a630")
    names = lambda: [info.name for info in hcqrt.devices(system)]  # noqa: E731
    monkeypatch.setenv(VISIBLE[1], "1")
    assert names() == ["NV:0", "QCOM:0"]
    monkeypatch.setenv(VISIBLE[0], "2,0")
    assert names() == ["NV:0", "NV:1", "QCOM:0"]
    monkeypatch.setenv(VISIBLE[0], "1")
    assert names() == ["NV:0"]
    with pytest.raises(DeviceNotFound, match=r"HCQRT_VISIBLE_DEVICES='1' hides it; found are 0: /dev/kgsl-3d0"):
        hcqrt.open_device("QCOM", system)


# copies between devices

REFUSED, PCIE, LINKED = ["sm_86", "sm_90"], ["sm_90", "sm_90"], [dict(chip="sm_100", nvlink="switch")] * 2
PAIRS = {
    "different chips": (dict(nv=REFUSED), "NV:1", False),
    "Adreno": (dict(nv=["sm_86"], qcom="a630"), "QCOM", False),
    "peers not asked for": (dict(nv=PCIE), "NV:1", False),
    "peers over PCIe": (dict(nv=PCIE), "NV:1", True),
    "peers over NVLink": (dict(nv=LINKED), "NV:1", True),
    "one GPU twice": (dict(nv=["sm_86"]), "NV:0", False),
    "one GPU twice, as a peer": (dict(nv=["sm_86"]), "NV:0", True),
}


@contextmanager
def both(system: EmulatedSystem, second: str, joined: bool = False, **settings: Any) -> Iterator[tuple[Any, Any]]:
    config = Config(wait_timeout_ms=settings.pop("wait_timeout_ms", 20_000), **settings)
    with ExitStack() as undo:
        first, other = (undo.enter_context(hcqrt.open_device(name, system, config=config)) for name in ("NV:0", second))
        if joined:
            first.enable_peer(other)
        yield first, other


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, machine: Machine) -> Iterator[tuple[Any, Any]]:
    options, second, joined = PAIRS[request.param]
    with both(machine(**options), second, joined) as devices:
        yield devices


@pytest.mark.parametrize(("start", "place"), [(0, 0), (3, 5), (1, 16)])
def test_17_a_copy_between_devices_is_exact_in_both_directions(pair: tuple[Any, Any], start: int, place: int) -> None:
    for here, there in (pair, pair[::-1]):
        with here.alloc(NBYTES + 16) as src, there.alloc(NBYTES + 32) as dest:
            src.copyin(DATA)
            dest.fill(0xA5)
            dest.offset(place, NBYTES).copyin(src.offset(start, NBYTES))
            around = b"\xa5" * place, b"\xa5" * (32 - place)
            assert dest.copyout() == around[0] + DATA[start : start + NBYTES] + around[1]
            assert src.copyout() == DATA


@pytest.mark.parametrize("kind", [dict(host=True), dict(cpu_access=True), dict(host=True, uncached=True)])
def test_17_memory_of_every_kind_can_be_copied(pair: tuple[Any, Any], kind: dict[str, bool]) -> None:
    for here, there in (pair, pair[::-1]):
        with here.alloc(4097, **kind) as src, there.alloc(4097, **kind) as dest:
            src.copyin(DATA[:4097])
            dest.copyin(src)
            assert dest.copyout() == DATA[:4097]


def test_17_only_enabled_peers_copy_without_the_host(machine: Machine) -> None:
    for joined, copies in ((False, 2), (True, 1)):  # out to the host and in again, or from GPU to GPU
        with both(machine(PCIE), "NV:1", joined) as (here, there), here.alloc(64) as src, there.alloc(64) as dest:
            src.copyin(DATA[:64])
            src.fill(1)
            for a, b in ((dest, src), (src, dest)):
                assert copies_of(here, there, lambda a=a, b=b: a.copyin(b)) == copies


def copies_of(here: Any, there: Any, work: Callable[[], None]) -> int:
    """How many copies the machine's engines make for `work`."""
    here.synchronize()
    there.synchronize()
    before = here.system.stats()["copies"]
    work()
    here.synchronize()
    there.synchronize()
    return int(here.system.stats()["copies"] - before)


def held_copy(dev: Any, signal: Any, dest: Any, src: Any, nbytes: int) -> None:
    """Work on the timeline of `dev` that starts when the host sets `signal`."""
    value = dev.next_timeline()
    queue = dev.copy_queue().wait(dev.timeline_signal, value - 1).wait(signal, 1).copy(dest, src, nbytes)
    queue.signal(dev.timeline_signal, value).submit(dev)


@pytest.mark.parametrize("joined", [False, True])
def test_17_a_copy_comes_after_the_work_of_its_source_and_of_its_destination(machine: Machine, joined: bool) -> None:
    for engine in (0, 1):
        with both(machine(PCIE), "NV:1", joined) as devices, ExitStack() as undo:
            here, there = devices[engine], devices[1 - engine]
            src, new, dest, old = (undo.enter_context(dev.alloc(4096)) for dev in (here, here, there, there))
            src.fill(1), new.fill(2), dest.fill(3), old.fill(4)
            go = [dev.new_signal() for dev in (here, there)]
            held_copy(here, go[0], src, new, 4096)  # src becomes 2
            held_copy(there, go[1], old, dest, 4096)  # old becomes 3, what dest was before
            timers = [threading.Timer(0.05, setattr, (signal, "value", 1)) for signal in go]
            for timer in timers:
                timer.start()
            dest.copyin(src)
            src.fill(9)  # later work of the source
            with there.alloc(4096) as seen:
                seen.copyin(dest)  # later work of the destination, on its own queue
                assert seen.copyout() == b"\x02" * 4096
            assert old.copyout() == b"\x03" * 4096
            for timer in timers:
                timer.join(10)


@pytest.mark.parametrize("joined", [False, True])
def test_17_threads_may_copy_in_both_directions_at_once(machine: Machine, joined: bool) -> None:
    exact: list[bool] = []

    def copy_often(here: Any, there: Any, seed: int) -> None:
        with here.alloc(50_001) as src, there.alloc(50_001) as dest:
            for step in range(10):
                data = random.Random(100 * seed + step).randbytes(50_001)
                src.copyin(data)
                dest.copyin(src)
                exact.append(dest.copyout() == data)

    with both(machine(PCIE), "NV:1", joined) as (here, there):
        if joined:
            there.enable_peer(here)
        ways = ((here, there), (there, here), (here, there))
        threads = [threading.Thread(target=copy_often, args=(*way, n)) for n, way in enumerate(ways)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads) and exact == [True] * 30


def test_17_big_copies_go_in_pieces(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hcqrt.core.peers.CHUNK_BYTES", 4096)
    options: dict[str, Any] = dict(nv=["sm_86"], qcom="a630")
    with both(machine(**options), "QCOM") as (here, there), here.alloc(9001) as src, there.alloc(9001) as dest:
        src.copyin(DATA[:9001])
        dest.copyin(src)
        assert dest.copyout() == DATA[:9001]


def test_17_an_image_is_copied_without_its_gaps(machine: Machine) -> None:
    options: dict[str, Any] = dict(nv=["sm_86"], qcom="a630")
    shape = (33, 5, "FMT6_16_16_16_16_FLOAT")
    nbytes = 33 * 5 * 8
    with both(machine(**options), "QCOM") as (here, there), ExitStack() as undo:
        plain, image, again = (
            undo.enter_context(buffer)
            for buffer in (here.alloc(nbytes), there.alloc(image=shape), there.alloc(image=shape))
        )
        plain.copyin(DATA[:nbytes])
        image.copyin(plain)
        plain.fill(0)
        again.copyin(image)  # of the same device
        plain.copyin(again)
        assert plain.copyout() == DATA[:nbytes]


def test_a_copy_within_a_device_needs_no_host_and_no_overlap(machine: Machine) -> None:
    system = machine()
    with hcqrt.open_device("NV", system) as dev, dev.alloc(NBYTES) as src, dev.alloc(NBYTES) as dest:
        src.copyin(DATA[:NBYTES])
        dev.synchronize()
        before = system.stats()["copies"]
        dest.offset(1).copyin(src.offset(2))
        assert dest.copyout()[1:-1] == DATA[2:NBYTES]
        assert system.stats()["copies"] - before == 2  # it, and the copyout
        with pytest.raises(ValueError, match="overlap"):
            src.offset(0, 100).copyin(src.offset(99, 100))
        with pytest.raises(ValueError, match="100 bytes do not fit the buffer of 99"):
            dest.offset(0, 99).copyin(src.offset(0, 100))
        src.offset(0, 100).copyin(src.offset(100, 100))
        assert src.copyout()[:100] == DATA[100:200]


def test_a_copy_within_a_device_waits_for_its_earlier_work(machine: Machine) -> None:
    system = machine()
    with hcqrt.open_device("NV", system) as dev, dev.alloc(64) as src, dev.alloc(64, cpu_access=True) as dest:
        src.fill(1), dest.fill(2)
        dev.synchronize()
        go, value = dev.new_signal(), dev.next_timeline()
        dev.compute_queue().wait(go, 1).signal(dev.timeline_signal, value).submit(dev)
        dest.copyin(src)
        system.run_gpus()
        assert bytes(dest.cpu_view().mv) == b"\x02" * 64
        go.value = 1
        dev.synchronize()
        assert bytes(dest.cpu_view().mv) == b"\x01" * 64


def test_a_copy_of_a_closed_buffer_or_device_says_so(machine: Machine) -> None:
    with both(machine(PCIE), "NV:1", joined=True) as (here, there), there.alloc(64) as dest:
        src = here.alloc(64)
        src.close()
        with pytest.raises(HCQError, match="was closed; allocate another"):
            dest.copyin(src)
        src = here.alloc(64)
        here.close()
        for wrong in (lambda: dest.copyin(src), lambda: there.enable_peer(here), lambda: here.enable_peer(there)):
            with pytest.raises(HCQError, match="NV:0 was closed"):
                wrong()
        dest.fill(1)
        assert dest.copyout() == b"\x01" * 64
        src.close()


# asking for peers


def warm(dev: Any) -> None:
    """What a request for peers allocates comes from the cache after this."""
    dev.synchronize()
    dev.alloc(1).close()


def registrations(system: EmulatedSystem) -> list[str]:
    return sorted(item.name for item in system.live_objects() if item.kind in ("registration", "range"))


def test_17_peers_refused_by_the_driver_open_and_copy_all_the_same(machine: Machine) -> None:
    system = machine(PCIE)
    system.inject("ioctl", PEERS, status=0x56, times=10)
    with both(system, "NV:1") as (here, there), here.alloc(NBYTES) as src, there.alloc(NBYTES) as dest:
        src.copyin(DATA[:NBYTES])
        for _ in range(2):
            warm(there)
            before = registrations(system)
            with pytest.raises(UVMError) as failure:
                here.enable_peer(there)
            assert registrations(system) == before
            assert (failure.value.status, failure.value.status_name) == (0x56, "NV_ERR_NOT_SUPPORTED")
            assert failure.value.request == PEERS and isinstance(failure.value, DriverError)
            text = str(failure.value)
            for part in (here.identity, there.identity, "NV_ERR_NOT_SUPPORTED (0x56)", "driver 580.95.05", UVM):
                assert part in text
            for part in ("same chip", "GeForce", "IOMMU", "without enable_peer", "host memory"):  # cause and remedy
                assert part in text
            dest.fill(0)
            dest.copyin(src)
            assert dest.copyout() == DATA[:NBYTES]


def test_17_peers_are_never_enabled_unasked(machine: Machine) -> None:
    system = machine(PCIE)
    with both(system, "NV:1") as (here, there), here.alloc(64) as src, there.alloc(64) as dest:
        src.fill(1)
        dest.copyin(src)
    assert PEERS not in [entry[2] for entry in system.ioctl_log]


@pytest.mark.parametrize(
    "cards",
    [
        ["sm_86", "sm_86"],
        ["sm_90", "sm_80"],
        [dict(chip="sm_90", peer_access=False), "sm_90"],
        [dict(chip="sm_86", nvlink="x"), dict(chip="sm_86", nvlink="y")],
    ],
)
def test_17_the_emulated_driver_refuses_what_real_ones_do(machine: Machine, cards: list[Any]) -> None:
    with both(machine(cards), "NV:1") as (here, there):
        for a, b in ((here, there), (there, here)):
            with pytest.raises(DriverError, match=re.escape(a.identity) + ".*" + re.escape(b.identity) + r".*\(0x56\)"):
                a.enable_peer(b)


@pytest.mark.parametrize("driver", ["535.54.03", "550.54.14", "570.86.15", "590.48.01", "610.43.02"])
@pytest.mark.parametrize("restricted", [False, True])
def test_17_peers_work_on_every_driver(machine: Machine, driver: str, restricted: bool) -> None:
    system = machine(PCIE, nv_driver=driver, restricted=restricted)
    with both(system, "NV:1", joined=True) as (here, there), here.alloc(99) as src, there.alloc(99) as dest:
        here.enable_peer(there)  # twice is fine
        there.enable_peer(here)
        src.copyin(DATA[:99])
        assert copies_of(here, there, lambda: dest.copyin(src)) == 1
        assert dest.copyout() == DATA[:99]


@pytest.mark.parametrize(
    ("call", "status", "name"),
    [
        (PEERS, 0x26, "NV_ERR_INVALID_DEVICE"),  # said of peers over NVLink too, which these are not
        (PEERS, 0x54, "NV_ERR_NOT_COMPATIBLE"),
        ("UVM_REGISTER_GPU", 0x26, "NV_ERR_INVALID_DEVICE"),
        ("UVM_MAP_EXTERNAL_ALLOCATION", 0x26, "NV_ERR_INVALID_DEVICE"),
    ],
)
def test_17_every_step_of_a_request_can_fail_and_leaves_nothing(
    machine: Machine, call: str, status: int, name: str
) -> None:
    system = machine(PCIE)
    with both(system, "NV:1") as (here, there):
        warm(there)
        before = registrations(system)
        system.inject("ioctl", call, status=status)
        with pytest.raises(UVMError, match=rf"NV:0 \(.*NV:1 \(.*{name} \({status:#x}\).*enable_peer") as failure:
            here.enable_peer(there)
        assert failure.value.status == status and registrations(system) == before
        here.enable_peer(there)
        assert len(registrations(system)) == len(before) + 1


def test_17_devices_that_no_driver_joins_are_refused_by_name(machine: Machine) -> None:
    options: dict[str, Any] = dict(nv=PCIE, qcom="a630")
    with both(machine(**options), "QCOM") as (nv, adreno), hcqrt.open_device("NV:1", machine(PCIE)) as elsewhere:
        for here, there in ((nv, adreno), (adreno, nv), (nv, elsewhere)):
            with pytest.raises(DriverError) as failure:
                here.enable_peer(there)
            assert all(part in str(failure.value) for part in (here.identity, there.identity, "host memory"))
        with pytest.raises(ValueError, match="NV:0 is no peer of itself"):
            nv.enable_peer(nv)


def test_17_a_gpu_of_another_machine_is_no_peer_whatever_its_uuid(machine: Machine) -> None:
    with both(machine(PCIE), "NV:1", joined=True) as (here, there), hcqrt.open_device("NV:1", machine(PCIE)) as twin:
        assert twin.uuid == there.uuid
        with here.alloc(64) as src, twin.alloc(64) as dest:
            src.copyin(DATA[:64])
            dest.copyin(src)
            assert dest.copyout() == DATA[:64]


def test_17_peers_may_close_in_any_order_and_come_back(machine: Machine) -> None:
    system = machine(PCIE)
    with ExitStack() as undo:
        first, second = (undo.enter_context(hcqrt.open_device(f"NV:{n}", system)) for n in (0, 1))
        first.enable_peer(second)
        second.close()
        again = undo.enter_context(hcqrt.open_device("NV:1", system))
        with first.alloc(64) as src, again.alloc(64) as dest:
            src.copyin(DATA[:64])
            dest.copyin(src)  # the GPU is still a peer: which device object it belongs to does not matter
            assert dest.copyout() == DATA[:64]
        first.close()
        with again.alloc(64) as buffer:
            buffer.fill(7)
            assert buffer.copyout() == b"\x07" * 64


def test_17_a_copy_that_does_not_end_keeps_its_addresses(machine: Machine) -> None:
    system = machine(PCIE)
    with both(system, "NV:1", joined=True, wait_timeout_ms=200) as (here, there):
        src, dest = there.alloc(4096), here.alloc(4096)
        src.fill(5)
        there.synchronize()
        never = here.new_signal()
        held_copy(here, never, dest, dest.va_addr, 0)
        before = registrations(system)
        with pytest.raises(SignalTimeout, match="NV:0"):
            dest.copyin(src)
        assert len(registrations(system)) == len(before) + 1  # the window that the copy will use
        never.value = 1
        here.synchronize()
        assert dest.copyout() == b"\x05" * 4096
        src.close()
        dest.close()


def test_17_a_fork_cannot_use_the_parents_peers(machine: Machine) -> None:
    system = machine(PCIE)
    with both(system, "NV:1", joined=True) as (here, there), here.alloc(64) as src, there.alloc(64) as dest:
        src.copyin(DATA[:64])
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: dest.copyin(src), lambda: src.copyin(dest), lambda: there.enable_peer(here)):
                try:
                    use()
                except HCQError as error:
                    refused += "open the device after the fork" in str(error)
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        dest.copyin(src)
        assert dest.copyout() == DATA[:64]
