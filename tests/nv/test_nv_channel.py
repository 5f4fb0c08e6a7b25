"""Channels: the order of their calls, where ring, USERD and notifier lie, class choice, and unwinding."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from nv_bench import Bench

from hcqrt.autogen.nv import ioctls
from hcqrt.errors import DriverError, HCQError
from hcqrt.nv.channel import (
    COMPUTE_GROUP,
    CONTEXT_WINDOW_BYTES,
    COPY_GROUP,
    NOTIFIER_BYTES,
    USERD_BYTES,
    Channel,
    GroupSpec,
    best_class,
)
from hcqrt.nv.memory import HUGE_PAGE

NUMBERS = {name: number for name, (number, _) in ioctls.CLASSES.items()}
ENGINES = {"compute": (COMPUTE_GROUP, "AMPERE_COMPUTE_B"), "copy": (COPY_GROUP, "AMPERE_DMA_COPY_B")}


def make(bench: Bench, group: GroupSpec, engine: str, entries: int = 16) -> Channel:
    window = bench.owner.reservation.space.alloc(CONTEXT_WINDOW_BYTES, HUGE_PAGE)
    try:
        return Channel(
            bench.owner, bench.va_space, window, group,
            channel_class="AMPERE_CHANNEL_GPFIFO_A", engine_class=engine, entries=entries,
        )  # fmt: skip
    finally:
        bench.owner.reservation.space.free(window)


def alloc_fields(bench: Bench, name: str) -> Any:
    return next(entry[4] for entry in bench.system.ioctl_log if entry[3] == name)


@pytest.mark.parametrize("which", ENGINES)
def test_engine_object_then_registration_then_schedule_then_token(bench: Bench, which: str) -> None:
    group, engine = ENGINES[which]
    bench.forget()
    channel = make(bench, group, engine)
    names = [inner or outer for outer, inner in bench.calls()]
    order = ["KEPLER_CHANNEL_GROUP_A", "AMPERE_CHANNEL_GPFIFO_A", engine, "UVM_REGISTER_CHANNEL"]
    order += ["NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN"]
    places = [names.index(name) for name in order]
    assert places == sorted(places)
    assert ("FERMI_CONTEXT_SHARE_A" in names) == (which == "compute")  # only graphics groups have subcontexts
    channel.close()
    channel.close()
    assert names.count(engine) == 1


@pytest.mark.parametrize("entries", [4, 16, 1024])
def test_ring_userd_and_notifier_lie_where_the_driver_is_told(bench: Bench, entries: int) -> None:
    channel = make(bench, *ENGINES["compute"], entries=entries)
    fields = alloc_fields(bench, "AMPERE_CHANNEL_GPFIFO_A")
    userd = fields["userdOffset"][0]
    assert fields["gpFifoEntries"] == entries == len(channel.ring) and channel.ring.itemsize == 8
    assert userd % USERD_BYTES == 0 and userd >= 8 * entries and fields["hUserdMemory"][0]
    assert fields["hContextShare"] and not fields["hVASpace"]
    assert channel.gp_put.itemsize == 4 and channel.gp_put[0] == 0
    assert channel.notifier.nbytes == NOTIFIER_BYTES and not any(channel.notifier[:8])
    assert channel.notifier[12] | channel.notifier[13] << 16 == channel.token  # the driver leaves it in [1]
    driver_side = bench.system.drivers[0].boards[0].gpu.channels[channel.token]  # type: ignore[attr-defined]
    assert driver_side.gpfifo_entries == entries and driver_side.channel_class == NUMBERS["AMPERE_CHANNEL_GPFIFO_A"]
    channel.close()


def test_a_filled_notifier_is_a_fault(bench: Bench) -> None:
    channel = make(bench, *ENGINES["copy"])
    assert not channel.faulted
    channel.notifier[7] = 0xFFFF
    assert channel.faulted
    channel.close()


@pytest.mark.parametrize("which", ENGINES)
def test_a_failure_at_any_step_names_it_and_leaves_nothing(bench: Bench, which: str) -> None:
    group, engine = ENGINES[which]
    before = bench.held()
    bench.forget()
    make(bench, group, engine).close()
    names = [inner or outer for outer, inner in bench.calls()]
    steps = names.index("NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN") + 1
    for nth in range(1, steps + 1):
        bench.system.inject("ioctl", nth=nth, errno=errno.EINVAL)
        with pytest.raises(HCQError, match=names[nth - 1].removeprefix("NV_ESC_")) as failure:
            make(bench, group, engine)
        assert "EINVAL" in str(failure.value) and "driver 580.95.05" in str(failure.value)
        bench.system.rules.drop("ioctl")
        assert bench.held() == before, names[nth - 1]
        assert bench.owner.reservation.space.in_use == 0


def test_scheduling_too_early_is_explained(bench: Bench) -> None:
    bench.system.inject("ioctl", "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", status=0x40)
    with pytest.raises(DriverError, match=r"GPFIFO_SCHEDULE \(0xa06c0101\).*INVALID_STATE \(0x40\).*earlier step"):
        make(bench, *ENGINES["compute"])


def test_the_best_class_that_the_driver_lists_is_taken() -> None:
    names = ("AMPERE_COMPUTE_B", "AMPERE_COMPUTE_A")
    assert best_class(names, {0xC6C0, 0xC7C0}, NUMBERS, "compute") == "AMPERE_COMPUTE_B"
    assert best_class(names, {0xC5C0, 0xC6C0}, NUMBERS, "compute") == "AMPERE_COMPUTE_A"
    with pytest.raises(DriverError, match=r"no compute class.*AMPERE_COMPUTE_B.*lists.*0xcbc0.*unknown \(0xfe01\)"):
        best_class(names, {0xCBC0, 0xFE01}, NUMBERS, "compute")
