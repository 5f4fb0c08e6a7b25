"""The unified-memory client: its two files, statuses, a layout that the driver does not share, undone mappings."""

from __future__ import annotations

import errno

import pytest
from nv_bench import Bench, Machine

from hcqrt.emu import EmulatedSystem
from hcqrt.errors import DriverError, UVMError
from hcqrt.fileio import FileIOInterface, System
from hcqrt.nv.rm import RmClient
from hcqrt.nv.uvm import NODE, UvmClient

BYTES = 65536


@pytest.mark.parametrize("status", [0x10006, 0x40])
def test_a_kernel_that_needs_no_second_file_is_accepted(machine: Machine, status: int) -> None:
    system = machine()
    system.inject("ioctl", "UVM_MM_INITIALIZE", status=status)
    rm = RmClient(system)
    UvmClient(rm).close()
    rm.close()


@pytest.mark.parametrize("call", ["UVM_INITIALIZE", "UVM_MM_INITIALIZE"])
def test_any_other_status_is_an_error_that_leaves_no_file(machine: Machine, call: str) -> None:
    system = machine()
    rm = RmClient(system)
    system.inject("ioctl", call, status=0x59)
    with pytest.raises(UVMError, match=rf"{call} on {NODE}: NV_ERR_\w+ \(0x59\); driver 580\.95\.05") as failure:
        UvmClient(rm)
    assert failure.value.status == 0x59 and failure.value.request == call
    assert [file.path for file in system.fds.values()] == ["/dev/nvidiactl"]
    rm.close()


class SilentFile(FileIOInterface):
    """A driver whose struct ends elsewhere: the calls in `silent` succeed, their status goes to another place."""

    def __init__(self, file: FileIOInterface, silent: set[int]) -> None:
        super().__init__(file.path, file.fd, file._libc)
        self.file, self.silent = file, silent

    def ioctl(self, request: int, argument: int) -> int:
        return 0 if request in self.silent else self.file.ioctl(request, argument)

    def close(self) -> None:
        self.file.close()


class SilentSystem(System):
    def __init__(self, system: EmulatedSystem) -> None:
        super().__init__()
        self.system, self.silent = system, set[int]()

    def open(self, path: str) -> FileIOInterface:
        file = self.system.open(path)
        return SilentFile(file, self.silent) if path == NODE else file


def test_a_status_that_is_not_written_is_an_abi_mismatch_and_no_success(machine: Machine) -> None:
    system = SilentSystem(machine())
    rm = RmClient(system)
    uvm = UvmClient(rm)
    system.silent.add(73)  # UVM_CREATE_EXTERNAL_RANGE
    with pytest.raises(UVMError, match=r"UVM_CREATE_EXTERNAL_RANGE.*no status.*580\.95\.05.*HCQRT_NV_ABI"):
        uvm.map(bytes(16), 1 << 36, BYTES, 1)
    uvm.close()
    rm.close()


def vidmem(bench: Bench) -> int:
    rm, fields = bench.rm, dict(type=0, flags=0x1C101, attr=0x18000000, attr2=5, alignment=BYTES)
    return rm.alloc_memory("NV01_MEMORY_LOCAL_USER", bench.owner.device, BYTES, owner=rm.root, **fields)


@pytest.mark.parametrize("failure", [dict(status=0x37), dict(errno=errno.EINVAL)])
def test_a_mapping_that_fails_gives_its_range_back(bench: Bench, failure: dict[str, int]) -> None:
    memory, va = vidmem(bench), bench.owner.reservation.base
    bench.system.inject("ioctl", "UVM_MAP_EXTERNAL_ALLOCATION", **failure)
    with pytest.raises(DriverError, match=r"UVM_MAP_EXTERNAL_ALLOCATION.*driver 580\.95\.05"):
        bench.uvm.map(bench.owner.uuid, va, BYTES, memory)
    bench.uvm.map(bench.owner.uuid, va, BYTES, memory)  # a range left over would overlap
    bench.uvm.unmap(va, BYTES)
    bench.rm.free(memory, bench.owner.device)


def test_what_is_mapped_reads_writes_and_takes_atomics(bench: Bench) -> None:
    memory, va = vidmem(bench), bench.owner.reservation.base
    bench.uvm.map(bench.owner.uuid, va, BYTES, memory)
    entry = next(entry for entry in bench.system.ioctl_log if entry[2] == "UVM_MAP_EXTERNAL_ALLOCATION")
    assert entry[4]["gpuAttributesCount"] == 1 and entry[4]["perGpuAttributes"][0]["gpuMappingType"] == 1
    with pytest.raises(UVMError, match=r"UVM_CREATE_EXTERNAL_RANGE.*0x68.*base 0x"):
        bench.uvm.map(bench.owner.uuid, va, BYTES, memory)
    bench.uvm.unmap(va, BYTES)
    with pytest.raises(UVMError, match="UVM_FREE"):
        bench.uvm.unmap(va, BYTES)
    bench.rm.free(memory, bench.owner.device)


def test_registering_twice_or_without_an_open_gpu_says_what_and_why(bench: Bench) -> None:
    with pytest.raises(UVMError, match=r"UVM_REGISTER_GPU .*NV_ERR_INVALID_DEVICE \(0x26\)"):
        bench.uvm.register_gpu(bench.owner.uuid)
    with pytest.raises(UVMError, match="NV_ERR_GPU_UUID_NOT_FOUND"):
        bench.uvm.register_gpu(bytes(16))
