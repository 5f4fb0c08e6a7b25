"""Use after close, devices that are dropped, and processes that end without closing: errors by name, never a crash."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import hcqrt
from hcqrt import HCQError
from hcqrt.emu import EmulatedSystem
from hcqrt.tools.check_frame import shipped_kernel

ROOT = Path(__file__).resolve().parents[2]
BUSY = """
import hcqrt, sys
from hcqrt.emu import EmulatedSystem
from hcqrt.tools.check_frame import shipped_kernel
dev = hcqrt.open_device("NV", EmulatedSystem(nv=["sm_86"]))
prg, buf = dev.program(shipped_kernel("sm_86", "fill")), dev.alloc(1 << 16)
queue = dev.compute_queue().signal(dev.new_signal(), 1).bind(dev).submit(dev)
array, args = dev.alloc(64, host=True).as_numpy("u1", (64,)), prg.fill_kernargs([buf], (1, 2))
for value in range(20):
    prg(buf, vals=(value, 1 << 14), global_size=(128,), local_size=(128,))
kept = [dev, prg, buf, queue, array, args]
kept.append(kept)
"""


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_process_may_end_without_closing(threads):
    done = run(BUSY, HCQRT_EMU_THREADS=threads)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_error_at_the_end_is_the_only_thing_shown():
    done = run(BUSY + "raise hcqrt.HCQError('the end')")
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    assert "Exception ignored" not in done.stderr and done.stderr.endswith("HCQError: the end\n")


def test_after_close_every_call_says_so(system):
    dev = hcqrt.open_device("NV", system)
    buf, visible = dev.alloc(64), dev.alloc(64, cpu_access=True)
    fill, signal, timeline = dev.program(shipped_kernel("sm_86", "fill")), dev.new_signal(), dev.timeline_signal
    args = fill.fill_kernargs([buf], (1, 2))
    bound = dev.compute_queue().signal(signal, 1).bind(dev)
    launch = dev.compute_queue().exec(fill, fill.fill_kernargs([buf], (3, 4)), (1,), (32,))
    dev.close()
    dev.close()
    calls = {
        "alloc": lambda: dev.alloc(1), "program": lambda: dev.program(b""), "new_signal": dev.new_signal,
        "synchronize": dev.synchronize, "copyin": lambda: buf.copyin(b"1"), "copyout": buf.copyout,
        "fill": lambda: buf.fill(1), "view": visible.cpu_view, "numpy": lambda: visible.as_numpy("u1", (1,)),
        "dlpack": visible.__dlpack__, "call": lambda: fill(buf, vals=(1, 2)), "value": lambda: signal.value,
        "kernargs": lambda: fill.fill_kernargs([buf], (1, 2)), "bound": lambda: bound.submit(dev),
        "submit": lambda: launch.submit(dev), "release": lambda: launch.signal(signal, 1),
        "exec": lambda: dev.compute_queue().exec(fill, args, (1,), (32,)), "bind": lambda: launch.bind(dev),
        "set": lambda: setattr(signal, "value", 1), "wait": lambda: signal.wait(1), "stamp": lambda: signal.timestamp,
        "timeline": lambda: timeline.value,
    }  # fmt: skip
    for name, call in calls.items():
        with pytest.raises(HCQError, match="closed"):
            call()
        assert name
    for thing in (buf, visible, fill, signal, bound, launch):
        thing.close()
    assert dev.memory_stats()["in_use"] == 0 and "closed" in repr(dev)


def test_signals_that_were_closed_are_gone(dev):
    signal = dev.new_signal(5)
    signal.close()
    signal.close()
    reused = dev.new_signal(6)
    with pytest.raises(HCQError, match="signal was closed"):
        signal.value = 1
    assert reused.value == 6


def test_a_dropped_device_is_reported():
    dev = hcqrt.open_device("NV", EmulatedSystem(nv=["sm_86"]))  # goes with it: nobody closes what it holds
    with pytest.warns(ResourceWarning, match="NV:0 sm_86> was dropped without close"):
        del dev
        gc.collect()


def test_a_dropped_bound_queue_gives_its_memory_back(dev):
    before = dev.memory_stats()["in_use"]
    for value in range(50):
        dev.compute_queue().signal(dev.timeline_signal, 0).bind(dev)
        assert value >= 0
    gc.collect()
    with dev.alloc(64):
        pass
    assert dev.memory_stats()["in_use"] == before


def test_two_devices_of_one_process_do_not_mix(machine):
    system = machine(nv=["sm_86", "sm_86"])
    with hcqrt.open_device("NV:1", system) as second:
        with hcqrt.open_device("NV:0", system) as first:
            for dev, value in ((first, 1), (second, 2)):
                buf = dev.alloc(64)
                dev.program(shipped_kernel("sm_86", "fill"))(buf, vals=(value, 16), local_size=(32,))
                assert buf.copyout() == bytes([value, 0, 0, 0]) * 16
                buf.close()
        with second.alloc(64) as buf:
            buf.fill(3)
            assert buf.copyout() == b"\3" * 64
    assert [info.name for info in hcqrt.devices(system)] == ["NV:0", "NV:1"]
