"""NVProgram: code in GPU memory, limits of the chip, QMD templates, kernel arguments."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.bits import align_up
from hcqrt.core.program import CLikeArgsState, HCQArgsState, HCQProgram, Launch, Param, Resources, Size
from hcqrt.core.signal import MASK64
from hcqrt.core.sints import Sint, as_sint, is_symbolic
from hcqrt.errors import BinaryError, LaunchError
from hcqrt.nv.arch.base import BANK0_FORMATS
from hcqrt.nv.image import Image
from hcqrt.nv.launch import launch_of
from hcqrt.nv.loader import load
from hcqrt.nv.qmd import QmdSpec, QmdTemplate

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.nv.device import NVDevice

GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)  # nv-engine facts 5.1
BLOCK_LIMITS = (1024, 1024, 64)
THREADS_MAX = 1024
REGISTERS_PER_SM = 65536
AXES = "xyz"
FLOAT_ONE = 0x3F80_0000  # 1.0 as a float32's bits
CODE_MEMORY = (False, False, False)  # on the device, filled by the copy engine


class NVProgram(HCQProgram):
    """A kernel of a cubin or NAK file, loaded to a device."""

    dev: NVDevice

    def __init__(self, dev: NVDevice, binary: bytes, name: str | None) -> None:
        super().__init__()
        image = load(binary, name)
        check_arch(image, dev)
        kernel = image.pick(name)
        chip = dev.chip
        if kernel.driver_area and kernel.param_base < chip.driver_area_bytes:
            raise BinaryError(
                f"kernel {kernel.name}: parameters at {kernel.param_base:#x}, where {dev.arch} keeps launch dimensions"
            )
        reserve = chip.arch.shared_reserve if kernel.shared_in_abi else 0
        self.dev, self.kernel, self.name, self.arch = dev, kernel, kernel.name, f"sm_{image.sm}"
        self.params, self.param_base = kernel.params, kernel.param_base
        self.resources = Resources(
            registers=kernel.registers,
            shared_bytes=kernel.shared_static,
            local_bytes=kernel.local_low + kernel.local_high,
            max_threads=min(kernel.max_threads, threads_by_registers(kernel.registers)),
            barriers=kernel.barriers,
        )
        if kernel.shared_static > chip.shared_max:
            raise BinaryError(
                f"kernel {self.name} declares {kernel.shared_static} bytes of shared memory, "
                f"{dev.name} ({dev.arch}) has {chip.shared_max} per block"
            )
        self._reserve = reserve
        self.bank0_bytes = align_up(kernel.param_base + kernel.param_bytes, 16)
        self.qmd_offset = align_up(self.bank0_bytes, 256)
        self.slot_bytes = align_up(self.qmd_offset + dev.qmd_layout.size_bytes, 256)
        dev.ensure_local(kernel.local_low + kernel.local_high)
        self._memory = dev.load_code(image)
        self.uploaded: int | None = dev.timeline_value - 1 & MASK64  # the timeline's value once the code is in place
        dev.own(self)

    # limits

    def check_shape(self, grid: Sequence[Sint], block: Sequence[Sint], dynamic_shared: int) -> None:
        """Raise LaunchError naming axis, value and limit. Symbols are checked by the hardware only."""
        for what, size, limits in (("global_size", grid, GRID_LIMITS), ("local_size", block, BLOCK_LIMITS)):
            for axis, value, limit in zip(AXES, size, limits, strict=True):
                if not is_symbolic(value) and not 1 <= value <= limit:  # type: ignore[operator]  # an int here
                    raise LaunchError(f"{self.name}: {what} {axis} = {value}, allowed are 1 to {limit}")
        required = self.kernel.required_block
        if required is not None and tuple(block) != required:
            raise LaunchError(f"{self.name}: compiled for local_size {required}, {tuple(block)} was given")
        if not any(map(is_symbolic, block)):
            self._check_threads(product(block))
        self._check_shared(dynamic_shared)

    def _check_threads(self, threads: int) -> None:
        if threads > THREADS_MAX:
            raise LaunchError(f"{self.name}: {threads} threads in a block, the limit is {THREADS_MAX}")
        by_registers = threads_by_registers(self.kernel.registers)
        if threads > by_registers:
            raise LaunchError(
                f"{self.name}: {threads} threads with {self.kernel.registers} registers each exceed the register file "
                f"of {REGISTERS_PER_SM}; {by_registers} threads would fit"
            )
        if threads > self.kernel.max_threads:
            raise LaunchError(
                f"{self.name}: {threads} threads in a block, it was compiled for {self.kernel.max_threads}"
            )

    def _check_shared(self, dynamic_shared: int) -> None:
        if dynamic_shared < 0:
            raise LaunchError(f"{self.name}: {dynamic_shared} bytes of dynamic shared memory")
        if dynamic_shared and not self.kernel.shared_in_abi:
            raise LaunchError(f"{self.name}: a NAK shader's shared memory is fixed, dynamic_shared must be 0")
        needed, limit = self._shared_bytes(dynamic_shared), self.dev.chip.shared_max
        if needed > limit:
            raise LaunchError(
                f"{self.name}: needs {needed} bytes of shared memory per block "
                f"({self.kernel.shared_static} static + {dynamic_shared} dynamic), {self.dev.arch} has {limit}"
            )

    def _shared_bytes(self, dynamic_shared: int) -> int:
        """Static and dynamic part; the dynamic one starts at a multiple of 16 (nv-engine facts 8.3)."""
        static = self.kernel.shared_static
        return (align_up(static, 16) if dynamic_shared else static) + dynamic_shared

    def params_for(self, buf_count: int, val_count: int) -> Sequence[Param]:
        """As the base class, and within the parameter bytes that the file names."""
        params = super().params_for(buf_count, val_count)
        end = max((param.offset + param.size for param in params), default=0)
        if end > self.kernel.param_bytes:
            raise LaunchError(f"{self.name}: {end} bytes of arguments, it takes at most {self.kernel.param_bytes}")
        return params

    # launching

    def prepare(self, global_size: Size, local_size: Size, dynamic_shared: int) -> Launch:
        template = self.template(global_size, local_size, dynamic_shared)
        if template.symbols:
            raise LaunchError(f"{self.name}: a size is a symbol; build a queue and submit it with values")
        return launch_of(self, template)

    def template(self, grid: Sequence[Sint], block: Sequence[Sint], dynamic_shared: int) -> QmdTemplate:
        """The QMD of one shape; kept, unless it has symbols."""
        self._live()
        grid, block = [as_sint(size) for size in grid], [as_sint(size) for size in block]
        self.check_shape(grid, block, dynamic_shared)
        kernel, chip = self.kernel, self.dev.chip
        shared = align_up(self._shared_bytes(dynamic_shared) + self._reserve, chip.arch.shared_unit)
        threads = 1 if any(map(is_symbolic, block)) else product(block)
        base = self._memory.va
        spec = QmdSpec(
            grid=(grid[0], grid[1], grid[2]),
            block=(block[0], block[1], block[2]),
            program_va=base + kernel.entry,
            registers=kernel.registers,
            barriers=kernel.barriers,
            shared_bytes=shared,
            sm_configs=chip.carve_out(shared, threads, self.dev.warps_per_sm),
            local_low=kernel.local_low,
            local_high=kernel.local_high,
            bank0_bytes=self.bank0_bytes,
            banks=tuple((number, base + offset, nbytes) for number, (offset, nbytes) in sorted(kernel.banks.items())),
            sass_version=chip.sass_version,
        )
        template = QmdTemplate(self.dev.qmd_layout, spec)
        if kernel.driver_area:
            self._write_bank0(template, spec, dynamic_shared)
        if not template.symbols:
            if len(self.templates) >= 64:
                self.templates.clear()
            self.templates[tuple(grid), tuple(block), dynamic_shared] = template
        return template

    def _write_bank0(self, template: QmdTemplate, spec: QmdSpec, dynamic_shared: int) -> None:
        """What the toolkit's code finds in constant bank 0 before the parameters; clusters are of one block."""
        dev, arch, reserve = self.dev, self.dev.chip.arch, self._reserve
        values: dict[str, tuple[Any, ...]] = {
            "block_dim": spec.block,
            "grid_dim": spec.grid,
            "shared_window": (dev.shared_window_va,),
            "local_window": (dev.local_window_va,),
            "stack_top": (arch.stack_top,),
            "dynamic_shared": (dynamic_shared,),
            "shared_reserve": (reserve,),
            "shared_reserve_end": (reserve if arch.reserve_first else spec.shared_bytes,),
            "shared_total": (spec.shared_bytes,),
            "cluster_dim": (1, 1, 1),
            "cluster_inverse": (FLOAT_ONE,) * 3,
            "cluster_count": spec.grid,
            "cluster_size": (1,),
        }
        prefix = bytearray(self.param_base)
        for name, starts in arch.bank0.items():
            fmt = BANK0_FORMATS[name][-1]
            for start in starts:
                for index, value in enumerate(values[name]):
                    place = start + index * struct.calcsize(fmt)
                    if is_symbolic(value):
                        template.bank0_symbols.append((place, fmt, value))
                    else:
                        struct.pack_into(f"<{fmt}", prefix, place, value)
        template.bank0_prefix = bytes(prefix)

    def fill_kernargs(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any] = ()) -> HCQArgsState:
        self._live()
        with self.dev.lock:
            self.dev.check_usable()
            self.check_buffers(bufs)
            return CLikeArgsState(self, self.dev.kernargs, self.slot_bytes, bufs, vals)

    def locate(self, pc: int) -> str | None:
        """`kernel+0xoffset` when the address lies in this program's code."""
        offset = pc - self._memory.va
        if 0 <= offset < self._memory.nbytes:
            return f"{self.name}+{offset - self.kernel.entry:#x}"
        return None


def product(size: Sequence[Any]) -> int:
    x, y, z = size
    return int(x * y * z)


def threads_by_registers(registers: int) -> int:
    """How many threads of a block fit the register file: warps get registers in steps of 256, four at a time."""
    per_warp = align_up(max(registers, 1) * 32, 256)
    return min(THREADS_MAX, REGISTERS_PER_SM // per_warp // 4 * 4 * 32)


def check_arch(image: Image, dev: NVDevice) -> None:
    """Refuse code for another architecture: same major and equal or lower minor runs, variants only on their chip."""
    here, built = dev.chip.sm, image.sm
    same_major = here // 10 == built // 10
    if (image.variant and here != built) or not same_major or built > here:
        raise BinaryError(
            f"built for sm_{built}{image.variant}, this GPU is {dev.arch}; compile with -arch={dev.arch} ({dev.name})"
        )
