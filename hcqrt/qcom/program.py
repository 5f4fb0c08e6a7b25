"""QCOMProgram: code in GPU memory, limits of the chip, argument blocks and descriptors, dispatches by shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.bits import align_up
from hcqrt.core.program import CLikeArgsState, HCQArgsState, HCQProgram, Launch, Param, Resources, Size
from hcqrt.core.sints import Sint, as_sint, is_symbolic
from hcqrt.errors import BinaryError, LaunchError
from hcqrt.qcom import image
from hcqrt.qcom.dispatch import Place, Shape
from hcqrt.qcom.launch import DispatchLaunch, DispatchTemplate, ImageLaunch
from hcqrt.qcom.loader import load
from hcqrt.qcom.shader import BUFFER, CODE_UNIT, IMAGE, TEXTURE, VEC4, Shader

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.qcom.device import QCOMDevice

CODE_TAIL = 2 * CODE_UNIT  # zeros, which are nops, behind the code: instructions are fetched ahead
SCALAR_BYTES, POINTER_BYTES = 4, 8
UNLISTED_ROOM = 256  # bytes for arguments that a shader takes without listing them, beside those it reads
TEMPLATES_MAX = 64
DRIVER_PARAM_BYTES = 64


class QCOMProgram(HCQProgram):
    """A kernel of an OpenCL binary or of an ir3 shader, loaded to a device.

    A slot of the kernel-argument ring holds launch dimensions where the shader reads them, the argument block, and a
    table of descriptors each for images and textures. Constants and samplers, which never change, lie behind the code.
    """

    dev: QCOMDevice
    params: None

    def __init__(self, dev: QCOMDevice, binary: bytes, name: str | None) -> None:
        super().__init__()
        chip = dev.chip
        shader = load(binary, name, chip.arch)
        self.dev, self.shader, self.name, self.arch, self.params = dev, shader, shader.name, chip.name, None
        self.private = chip.private_layout(shader.private_bytes)
        if self.private.per_sp >> 12 >= 1 << 18:  # SP_CS_PVT_MEM_SIZE.TOTALPVTMEMSIZE
            raise BinaryError(
                f"kernel {self.name} wants {shader.private_bytes} bytes of private memory per fibre, more than "
                f"{chip.name} with {chip.fibres_per_sp} fibres per processor can have"
            )
        self._fitting = chip.max_threads(shader.full_regs, shader.half_regs, shader.merged_regs)
        self.resources = Resources(
            registers=shader.full_regs * 4,
            shared_bytes=shader.shared_bytes,
            local_bytes=shader.private_bytes,
            max_threads=min(self._fitting, math.prod(shader.required_local or (self._fitting,))),
        )
        room = len(shader.block) if shader.arguments is not None else len(shader.block) + UNLISTED_ROOM
        self.param_base = DRIVER_PARAM_BYTES if shader.driver_params else 0
        self.block_bytes = align_up(room, VEC4) if shader.ranges else 0
        self.images_offset = align_up(self.param_base + self.block_bytes, image.DESCRIPTOR_BYTES)
        self.textures_offset = self.images_offset + image.DESCRIPTOR_BYTES * shader.images
        self.slot_bytes = align_up(self.textures_offset + image.DESCRIPTOR_BYTES * len(shader.textures), 256) or 256
        self.initial = bytes(self.param_base) + shader.block
        self.scratch_va = dev.scratch_va(self.private.total) if self.private.total else 0
        self._memory = dev.load_code(self._lay_out(shader))
        dev.own(self)

    def _lay_out(self, shader: Shader) -> bytes:
        """Code, what is fetched behind it, constants, samplers."""
        data = bytearray(shader.code)
        data += bytes(align_up(len(data), CODE_UNIT) + CODE_TAIL - len(data))
        self._constants: list[tuple[int, int, int]] = []  # (offset in the memory, first vector, vectors)
        for offset, values in shader.constants:
            self._constants.append((len(data), offset // VEC4, len(values) // VEC4))
            data += values
        data += bytes(-len(data) % VEC4)
        self._samplers_offset = len(data)
        return bytes(data + image.sampler() * shader.samplers)

    # limits

    def check_shape(self, groups: Sequence[Sint], local: Sequence[Sint], dynamic_shared: int) -> None:
        """Raise LaunchError naming axis, value and limit. Symbols that a register cannot hold are refused later."""
        arch, shader = self.dev.chip.arch, self.shader
        limits = {"global_size": (groups, arch.groups_max), "local_size": (local, arch.threads_max)}
        for what, (sizes, limit) in limits.items():
            for axis, size in zip("xyz", sizes, strict=True):
                if isinstance(size, int) and not 1 <= size <= limit:
                    raise LaunchError(f"{self.name}: {what} {axis} = {size}, allowed are 1 to {limit}")
        known = [size for size in local if isinstance(size, int)]
        if shader.required_local is not None and (len(known) < 3 or tuple(known) != shader.required_local):
            raise LaunchError(f"{self.name}: compiled for local_size {shader.required_local}, {tuple(local)} was given")
        if len(known) == 3:
            self._check_threads(known[0] * known[1] * known[2])
        if dynamic_shared < 0 or shader.shared_bytes + dynamic_shared > arch.local_bytes:
            raise LaunchError(
                f"{self.name}: needs {shader.shared_bytes + dynamic_shared} bytes of shared memory per workgroup "
                f"({shader.shared_bytes} static + {dynamic_shared} dynamic), {self.arch} has {arch.local_bytes}"
            )

    def _check_threads(self, threads: int) -> None:
        shader, chip = self.shader, self.dev.chip
        if threads > chip.arch.threads_max:
            raise LaunchError(f"{self.name}: {threads} threads in a workgroup, the limit is {chip.arch.threads_max}")
        if threads > self._fitting:
            raise LaunchError(
                f"{self.name}: {threads} threads with {shader.full_regs} full and {shader.half_regs} half registers "
                f"each exceed the register file of {self.arch} ({chip.reg_vec4} vectors); "
                f"{self._fitting} threads would fit"
            )

    # arguments

    def params_for(self, buf_count: int, val_count: int) -> Sequence[Param]:
        """Where pointers and scalars go in the argument block, images left out. `buf_count` counts pointers only."""
        arguments = self.shader.arguments
        if arguments is None:
            return self._unlisted(buf_count, val_count)
        plain = [argument for argument in arguments if argument.kind == BUFFER]
        if buf_count + val_count != len(plain):
            raise LaunchError(
                f"{self.name} takes {len(plain)} buffers and values, {buf_count + val_count} were given "
                f"({buf_count} buffers, {val_count} values)"
            )
        for index, argument in enumerate(plain[:buf_count]):
            if argument.room < POINTER_BYTES:
                raise LaunchError(
                    f"{self.name}: argument {index} has {argument.room} bytes and is no pointer; pass it in vals"
                )
        sizes = [POINTER_BYTES] * buf_count + [SCALAR_BYTES] * val_count
        return [Param(argument.offset, size) for argument, size in zip(plain, sizes, strict=True)]

    def _unlisted(self, buf_count: int, val_count: int) -> Sequence[Param]:
        params = super().params_for(buf_count, val_count)
        end = params[-1].offset + params[-1].size if params else 0
        if end and not self.shader.ranges:
            raise LaunchError(f"{self.name} reads images alone; {buf_count} buffers and {val_count} values were given")
        if end > self.block_bytes:
            raise LaunchError(f"{self.name}: {end} bytes of arguments, it reads at most {len(self.shader.block)}")
        return params

    def split(self, bufs: Sequence[HCQBuffer]) -> tuple[list[HCQBuffer], list[bytes]]:
        """Plain buffers, and the descriptors of images in the order of their tables. Raises LaunchError."""
        shader = self.shader
        plain = [buf for buf in bufs if buf.image is None]
        images = [buf for buf in bufs if buf.image is not None]
        kinds = [IMAGE] * shader.images + [TEXTURE] * len(shader.textures)
        if shader.arguments is not None:
            kinds = [argument.kind for argument in shader.arguments if argument.kind != BUFFER]
            self._check_kinds(bufs, len(plain))
        if len(images) != len(kinds):
            raise LaunchError(
                f"{self.name} takes {shader.images} images to write and {len(shader.textures)} to read, "
                f"{len(images)} buffers with an image were given; see alloc(image=(width, height, format))"
            )
        for index, buf in enumerate(images):
            if is_symbolic(buf.va_addr):
                raise LaunchError(f"{self.name}: the address of image {index} is a symbol; descriptors need it now")
        written = [buf for buf, kind in zip(images, kinds, strict=True) if kind == IMAGE]
        read = [buf for buf, kind in zip(images, kinds, strict=True) if kind == TEXTURE]
        tables = [image.storage(buf.image, buf.va_addr) for buf in written]
        return plain, tables + [image.texture(read[n].image, read[n].va_addr) for n in shader.textures]

    def _check_kinds(self, bufs: Sequence[HCQBuffer], plain_count: int) -> None:
        """Images and plain buffers in the order of the file, where the plain arguments behind them are values."""
        plain = 0
        declared = []
        for argument in self.shader.arguments or ():
            plain += argument.kind == BUFFER
            if argument.kind != BUFFER or plain <= plain_count:
                declared.append(argument)
        for index, (buf, argument) in enumerate(zip(bufs, declared, strict=False)):
            if (buf.image is None) != (argument.kind == BUFFER):
                given = "a plain buffer" if buf.image is None else "an image"
                wanted = "a plain one" if argument.kind == BUFFER else "an image"
                raise LaunchError(f"{self.name}: buffer {index} is {given}, the kernel takes {wanted} there")

    # launching

    def prepare(self, global_size: Size, local_size: Size, dynamic_shared: int) -> Launch:
        template = self.template(global_size, local_size, dynamic_shared)
        if template.symbols:
            raise LaunchError(f"{self.name}: a size is a symbol; build a queue and submit it with values")
        return (ImageLaunch if self.takes_images else DispatchLaunch)(self, template)

    @property
    def takes_images(self) -> bool:
        return bool(self.shader.images or self.shader.textures)

    def template(self, groups: Sequence[Sint], local: Sequence[Sint], dynamic_shared: int) -> DispatchTemplate:
        """The dispatch of one shape; kept, unless it has symbols."""
        self._live()
        key = (tuple(groups), tuple(local), dynamic_shared)
        kept: DispatchTemplate | None = self.templates.get(key)
        if kept is not None:
            return kept
        groups, local = [as_sint(size) for size in groups], [as_sint(size) for size in local]
        self.check_shape(groups, local, dynamic_shared)
        shared = self.shader.shared_bytes + dynamic_shared
        template = DispatchTemplate(self, Shape((*groups,), (*local,), shared))  # type: ignore[arg-type]  # three each
        if not template.symbols:
            if len(self.templates) >= TEMPLATES_MAX:
                self.templates.clear()
            self.templates[key] = template
        return template

    def place(self, slot_va: Any) -> Place:
        """Where everything lies for a launch with the slot at `slot_va`, which may be a symbol."""
        shader, base = self.shader, self._memory.va
        args = slot_va + self.param_base
        loads = [(args + part.start, part.offset // VEC4, (part.end - part.start) // VEC4) for part in shader.ranges]
        loads += [(base + offset, first, vectors) for offset, first, vectors in self._constants]
        if shader.driver_params is not None:
            params = shader.driver_params
            loads.append((slot_va, params.offset // VEC4, params.nbytes // VEC4))
        return Place(
            code=base,
            private=self.scratch_va,
            border=self.dev.border_color_va,
            samplers=base + self._samplers_offset,
            textures=slot_va + self.textures_offset,
            images=slot_va + self.images_offset,
            constants=tuple(loads),
        )

    def fill_kernargs(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any] = ()) -> HCQArgsState:
        self.check_buffers(bufs)
        plain, descriptors = self.split(bufs)
        with self.dev.lock:
            self._live()
            self.dev.check_usable()
            args = CLikeArgsState(self, self.dev.kernargs, self.slot_bytes, plain, vals, self.initial)
            tables = b"".join(descriptors)
            start = args.offset + self.images_offset
            args.mv[start : start + len(tables)] = tables
        return args

    def locate(self, pc: int) -> str | None:
        """`kernel+0xoffset` when the address lies in this program's code."""
        offset = pc - self._memory.va
        return f"{self.name}+{offset:#x}" if 0 <= offset < len(self.shader.code) else None
