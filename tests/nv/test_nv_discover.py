"""Finding GPUs: what is missing is told apart, every refusal has a reason, and listing never raises."""

from __future__ import annotations

import errno

import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.emu import EmulatedSystem
from hcqrt.errors import DeviceNotFound, HCQError

UVM, CTL, GPU = "/dev/nvidia-uvm", "/dev/nvidiactl", "/dev/nvidia0"
VISIBLE = ("HCQRT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VISIBLE:
        monkeypatch.delenv(name, raising=False)


def refused(system: EmulatedSystem) -> str:
    """The text of a refused open, after which nothing is held."""
    with pytest.raises(DeviceNotFound) as failure:
        hcqrt.open_device("NV:0", system=system)
    assert system.live_objects() == []
    return str(failure.value)


def test_01_without_the_uvm_node_the_error_names_it_and_how_to_load_it(machine: Machine) -> None:
    system = machine()
    del system.nodes[UVM]
    text = refused(system)
    for part in (UVM, "ENOENT", "nvidia-modprobe", "modprobe nvidia-uvm", "container"):
        assert part in text
    (info,) = hcqrt.devices(system)
    assert not info.usable and UVM in info.reason and info.arch == "sm_86" and info.uuid.startswith("GPU-")


def trees(machine: Machine) -> dict[str, EmulatedSystem]:
    """Four machines without a control node, each for another reason."""
    made = {name: machine() for name in ("nouveau", "wsl", "none", "module")}
    for system in made.values():
        system.nodes.clear()
    made["nouveau"].files["/sys/module/nouveau/refcnt"] = "1\n"
    made["wsl"].nodes["/dev/dxg"] = (0o666, None)
    for path in [path for path in made["none"].files if path.startswith("/sys/bus/pci")]:
        del made["none"].files[path]
    return made


def test_02_four_reasons_for_a_missing_control_node_have_four_texts(machine: Machine) -> None:
    texts = {name: refused(system) for name, system in trees(machine).items()}
    expected = {"nouveau": "nouveau", "wsl": "WSL2", "none": "no NVIDIA card", "module": "module is not loaded"}
    for name, part in expected.items():
        assert CTL in texts[name] and part in texts[name]
        assert not any(part in texts[other] for other in texts if other != name)
        assert name == "module" or "HCQRT_SYSTEM=emulated" in texts[name]


def test_listing_shows_the_gpus_that_no_driver_answers_for(machine: Machine) -> None:
    shown = {name: hcqrt.devices(system) for name, system in trees(machine).items()}
    assert shown["none"] == []
    for name in ("nouveau", "module"):
        assert [(info.pci, info.usable) for info in shown[name]] == [("0000:01:00.0", False)]
    assert ["WSL2" in info.reason for info in shown["wsl"]] == [True]
    assert "nouveau" in shown["nouveau"][0].reason and "not loaded" in shown["module"][0].reason


def test_a_sound_device_is_no_gpu(machine: Machine) -> None:
    system = machine()
    system.nodes.clear()
    folder = "/sys/bus/pci/devices/0000:01:00.1"
    system.files |= {f"{folder}/vendor": "0x10de\n", f"{folder}/class": "0x040300\n"}
    assert [info.pci for info in hcqrt.devices(system)] == ["0000:01:00.0"]


@pytest.mark.parametrize("node", [CTL, UVM, GPU])
@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "permission"),
        (errno.EPERM, "device cgroup"),
        (errno.ENODEV, "removed or lost"),
        (errno.ENXIO, "no driver"),
        (errno.EIO, "kernel log"),
    ],
)
def test_a_node_that_does_not_open_is_explained(machine: Machine, node: str, number: int, hint: str) -> None:
    system = machine()
    system.nodes[node] = (0o600, number)
    text = refused(system)
    assert node in text and hint in text and f"[{errno.errorcode[number]}]" in text and "crw------- uid 0" in text
    (info,) = hcqrt.devices(system)
    assert info.usable == (node == UVM)  # listing opens no UVM file
    assert node == UVM or hint in info.reason


def test_a_card_without_a_node_is_listed_with_the_reason(machine: Machine) -> None:
    system = machine(["sm_86", "sm_86"])
    del system.nodes["/dev/nvidia1"]
    first, second = hcqrt.devices(system)
    assert first.usable and not second.usable and "/dev/nvidia1 does not exist" in second.reason
    assert (second.pci, second.minor) == ("0000:02:00.0", 1)


def test_the_minor_and_not_the_index_names_the_node(machine: Machine) -> None:
    system = machine([dict(chip="sm_86", minor=5), dict(chip="sm_86", minor=2)])
    assert [info.minor for info in hcqrt.devices(system)] == [5, 2]
    with hcqrt.open_device("NV:1", system=system) as dev:
        assert dev.card.node == "/dev/nvidia2"


@pytest.mark.parametrize("name", VISIBLE)
def test_16_visibility_chooses_and_orders(machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    system = machine(["sm_86"] * 3)
    uuids = [info.uuid for info in hcqrt.devices(system)]
    monkeypatch.setenv(name, "2,0")
    assert [info.uuid for info in hcqrt.devices(system)] == [uuids[2], uuids[0]]
    for index, expected in enumerate((uuids[2], uuids[0])):
        with hcqrt.open_device(f"NV:{index}", system=system) as dev:
            assert dev.uuid_name == expected
    with pytest.raises(DeviceNotFound, match=r"NV:2.*2 visible"):
        hcqrt.open_device("NV:2", system=system)
    monkeypatch.setenv(name, uuids[1][:16])
    assert [info.uuid for info in hcqrt.devices(system)] == [uuids[1]]
    monkeypatch.setenv(name, "")
    assert hcqrt.devices(system) == []
    for bad in ("7", "a", "0,GPU-ffff", "²"):
        monkeypatch.setenv(name, bad)
        with pytest.raises(DeviceNotFound, match=rf"{name}=.*0: /dev/nvidia0.*2: /dev/nvidia2"):
            hcqrt.open_device("NV:0", system=system)
        assert [info.usable for info in hcqrt.devices(system)] == [False]


def test_our_own_setting_wins_over_cudas(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    system = machine(["sm_86"] * 2)
    for name, value in zip(VISIBLE, ("1", "0"), strict=True):
        monkeypatch.setenv(name, value)
    assert [info.minor for info in hcqrt.devices(system)] == [1]


def test_listing_never_raises_whatever_call_fails(machine: Machine) -> None:
    system = machine()
    assert [info.usable for info in hcqrt.devices(system)] == [True]
    calls, opens = len(system.ioctl_log), 2
    for kind, count in (("ioctl", calls), ("open", opens)):
        for nth in range(1, count + 1):
            for failure in (dict(errno=errno.EINVAL), dict(errno=errno.EIO), dict(status=0x1A)):
                system.inject(kind, nth=nth, **failure)
                found = hcqrt.devices(system)
                system.rules.drop(kind)
                assert len(found) == 1 and (found[0].usable or found[0].reason), (kind, nth, failure)
                assert system.live_objects() == []


def test_an_unknown_architecture_is_a_clean_error_with_its_number(machine: Machine) -> None:
    from hcqrt.nv.arch import chip_for

    assert chip_for(0x806).name == "sm_86"
    with pytest.raises(HCQError, match=r"not supported: SM_VERSION 0x3f00.*sm_80.*sm_86"):
        chip_for(0x3F00)
