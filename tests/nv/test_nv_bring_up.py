"""Every system call of opening and closing a device fails once: a clean error each time, and nothing left."""

from __future__ import annotations

import errno
import os

import pytest
from nv_bench import Machine

import hcqrt
from hcqrt.emu import EmulatedSystem
from hcqrt.errors import DeviceNotFound, DriverError, HCQError, OutOfMemory

# What a device can do without: clocks, details of faults, and the version by ioctl where sysfs has it.
OPTIONAL = {"NV2080_CTRL_CMD_PERF_BOOST", "GT200_DEBUGGER", "NV_ESC_CHECK_VERSION_STR"}
MEMORY = {"NV01_MEMORY_LOCAL_USER", "NV01_MEMORY_SYSTEM", "NV_ESC_RM_MAP_MEMORY", "NV_ESC_RM_ALLOC_MEMORY"}
STATUSES = {0x1F: "NV_ERR_INVALID_ARGUMENT", 0x51: "NV_ERR_NO_MEMORY", 0x62: "NV_ERR_RESET_REQUIRED"}


def name_of(entry: tuple[object, ...]) -> str:
    return str(entry[3] or entry[2])


def try_open(system: EmulatedSystem) -> HCQError | None:
    """Open and close; the error of opening, if any. Anything but an HCQError comes out."""
    try:
        dev = hcqrt.open_device("NV:0", system=system)
    except HCQError as error:
        return error
    dev.close()
    return None


@pytest.fixture
def opening(machine: Machine) -> tuple[EmulatedSystem, list[tuple[str, bool]]]:
    """A machine, and the calls of opening on it: (name, whether it has a status)."""
    system = machine()
    with hcqrt.open_device("NV:0", system=system):
        calls = [(name_of(entry), entry[7] is not None) for entry in system.ioctl_log]
    return system, calls


def test_the_order_is_the_drivers(opening: tuple[EmulatedSystem, list[tuple[str, bool]]]) -> None:
    order = [
        "NV_ESC_CHECK_VERSION_STR", "NV01_ROOT_CLIENT", "UVM_INITIALIZE", "UVM_MM_INITIALIZE", "NV_ESC_REGISTER_FD",
        "NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2", "NV01_DEVICE_0", "NV20_SUBDEVICE_0", "NV0080_CTRL_CMD_GPU_GET_CLASSLIST",
        "FERMI_VASPACE_A", "UVM_REGISTER_GPU", "UVM_REGISTER_GPU_VASPACE", "KEPLER_CHANNEL_GROUP_A",
        "FERMI_CONTEXT_SHARE_A", "AMPERE_CHANNEL_GPFIFO_A", "AMPERE_COMPUTE_B", "UVM_REGISTER_CHANNEL",
        "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE",
    ]  # fmt: skip
    names = [name for name, _ in opening[1]]
    assert [names.index(name) for name in order] == sorted(names.index(name) for name in order)


def test_every_ioctl_that_fails_by_errno(opening: tuple[EmulatedSystem, list[tuple[str, bool]]]) -> None:
    system, calls = opening
    for nth, (name, _) in enumerate(calls, 1):
        system.inject("ioctl", nth=nth, errno=errno.EINVAL)
        error = try_open(system)
        system.rules.drop("ioctl")
        assert system.live_objects() == [], name
        assert (error is None) == (name in OPTIONAL), (name, error)
        if error is not None:
            assert isinstance(error, DriverError) and error.errno == errno.EINVAL
            assert name.removeprefix("NV_ESC_") in str(error) and "[EINVAL]" in str(error)
            assert nth == 1 or "driver 580.95.05" in str(error)


@pytest.mark.parametrize("status", STATUSES)
def test_every_ioctl_that_fails_by_status(opening: tuple[EmulatedSystem, list[tuple[str, bool]]], status: int) -> None:
    system, calls = opening
    for nth in (nth for nth, (_, has_status) in enumerate(calls, 1) if has_status):
        name = calls[nth - 1][0]
        system.inject("ioctl", nth=nth, status=status)
        error = try_open(system)
        system.rules.drop("ioctl")
        assert system.live_objects() == [], name
        if error is None:
            # out of memory is tried once more after the cache was dropped
            assert name in OPTIONAL or (status == 0x51 and name in MEMORY), name
            continue
        text = str(error)
        assert name.removeprefix("NV_ESC_") in text and f"{STATUSES[status]} ({status:#x})" in text
        assert "driver 580.95.05" in text and ("reset" in text) == (status == 0x62)
        assert isinstance(error, OutOfMemory if status == 0x51 and name in MEMORY else DriverError), name
        if isinstance(error, DriverError):
            assert (error.status, error.status_name) == (status, STATUSES[status])


@pytest.mark.parametrize(
    ("kind", "number", "word"), [("open", errno.EMFILE, "ulimit -n"), ("mmap", errno.ENOMEM, "ulimit -v")]
)
def test_every_open_and_mmap_that_fails(machine: Machine, kind: str, number: int, word: str) -> None:
    system = machine()
    for nth in range(1, 100):
        system.inject(kind, nth=nth, errno=number)
        error = try_open(system)
        system.rules.drop(kind)
        assert system.live_objects() == [], nth
        if error is None:
            break
        assert isinstance(error, DeviceNotFound | DriverError | OutOfMemory)
        assert "/dev/nvidia" in str(error) and f"[{errno.errorcode[number]}]" in str(error) and word in str(error)
    assert nth > 8 and error is None  # the last injection had no call left to hit


@pytest.mark.parametrize("failure", [dict(errno=errno.EINVAL), dict(status=0x0F)])
def test_every_ioctl_of_closing_that_fails_keeps_none_of_the_others(machine: Machine, failure: dict[str, int]) -> None:
    system = machine()
    dev = hcqrt.open_device("NV:0", system=system)
    system.ioctl_log.clear()
    dev.close()
    for nth, name in enumerate([name_of(entry) for entry in system.ioctl_log], 1):
        dev = hcqrt.open_device("NV:0", system=system)
        system.inject("ioctl", nth=nth, **failure)
        try:
            dev.close()
        except DriverError as error:
            assert "driver 580.95.05" in str(error)
        system.rules.drop("ioctl")
        dev.close()
        assert system.live_objects() == [], (nth, name)


def test_opening_holds_few_files(machine: Machine) -> None:
    system = machine(fd_limit=16)
    with hcqrt.open_device("NV:0", system=system):
        assert len(system.fds) <= 4


def test_several_gpus_open_at_once(machine: Machine) -> None:
    system = machine(["sm_86"] * 3)
    open_devices = [hcqrt.open_device(f"NV:{index}", system=system) for index in range(3)]
    assert len({dev.uuid for dev in open_devices}) == 3
    for dev in open_devices:
        dev.synchronize()
        dev.close()


def test_11_a_fork_leaves_the_parents_device_alone(machine: Machine) -> None:
    system = machine()
    with hcqrt.open_device("NV:0", system=system) as dev:
        before = len(system.live_objects())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                dev.synchronize()
            except HCQError as error:
                answer = str(error)
            dev.close()
            os.write(writer, f"{len(system.ioctl_log)} {answer}".encode())
            os._exit(0)
        os.close(writer)
        assert os.waitpid(child, 0)[1] == 0
        answer = os.read(reader, 4096).decode()
        os.close(reader)
        assert answer.startswith("0 ")  # no ioctl after the fork
        for part in (str(os.getpid()), str(child), "open the device after the fork", "spawn"):
            assert part in answer
        assert len(system.live_objects()) == before
        dev.synchronize()
