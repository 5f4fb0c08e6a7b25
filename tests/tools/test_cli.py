"""The `hcqrt` command: what it prints where, the shape of its JSON, and its exit status."""

from __future__ import annotations

import json

import pytest

import hcqrt
from hcqrt import DeviceNotFound
from hcqrt.tools import check_frame, checks, device_checks, smoke
from hcqrt.tools.cli import main


@pytest.fixture(autouse=True)
def few_checks(monkeypatch):
    """The command's frame is under test here, not what the checks check."""
    chosen = ("open_and_name", "submit_and_signal", "fill_on_device", "clean_close")
    for module in (checks, smoke):
        monkeypatch.setattr(module, "CHECKS", {name: checks.CHECKS[name] for name in chosen}, raising=True)
    monkeypatch.delenv("HCQRT_SYSTEM", raising=False)


def test_smoke_says_what_it_ran_on_and_how_it_ended(capsys):
    assert main(["smoke", "--emulated", "sm_86"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "emulated NV:0 (emulated sm_86, driver 580.95.05)"
    assert [line.split()[0] for line in lines[1:-1]] == ["ok"] * 4
    assert lines[-1] == "smoke: 4 checks passed on NV:0 (emulated sm_86, driver 580.95.05)"


@pytest.mark.parametrize("name", ["NV", "nv:0"])
def test_json_is_one_object_and_nothing_else(capsys, name):
    assert main(["smoke", "--device", name, "--json", "--emulated", "sm_86@580.95.05"]) == 0
    streams = capsys.readouterr()
    assert streams.err.splitlines()[0].startswith("emulated NV:0 (emulated sm_86, driver 580.95.05)")
    result = json.loads(streams.out)
    assert list(result) == ["device", "arch", "driver", "emulated", "checks"]
    assert (result["device"], result["arch"], result["driver"], result["emulated"]) == (
        "NV:0", "sm_86", "580.95.05", True,
    )  # fmt: skip
    for check in result["checks"]:
        assert list(check) == ["name", "ok", "seconds", "detail"]
        assert check["ok"] is True and isinstance(check["seconds"], float) and isinstance(check["detail"], str)


def test_several_devices_are_checked_in_turn(capsys):
    assert main(["smoke", "--device", "NV:1", "--device", "NV:0", "--emulated", "sm_86,sm_86", "--json"]) == 0
    assert [one["device"] for one in json.loads(capsys.readouterr().out)["devices"]] == ["NV:1", "NV:0"]


def test_a_failure_is_told_and_ends_with_status_1(capsys, monkeypatch):
    monkeypatch.setattr(device_checks, "same", lambda *_: check_frame.expect(False, "wrong byte"))
    assert main(["smoke", "--emulated", "sm_86"]) == 1
    out = capsys.readouterr().out
    assert "FAIL" in out and "CheckFailed: wrong byte" in out
    assert out.splitlines()[-1] == "smoke: 1 of 4 checks FAILED on NV:0 (emulated sm_86, driver 580.95.05)"


@pytest.mark.parametrize("arguments", [["smoke", "--device", "NV:7"], ["smoke", "--device", "NV:7", "--json"]])
def test_a_device_that_is_not_there_fails(capsys, arguments):
    assert main([*arguments, "--emulated", "sm_86"]) == 1
    assert "no device NV:7: 1 visible" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [
    ["smoke", "--device", "GPU"], ["smoke", "--device", "NV:x"], ["info", "--device", "NV:3"],
    ["smoke", "--emulated", "sm_999"],
])  # fmt: skip
def test_what_cannot_be_is_one_line_on_standard_error(capsys, arguments):
    assert main([*arguments, *([] if "--emulated" in arguments else ["--emulated", "sm_86"])]) == 1
    streams = capsys.readouterr()
    assert streams.out == "" and streams.err.startswith(f"hcqrt {arguments[0]}: ") and streams.err.count("\n") == 1


def test_info_lists_devices(capsys):
    assert main(["info", "--emulated", "sm_86,sm_86", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["system"] == "emulated"
    assert [(one["name"], one["usable"], one["reason"]) for one in listed["devices"]] == [
        ("NV:0", True, ""), ("NV:1", True, ""),
    ]  # fmt: skip
    assert main(["info", "--emulated", "sm_86,sm_86", "--device", "NV:1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "emulated machine: 1 GPU" and lines[1].startswith("NV:1") and lines[1].endswith("usable")


def test_without_arguments_or_nodes_the_emulator_is_used(capsys):
    if main(["info", "--real"]) == 0 and "0 GPUs" in capsys.readouterr().out:
        assert main(["info"]) == 0
        assert capsys.readouterr().out.startswith("emulated machine: 2 GPUs")
    with pytest.raises(SystemExit) as wrong:
        main([])
    assert wrong.value.code == 2


@pytest.mark.parametrize(("name", "value"), [
    ("HCQRT_WAIT_TIMEOUT_MS", "soon"), ("HCQRT_WAIT_TIMEOUT_MS", "0"), ("HCQRT_RING_ENTRIES", "5"),
    ("HCQRT_RING_ENTRIES", "2"), ("HCQRT_CMD_BYTES", "1"), ("HCQRT_CACHE", "yes"), ("HCQRT_EMU_THREADS", "0"),
    ("HCQRT_SYSTEM", "imagined"),
])  # fmt: skip
def test_malformed_settings_are_named(monkeypatch, machine, name, value):
    system = machine()
    monkeypatch.setenv(name, value)
    given = None if name == "HCQRT_SYSTEM" else system
    with pytest.raises(ValueError, match=name):
        hcqrt.open_device("NV", given)
    (info,) = hcqrt.devices(given)  # never raises
    assert not info.usable and name in info.reason


@pytest.mark.parametrize("name", ["", "NV:", "NV:-1", "NV:²", "NV:1:2", "CUDA"])
def test_names_that_are_none_are_refused(system, name):
    with pytest.raises(DeviceNotFound, match="names are NV"):
        hcqrt.open_device(name, system)
