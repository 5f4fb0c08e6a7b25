"""Qualcomm OpenCL binaries: every table that is known of them. No public description: qcom facts 5.1."""

from __future__ import annotations

import re
import struct
from contextlib import suppress

from hcqrt.bits import align_up
from hcqrt.errors import BinaryError
from hcqrt.qcom.arch.a6xx import A6XX
from hcqrt.qcom.shader import ABSENT, BUFFER, CODE_UNIT, IMAGE, TEXTURE, VEC4, Argument, ConstRange, Shader

# byte offsets in the file
REGISTERS_AT, CONSTANTS_AT, HAS_CONSTANTS, CODE_AT, CODE_BYTES, KERNEL_AT = 0x034, 0x0AC, 0x0B0, 0x0C0, 0x100, 0x110
HEADER_BYTES = 0x114
# in the block of registers, in the kernel's description
FULL_REGS, HALF_REGS = 0x14, 0x18
FIRST_EXEC, PRIVATE_BYTES, SHARED_BYTES, SAMPLERS, BRANCH_STACK = 0x0C4, 0x0C8, 0x0D8, 0x0DC, 0x108
NAME = 0x158
SAMPLER_RECORD_BYTES = 8  # between name and arguments
ARGUMENT = struct.Struct("<12xI12xI")  # behind the record's length: words from the constant file's start, kind
ARGUMENT_BYTES, ARGUMENT_BYTES_MAX, ARGUMENTS_MAX = 32, 1 << 12, 512
ARGUMENT_KINDS = {0: BUFFER, 1: TEXTURE, 2: IMAGE}
CONSTANT = struct.Struct("<I12xI4xI12x")  # value, units from the constant file's start, whether 32 bits wide
CONST_FILE_BYTES = A6XX.const_vec4 * VEC4
REGS_MAX, BRANCH_STACK_MAX = 63, 63  # SP_CS_CTRL_REG0, 6 bits each
PRIVATE_BYTES_MAX = 1 << 16  # SP_CS_PVT_MEM_PARAM, a power of two of at most 255 * 512
CODE_BYTES_MAX = 1 << 24
# SP_CS_CNTL_0 of these binaries: group id at r51.w, group size at r48.x, group offset at r51.x, local id at r0.x
GROUP_ID, GROUP_SIZE, GROUP_OFFSET, LOCAL_ID = 0xCF, 0xC0, 0xCC, 0x00
IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")


def looks_like_cl(data: bytes) -> bool:
    """Whether header and tables point into the file, which nothing else does by chance."""
    if len(data) < HEADER_BYTES:
        return False
    at, nbytes, kernel, registers = (word(data, place) for place in (CODE_AT, CODE_BYTES, KERNEL_AT, REGISTERS_AT))
    inside = kernel + NAME <= len(data) and registers + HALF_REGS + 4 <= len(data) and at + nbytes <= len(data)
    return inside and nbytes > 0 and min(at, kernel, registers) >= HEADER_BYTES and at % 4 == kernel % 4 == 0


def load_cl(data: bytes, name: str | None) -> Shader:
    """Read the kernel of an OpenCL binary. Raises BinaryError, whatever the bytes are."""
    if len(data) < HEADER_BYTES:
        raise BinaryError(f"an OpenCL binary of {len(data)} bytes: its header alone has {HEADER_BYTES}")
    return ClReader(data).shader(name)


def word(data: bytes, offset: int) -> int:
    """The u32 at `offset`. Raises BinaryError when the file ends before."""
    if not 0 <= offset <= len(data) - 4:
        raise BinaryError(f"damaged OpenCL binary: a field at {offset:#x} of {len(data):#x} bytes")
    return int.from_bytes(data[offset : offset + 4], "little")


