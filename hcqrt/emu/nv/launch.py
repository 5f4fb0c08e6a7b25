"""One grid from descriptor to completion: checks, execution, releases, and the descriptor that depends on it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from hcqrt.autogen.nv.qmd import SIZES
from hcqrt.bits import align_up
from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.engine.launch import Dim3, EngineFault, Launch
from hcqrt.emu.executor import default_budget
from hcqrt.emu.memory import FETCH, READ, WRITE, MmuFault
from hcqrt.emu.nv import limits
from hcqrt.emu.nv.qmd import Qmd, decode_qmd
from hcqrt.emu.nv.qmd_check import check_qmd
from hcqrt.emu.nv.qmd_layout import SHORT_BYTES, find_version
from hcqrt.emu.nv.report import write_record
from hcqrt.emu.nv.trouble import GR_EXCEPTION, MMU_FAULT, HardwareFault, Hung, Refused, SmError

if TYPE_CHECKING:
    from hcqrt.emu.nv.compute import ComputeEngine

INSTRUCTION_BYTES = 16
MAX_CHAIN = 1 << 16  # grids that one launch may chain before it counts as a cycle
# Warp ESR numbers (nv-engine.md §9) of what stops a kernel; the kinds are engine/launch.py's
WARP_ERRORS = {"illegal_instruction": 0x09, "shared": 0x0E, "local": 0x0E, "misaligned": 0x0F, "constant": 0x12}
MMU_KINDS = {"global": "PTE", "read_only": "RO", "atomic": "ATOMIC"}
ENDLESS_KINDS = ("budget", "deadlock")
GLOBAL_ESR_BPT_INT = 1 << 4


def run_grids(engine: ComputeEngine, qmd_va: int) -> None:
    """Run the grid at `qmd_va` and the chain behind it. Raises Refused, HardwareFault, MmuFault, Hung."""
    next_va: int | None = qmd_va
    for _ in range(MAX_CHAIN):
        if next_va is None:
            return
        next_va = run_grid(engine, next_va)
    raise Refused(GR_EXCEPTION, f"QMD at {qmd_va:#x}: a chain of more than {MAX_CHAIN} dependents")


def run_grid(engine: ComputeEngine, qmd_va: int) -> int | None:
    """Run one grid; the address of its dependent, if it has one."""
    gpu = engine.channel.gpu
    raw = engine.caches.qmd(qmd_va, read_qmd(engine, qmd_va))
    qmd = decode_qmd(raw, engine.table.number, qmd_va)
    check_qmd(qmd, gpu.chip, qmd_va)
    keep: list[object] = []
    launch = prepare(engine, qmd, qmd_va, keep)
    gpu.stats["launches"] += 1
    if gpu.injected_fault(f"kernel at {qmd.program_va:#x}"):
        raise kernel_fault(engine, EngineFault("illegal_instruction", qmd.program_va, detail="injected"), qmd.grid)
    result = engine.host.launch(launch)
    gpu.stats["instructions"] += result.instructions
    if result.fault is not None:
        if result.fault.kind in ENDLESS_KINDS:
            raise Hung(
                f"kernel at {qmd.program_va:#x}: {result.fault.kind} at pc {result.fault.pc:#x} "
                f"after {result.instructions} thread-instructions"
            )
        raise kernel_fault(engine, result.fault, qmd.grid)
    complete(engine, qmd, qmd_va)
    return qmd.dependent[0] if qmd.dependent else None


def read_qmd(engine: ComputeEngine, qmd_va: int) -> bytes:
    """As many bytes as the descriptor's version has."""
    space = engine.channel.address_space
    head = space.read(qmd_va, SHORT_BYTES)
    return space.read(qmd_va, SIZES[find_version(head, engine.table.number, qmd_va)])


def prepare(engine: ComputeEngine, qmd: Qmd, qmd_va: int, keep: list[object]) -> Launch:
    """The launch as the executor takes it; its pointers are good while `keep` lives.

    Raises what the hardware would find before the first instruction.
    """
    channel = engine.channel
    chip, space = channel.gpu.chip, channel.address_space
    shared_window, local_window = engine.windows(qmd_va)
    check_local_memory(engine, qmd, qmd_va)
    space.pieces(qmd.program_va, INSTRUCTION_BYTES, FETCH)
    constants = {item.bank: (one_pointer(space, item.va, item.nbytes, keep), item.nbytes) for item in qmd.constants}
    engine.caches.before_launch(qmd, qmd_va, space)
    return Launch(
        fetch=lambda va, nbytes: space.read(va, nbytes, FETCH),
        entry_va=qmd.program_va,
        memory=space,
        grid=qmd.grid,
        block=qmd.block,
        sm=chip.sm,
        registers=qmd.registers,
        shared_bytes=qmd.shared_bytes,
        local_low_bytes=qmd.local_low_bytes,
        local_high_bytes=qmd.local_high_bytes,
        local_window_va=local_window,
        shared_window_va=shared_window,
        constants=constants,
        barriers=qmd.barriers,
        budget=engine.host.budget or default_budget(qmd.grid, qmd.block),
        clock_ns=channel.gpu.clock_ns(),
    )


