"""From the worked dispatch's words to a launch: what the executor is given, and what reaches it how."""

from __future__ import annotations

import ctypes
import struct

import pytest
from adreno_bench import (
    CODE,
    CODE_VA,
    CONST_VA,
    CONSTANTS,
    DATA_VA,
    IN_VA,
    LAUNCH_PACKET,
    OUT_VA,
    SIGNAL_VA,
    UNMAPPED_VA,
    WAIT_FOR_IDLE,
    Bench,
    dispatch,
    lo_hi,
    type4,
    type7,
)

from hcqrt.emu.engine.launch import Ir3Setup
from hcqrt.emu.memory import MmuFault
from hcqrt.emu.qcom.trouble import PAGE_FAULT
from hcqrt.emu.refusal import EmulatorRefusal

POISON = 0xFFC0DEAD


def bank(bench: Bench, number: int = 0) -> tuple[int, ...]:
    pointer, nbytes = bench.launches[-1].constants[number]
    return struct.unpack(f"<{nbytes // 4}I", ctypes.string_at(pointer, nbytes))


def constants_at_run(bench: Bench, words: list[int]) -> tuple[int, ...]:
    """What bank 0 holds while the shader runs: it does not outlive that."""
    seen: list[tuple[int, ...]] = []
    run = bench.on_launch

    def look(launch: object) -> object:
        seen.append(bank(bench))
        return run(launch)  # type: ignore[arg-type]

    bench.on_launch = look  # type: ignore[assignment]
    bench.submit(*words)
    bench.on_launch = run
    return seen[-1]


def test_the_worked_dispatch_becomes_this_launch(bench: Bench) -> None:
    bench.submit(*dispatch())
    (launch,) = bench.launches
    assert (launch.isa, launch.lanes, launch.grid, launch.block) == ("ir3", 64, (2, 1, 1), (64, 1, 1))
    assert launch.entry_va == CODE_VA
    assert launch.memory is bench.space
    assert (launch.shared_bytes, launch.local_low_bytes, launch.local_high_bytes) == (2048, 0, 0)
    assert set(launch.constants) == {0}
    assert launch.setup == Ir3Setup(
        merged=False, constant_demotion=True, isam_gl=True, full_regs=3, half_regs=0, group_id=0xC0, group_size=0xFC,
        group_offset=0xFC, local_id=0, linear_id=0xFC,
    )  # fmt: skip
    assert bench.retired == [1]
    assert bench.u32(SIGNAL_VA) == 1
    assert (bench.gpu.stats["launches"], bench.gpu.stats["instructions"]) == (1, 64)


def test_constants_fill_their_slots_and_the_rest_is_poison(bench: Bench) -> None:
    assert constants_at_run(bench, dispatch()) == (*CONSTANTS, *[POISON] * 12)


def test_constants_come_inline_or_from_memory_and_to_any_slot(bench: Bench) -> None:
    inline = type7(0x34, 2 | 1 << 14 | 0 << 16 | 13 << 18 | 1 << 22, 0, 0, 5, 6, 7, 8)
    assert constants_at_run(bench, dispatch(before=inline)) == (*CONSTANTS, *[POISON] * 4, 5, 6, 7, 8, *[POISON] * 4)


def test_constants_persist_until_they_are_invalidated(bench: Bench) -> None:
    bench.submit(*dispatch())
    assert constants_at_run(bench, dispatch(drop=(1, 13)))[:4] == CONSTANTS
    assert constants_at_run(bench, dispatch(drop=(13,)))[:4] == (POISON,) * 4


def test_memory_is_read_at_the_launch_not_at_the_load(bench: Bench) -> None:
    store = type7(0x3D, *lo_hi(CONST_VA), 0x77)
    assert constants_at_run(bench, dispatch(before=store))[0] == 0x77


