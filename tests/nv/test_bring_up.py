"""Bring-up: whatever step fails, the error names it and nothing stays; closing goes on after a step that fails."""

from __future__ import annotations

import errno

import pytest

import hcqrt


def bring_up_calls(machine) -> int:
    system = machine()
    before = len(system.ioctl_log)
    hcqrt.open_device("NV", system).close()
    return len(system.ioctl_log) - before


@pytest.mark.parametrize("first", range(8))
def test_a_failing_ioctl_at_every_step_leaves_nothing(machine, first):
    for nth in range(first + 1, bring_up_calls(machine), 8):
        system = machine()
        system.inject("ioctl", nth=nth, errno=errno.EIO)
        try:
            hcqrt.open_device("NV", system).close()
        except hcqrt.HCQError as error:
            assert "EIO" in str(error), str(error)
        assert system.live_objects() == [], nth


@pytest.mark.parametrize("status", [0x1F, 0x51, 0x40])
def test_a_refusing_driver_at_every_step_leaves_nothing(machine, status):
    for nth in range(1, bring_up_calls(machine), 5):
        system = machine()
        system.inject("ioctl", nth=nth, status=status)
        try:
            hcqrt.open_device("NV", system).close()
        except hcqrt.HCQError as error:
            assert f"{status:#x}" in str(error).lower() or "EINVAL" in str(error), str(error)
        assert system.live_objects() == [], nth


def test_a_failing_open_at_every_step_leaves_nothing(machine):
    for nth in range(1, 16):
        system = machine()
        system.inject("open", nth=nth, errno=errno.EMFILE)
        try:
            hcqrt.open_device("NV", system).close()
        except hcqrt.HCQError as error:
            assert "EMFILE" in str(error), str(error)
        assert system.live_objects() == [], nth


def test_field_report_1_a_missing_uvm_node_is_named(machine):
    system = machine()
    del system.nodes["/dev/nvidia-uvm"]
    with pytest.raises(hcqrt.DeviceNotFound, match=r"/dev/nvidia-uvm.*ENOENT.*modprobe.*container"):
        hcqrt.open_device("NV", system)


def test_field_report_2_a_missing_control_node_has_four_reasons(machine):
    texts = set()
    for extra in ("/dev/dxg", "/sys/module/nouveau", "", "card"):
        system = machine()
        del system.nodes["/dev/nvidiactl"]
        if extra == "card":
            system.files["/sys/bus/pci/devices/0000:01:00.0/vendor"] = "0x10de\n"
        else:
            for path in [path for path in system.files if path.startswith("/sys/bus/pci")]:
                del system.files[path]
            if extra:
                system.files[extra] = ""
        with pytest.raises(hcqrt.DeviceNotFound, match="/dev/nvidiactl") as failure:
            hcqrt.open_device("NV", system)
        texts.add(str(failure.value))
    assert len(texts) == 4
    assert hcqrt.devices(machine(nv=())) == []


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EACCES, "no permission"), (errno.EPERM, "cgroup"), (errno.ENODEV, "lost"), (errno.EIO, "kernel log")],
)
def test_a_node_that_does_not_open_says_why(machine, number, words):
    system = machine()
    system.nodes["/dev/nvidia0"] = (0o666, number)
    with pytest.raises(hcqrt.DeviceNotFound, match=rf"/dev/nvidia0.*{words}.*{errno.errorcode[number]}"):
        hcqrt.open_device("NV", system)
    found = hcqrt.devices(system)
    assert [info.usable for info in found] == [False] and words in found[0].reason


def test_visible_devices_choose_and_order(machine, monkeypatch):
    system = machine(nv=["sm_86", "sm_86", "sm_86"])
    uuids = [info.uuid for info in hcqrt.devices(system)]
    monkeypatch.setenv("HCQRT_VISIBLE_DEVICES", "2,0")
    assert [info.uuid for info in hcqrt.devices(system)] == [uuids[2], uuids[0]]
    with hcqrt.open_device("NV:1", system) as dev:
        assert dev.uuid_name == uuids[0]
    with pytest.raises(hcqrt.DeviceNotFound, match="2 visible"):
        hcqrt.open_device("NV:2", system)
    for bad in ("7", "a"):
        monkeypatch.setenv("HCQRT_VISIBLE_DEVICES", bad)
        with pytest.raises(hcqrt.DeviceNotFound, match=r"found are 0: /dev/nvidia0"):
            hcqrt.open_device("NV:0", system)
    monkeypatch.setenv("HCQRT_VISIBLE_DEVICES", "")
    assert hcqrt.devices(system) == []


def test_an_unknown_driver_branch_is_refused_with_the_way_out(machine, monkeypatch):
    system = machine(nv_driver="999.10")
    with pytest.raises(hcqrt.DriverError, match=r"999\.10.*newer than any known ABI.*HCQRT_NV_ABI"):
        hcqrt.open_device("NV", system)
    assert system.live_objects() == []
    with pytest.raises(hcqrt.DriverError, match="too old"):
        hcqrt.open_device("NV", machine(nv_driver="470.223.02"))


def test_an_unknown_patch_of_a_known_branch_warns_once_and_works(machine):
    with pytest.warns(RuntimeWarning, match=r"580\.999\.99.*580\.142") as seen:
        hcqrt.open_device("NV", machine(nv_driver="580.999.99")).close()
    assert len(seen) == 1
