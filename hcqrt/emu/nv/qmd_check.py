"""Whether a launch descriptor fits the chip: grid and block, registers, shared memory, constants, releases."""

from __future__ import annotations

from collections.abc import Iterator

from hcqrt.bits import align_up
from hcqrt.emu.nv import limits, semaphore
from hcqrt.emu.nv.chips import Chip
from hcqrt.emu.nv.limits import WARP_THREADS
from hcqrt.emu.nv.qmd import Qmd
from hcqrt.emu.nv.trouble import GR_EXCEPTION, Refused


def check_qmd(qmd: Qmd, chip: Chip, va: int) -> None:
    """Refused: the first thing that this chip cannot run, with its number."""
    for check in (geometry, resources, shared_memory, program, constants, releases):
        for problem in check(qmd, chip):
            raise Refused(GR_EXCEPTION, f"QMD {qmd.version} at {va:#x}: {problem}")


def geometry(qmd: Qmd, chip: Chip) -> Iterator[str]:
    if 0 in qmd.grid:
        yield f"grid {qmd.grid} has no blocks"
    if qmd.grid[0] > limits.MAX_GRID_X:
        yield f"grid x {qmd.grid[0]:#x} is over {limits.MAX_GRID_X:#x}"
    for axis, size, most in zip("xyz", qmd.block, limits.MAX_BLOCK, strict=True):
        if not 1 <= size <= most:
            yield f"block {axis} = {size} is not in 1..{most}"
    threads = qmd.block[0] * qmd.block[1] * qmd.block[2]
    if threads > limits.MAX_BLOCK_THREADS:
        yield f"block {qmd.block} has {threads} threads, over {limits.MAX_BLOCK_THREADS}"


def block_warps(qmd: Qmd) -> int:
    return align_up(qmd.block[0] * qmd.block[1] * qmd.block[2], WARP_THREADS) // WARP_THREADS


def resources(qmd: Qmd, chip: Chip) -> Iterator[str]:
    warps = block_warps(qmd)
    if not 1 <= qmd.registers <= limits.MAX_REGISTERS:
        yield f"{qmd.registers} registers, not in 1..{limits.MAX_REGISTERS}"
    if warps > chip.warps_per_sm:
        yield f"block {qmd.block} has {warps} warps, an SM holds {chip.warps_per_sm}"
    per_warp = align_up(qmd.registers * WARP_THREADS, limits.REGISTER_UNIT)
    needed = per_warp * align_up(warps, limits.WARP_ALLOCATION)
    if needed > limits.REGISTERS_PER_SM:
        yield f"block {qmd.block} with {qmd.registers} registers needs {needed} registers of {limits.REGISTERS_PER_SM}"
    if qmd.barriers > limits.MAX_BARRIERS:
        yield f"{qmd.barriers} barriers, over {limits.MAX_BARRIERS}"
    for name, size in (("low", qmd.local_low_bytes), ("high", qmd.local_high_bytes)):
        if size % limits.LOCAL_ALIGNMENT:
            yield f"local memory {name} size {size:#x} is not a multiple of {limits.LOCAL_ALIGNMENT}"
    low, high, most = qmd.local_low_bytes, qmd.local_high_bytes, limits.LOCAL_WINDOW_BYTES
    if low + high > most:
        yield f"local memory {low:#x} + {high:#x} is over {most:#x}"


def shared_memory(qmd: Qmd, chip: Chip) -> Iterator[str]:
    sm = chip.limits
    if qmd.shared_bytes % sm.shared_unit:
        yield f"shared memory size {qmd.shared_bytes:#x} is not a multiple of {sm.shared_unit}"
    if qmd.shared_bytes > sm.max_shared_bytes:
        yield f"shared memory size {qmd.shared_bytes:#x} is over {sm.max_shared_bytes:#x}"
    known = sm.encodings
    for name, value in zip(("MIN", "TARGET", "MAX"), qmd.sm_config, strict=True):
        if value not in known:
            yield f"{name}_SM_CONFIG_SHARED_MEM_SIZE = {value:#x} is no carve-out of {chip.name}"
            return
    least, target, most = (known[value] for value in qmd.sm_config)
    if not least <= target <= most:
        yield f"SM_CONFIG sizes {least:#x}, {target:#x}, {most:#x} are not in order"
    if sm.largest_max and most != sm.max_shared_bytes:
        yield f"MAX_SM_CONFIG_SHARED_MEM_SIZE {most:#x} is not this chip's largest, {sm.max_shared_bytes:#x}"
    if qmd.shared_bytes > least:
        yield f"shared memory size {qmd.shared_bytes:#x} is over the smallest carve-out {least:#x}"


def program(qmd: Qmd, chip: Chip) -> Iterator[str]:
    if qmd.program_va % limits.PROGRAM_ALIGNMENT:
        yield f"program address {qmd.program_va:#x} is not a multiple of {limits.PROGRAM_ALIGNMENT}"
    if qmd.sass_version not in (0, *chip.sass_versions):
        yield f"SASS_VERSION {qmd.sass_version:#x} does not run on {chip.name}"
    start, nbytes = qmd.prefetch
    if nbytes and not start <= qmd.program_va < start + nbytes:
        yield f"prefetch of {nbytes:#x} bytes at {start:#x} misses the program at {qmd.program_va:#x}"


def constants(qmd: Qmd, chip: Chip) -> Iterator[str]:
    for buffer in qmd.constants:
        what = f"constant buffer {buffer.bank} at {buffer.va:#x}"
        if buffer.va % limits.CONSTANT_ALIGNMENT:
            yield f"{what} is not {limits.CONSTANT_ALIGNMENT}-byte aligned"
        if not 0 < buffer.nbytes <= limits.MAX_CONSTANT_BYTES:
            yield f"{what}: size {buffer.nbytes:#x} is not in 0x10..{limits.MAX_CONSTANT_BYTES:#x}"


def releases(qmd: Qmd, chip: Chip) -> Iterator[str]:
    for item in qmd.releases:
        what = f"RELEASE{item.slot} at {item.va:#x}"
        nbytes = semaphore.RECORD_BYTES[item.structure]
        if item.payload64 and nbytes == 4:
            yield f"{what}: a 64-bit payload in a one-word structure"
        if nbytes == 8 and not item.payload64:
            yield f"{what}: a 32-bit payload in a two-word structure"
        if item.va % nbytes:
            yield f"{what} is not {nbytes}-byte aligned"
        if item.reduction is not None and nbytes == 16:
            yield f"{what}: reduction {item.reduction} in a four-word structure"
