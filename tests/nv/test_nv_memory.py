"""The four kinds of memory: same address on both sides, whole pages, whole free paths, nothing left by a failure."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from nv_bench import Bench, Machine, opened

from hcqrt.errors import HCQError, OutOfMemory
from hcqrt.nv.memory import HUGE_PAGE, SMALL_PAGE, VA_LIMIT, NVAllocation, alloc_pinned, alloc_sysmem, alloc_vidmem

Kind = Callable[[Any, int], NVAllocation]
KINDS: dict[str, Kind] = {
    "vidmem": lambda owner, nbytes: alloc_vidmem(owner, nbytes, cpu=False),
    "visible": lambda owner, nbytes: alloc_vidmem(owner, nbytes, cpu=True),
    "uncached": lambda owner, nbytes: alloc_sysmem(owner, nbytes, cached=False),
    "cached": lambda owner, nbytes: alloc_sysmem(owner, nbytes, cached=True),
    "pinned": alloc_pinned,
}
FREED = {
    "vidmem": ["UVM_FREE", "NV_ESC_RM_FREE"],
    "visible": ["UVM_FREE", "NV_ESC_RM_UNMAP_MEMORY", "NV_ESC_RM_FREE"],
    "uncached": ["UVM_FREE", "NV_ESC_RM_UNMAP_MEMORY", "NV_ESC_RM_FREE"],
    "cached": ["UVM_FREE", "NV_ESC_RM_UNMAP_MEMORY", "NV_ESC_RM_FREE"],
    "pinned": ["UVM_FREE", "NV_ESC_RM_FREE"],
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def gpu_space(bench: Bench) -> Any:
    """The address space as the emulated GPU walks it."""
    return bench.system.drivers[0].clients[bench.rm.root].objects[bench.va_space].space  # type: ignore[attr-defined]


@every_kind
@pytest.mark.parametrize("page_size", [4096, 16384, 65536])
def test_memory_is_whole_pages_at_one_address_and_is_given_back(machine: Machine, kind: str, page_size: int) -> None:
    with opened(machine(page_size=page_size)) as bench:
        space, before = bench.owner.reservation.space, bench.held()
        memory = KINDS[kind](bench.owner, 5000)
        assert memory.nbytes >= 5000 and memory.nbytes % page_size == 0 == memory.va % page_size
        assert bench.owner.reservation.base <= memory.va < memory.va + memory.nbytes <= VA_LIMIT
        assert (memory.cpu is None) == (kind == "vidmem")
        if memory.cpu is not None:
            assert (memory.cpu.addr, memory.cpu.nbytes) == (memory.va, memory.nbytes)
            memory.cpu[memory.nbytes - 1] = 0xA5
            assert gpu_space(bench).read(memory.va + memory.nbytes - 1, 1) == b"\xa5"
        bench.forget()
        memory.close()
        memory.close()
        assert [name for name, _ in bench.calls()] == FREED[kind]
        assert bench.held() == before and space.in_use == 0 and memory.cpu is None


@every_kind
def test_a_failure_at_any_step_leaves_nothing_and_the_next_try_works(bench: Bench, kind: str) -> None:
    system, owner, before = bench.system, bench.owner, bench.held()
    bench.forget()
    KINDS[kind](owner, 5000).close()
    steps = len(bench.calls()) - len(FREED[kind])
    failures: list[tuple[str, int, dict[str, int]]] = []
    for nth in range(1, steps + 1):
        failures += [("ioctl", nth, dict(errno=errno.EINVAL)), ("ioctl", nth, dict(status=0x1F))]
    if kind != "vidmem":
        failures.append(("mmap", 1, dict(errno=errno.ENOMEM)))
    if kind not in ("vidmem", "pinned"):
        failures.append(("open", 1, dict(errno=errno.EMFILE)))
    for what, nth, how in failures:
        system.inject(what, nth=nth, **how)
        with pytest.raises(HCQError):
            KINDS[kind](owner, 5000)
        system.rules.drop(what)
        assert bench.held() == before and owner.reservation.space.in_use == 0, (what, nth, how)
    KINDS[kind](owner, 5000).close()


@every_kind
def test_a_failing_step_of_freeing_does_not_keep_the_others(bench: Bench, kind: str) -> None:
    stuck = 0
    for nth in range(1, len(FREED[kind]) + 1):
        memory = KINDS[kind](bench.owner, 5000)
        bench.forget()
        bench.system.inject("ioctl", nth=nth, status=0x0F)
        with pytest.raises(HCQError, match=r"NV_ERR_GPU_IS_LOST \(0xf\)"):
            memory.close()
        bench.system.rules.drop("ioctl")
        assert [name for name, _ in bench.calls()] == FREED[kind]
        still_mapped = FREED[kind][nth - 1] == "UVM_FREE"  # then the addresses must not be given out again
        assert bench.owner.reservation.space.in_use == (stuck := memory.nbytes if still_mapped else stuck)


@pytest.mark.parametrize(
    ("nbytes", "page"),
    [(1, SMALL_PAGE), (SMALL_PAGE + 1, SMALL_PAGE), (HUGE_PAGE, HUGE_PAGE), (HUGE_PAGE + 1, HUGE_PAGE)],
)
def test_large_memory_has_large_pages_and_addresses_that_fit_them(bench: Bench, nbytes: int, page: int) -> None:
    alloc_vidmem(bench.owner, 1, cpu=False)  # so that the next address is not aligned by chance
    bench.forget()
    memory = alloc_vidmem(bench.owner, nbytes, cpu=False)
    asked = next(entry[4] for entry in bench.system.ioctl_log if entry[3] == "NV01_MEMORY_LOCAL_USER")
    huge = page == HUGE_PAGE
    assert memory.va % page == 0 == memory.nbytes % page and memory.nbytes - nbytes < page
    assert asked["alignment"] == page and asked["size"] == memory.nbytes and asked["owner"] == bench.rm.root
    assert (asked["attr"] >> 23 & 3, asked["attr2"] >> 20 & 3) == ((3, 1) if huge else (0, 0))
    memory.close()
    asked = bench.owner.reservation.space.in_use
    assert asked == SMALL_PAGE


def test_host_memory_kinds_differ_as_the_cpu_sees_them(bench: Bench) -> None:
    for cached, coherency in ((False, 0), (True, 5)):
        bench.forget()
        memory = alloc_sysmem(bench.owner, 4096, cached=cached)
        asked = next(entry[4] for entry in bench.system.ioctl_log if entry[3] == "NV01_MEMORY_SYSTEM")
        assert (asked["attr"] >> 25 & 3, asked["attr"] >> 29 & 7, asked["type"]) == (1, coherency, 0xD)
        memory.close()


def test_pinned_memory_is_pinned_on_the_gpus_own_node(bench: Bench) -> None:
    bench.forget()
    memory = alloc_pinned(bench.owner, 5000)
    path, fields = next((entry[1], entry[4]) for entry in bench.system.ioctl_log if "RM_ALLOC_MEMORY" in entry[2])
    params = fields["params"]
    assert path == bench.owner.node
    assert (params["pMemory"], params["limit"], params["hClass"]) == (memory.va, memory.nbytes - 1, 0x71)
    assert (params["flags"] >> 30, params["flags"] >> 8 & 0xF) == (1, 0)  # NO_MAP, PCI
    memory.close()


def test_500_visible_buffers_fit_an_fd_table_of_64(machine: Machine) -> None:
    with opened(machine(fd_limit=64)) as bench:
        held = [alloc_vidmem(bench.owner, 4096, cpu=True) for _ in range(250)]
        held += [alloc_sysmem(bench.owner, 4096, cached=False) for _ in range(250)]
        assert len(bench.system.fds) < 16
        for memory in reversed(held):
            memory.close()


def test_a_full_gpu_says_so_and_is_usable_afterwards(machine: Machine) -> None:
    with opened(machine([dict(chip="sm_86", memory_bytes=64 << 20)])) as bench:
        before = bench.held()
        with pytest.raises(OutOfMemory, match=r"NV_ERR_NO_MEMORY \(0x51\).*83886080 bytes asked"):
            alloc_vidmem(bench.owner, 80 << 20, cpu=False)
        assert bench.held() == before
        alloc_vidmem(bench.owner, 8 << 20, cpu=False).close()


def test_a_full_bar_is_out_of_memory_too(machine: Machine) -> None:
    with opened(machine([dict(chip="sm_86", bar1_bytes=4 << 20)])) as bench:
        before = bench.held()
        with pytest.raises(OutOfMemory, match="RM_MAP_MEMORY"):
            alloc_vidmem(bench.owner, 8 << 20, cpu=True)
        assert bench.held() == before
        alloc_vidmem(bench.owner, 2 << 20, cpu=True).close()