def test_a_later_store_does_not_reach_a_shader_that_was_started(bench: Bench) -> None:
    words = [*dispatch()[:-6], *type7(0x3D, *lo_hi(CONST_VA), 0x77), *WAIT_FOR_IDLE]
    assert constants_at_run(bench, words)[0] == CONSTANTS[0]


def test_the_code_ends_where_the_length_register_says(bench: Bench) -> None:
    bench.submit(*dispatch())
    fetch = bench.launches[0].fetch
    assert fetch(CODE_VA, 8 * len(CODE)) == struct.pack(f"<{len(CODE)}Q", *CODE)
    assert fetch(CODE_VA + 120, 16) == bytes(8) + b"\xff" * 8
    assert fetch(CODE_VA - 8, 16) == b"\xff" * 8 + struct.pack("<Q", CODE[0])
    with pytest.raises(MmuFault):
        fetch(CODE_VA + 128, 8)


def test_code_that_is_not_mapped_for_its_whole_length_is_a_page_fault(bench: Bench) -> None:
    """Field report 28: a length in the wrong unit reads past the code."""
    bench.space.write(DATA_VA + 0xFFF80, struct.pack(f"<{len(CODE)}Q", *CODE))
    bench.submit(*dispatch({0xA9B4: lo_hi(DATA_VA + 0xFFF80)[0], 0xA9BC: 4}, drop=(14,)))
    fault = bench.faults[0]
    assert (fault.kind, fault.address, fault.access) == (PAGE_FAULT, DATA_VA + 0x100000, "fetch")


def test_code_that_reaches_into_the_next_buffer_is_refused(bench: Bench) -> None:
    with pytest.raises(EmulatorRefusal, match=r"SP_CS_INSTRLEN \(0xa9bc\) = 0x201: .* reach past their buffer"):
        bench.submit(*dispatch({0xA9BC: 0x201}))


def test_the_first_instruction_may_lie_behind_the_start(bench: Bench) -> None:
    bench.submit(*dispatch({0xA9B3: 0x28}))
    assert bench.launches[0].entry_va == CODE_VA + 0x28


def test_a_double_wave_has_128_fibers(bench: Bench) -> None:
    bench.submit(*dispatch({0xA9B0: 0x180 | 1 << 20, 0xB998: 0xFC | 1 << 9}))
    assert bench.launches[0].lanes == 128


def test_modes_and_footprints_reach_the_setup(bench: Bench) -> None:
    change = {0xA9B0: 2 << 1 | 5 << 7 | 1 << 31, 0xAB00: 1 << 1, 0xB309: 1, 0xB997: 0x00CCC0CF, 0xB998: 0x13}
    bench.submit(*dispatch(change))
    assert bench.launches[0].setup == Ir3Setup(
        merged=True, constant_demotion=False, isam_gl=False, full_regs=5, half_regs=2, group_id=0xCF, group_size=0xC0,
        group_offset=0xCC, local_id=0, linear_id=0x13,
    )  # fmt: skip


def test_a_number_below_the_high_registers_is_no_register(bench: Bench) -> None:
    """One client writes a constant's number into the field of the group size (qcom.md §3, item 6)."""
    bench.submit(*dispatch({0xB997: 0x00FC18C0}))
    setup = bench.launches[0].setup
    assert setup is not None
    assert setup.group_size == 0x18


@pytest.mark.parametrize(("field", "nbytes"), [(0, 32768), (1, 2048), (7, 8192), (31, 32768)])
def test_shared_memory(bench: Bench, field: int, nbytes: int) -> None:
    bench.submit(*dispatch({0xA9B1: field}))
    assert bench.launches[0].shared_bytes == nbytes


def test_private_memory(bench: Bench) -> None:
    """1024 bytes for each of 2048 fibers of 2 SPs."""
    per_sp = 1024 * 2048
    bench.map(0x10_0400_0000, 2 * per_sp)
    change = {0xA9B6: 2, 0xA9B7: 0x0400_0000, 0xA9B8: 0x10, 0xA9B9: per_sp >> 12 | 1 << 31, 0xA9BD: per_sp >> 11}
    bench.submit(*dispatch(change))
    assert bench.launches[0].local_low_bytes == 1024


