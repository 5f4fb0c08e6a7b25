"""What a program file says of one kernel, whatever its kind: the neutral description between loaders and launches."""

from __future__ import annotations

from dataclasses import dataclass

ABSENT = 0xFC  # register number r63.x: the shader does not want this value
SHARED_REGS, SHARED_REGS_END = 0xC0, 0xE0  # r48.x to r55.w, one for all fibres; group numbers come in these
CODE_UNIT = 128  # bytes: INSTRLEN and the preload of code count groups of 16 instructions
VEC4 = 16  # bytes of one vector of the constant file

BUFFER, TEXTURE, IMAGE, SCALAR = "buffer", "texture", "image", "scalar"  # kinds of arguments


@dataclass(frozen=True)
class Argument:
    """One argument as the file declares it: byte offset in the constant file, bytes it has room for, and its kind.

    A "buffer" may also be a scalar where a file does not tell the two apart. Textures and images have no place in the
    constant file: they are counted, in order.
    """

    kind: str
    offset: int = 0
    room: int = 0


@dataclass(frozen=True)
class ConstRange:
    """Bytes `start` to `end` of the argument block, which the shader reads from byte `offset` of the constant file."""

    start: int
    end: int
    offset: int


@dataclass(frozen=True)
class DriverParams:
    """Where in the constant file a shader expects launch dimensions, and how much of them. Bytes, multiples of 16."""

    offset: int
    nbytes: int


@dataclass(frozen=True)
class Shader:
    """One compute kernel. Sizes in bytes, register counts and constants in vectors of four.

    Arguments are written to a block of memory that starts as `block`. `ranges` says which parts of it are loaded to
    the constant file, and where; `constants` are the compiler's own, loaded beside them.
    """

    name: str
    code: bytes
    instrlen: int  # in units of 128 bytes
    entry: int  # SP_CS_OBJ_FIRST_EXEC_OFFSET
    full_regs: int
    half_regs: int
    branch_stack: int  # as the register takes it
    constlen: int
    arguments: tuple[Argument, ...] | None  # None: the file does not list them; pointers, then scalars
    ranges: tuple[ConstRange, ...]
    block: bytes = b""
    constants: tuple[tuple[int, bytes], ...] = ()  # byte offset in the constant file, a multiple of 16 -> data
    driver_params: DriverParams | None = None
    merged_regs: bool = False
    double_threads: bool = False
    early_preamble: bool = False
    shared_bytes: int = 0
    private_bytes: int = 0
    private_per_wave: bool = False
    textures: tuple[int, ...] = ()  # texture slot -> number of the image among those read
    images: int = 0  # writable ones, which come first among the image arguments
    samplers: int = 0
    group_id: int = ABSENT
    group_size: int = ABSENT
    group_offset: int = ABSENT
    local_id: int = ABSENT
    linear_id: int = ABSENT
    opencl_launch: bool = False  # CP_RUN_OPENCL; else CP_EXEC_CS
    isam_cl: bool = False  # how isam treats coordinates: OpenCL's way, else OpenGL's
    constant_demotion: bool = True  # half constants are narrowed 32-bit slots
    required_local: tuple[int, int, int] | None = None  # the only local size the code is right for

    @property
    def read_images(self) -> int:
        """Images that textures show."""
        return max(self.textures, default=-1) + 1