def one_pointer(space: GpuAddressSpace, va: int, nbytes: int, keep: list[object]) -> int:
    """Host pointer of a constant buffer; one that lies in several pieces of memory is gathered."""
    pieces = space.pieces(va, nbytes, READ)
    if len(pieces) == 1:
        block, offset, _ = pieces[0]
        return block.host_ptr + offset
    gathered = ctypes.create_string_buffer(space.read(va, nbytes), nbytes)
    keep.append(gathered)
    return ctypes.addressof(gathered)


def check_local_memory(engine: ComputeEngine, qmd: Qmd, qmd_va: int) -> None:
    """What the kernel needs against what SET_SHADER_LOCAL_MEMORY programmed. Raises Refused and MmuFault."""
    per_thread = qmd.local_low_bytes + qmd.local_high_bytes
    if not per_thread:
        return
    chip = engine.channel.gpu.chip
    per_warp = align_up(per_thread * limits.WARP_THREADS, limits.WARP_LOCAL_UNIT)
    per_tpc = align_up(per_warp * chip.warps_per_sm * chip.sms_per_tpc, limits.TPC_LOCAL_UNIT)
    memory = engine.local_memory()
    what = f"QMD at {qmd_va:#x}: {per_thread:#x} bytes of local memory per thread"
    if memory is None:
        raise Refused(GR_EXCEPTION, f"{what}, none is programmed")
    base, size, max_sms = memory
    if size % limits.TPC_LOCAL_UNIT:
        raise Refused(
            GR_EXCEPTION, f"{what}: programmed size {size:#x} is not a multiple of {limits.TPC_LOCAL_UNIT:#x}"
        )
    if size < per_tpc:
        raise Refused(GR_EXCEPTION, f"{what} need {per_tpc:#x} per TPC, programmed are {size:#x}: scratch out of range")
    if max_sms < chip.sms:
        raise Refused(GR_EXCEPTION, f"{what}: programmed for {max_sms} SMs, this chip has {chip.sms}")
    engine.channel.address_space.pieces(base, size * chip.tpcs, WRITE)


def complete(engine: ComputeEngine, qmd: Qmd, qmd_va: int) -> None:
    for item in qmd.releases:
        what = f"QMD at {qmd_va:#x}: RELEASE{item.slot}"
        if engine.caches.enabled and not (qmd.membar or item.membar):
            raise Refused(GR_EXCEPTION, f"{what}: no membar before it, so nobody may rely on what the grid wrote")
        write_record(
            engine.channel,
            what,
            item.va,
            item.payload,
            item.structure,
            item.payload64,
            item.reduction,
            item.reduction_signed,
        )
        engine.interrupts += item.interrupt


def kernel_fault(engine: ComputeEngine, fault: EngineFault, grid: Dim3) -> HardwareFault:
    """The channel error and SM state that hardware reports for what stopped a kernel."""
    gpu = engine.channel.gpu
    x, y, z = fault.block
    sm = ((z * grid[1] + y) * grid[0] + x) % gpu.chip.sms
    where = f"{fault.detail or fault.kind} at pc {fault.pc:#x}, block {fault.block}, thread {fault.thread}"
    if fault.kind in MMU_KINDS:
        miss = MmuFault(fault.address, fault.access, mmu_kind(engine, fault))
        return HardwareFault(
            MMU_FAULT, f"{miss}; {where}", mmu=miss, sm=SmError(sm, pc=fault.pc, address=fault.address)
        )
    if fault.kind == "trap":
        return HardwareFault(GR_EXCEPTION, where, sm=SmError(sm, global_esr=GLOBAL_ESR_BPT_INT, pc=fault.pc))
    error = WARP_ERRORS[fault.kind]
    state = SmError(sm, warp_esr=error, pc=fault.pc, address=fault.address)
    return HardwareFault(GR_EXCEPTION, f"warp error {error:#x}: {where}", sm=state)


def mmu_kind(engine: ComputeEngine, fault: EngineFault) -> str:
    """Ask the address space again: it knows why the access fails."""
    try:
        engine.channel.address_space.pieces(fault.address, 1, fault.access)
    except MmuFault as miss:
        return miss.kind
    return MMU_KINDS[fault.kind]  # its first byte is mapped, a later one is not
