"""What is checked on a device, real or emulated: the list of smoke, faults, and how fast copies are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

import hcqrt
from hcqrt.tools.check_frame import Context, shipped_kernel
from hcqrt.tools.smoke import run_device

NOWHERE = 0xDEAD_0000
SMALL, LARGE = 4 << 10, 256 << 20
SECONDS_OF_A_SIZE = 0.5


def smoke(system: Any, name: str, quick: bool) -> dict[str, Any]:
    """Every check of smoke. The record that `hcqrt smoke --json` prints."""
    record = run_device(system, name, as_json=False, quick=quick)
    failed = [f"{check['name']}: {check['detail']}" for check in record["checks"] if not check["ok"]]
    assert not failed, "\n".join(failed)
    return record


def a_store_to_nowhere_is_a_fault(system: Any, name: str) -> str:
    """A kernel writes where nothing is: the error names the address, is there again at once, and reopening helps."""
    with hcqrt.open_device(name, system) as dev:
        prg = dev.program(shipped_kernel(dev.arch, "fill"))
        prg(hcqrt.HCQBuffer(NOWHERE, 4096, dev), vals=(1, 32), local_size=(32, 1, 1))
        start = time.monotonic()
        with pytest.raises(hcqrt.DeviceFault, match=f"{NOWHERE:#x}") as fault:
            dev.synchronize(10_000)
        assert time.monotonic() - start < 5
        with pytest.raises(hcqrt.DeviceFault):
            dev.synchronize(10_000)
    context = Context(system, name, True)
    with context.open() as dev, dev.alloc(64) as buf:
        context.kernel("fill")(buf, vals=(7, 16), local_size=(32, 1, 1))
        assert buf.copyout() == b"\7\0\0\0" * 16
        context.close()
    return str(fault.value)


def a_wait_that_nobody_ends_times_out(system: Any, name: str) -> None:
    """The error says what was waited for; the host can still set it, and the work goes on."""
    with hcqrt.open_device(name, system) as dev:
        gate, done = dev.new_signal(), dev.new_signal()
        dev.compute_queue().wait(gate, 1).signal(done, 1).submit(dev)
        with pytest.raises(hcqrt.SignalTimeout, match=r"stuck at 0, waited 0\.\d s for 1"):
            done.wait(1, 200)
        gate.value = 1
        done.wait(1, 10_000)


def sizes(largest: int) -> list[int]:
    found, size = [], SMALL
    while size <= largest:
        found.append(size)
        size *= 16
    return found


def bandwidth(system: Any, name: str, largest: int = LARGE, seconds: float = SECONDS_OF_A_SIZE) -> list[Any]:
    """(bytes, GB/s to the device, GB/s back) for each size; what came back is what was sent."""
    rows = []
    with hcqrt.open_device(name, system) as dev:
        for size in sizes(largest):
            data, back = bytearray(range(256)) * (size // 256), bytearray(size)
            with dev.alloc(size) as buf:
                rates = [rate(lambda: (buf.copyin(data), dev.synchronize()), size, seconds)]  # noqa: B023  # now
                rates.append(rate(lambda: buf.copyout(back), size, seconds))  # noqa: B023
            assert back == data
            rows.append((size, *rates))
    return rows


def rate(copy: Any, size: int, seconds: float) -> float:
    """GB/s, the median of as many copies as fit the time, at least three."""
    spent: list[float] = []
    while len(spent) < 3 or sum(spent) < seconds:
        start = time.perf_counter()
        copy()
        spent.append(time.perf_counter() - start)
    return size / sorted(spent)[len(spent) // 2] / 1e9


def report(record: dict[str, Any], fault: str, rows: Sequence[Any]) -> str:
    """Text for README's list of devices that it was seen working on."""
    info = f"{record['device']}: {record['arch']}, driver {record['driver']}, hcqrt {hcqrt.__version__}"
    lines = [info, f"smoke: {len(record['checks'])} checks passed", f"fault: {fault}"]
    lines += ["| copy of | to the device | back |", "|---|---|---|"]
    lines += [f"| {size >> 10} KiB | {there:.2f} GB/s | {back:.2f} GB/s |" for size, there, back in rows]
    return "\n".join(lines)