def test_private_memory_must_be_mapped_for_every_sp(bench: Bench) -> None:
    per_sp = 512 * 2048
    bench.map(0x10_0400_0000, 2 * per_sp - 0x10000)
    bench.submit(*dispatch({0xA9B6: 1, 0xA9B7: 0x0400_0000, 0xA9B8: 0x10, 0xA9B9: per_sp >> 12, 0xA9BD: per_sp >> 11}))
    fault = bench.faults[0]
    assert (fault.kind, fault.access) == (PAGE_FAULT, "write")
    assert fault.address == 0x10_0400_0000 + 2 * per_sp - 0x10000


RUN_OPENCL = (0x70310001, 0)


def test_run_opencl_takes_the_group_counts_from_registers(bench: Bench) -> None:
    bench.submit(*dispatch({0xB999: 2}, launch=RUN_OPENCL))
    assert bench.launches[0].grid == (2, 1, 1)


def test_run_opencl_without_group_counts_is_refused(bench: Bench) -> None:
    """NDRANGE alone is not enough: leave the three count registers out of the packet that writes twelve."""
    packet = type4(0xB990, 0xFF, 0x80, 0, 1, 0, 1, 0, 0x00FCFCC0, 0xFC)
    with pytest.raises(EmulatorRefusal, match="HLSQ_CS_KERNEL_GROUP_X was never written"):
        bench.submit(*dispatch(drop=(12,), before=packet, launch=RUN_OPENCL))


def test_exec_cs_programs_the_group_counts(bench: Bench) -> None:
    bench.submit(*dispatch(), *RUN_OPENCL, *WAIT_FOR_IDLE)
    assert [launch.grid for launch in bench.launches] == [(2, 1, 1), (2, 1, 1)]


def indirect(local: tuple[int, int, int] = (64, 1, 1)) -> list[int]:
    sizes = local[0] - 1 << 2 | local[1] - 1 << 12 | local[2] - 1 << 22
    return type7(0x41, 0, *lo_hi(DATA_VA), sizes)


def test_the_indirect_packet_reads_its_counts_from_memory(bench: Bench) -> None:
    bench.space.write(DATA_VA, struct.pack("<3I", 7, 3, 2))
    bench.submit(*dispatch(launch=indirect()))
    assert bench.launches[0].grid == (7, 3, 2)


def test_the_indirect_packet_may_find_nothing_to_do(bench: Bench) -> None:
    bench.space.write(DATA_VA, struct.pack("<3I", 7, 0, 2))
    bench.submit(*dispatch(launch=indirect()))
    assert (bench.launches, bench.u32(SIGNAL_VA)) == ([], 1)


def test_the_indirect_packet_must_agree_on_the_local_size(bench: Bench) -> None:
    with pytest.raises(EmulatorRefusal, match=r"local size \(32, 1, 1\), but \(64, 1, 1\)"):
        bench.submit(*dispatch(launch=indirect((32, 1, 1))))


def test_a_load_from_unmapped_memory_is_a_page_fault(bench: Bench) -> None:
    bench.submit(*dispatch(before=type7(0x34, 0x00764000, *lo_hi(UNMAPPED_VA))))
    assert (bench.faults[0].kind, bench.faults[0].address) == (PAGE_FAULT, UNMAPPED_VA)


def test_launches_of_a_context_are_counted(bench: Bench) -> None:
    bench.submit(*dispatch())
    bench.gpu.fault_next = 1
    bench.submit(*dispatch())
    assert (bench.faults[0].launch, bench.faults[0].timestamp) == (2, 2)


def test_the_places_of_the_example_are_its_own() -> None:
    assert (IN_VA, OUT_VA) == (0x10_0004_0000, 0x10_0003_0000)
    assert LAUNCH_PACKET == 15
    assert len(dispatch()) == 65
