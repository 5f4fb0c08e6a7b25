"""Layouts by driver version: what is accepted, what warns, what is refused and how the text helps."""

from __future__ import annotations

import ctypes
import warnings

import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.autogen.nv.releases import RELEASES
from hcqrt.errors import DriverError
from hcqrt.nv.abi import Abi, choose_release, parse_version

NEWEST = "580.142"  # of its branch


def test_versions_compare_as_numbers() -> None:
    assert parse_version("580.95.05") == (580, 95, 5) < parse_version("580.105.08")
    for text in ("", "580", "580.", "x.1", "580.95.05-beta", "580.95.05.1.2"):
        with pytest.raises(ValueError, match="not a driver version"):
            parse_version(text)


def test_a_known_release_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Abi("580.95.05").release == (580, 95, 5)


def test_an_unknown_patch_of_a_known_branch_opens_with_exactly_one_warning(machine: Machine) -> None:
    system = machine(nv_driver="580.999.99")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hcqrt.open_device("NV", system=system).close()
    assert [str(w.message) for w in caught if "580.999.99" in str(w.message)] == [str(w.message) for w in caught]
    assert len(caught) == 1 and NEWEST in str(caught[0].message)


def test_an_unknown_patch_takes_the_newest_layouts_of_its_branch() -> None:
    # 550.40.53 and its like are younger than 550.54.14, whose UVM structs they have, whatever their numbers say.
    with pytest.warns(RuntimeWarning, match=r"550\.40\.53: .* layouts of 550\.163\.01"):
        abi = Abi("550.40.53")
    assert abi.release == (550, 163, 1) and ctypes.sizeof(abi.struct("UVM_MAP_EXTERNAL_ALLOCATION_PARAMS")) == 9264


@pytest.mark.parametrize(
    ("driver", "why", "closest"),
    [
        ("470.223.02", "too old", 535),
        ("585.10", "of no known branch", 580),
        ("999.10", "newer than any known ABI", 610),
    ],
)
def test_an_unknown_branch_is_refused_with_the_range_and_the_override(
    machine: Machine, driver: str, why: str, closest: int
) -> None:
    system = machine(nv_driver=driver)
    text = rf"driver {driver} is {why}; known are 535 to 610 .*570, 575, 580.*HCQRT_NV_ABI={closest} "
    with pytest.raises(DriverError, match=text):
        hcqrt.open_device("NV", system=system)
    assert system.live_objects() == []
    info = hcqrt.devices(system)
    assert [(one.usable, why in one.reason) for one in info] == [(False, True)]


@pytest.mark.parametrize(("override", "release"), [("610", RELEASES[-1]), ("580.95.05", (580, 95, 5))])
def test_the_override_takes_a_release_or_a_branch(override: str, release: tuple[int, ...]) -> None:
    assert choose_release("999.10", override) == release
    assert Abi("999.10", override).driver == "999.10"  # errors still name what runs


@pytest.mark.parametrize("override", ["latest", "580.x", "²", "12"])
def test_an_override_that_names_no_known_release_is_a_driver_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, override: str
) -> None:
    monkeypatch.setenv("HCQRT_NV_ABI", override)
    system = machine()
    with pytest.raises(DriverError):
        hcqrt.open_device("NV", system=system)
    assert [info.usable for info in hcqrt.devices(system)] == [False]


def test_every_call_is_bound_to_its_struct() -> None:
    abi = Abi("580.95.05")
    escape = abi.escape("NV_ESC_RM_CONTROL")
    assert escape.request == 0xC020462A and ctypes.sizeof(escape.struct) == 32
    assert abi.escape("NV_ESC_RM_CONTROL") is escape
    assert abi.uvm("UVM_FREE").request == 34 and not abi.uvm("UVM_FREE").sized
    command, struct = abi.control("NVA06C_CTRL_CMD_GPFIFO_SCHEDULE")
    assert command == 0xA06C0101 and ctypes.sizeof(struct) == 3
    number, params = abi.alloc_class("TURING_USERMODE_A")
    assert number == 0xC461 and params is None
    with pytest.raises(KeyError, match="NO_SUCH"):
        abi.struct("NO_SUCH_STRUCT")


def test_statuses_go_by_the_names_that_the_running_driver_has() -> None:
    moved = [(Abi(driver).status_name(0x8B), driver) for driver in ("580.95.05", "580.105.08", "595.45.04")]
    # 580.95.05 has no such status: then the newest name is better than none
    assert moved == [
        ("NV_ERR_OPERATION_ABORTED", "580.95.05"),
        ("NV_ERR_DMA_XFER_FAILED", "580.105.08"),
        ("NV_ERR_OPERATION_ABORTED", "595.45.04"),
    ]
    assert Abi("550.163.01").status_name(0x81) == "NV_ERR_NVSWITCH_FABRIC_NOT_READY"
    assert Abi("535.54.03").status_name(0x1F) == "NV_ERR_INVALID_ARGUMENT"
    assert Abi("535.54.03").status_name(0xABCD) == ""
