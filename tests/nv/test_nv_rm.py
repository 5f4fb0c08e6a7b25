"""The resource manager's client: order, sizes, every error by name, mappings that leave nothing."""

from __future__ import annotations

import ctypes
import errno
import re

import pytest
from nv_bench import Bench, Machine, opened

from hcqrt.emu import EmulatedSystem
from hcqrt.errors import DriverError, IoctlError, OutOfMemory, RMError
from hcqrt.fileio import FileIOInterface, System
from hcqrt.nv.queries import class_list, gr_info, tpc_count, vram_bytes
from hcqrt.nv.rm import BUSY_RETRIES, CTL, SCRATCH_BYTES, RmClient

VIDMEM = dict(type=0, flags=0x1C101, attr=0x18000000, attr2=5, alignment=65536)
SCHEDULE = "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE"


def test_the_version_is_asked_before_anything_that_depends_on_it(machine: Machine) -> None:
    system = machine()
    RmClient(system).close()
    names = [(entry[2], entry[3]) for entry in system.ioctl_log]
    assert names[:2] == [("NV_ESC_CHECK_VERSION_STR", ""), ("NV_ESC_RM_ALLOC", "NV01_ROOT_CLIENT")]
    assert names[-1][0] == "NV_ESC_RM_FREE"


def test_a_status_comes_out_by_name_with_object_class_and_driver(bench: Bench) -> None:
    bench.system.inject("ioctl", "AMPERE_COMPUTE_B", status=0x22)
    with pytest.raises(RMError) as failure:
        bench.rm.alloc("AMPERE_COMPUTE_B", bench.owner.device)
    text = str(failure.value)
    for part in (
        "RM_ALLOC",
        "AMPERE_COMPUTE_B",
        "0xc7c0",
        f"{bench.owner.device:#x}",
        "NV_ERR_INVALID_CLASS",
        "(0x22)",
    ):
        assert part in text
    assert "driver 580.95.05" in text and "\n" not in text
    assert (failure.value.status, failure.value.status_name) == (0x22, "NV_ERR_INVALID_CLASS")
    assert "AMPERE_COMPUTE_B" in failure.value.request


def test_an_errno_comes_out_by_name_with_what_was_asked_and_driver(bench: Bench) -> None:
    bench.system.inject("ioctl", "NV2080_CTRL_CMD_GR_GET_GPC_MASK", errno=errno.EINVAL)
    with pytest.raises(
        IoctlError, match=r"NV_ESC_RM_CONTROL on /dev/nvidiactl.*EINVAL.*GPC_MASK.*driver 580\.95\.05"
    ) as e:
        tpc_count(bench.rm, bench.subdevice)
    assert e.value.errno == errno.EINVAL and e.value.request == "NV_ESC_RM_CONTROL"


@pytest.mark.parametrize("status", [0x1F, 0x3A])
def test_statuses_of_a_wrong_size_say_so(bench: Bench, status: int) -> None:
    bench.system.inject("ioctl", "NV2080_CTRL_CMD_GR_GET_INFO", status=status)
    with pytest.raises(RMError, match=r"maybe an ABI mismatch: 32 bytes sent, layout of 580\.95\.05") as failure:
        gr_info(bench.rm, bench.subdevice, "SM_VERSION")
    assert failure.value.status == status


@pytest.mark.parametrize("status", [0x0F, 0x62, 0x65])
def test_a_gpu_that_needs_a_reset_is_said_to(bench: Bench, status: int) -> None:
    bench.system.inject("ioctl", "NV2080_CTRL_CMD_GR_GET_INFO", status=status)
    with pytest.raises(RMError, match="reset"):
        gr_info(bench.rm, bench.subdevice, "SM_VERSION")


def test_an_unknown_status_keeps_its_number(bench: Bench) -> None:
    bench.system.inject("ioctl", "NV2080_CTRL_CMD_GR_GET_INFO", status=0x7FFF1234)
    with pytest.raises(RMError, match="0x7fff1234"):
        gr_info(bench.rm, bench.subdevice, "SM_VERSION")


def test_busy_is_tried_again_but_not_for_ever(bench: Bench) -> None:
    bench.system.inject("ioctl", "NV2080_CTRL_CMD_GR_GET_INFO", status=3, times=3)
    assert gr_info(bench.rm, bench.subdevice, "SM_VERSION") == 0x806
    bench.system.rules.drop("ioctl")
    bench.system.inject("ioctl", "NV2080_CTRL_CMD_GR_GET_GPC_MASK", status=3, times=10 * BUSY_RETRIES)
    with pytest.raises(RMError, match="NV_ERR_BUSY_RETRY"):
        tpc_count(bench.rm, bench.subdevice)


def test_the_class_list_is_asked_for_its_length_first(bench: Bench) -> None:
    bench.forget()
    classes = class_list(bench.rm, bench.owner.device)
    asked = [entry[4]["numClasses"] for entry in bench.system.ioctl_log]
    assert asked[0] == 0 and asked[1] > 100 and {0xC56F, 0xC7C0, 0xC7B5, 0xC461} <= classes


def test_sizes_come_from_the_driver(machine: Machine) -> None:
    with opened(machine([dict(chip="sm_86", tpcs=5, warps_per_sm=32, memory_bytes=3 << 30)])) as bench:
        assert tpc_count(bench.rm, bench.subdevice) == 5
        assert gr_info(bench.rm, bench.subdevice, "MAX_WARPS_PER_SM") == 32
        assert vram_bytes(bench.rm, bench.subdevice) <= 3 << 30


