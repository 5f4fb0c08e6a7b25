"""Finding GPUs: what is missing is told apart, every refusal has a reason, and listing never raises."""

from __future__ import annotations

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


def test_our_own_setting_wins_over_cudas(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    system = machine(["sm_86"] * 2)
    for name, value in zip(VISIBLE, ("1", "0"), strict=True):
        monkeypatch.setenv(name, value)
    assert [info.minor for info in hcqrt.devices(system)] == [1]


def test_an_unknown_architecture_is_a_clean_error_with_its_number(machine: Machine) -> None:
    from hcqrt.nv.arch import chip_for

    assert chip_for(0x806).name == "sm_86"
    with pytest.raises(HCQError, match=r"not supported: SM_VERSION 0x3f00.*sm_80.*sm_86"):
        chip_for(0x3F00)
