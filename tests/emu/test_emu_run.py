"""When an emulated GPU runs: doorbells, waits, ioctls, stalls, faults on demand, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from rm_client import Machine, RmClient

from hcqrt.emu.refusal import EmulatorRefusal


class Engines:
    """A GPU side that does what a test wants."""

    def __init__(self, run: Callable[[], bool]) -> None:
        self.run = run
        self.tokens: list[int] = []

    def doorbell(self, token: int) -> None:
        self.tokens.append(token)

    def channel_removed(self, channel: object) -> None:
        pass


def test_waits_ioctls_and_doorbells_run_the_gpu_unless_it_is_stalled(machine: Machine) -> None:
    system = machine()
    runs: list[int] = []
    board = system.drivers[0].boards[0]  # type: ignore[attr-defined]  # an NvDriver
    board.gpu.engines = engines = Engines(lambda: bool(runs.append(1)))
    client = RmClient(system)
    assert runs
    client.open_device()
    page = client.map(client.alloc(client.subdevice, 0xC461), 65536)
    doorbell = page.words
    runs.clear()
    doorbell[0x90 // 4] = 0x10005
    assert engines.tokens == [0x10005] and runs == [1]
    system.back_off(0)
    assert runs == [1, 1]
    system.inject("stall")
    system.back_off(0)
    doorbell[0x90 // 4] = 0x10006
    assert runs == [1, 1] and engines.tokens == [0x10005, 0x10006]
    system.resume()
    assert runs == [1, 1, 1]
    client.close()


def test_a_refusal_inside_an_ioctl_is_raised_by_the_next_wait(machine: Machine) -> None:
    system = machine()
    board = system.drivers[0].boards[0]  # type: ignore[attr-defined]  # an NvDriver

    def refuse() -> bool:
        board.gpu.engines = None
        raise EmulatorRefusal("method 0x1ffc")

    client = RmClient(system)
    board.gpu.engines = Engines(refuse)
    client.open_device()
    with pytest.raises(EmulatorRefusal, match="0x1ffc"):
        system.back_off(0)
    system.back_off(0)
    client.close()


def test_injected_faults_are_counted_by_launch(machine: Machine) -> None:
    system = machine()
    gpu = system.drivers[0].boards[0].gpu  # type: ignore[attr-defined]  # an NvDriver
    system.inject("fault", nth=2)
    assert [gpu.injected_fault("k") for _ in range(3)] == [False, True, False]


def test_threads_run_the_gpu_beside_the_caller(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCQRT_EMU_THREADS", "2")
    system = machine()
    gate, ran = threading.Event(), threading.Event()

    def run() -> bool:
        if threading.current_thread() is threading.main_thread() or not engines.tokens:
            return False
        assert gate.wait(5)
        ran.set()
        return bool(engines.tokens.pop())

    gpu = system.drivers[0].boards[0].gpu  # type: ignore[attr-defined]  # an NvDriver
    gpu.engines = engines = Engines(run)
    client = RmClient(system)
    client.open_device()
    doorbell = client.map(client.alloc(client.subdevice, 0xC461), 65536).words
    doorbell[0x90 // 4] = 5  # returns although the GPU is not done
    assert not ran.is_set()
    gate.set()
    assert ran.wait(5)
    client.close()


def test_a_refusal_of_the_gpu_thread_reaches_the_wait(machine: Machine) -> None:
    system = machine(threads=2)

    def refuse() -> bool:
        if threading.current_thread() is threading.main_thread():
            return False
        gpu.engines = None
        raise EmulatorRefusal("method 0x1ffc")

    gpu = system.drivers[0].boards[0].gpu  # type: ignore[attr-defined]  # an NvDriver
    gpu.engines = Engines(refuse)
    client = RmClient(system)
    client.open_device()
    client.map(client.alloc(client.subdevice, 0xC461), 65536).words[0x90 // 4] = 5
    with pytest.raises(EmulatorRefusal, match="0x1ffc"):
        for spins in range(100_000):
            system.back_off(spins)
    client.close()