@pytest.mark.parametrize("status", [0x51, 0x1A])
@pytest.mark.parametrize("call", ["NV01_MEMORY_LOCAL_USER", "RM_MAP_MEMORY"])
def test_no_memory_is_a_memory_error_wherever_it_shows(bench: Bench, call: str, status: int) -> None:
    rm, device = bench.rm, bench.owner.device
    bench.system.inject("ioctl", call, status=status)
    handle = 0
    with pytest.raises(OutOfMemory, match=r"65536 bytes asked") as failure:
        handle = rm.alloc_memory("NV01_MEMORY_LOCAL_USER", device, 65536, owner=rm.root, **VIDMEM)
        rm.map_memory(bench.owner.node, device, handle, 65536)
    assert isinstance(failure.value, MemoryError) and f"({status:#x})" in str(failure.value)
    if handle:
        rm.free(handle, device)


def test_a_bad_argument_is_refused_before_the_call(bench: Bench) -> None:
    bench.forget()
    with pytest.raises(TypeError, match="no field 'bEnabel'"):
        bench.rm.control(bench.owner.device, SCHEDULE, bEnabel=1)
    with pytest.raises(ValueError, match="bEnable = 0x100"):
        bench.rm.control(bench.owner.device, SCHEDULE, bEnable=0x100)
    assert bench.calls() == []


def test_a_mapping_keeps_no_fd_and_takes_no_more_than_asked(bench: Bench) -> None:
    rm, device, node = bench.rm, bench.owner.device, bench.owner.node
    handle = rm.alloc_memory("NV01_MEMORY_LOCAL_USER", device, 65536, owner=rm.root, **VIDMEM)
    fds = dict(bench.system.fds)
    view, cookie = rm.map_memory(node, device, handle, 65536)
    assert bench.system.fds == fds and view.nbytes == 65536
    view[65535] = 7
    rm.unmap_memory(device, handle, cookie)
    bench.system.unmap(view.addr, view.nbytes)
    rm.free(handle, device)


@pytest.mark.parametrize(("kind", "number"), [("open", errno.EMFILE), ("mmap", errno.ENOMEM)])
def test_a_mapping_that_fails_names_why_and_undoes_itself(bench: Bench, kind: str, number: int) -> None:
    rm, device, node = bench.rm, bench.owner.device, bench.owner.node
    handle = rm.alloc_memory("NV01_MEMORY_LOCAL_USER", device, 65536, owner=rm.root, **VIDMEM)
    before = bench.held()
    bench.system.inject(kind, node, errno=number)
    pattern = rf"{kind} on {node}.*{errno.errorcode[number]}.*driver 580\.95\.05.*ulimit"
    with pytest.raises(DriverError, match=pattern):
        rm.map_memory(node, device, handle, 65536)
    assert bench.held() == before
    view, cookie = rm.map_memory(node, device, handle, 65536)  # the object is not left half mapped
    bench.system.unmap(view.addr, view.nbytes)
    rm.unmap_memory(device, handle, cookie)
    rm.free(handle, device)


def test_closing_twice_is_fine(machine: Machine) -> None:
    rm = RmClient(machine())
    rm.close()
    rm.close()


class ScribblingFile(FileIOInterface):
    """A driver whose structs are larger than ours: fills all of the 4 KiB behind pAllocParms, and asks for 0 first."""

    def __init__(self, file: FileIOInterface, seen: list[bytes]) -> None:
        super().__init__(file.path, file.fd, file._libc)
        self.file, self.seen = file, seen

    def ioctl(self, request: int, argument: int) -> int:
        result = self.file.ioctl(request, argument)
        if request & 0xFF == 0x2B:
            pointer = int.from_bytes(ctypes.string_at(argument + 16, 8), "little")
            if pointer:
                self.seen.append(ctypes.string_at(pointer, SCRATCH_BYTES))
                ctypes.memset(pointer, 0xEE, SCRATCH_BYTES)
        return result

    def close(self) -> None:
        self.file.close()


class ScribblingSystem(System):
    def __init__(self, system: EmulatedSystem) -> None:
        super().__init__()
        self.system, self.seen = system, list[bytes]()

    def open(self, path: str) -> FileIOInterface:
        return ScribblingFile(self.system.open(path), self.seen)


def test_alloc_parameters_lie_in_zeroed_room_for_any_drivers_struct(machine: Machine) -> None:
    system = ScribblingSystem(machine())
    rm = RmClient(system)
    with system.open("/dev/nvidia0") as gpu:
        rm.register_fd(gpu)
        handle, group = rm.alloc("NV01_DEVICE_0", rm.root, read="vaMode", hClientShare=rm.root, vaMode=2)
        assert group == 0xEEEEEEEE and handle  # what the driver wrote is read back, and nothing has burst
    assert len(system.seen) == 1 and not any(system.seen[0][56:])
    rm.close()


def test_texts_are_one_line_and_name_a_next_step(bench: Bench) -> None:
    for code in (0x0F, 0x10, 0x1B, 0x22, 0x23, 0x40, 0x62, 0x65):
        text = str(bench.rm.error("RM_CONTROL X on 0x1", code))
        assert re.fullmatch(r"[^\n]+NV_ERR_[A-Z_]+ \(0x[0-9a-f]+\); driver 580\.95\.05; [^\n]+", text), text
    assert CTL == "/dev/nvidiactl"
