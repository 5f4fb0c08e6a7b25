"""Fault reports: numbers that have no name, chips with more than 100 SMs, details that a sandbox refuses."""

from __future__ import annotations

import errno

import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.errors import IoctlError
from hcqrt.nv.faults import MmuRecord, Notification, SmRecord, describe, exception_name


def text(reader: object = None, exception: int = 31, **changes: object) -> str:
    fields: dict[str, object] = dict(
        last_launch="saxpy", find_allocation=lambda address: "nowhere", find_code=lambda pc: None
    )
    fields.update(changes)
    return describe("NV:0", [Notification("compute", exception, 1, 0)], reader, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "part"),
    [(13, "exception"), (31, "MMU fault"), (32, "PBDMA"), (40, "copy engine 1"), (9999, "unknown error")],
)
def test_exceptions_have_words_and_always_their_number(code: int, part: str) -> None:
    assert part in exception_name(code) and f"Xid {code}" in exception_name(code)


def test_numbers_without_a_name_are_shown_as_numbers() -> None:
    assert str(MmuRecord(0xDEAD0000, 2, 1)) == "write of 0xdead0000: unmapped page"
    assert str(MmuRecord(0x1000, 77, 99)) == "access 99 of 0x1000: fault type 77"
    assert "illegal instruction" in str(SmRecord(3, 0, 9, 0x1230, 0)) and "0x1230" in str(SmRecord(3, 0, 9, 0x1230, 0))
    assert "warp error 0x42" in str(SmRecord(0, 4, 0x42, 0, 0))
    assert "SM 0: trap instruction (BPT.INT) at pc 0x30 " in str(SmRecord(0, 1 << 4, 0, 0x30, 0))
    assert "SM 0: L1 error, SM error 7, timeout at" in str(SmRecord(0, 1 << 1 | 1 << 7 | 1 << 31, 0, 0, 0))
    assert "no warp error" in str(SmRecord(0, 0, 0, 0, 0))


def test_a_notifier_is_read_as_the_driver_fills_it() -> None:
    halves = [0x2211, 0x4433, 0x6655, 0x8877, 31, 0, 9, 0xFFFF]
    note = Notification.read("copy", halves)
    assert (note.channel, note.exception, note.engine, note.time_ns) == ("copy", 31, 9, 0x8877665544332211)


class Reader:
    """A debugger that a sandbox allows in part."""

    def __init__(self, mmu: object, sms: object) -> None:
        self._mmu, self._sms = mmu, sms

    def mmu(self) -> list[MmuRecord]:
        return self._give(self._mmu)

    def sms(self) -> list[SmRecord]:
        return self._give(self._sms)

    @staticmethod
    def _give(value: object) -> list:  # type: ignore[type-arg]
        if isinstance(value, Exception):
            raise value
        return value  # type: ignore[return-value]


def test_a_report_names_address_access_allocation_and_kernel() -> None:
    reader = Reader([MmuRecord(0xDEAD0000, 2, 1)], [SmRecord(5, 0, 9, 0x5040, 0)])
    shown = text(reader, find_allocation=lambda a: f"at {a:#x}", find_code=lambda pc: f"saxpy+{pc - 0x5000:#x}")
    for part in (
        "write of 0xdead0000",
        "at 0xdead0000",
        "SM 5",
        "saxpy+0x40",
        "last launch: saxpy",
        "Xid",
        "open it again",
    ):
        assert part in shown
    assert "\n" not in shown and "reset" not in shown


def test_what_is_refused_does_not_hide_the_rest() -> None:
    shown = text(Reader(IoctlError("READ_MMU_FAULT_INFO: EINVAL"), [SmRecord(5, 0, 9, 0x5040, 0)]))
    assert "no details: READ_MMU_FAULT_INFO" in shown and "SM 5" in shown


def test_a_dead_gpu_is_said_to_need_a_reset() -> None:
    for code in (79, 95, 119, 120, 143):
        assert "reset" in text(exception=code)


@pytest.mark.parametrize(("tpcs", "starts"), [(1, [0]), (50, [0]), (72, [0, 100])])
def test_all_sms_are_read_100_at_a_time(machine: Machine, tpcs: int, starts: list[int]) -> None:
    system = machine([dict(chip="sm_86", tpcs=tpcs)])
    with hcqrt.open_device("NV", system=system) as dev:
        assert dev.fault_reader is not None
        system.ioctl_log.clear()
        assert dev.fault_reader.sms() == []
        asked = [entry[4] for entry in system.ioctl_log]
    assert [one["startingSM"] for one in asked] == starts
    assert sum(one["numSMsToRead"] for one in asked) == 2 * tpcs


@pytest.mark.parametrize("failure", [dict(status=0x1B), dict(errno=errno.EINVAL)])
def test_a_driver_that_refuses_debuggers_still_opens(machine: Machine, failure: dict[str, int]) -> None:
    system = machine()
    system.inject("ioctl", "GT200_DEBUGGER", **failure)
    with hcqrt.open_device("NV", system=system) as dev:
        assert dev.fault_reader is None
        dev.synchronize()
