"""Field reports 7 to 11: statuses by name, faults that speak, sticky faults, full rings, fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from gen.cubin_writer import KernelSource, Module, write_cubin

import hcqrt
from hcqrt.isa.sass import assemble
from hcqrt.nv.arch import chip_for
from hcqrt.tools.check_frame import shipped_kernel

STORE_TO_NOWHERE = 0xDEAD0000


def test_field_report_7_a_refused_class_is_named_with_status_and_number(machine):
    system = machine()
    system.inject("ioctl", "AMPERE_COMPUTE_B", status=0x22)
    with pytest.raises(hcqrt.RMError, match=r"AMPERE_COMPUTE_B.*NV_ERR_INVALID_CLASS \(0x22\).*580\.95\.05") as failure:
        hcqrt.open_device("NV", system)
    assert failure.value.status == 0x22
    assert system.live_objects() == []


def test_field_report_7_an_unknown_architecture_is_a_clean_error():
    with pytest.raises(hcqrt.DriverError, match=r"not supported: SM_VERSION 0x3f00.*sm_86"):
        chip_for(0x3F00)


def fill_at(dev, address, n=32):
    """A kernel that stores to an address that nobody owns."""
    prg = dev.program(shipped_kernel("sm_86", "fill"))
    buf = hcqrt.HCQBuffer(address, 4096, dev)
    prg(buf, vals=(1, n), global_size=(1, 1, 1), local_size=(32, 1, 1))
    return prg


def test_field_report_8_a_fault_names_address_access_and_kernel(dev):
    fill_at(dev, STORE_TO_NOWHERE)
    start = time.monotonic()
    with pytest.raises(hcqrt.DeviceFault, match=r"MMU fault.*write of 0xdead0000.*fill.*Xid") as failure:
        dev.synchronize()
    assert time.monotonic() - start < 2
    assert "31" in str(failure.value)


def test_field_report_8_a_wait_without_progress_names_the_last_kernel(dev, system):
    prg = dev.program(shipped_kernel("sm_86", "fill"))
    system.inject("stall")
    with dev.alloc(4096) as buf:
        prg(buf, vals=(1, 32), local_size=(32, 1, 1))
        with pytest.raises(hcqrt.SignalTimeout, match=r"waited 0\.[2-9].*last launch: fill.*Xid"):
            dev.synchronize(timeout_ms=200)
        system.resume()
        dev.synchronize()


def test_field_report_8_an_endless_kernel_is_named_when_the_wait_ends(dev):
    code = assemble("again: BRA again", 86)
    prg = dev.program(write_cubin(Module(86, [KernelSource("spins_for_ever", code, 16)])))
    prg(local_size=(32, 1, 1))
    with pytest.raises(hcqrt.SignalTimeout, match=r"waited 0\.[2-9].*last launch: spins_for_ever"):
        dev.synchronize(timeout_ms=200)


def test_field_report_8_a_driver_that_needs_a_reset_is_said_so(machine):
    system = machine()
    system.inject("ioctl", "NV2080_CTRL_CMD_GR_GET_INFO", status=0x62)
    with pytest.raises(hcqrt.RMError, match=r"NV_ERR_RESET_REQUIRED \(0x62\).*reset"):
        hcqrt.open_device("NV", system)


def test_field_report_9_a_fault_is_sticky_and_close_does_not_wait(dev):
    fill_at(dev, STORE_TO_NOWHERE)
    for _ in range(3):
        start = time.monotonic()
        with pytest.raises(hcqrt.DeviceFault, match="0xdead0000"):
            dev.synchronize()
    assert time.monotonic() - start < 0.05
    with pytest.raises(hcqrt.DeviceFault):
        dev.alloc(4096)
    start = time.monotonic()
    dev.close()
    assert time.monotonic() - start < 1


def run_child(body: str, **kwargs):
    code = "import hcqrt, os, sys, time\nfrom hcqrt.emu import EmulatedSystem\n"
    code += "from hcqrt.tools.check_frame import shipped_kernel\nsystem = EmulatedSystem(nv=['sm_86'])\n"
    code += textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **kwargs)


def test_field_report_9_a_process_that_faults_ends_fast_with_one_traceback():
    start = time.monotonic()
    run = run_child("""
        dev = hcqrt.open_device("NV", system)
        prg = dev.program(shipped_kernel("sm_86", "fill"))
        prg(hcqrt.HCQBuffer(0xdead0000, 4096, dev), vals=(1, 32), local_size=(32, 1, 1))
        for _ in range(2):
            try: dev.synchronize()
            except hcqrt.DeviceFault: pass
        dev.synchronize()
    """)
    assert time.monotonic() - start < 6  # most of it is starting Python and NumPy
    assert run.returncode == 1
    assert run.stderr.count("Traceback") == 1 and "Exception ignored" not in run.stderr, run.stderr
    assert "DeviceFault" in run.stderr


def test_field_report_9_ctrl_c_interrupts_a_wait(dev, system):
    system.inject("stall")
    waited = dev.new_signal()
    dev.compute_queue().signal(waited, 1).submit(dev)
    previous = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            waited.wait(1)
        assert time.monotonic() - start < 0.7
    finally:
        signal.signal(signal.SIGALRM, previous)
        system.resume()
    waited.wait(1)


def test_field_report_10_a_full_ring_waits_and_wraps(machine, monkeypatch):
    monkeypatch.setenv("HCQRT_RING_ENTRIES", "16")
    with hcqrt.open_device("NV", machine()) as dev:
        count = dev.new_signal()
        for value in range(1, 10_001):
            dev.compute_queue().wait(count, value - 1).signal(count, value).submit(dev)
        count.wait(10_000)
        assert count.value == 10_000


def test_field_report_10_put_never_passes_what_has_retired(machine, monkeypatch):
    monkeypatch.setenv("HCQRT_RING_ENTRIES", "16")
    system = machine()
    with hcqrt.open_device("NV", system) as dev:
        dev.synchronize()
        fifo, done = dev.compute_fifo, dev.new_signal()
        fifo.wait_progress(fifo.submitted)
        system.inject("stall")
        first = fifo.submitted
        for value in range(1, 16):
            dev.compute_queue().signal(done, value).submit(dev)
        assert fifo.submitted - first == 15 and done.value == 0
        dev.wait_timeout_ms = 200
        with pytest.raises(hcqrt.SignalTimeout):
            dev.compute_queue().signal(done, 16).submit(dev)
        assert fifo.submitted - first == 15
        system.resume()
        done.wait(15)
        dev.compute_queue().signal(done, 16).submit(dev)
        done.wait(16)


def test_field_report_11_a_fork_cannot_use_the_parents_device():
    run = run_child("""
        import numpy as np
        dev = hcqrt.open_device("NV", system)
        buf = dev.alloc(4096)
        prg = dev.program(shipped_kernel("sm_86", "fill"))
        objects = len(system.live_objects())
        pid = os.fork()
        if pid == 0:
            calls = len(system.ioctl_log)
            for call in (dev.synchronize, lambda: prg(buf, vals=(1, 32), local_size=(32, 1, 1)), lambda: dev.alloc(5)):
                try:
                    call()
                    os._exit(9)
                except hcqrt.HCQError as error:
                    text = str(error)
                    assert str(os.getpid()) in text and str(os.getppid()) in text and "spawn" in text, text
            buf.close()
            dev.close()
            assert len(system.ioctl_log) == calls, system.ioctl_log[calls:]
            sys.exit(7)
        _, status = os.waitpid(pid, 0)
        assert os.WEXITSTATUS(status) == 7, status
        prg(buf, vals=(5, 32), local_size=(32, 1, 1))
        assert np.frombuffer(buf.copyout(), np.uint32)[:32].tolist() == [5] * 32
        assert len(system.live_objects()) == objects
        buf.close(); dev.close()
        assert system.live_objects() == []
    """)
    assert run.returncode == 0, run.stderr


def test_field_report_11_opening_first_in_the_child_works():
    run = run_child("""
        pid = os.fork()
        if pid == 0:
            with hcqrt.open_device("NV", system) as dev, dev.alloc(64) as buf:
                buf.copyin(b"child")
                assert bytes(buf.copyout()[:5]) == b"child"
            sys.exit(7)
        _, status = os.waitpid(pid, 0)
        assert os.WEXITSTATUS(status) == 7
    """)
    assert run.returncode == 0, run.stderr


def spill(dev, blocks, threads):
    prg = dev.program(shipped_kernel("sm_86", "spill"))
    n = blocks * threads
    with dev.alloc(4 * n) as buf:
        prg(buf, global_size=(blocks, 1, 1), local_size=(threads, 1, 1))
        got = np.frombuffer(buf.copyout(), np.uint32)
    i = np.arange(n, dtype=np.uint32)
    wanted = sum(((i * 32 + s) * np.uint32(s + 1) for s in range(32)), np.zeros(n, np.uint32))
    assert (got == wanted).all()


@pytest.mark.parametrize("tpcs", [2, 41])
@pytest.mark.parametrize("warps", [48, 64])
def test_field_report_21_scratch_fits_every_thread_of_the_chip(machine, tpcs, warps):
    system = machine(nv=[dict(chip="sm_86", tpcs=tpcs, warps_per_sm=warps, memory_bytes=4 << 30)])
    with hcqrt.open_device("NV", system) as dev:
        spill(dev, tpcs * 2, 1024)
