"""One dispatch from registers to completion: geometry, code, state, and the faults that a shader ends with."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.engine.launch import Dim3, EngineFault, Ir3Setup, Launch
from hcqrt.emu.executor import default_budget
from hcqrt.emu.memory import FETCH, WRITE, MmuFault
from hcqrt.emu.qcom.banks import Descriptors, descriptor_banks
from hcqrt.emu.qcom.config import CODE_UNIT, Config, read_config
from hcqrt.emu.qcom.generation import Generation
from hcqrt.emu.qcom.trouble import BAD_SHADER, HANG, PAGE_FAULT, Refused, ShaderPlace, WorkFault
from hcqrt.emu.refusal import EmulatorRefusal

if TYPE_CHECKING:
    from hcqrt.emu.qcom.cp import CommandProcessor
    from hcqrt.emu.qcom.gpu import Gpu

COMPUTE_MARKER = 8  # RM6_COMPUTE
CONSTANT_BANK = 0
MAX_GLOBAL = (1 << 32) - 1
AXES = "XYZ"
# Sizes and offsets of the whole grid, by axis
GLOBAL_SIZE = ("HLSQ_CS_NDRANGE_1", "HLSQ_CS_NDRANGE_3", "HLSQ_CS_NDRANGE_5")
GLOBAL_OFFSET = ("HLSQ_CS_NDRANGE_2", "HLSQ_CS_NDRANGE_4", "HLSQ_CS_NDRANGE_6")
# What a fetch beyond the code gives: no category-7 instruction looks like it, and the reason is told with the fault
NO_CODE = b"\xff"
PAGE_KINDS = {"global": "PTE", "read_only": "RO", "atomic": "ATOMIC"}
ENDLESS_KINDS = ("budget", "deadlock")


@dataclass(frozen=True)
class Code:
    """The code of a shader as its caches hold it: what lies around it does not decode."""

    va: int
    raw: bytes

    def fetch(self, va: int, nbytes: int) -> bytes:
        """Raises MmuFault where none of it is."""
        start, end = max(va, self.va), min(va + nbytes, self.va + len(self.raw))
        if start >= end:
            raise MmuFault(va, FETCH, "PTE", nbytes)
        return NO_CODE * (start - va) + self.raw[start - self.va : end - self.va] + NO_CODE * (va + nbytes - end)


@dataclass(eq=False)
class Dispatch:
    """A shader that was started: everything it needs was read when it started. `keep` holds its banks.

    Several launches where groups at the end of an axis are shorter than the others.
    """

    launches: Sequence[Launch]
    space: GpuAddressSpace
    number: int
    code_va: int
    code_end: int
    keep: list[object]

    def run(self, gpu: Gpu) -> None:
        """Execute it. Raises WorkFault, and Refused for what the executor will not start."""
        if gpu.takes_fault(f"shader at {self.code_va:#x}"):
            gpu.stats["launches"] += 1
            entry_va = self.launches[0].entry_va
            place = ShaderPlace(self.code_va, entry_va)
            text = f"injected: fetch at {entry_va:#x} by the shader at {self.code_va:#x}"
            raise WorkFault(PAGE_FAULT, text, entry_va, FETCH, "PTE", self.number, place)
        for launch in self.launches:
            try:
                result = gpu.launch(launch)
            except EmulatorRefusal as refusal:
                raise Refused(str(refusal)) from None
            gpu.stats["launches"] += launch is self.launches[0]
            gpu.stats["instructions"] += result.instructions
            if result.fault is not None:
                raise self.trouble(launch, result.fault, result.instructions)

    def trouble(self, launch: Launch, fault: EngineFault, instructions: int) -> WorkFault:
        """The fault that the driver hears of."""
        first = launch.setup.first_group if launch.setup is not None else (0, 0, 0)
        group = (first[0] + fault.block[0], first[1] + fault.block[1], first[2] + fault.block[2])
        place = ShaderPlace(self.code_va, fault.pc, group, fault.thread)
        where = f"shader at {self.code_va:#x}, pc {fault.pc:#x}, group {group}, fiber {fault.thread}"
        if fault.kind in PAGE_KINDS:
            reason = self.page_reason(fault)
            text = f"{fault.access} at {fault.address:#x}: MMU fault {reason}; {where}"
            return WorkFault(PAGE_FAULT, text, fault.address, fault.access, reason, self.number, place)
        if fault.kind in ENDLESS_KINDS:
            text = f"{where}: {fault.kind} after {instructions} fiber-instructions"
            return WorkFault(HANG, text, launch=self.number, place=place)
        detail = fault.detail or fault.kind
        if fault.kind == "illegal_instruction" and not self.code_va <= fault.pc < self.code_end:
            detail = f"outside the {(self.code_end - self.code_va) // CODE_UNIT} units of code that SP_CS_INSTRLEN says"
        address = f" at {fault.address:#x}" if fault.address else ""
        return WorkFault(BAD_SHADER, f"{detail}{address}; {where}", launch=self.number, place=place)

    def page_reason(self, fault: EngineFault) -> str:
        """Ask the address space again: it knows why the access fails."""
        try:
            self.space.pieces(fault.address, 1, fault.access)
        except MmuFault as miss:
            return miss.kind
        return PAGE_KINDS[fault.kind]  # its first byte is mapped, a later one is not


def start_dispatch(cp: CommandProcessor, name: str, groups: Dim3, local: Dim3 | None = None) -> None:
    """Start a shader from the registers. `local` comes with the indirect packet. Raises Refused and MmuFault."""
    if cp.marker != COMPUTE_MARKER:
        raise Refused(f"{name}: the marker mode is {cp.marker}, compute needs CP_SET_MARKER {COMPUTE_MARKER}")
    if cp.thread != cp.generation.compute_thread:
        raise Refused(
            f"{name}: the thread is {cp.thread}, compute needs CP_THREAD_CONTROL {cp.generation.compute_thread}"
        )
    config = read_config(cp.registers, cp.gpu.chip, not cp.gpu.strict)
    if local is not None and local != config.block:
        raise Refused(f"{name}: local size {local}, but {config.block} in HLSQ_CS_NDRANGE_0")
    check_grid(cp, name, groups, config, indirect=local is not None)
    cp.registers.values |= {
        cp.registers.offsets[f"HLSQ_CS_KERNEL_GROUP_{axis}"]: n for axis, n in zip(AXES, groups, strict=True)
    }
    if 0 in groups:  # only the indirect packet may say so
        return
    cp.launches += 1
    cp.in_flight.append(make_dispatch(cp, groups, config))


def check_grid(cp: CommandProcessor, name: str, groups: Dim3, config: Config, *, indirect: bool) -> None:
    """Raises Refused: sizes that do not agree, and what is not modelled."""
    registers = cp.registers
    axes = zip(AXES, groups, config.block, config.last, GLOBAL_SIZE, GLOBAL_OFFSET, strict=True)
    for axis, count, size, last, extent, offset in axes:
        if not registers.written(extent) or not registers.written(offset):
            raise Refused(f"{name}: {extent} and {offset} were never written in this context")
        if registers.get(offset):
            raise Refused(f"{registers.text(offset)} = {registers.get(offset):#x}: offsets are not modelled")
        if count * size > MAX_GLOBAL:
            raise Refused(f"{name}: {count:#x} groups of {size} in {axis} are over {MAX_GLOBAL:#x} fibers")
        if indirect:
            continue
        if not count:
            raise Refused(f"{name}: no groups in {axis}")
        total = (count - 1) * size + last
        if registers.get(extent) != total:
            shorter = f", the last of {last}," if last != size else ""
            raise Refused(
                f"{registers.text(extent)} = {registers.get(extent):#x}: {count} groups of {size} in {axis}{shorter} "
                f"are {total:#x}"
            )


def make_dispatch(cp: CommandProcessor, groups: Dim3, config: Config) -> Dispatch:
    """Read what the shader gets: code, constants, descriptors, and see that its private memory is there."""
    space, state = cp.space, cp.state
    state.take_pending(space)
    code = Code(config.code_va, read_code(cp, config))
    if config.per_sp_bytes:
        space.pieces(config.private_va, config.per_sp_bytes * cp.gpu.chip.sps, WRITE)
    if state.constants_end > config.const_vec4:
        register = f"{cp.registers.text('HLSQ_CS_CNTL')} = {cp.registers.get('HLSQ_CS_CNTL'):#x}"
        last = state.constants_end - 1
        raise Refused(f"{register}: constants up to c{last} were loaded, CONSTLEN is {config.const_vec4} vec4")
    keep: list[object] = []
    found = descriptor_banks(cp, config)
    banks = {CONSTANT_BANK: bytes(state.constants[: 16 * config.const_vec4]), **found.banks}
    whole = Launch(
        fetch=code.fetch,
        entry_va=config.entry_va,
        memory=space,
        grid=groups,
        block=config.block,
        isa="ir3",
        shared_bytes=config.shared_bytes,
        local_low_bytes=config.private_bytes,
        constants={bank: pointer(raw, keep) for bank, raw in banks.items()},
        budget=cp.gpu.budget or default_budget(groups, config.block),
        clock_ns=cp.gpu.clock_ns(),
        lanes=config.lanes,
        setup=setup_of(cp.generation, config, found),
    )
    return Dispatch(
        parts(whole, config.last), space, cp.launches, config.code_va, config.code_va + config.code_bytes, keep
    )


def parts(whole: Launch, last: Dim3) -> list[Launch]:
    """The launch with groups that are all alike, or for each combination of last and other groups one with those."""
    setup = whole.setup
    if last == whole.block or setup is None:
        return [whole]
    axes = []
    for count, size, end in zip(whole.grid, whole.block, last, strict=True):
        shorter = int(end != size)
        cuts = ((0, count - shorter, size), (count - shorter, shorter, end))
        axes.append([cut for cut in cuts if cut[1]])
    return [
        replace(
            whole, grid=(x[1], y[1], z[1]), block=(x[2], y[2], z[2]),
            setup=replace(setup, first_group=(x[0], y[0], z[0])),
        )
        for z, y, x in itertools.product(axes[2], axes[1], axes[0])
    ]  # fmt: skip


def setup_of(generation: Generation, config: Config, found: Descriptors) -> Ir3Setup:
    """What the code is lowered for."""
    return Ir3Setup(
        merged=config.merged,
        constant_demotion=config.constant_demotion,
        isam_gl=config.isam_gl,
        full_regs=config.full_regs,
        half_regs=config.half_regs,
        group_id=config.group_id,
        group_size=config.group_size,
        group_offset=config.group_offset,
        local_id=config.local_id,
        linear_id=config.linear_id,
        textures=found.textures,
        samplers=found.samplers,
        images=found.images,
        ubos=found.ubos,
        generation=generation.isa,
    )


def pointer(raw: bytes, keep: list[object]) -> tuple[int, int]:
    """Host pointer and bytes of a bank's own copy."""
    held = ctypes.create_string_buffer(raw, len(raw)) if raw else ctypes.create_string_buffer(1)
    keep.append(held)
    return ctypes.addressof(held), len(raw)