class ClReader:
    """One pass over an OpenCL binary."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.kernel_at, self.code_at = word(data, KERNEL_AT), word(data, CODE_AT)
        self.samplers = self.field(SAMPLERS, "samplers", A6XX.samplers_max - 1)

    def field(self, offset: int, what: str, most: int) -> int:
        """A number of the kernel's description, within what the hardware takes."""
        value = word(self.data, self.kernel_at + offset)
        if value > most:
            raise BinaryError(f"damaged OpenCL binary: {value} {what}, there can be {most}")
        return value

    def shader(self, name: str | None) -> Shader:
        code = self.code()
        name, records = self.arguments(name)
        constants = self.constants()
        arguments, end = place_arguments(records, constants)
        kinds = [argument.kind for argument in arguments]
        if kinds.count(TEXTURE) > A6XX.textures_max or kinds.count(IMAGE) > A6XX.images_max:
            raise BinaryError(f"OpenCL kernel {name} takes {len(kinds)} arguments: more images than there are slots")
        block = bytearray(align_up(end, VEC4))
        for offset, value in constants:
            block[offset : offset + len(value)] = value
        full, half = self.registers()
        return Shader(
            name=name,
            code=code,
            instrlen=-(-len(code) // CODE_UNIT),
            entry=self.field(FIRST_EXEC, "bytes before the first instruction", len(code) - 8),
            full_regs=full,
            half_regs=half,
            branch_stack=-(-self.field(BRANCH_STACK, "levels of branch stack", 2 * BRANCH_STACK_MAX) // 2),
            constlen=A6XX.const_vec4,  # what else the code reads of it, the file does not say
            arguments=tuple(arguments),
            ranges=(ConstRange(0, len(block), 0),) if block else (),
            block=bytes(block),
            shared_bytes=self.field(SHARED_BYTES, "bytes of local memory", A6XX.local_bytes),
            private_bytes=self.field(PRIVATE_BYTES, "bytes of private memory", PRIVATE_BYTES_MAX),
            textures=tuple(range(kinds.count(TEXTURE))),
            images=kinds.count(IMAGE),
            samplers=self.samplers + 1 if self.samplers else 0,  # the vendor's users always bind one more, alike
            group_id=GROUP_ID,
            group_size=GROUP_SIZE,
            group_offset=GROUP_OFFSET,
            local_id=LOCAL_ID,
            linear_id=ABSENT,
            opencl_launch=True,
            isam_cl=True,
            constant_demotion=False,
        )

    def code(self) -> bytes:
        nbytes = word(self.data, CODE_BYTES)
        if not 8 <= nbytes <= CODE_BYTES_MAX or nbytes % 8 or self.code_at + nbytes > len(self.data):
            raise BinaryError(
                f"damaged OpenCL binary: {nbytes} bytes of code at {self.code_at:#x} of {len(self.data):#x}; "
                "instructions have 8 bytes"
            )
        return self.data[self.code_at : self.code_at + nbytes]

    def registers(self) -> tuple[int, int]:
        start = word(self.data, REGISTERS_AT)
        full, half = word(self.data, start + FULL_REGS), word(self.data, start + HALF_REGS)
        if max(full, half) > REGS_MAX:
            raise BinaryError(f"damaged OpenCL binary: {full} full and {half} half registers, there can be {REGS_MAX}")
        return max(full, 1), half  # r0, where the local id comes, also where the code has no use for it

    def constants(self) -> list[tuple[int, bytes]]:
        """The compiler's constants, which fill the room up to the code: byte offset in the constant file, value."""
        if not word(self.data, HAS_CONSTANTS):
            return []
        found = []
        start = word(self.data, CONSTANTS_AT)
        if start > self.code_at or self.code_at > len(self.data):
            raise BinaryError(
                f"damaged OpenCL binary: constants at {start:#x} lie behind the code at {self.code_at:#x}"
            )
        for place in range(start, self.code_at - CONSTANT.size + 1, CONSTANT.size):
            value, units, wide = CONSTANT.unpack_from(self.data, place)
            if wide > 1:
                raise BinaryError(
                    f"damaged OpenCL binary: the constant at {place:#x} has width {wide}, known are 0 and 1"
                )
            nbytes = 2 << wide
            offset = units * nbytes
            if offset + nbytes > CONST_FILE_BYTES or value >> 8 * nbytes:
                raise BinaryError(
                    f"damaged OpenCL binary: constant {value:#x} of {nbytes} bytes at {offset:#x} of "
                    f"{CONST_FILE_BYTES:#x} does not fit"
                )
            found.append((offset, value.to_bytes(nbytes, "little")))
        return found

    def arguments(self, wanted: str | None) -> tuple[str, list[tuple[int, str]]]:
        """The kernel's name, and (offset in the constant file, kind) of each argument.

        The argument table starts where the name ends, and nothing says how long that is: the name asked for does, or
        else the reading that finds most arguments. The first of them may begin with what looks like a letter.
        """
        found = IDENTIFIER.match(self.data, self.kernel_at + NAME)
        stored = found[0] if found else b""
        if wanted is not None:
            raw = wanted.encode()
            if stored and not self.data.startswith(raw, self.kernel_at + NAME):
                raise BinaryError(f"no kernel {wanted!r} in the file; it has: {stored.decode()}")
            return wanted, self.records(len(raw))
        readings = []
        for length in range(len(stored), 0, -1):
            end = self.kernel_at + NAME + length
            if not any(self.data[end : align_up(end, 4)]):
                with suppress(BinaryError):
                    readings.append((stored[:length].decode(), self.records(length)))
        if not readings:
            raise BinaryError("the OpenCL binary's kernel has no name that its argument table fits; say which it is")
        return max(readings, key=lambda reading: len(reading[1]))

    def records(self, name_bytes: int) -> list[tuple[int, str]]:
        place = align_up(self.kernel_at + NAME + name_bytes, 4) + SAMPLER_RECORD_BYTES * self.samplers
        found: list[tuple[int, str]] = []
        while place + 4 <= len(self.data) and (length := word(self.data, place)):
            well_formed = ARGUMENT_BYTES <= length <= ARGUMENT_BYTES_MAX and not length % 4
            if not well_formed or place + length > len(self.data) or len(found) == ARGUMENTS_MAX:
                raise BinaryError(
                    f"damaged OpenCL binary: argument {len(found)} has a record of {length} bytes at {place:#x} of "
                    f"{len(self.data):#x}"
                )
            words, kind = ARGUMENT.unpack_from(self.data, place)
            if kind not in ARGUMENT_KINDS:
                raise BinaryError(f"OpenCL binary: argument {len(found)} is of kind {kind}, known are 0, 1 and 2")
            found.append((4 * words, ARGUMENT_KINDS[kind]))
            place += length
        return found


def place_arguments(records: list[tuple[int, str]], constants: list[tuple[int, bytes]]) -> tuple[list[Argument], int]:
    """Arguments with the room that each has up to what follows it, and where all of it ends in the constant file."""
    starts = sorted({offset for offset, kind in records if kind == BUFFER} | {offset for offset, _ in constants})
    follows = dict(zip(starts, [*starts[1:], CONST_FILE_BYTES], strict=False))
    taken = {offset for offset, _ in constants}
    end = max((offset + len(value) for offset, value in constants), default=0)
    arguments = []
    for offset, kind in records:
        if kind != BUFFER:
            arguments.append(Argument(kind))
            continue
        room = min(8, follows[offset] - offset)
        if offset in taken or room < 4 or offset + 4 > CONST_FILE_BYTES:
            raise BinaryError(
                f"damaged OpenCL binary: the argument at {offset:#x} of the constants overlaps another, or ends outside"
            )
        taken.add(offset)
        end = max(end, offset + room)
        arguments.append(Argument(kind, offset, room))
    return arguments, end
