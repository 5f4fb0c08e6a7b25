"""The emulated machine: nodes, fds, injected failures, log, pages, fork."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from rm_client import Buffer, Machine, RmClient, call, request, va_space_params

from hcqrt.emu import EmulatedSystem
from hcqrt.fileio import System


def test_every_errno_of_an_open_comes_from_the_node_table(machine: Machine) -> None:
    system = machine()
    assert sorted(system.nodes) == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]
    with pytest.raises(FileNotFoundError):
        system.open("/dev/nvidia1")
    for number in (errno.EACCES, errno.EPERM, errno.ENODEV, errno.EIO):
        system.nodes["/dev/nvidia0"] = (0o600, number)
        with pytest.raises(OSError) as failure:
            system.open("/dev/nvidia0")
        assert failure.value.errno == number
    assert system.stat_text("/dev/nvidia0") == "crw------- uid 0 gid 0"
    system.nodes["/dev/dxg"] = (0o666, None)
    with pytest.raises(OSError) as failure:
        system.open("/dev/dxg")
    assert failure.value.errno == errno.ENXIO
    assert system.listdir("/dev") == ["dxg", "nvidia-uvm", "nvidia0", "nvidiactl"]


def test_the_fd_table_has_a_limit_and_reuses_the_lowest_number(machine: Machine) -> None:
    system = machine(fd_limit=8)
    files = [system.open("/dev/nvidiactl") for _ in range(5)]
    assert [file.fd for file in files] == [3, 4, 5, 6, 7]
    with pytest.raises(OSError) as failure:
        system.open("/dev/nvidiactl")
    assert failure.value.errno == errno.EMFILE
    files[1].close()
    files[1].close()
    assert system.open("/dev/nvidia-uvm").fd == 4
    for file in list(system.fds.values()):
        file.close()


def test_texts_name_driver_card_and_minor(machine: Machine) -> None:
    system = machine([{"chip": "sm_86", "minor": 5, "pci": "0000:af:00.0"}])
    version = system.read_text("/proc/driver/nvidia/version")
    assert version is not None and version.startswith("NVRM version: ") and " 580.95.05 " in version
    assert system.listdir("/proc/driver/nvidia/gpus") == ["0000:af:00.0"]
    text = system.read_text("/proc/driver/nvidia/gpus/0000:af:00.0/information")
    assert text is not None and "Device Minor: \t 5" in text and "RTX 3080" in text
    assert system.exists("/dev/nvidia5") and system.exists("/proc/driver/nvidia") and not system.exists("/dev/nvidia0")
    assert system.read_text("/proc/driver/none") is None


def test_from_text_and_default(machine: Machine) -> None:
    system = System.default("emulated:sm_86@580.95.05,sm_86")
    assert isinstance(system, EmulatedSystem) and len(system.drivers[0].nodes()) == 4
    system.close()
    both = EmulatedSystem.from_text("emulated:sm_86,a630")
    assert both.exists("/dev/kgsl-3d0") and both.exists("/dev/nvidia0")
    alone = EmulatedSystem.from_text("emulated:a630")
    assert alone.exists("/dev/kgsl-3d0") and not alone.exists("/dev/nvidiactl")
    for text, message in (
        ("emulated:sm_999", "sm_999.*sm_86"),
        ("emulated:sm_86@1.0,sm_86@2.0", "one driver"),
        ("emulated:sm_86@x", "driver version 'x'"),
        ("emulated:a630@4.9", "KGSL has no driver version"),
        ("emulated:a630,sm_86,a650", "one Adreno"),
    ):
        with pytest.raises(ValueError, match=message):
            EmulatedSystem.from_text(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qcom": "a999"}, "a999.*a630"),
        ({"qcom": {"chip": "a630", "vram": 1}}, "vram"),
        ({"qcom": {"queue_depth": 0}}, "queue_depth"),
        ({"qcom": {"iocoherent": "sometimes"}}, "sometimes"),
        ({"qcom": {"missing_properties": ["NO_SUCH"]}}, "NO_SUCH"),
        ({"check": ("races",)}, "races"),
        ({"page_size": 5000}, "5000"),
        ({"nv": [{"chip": "sm_86", "vram": 1}]}, "vram"),
        ({"nv": [{"minor": 1}, {"minor": 1}]}, "same minor"),
        ({"nv": [{"memory_bytes": 0}]}, "memory_bytes"),
    ],
)
def test_a_bad_machine_is_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EmulatedSystem(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_cards_keep_their_identity(machine: Machine) -> None:
    a, b, c = machine(["sm_86", "sm_86"]), machine(["sm_86", "sm_86"]), machine(["sm_86", "sm_86"], seed=1)
    uuids = [[board.uuid for board in system.drivers[0].boards] for system in (a, b, c)]  # type: ignore[attr-defined]
    assert uuids[0] == uuids[1] != uuids[2] and uuids[0][0] != uuids[0][1]


def test_injected_failures_count_matching_calls(machine: Machine) -> None:
    system = machine()
    system.inject("open", "/dev/nvidia-uvm", nth=2, errno=errno.ENOENT)
    system.open("/dev/nvidia-uvm").close()
    with pytest.raises(FileNotFoundError):
        system.open("/dev/nvidia-uvm")
    client = RmClient(system)
    system.inject("ioctl", "NV01_DEVICE_0", status=0x1B)
    system.inject("ioctl", 0x2080, times=2, errno=errno.EAGAIN)
    assert client.alloc_raw(client.root, client.root, 0x80, bytes(56))[0] == 0x1B
    client.device = client.alloc(client.root, 0x80, bytes(56))
    for _ in range(2):
        with pytest.raises(BlockingIOError):
            client.alloc(client.device, 0x2080)
    client.alloc(client.device, 0x2080)
    system.inject("ioctl", "RM_CONTROL", status=0x62)
    assert client.control(client.root, 0x205, bytes(32))[0] == 0x62
    system.inject("mmap", nth=3)
    views = [system.anonymous(4096), system.anonymous(4096)]
    with pytest.raises(OSError) as failure:
        system.anonymous(4096)
    assert failure.value.errno == errno.ENOMEM
    for view in views:
        system.unmap(view.addr, 4096)
    with pytest.raises(ValueError, match="flood"):
        system.inject("flood")
    client.close()


def test_the_log_tells_names_fields_and_status(machine: Machine) -> None:
    system = machine()
    client = RmClient(system)
    system.ioctl_log.clear()
    assert client.alloc_raw(client.root, client.root, 0x80, struct.pack("<II8xI28xI4x", 9, 0, 0, 2))[0] == 0x22
    with pytest.raises(OSError, match="wrong size"):
        client.ctl.ioctl(request(0x29, 20), 0)
    entry, wrong = system.ioctl_log
    t_ns, path, name, inner, before, after, failure, status = entry
    assert (path, name, inner, failure, status) == ("/dev/nvidiactl", "NV_ESC_RM_ALLOC", "NV01_DEVICE_0", 0, 0x22)
    assert t_ns > 0 and before["deviceId"] == 9 and before["vaMode"] == 2 and after["status"] == 0x22
    assert (wrong[2], wrong[6], wrong[7]) == ("NV_ESC_RM_FREE", errno.EINVAL, None)
    assert system.stats()["ioctls"] >= 4
    client.close()


def test_pages_of_64_kib_are_honoured(machine: Machine) -> None:
    system = machine(page_size=65536)
    view = system.anonymous(65536)
    assert view.addr % 65536 == 0
    for nbytes in (5000, 65537):
        with pytest.raises(OSError) as failure:
            system.anonymous(nbytes)
        assert failure.value.errno == errno.EINVAL
    system.unmap(view.addr, 65536)
    client = RmClient(system)
    client.open_device()
    status, memory = client.memory(0x3E, 4096)
    assert status == 0
    view = client.map(memory, 65536, bar=False)
    assert view.addr % 65536 == 0
    client.close()


def test_reservations_hold_addresses_and_memory_inside_them_is_tracked(machine: Machine) -> None:
    system = machine()
    base = system.reserve(1 << 22, 1 << 21, 1 << 40)
    view = system.anonymous(1 << 16, base + (1 << 16))
    view[0] = 7
    kinds = [item.name.split()[0] for item in system.live_objects()]
    assert kinds.count("reservation") == 1 and kinds.count("memory") == 1
    system.back_to_reserved(base + (1 << 16), 1 << 16)
    assert system.memory.used_bytes == 0
    system.unmap(base, 1 << 22)


def test_a_child_after_fork_cannot_use_the_files_and_frees_nothing(machine: Machine) -> None:
    system = machine()
    client = RmClient(system)
    before = len(system.live_objects())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        quiet = system.ioctl_log == []
        client.ctl.close()
        refused = False
        try:
            client.gpu.ioctl(request(201, 4), 0)
        except OSError as error:
            refused = error.errno == errno.EINVAL
        seen = len(system.ioctl_log) == 1
        own = RmClient(system)
        own.open_device()
        own.close()
        os.write(writer, bytes((quiet, refused, seen)))
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 3) == b"\1\1\1"
    os.close(reader)
    assert len(system.live_objects()) == before
    client.open_device()
    client.close()


def test_an_unknown_escape_is_refused_and_named(machine: Machine) -> None:
    system = machine()
    client = RmClient(system)
    for number in (request(0x7F, 16), request(0x2A, 32) & ~(3 << 30), 0x1234):
        with pytest.raises(OSError) as failure:
            client.ctl.ioctl(number, 0)
        assert failure.value.errno == errno.EINVAL
    with pytest.raises(OSError):
        client.uvm.ioctl(99, 0)
    assert [text.split()[1] for text in system.refusals] == [
        f"{request(0x7F, 16):#x}",
        f"{request(0x2A, 32) & ~(3 << 30):#x}",
        "0x1234",
        "ioctl",
    ]
    assert call(client.ctl, 214, bytes(8)).u64(0) > 0
    client.close()


def test_os_events_are_kept_per_fd(machine: Machine) -> None:
    client = RmClient(machine())
    data = struct.pack("<IIII", client.root, 0, 77, 0xFFFFFFFF)
    assert [call(client.ctl, nr, data).u32(12) for nr in (207, 206, 206, 207)] == [0x57, 0, 0x56, 0]
    client.close()


def test_alloc_parameters_come_back_only_when_it_worked(machine: Machine) -> None:
    client = RmClient(machine())
    client.open_device()
    for base, status in ((1 << 50, 0x1F), (0x1000, 0)):
        params = Buffer(va_space_params(base=base, size=0), 4096)
        assert client.alloc_raw(client.root, client.device, 0x90F1, params)[0] == status
        assert params.u64(8) == (0 if status else (1 << 49) - 0x1000)
    client.close()