def read_code(cp: CommandProcessor, config: Config) -> bytes:
    """The units of code that INSTRLEN counts; the prefetch reads them all. Raises Refused and MmuFault."""
    load, chip = cp.state.code, cp.gpu.chip
    if load is not None:
        if load.data is not None or load.first or load.va != config.code_va:
            raise Refused(f"{load.text}: not the code at {config.code_va:#x} (SP_CS_OBJ_START)")
        if load.units > chip.icache_units and cp.gpu.strict:  # the known client always asks for the whole image
            raise Refused(f"{load.text}: the instruction cache of an {chip.name} holds {chip.icache_units} units")
        if load.units * CODE_UNIT > config.code_bytes:
            raise Refused(f"{load.text}: SP_CS_INSTRLEN is {config.code_bytes // CODE_UNIT}")
    if len(cp.space.pieces(config.code_va, config.code_bytes, FETCH)) > 1:
        raise Refused(
            f"{cp.registers.text('SP_CS_INSTRLEN')} = {config.code_bytes // CODE_UNIT:#x}: "
            f"{config.code_bytes:#x} bytes of code at {config.code_va:#x} reach past their buffer into another"
        )
    code = cp.space.read(config.code_va, config.code_bytes, FETCH)
    cp.state.stale.fetched(config.code_va, code)
    return code
