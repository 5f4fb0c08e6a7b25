"""Cubins: CUDA's ELF files of both ABI generations, laid out as one image. Source: nv-engine facts 8."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from hcqrt.bits import align_up
from hcqrt.core.program import Param
from hcqrt.errors import BinaryError
from hcqrt.nv import attributes as attr
from hcqrt.nv.arch import CHIPS
from hcqrt.nv.cubin_relocs import link_values
from hcqrt.nv.elf import SHN_UNDEF, SHT_NOBITS, SHT_REL, SHT_RELA, STT_FUNC, Elf, Section, Symbol
from hcqrt.nv.image import CODE_ALIGN, PREFETCH_PAD, Image, Kernel

ET_EXEC = 2
ABI_OLD, ABI_NEW = (0x33, 7), (0x41, 8)  # EI_OSABI, EI_ABIVERSION: CUDA up to 12, CUDA 13
STO_CUDA_ENTRY = 0x10
SHF_MERCURY = 0x1000_0000  # side data of sm_100 and later: not for loading
BANK_ALIGN, BANK_BYTES_MAX = 256, 1 << 16
IMAGE_BYTES_MAX = 256 << 20  # .nv.global counts: a damaged size must not take the host's memory
BARRIERS_MAX, SHARED_BYTES_MAX, STACK_BYTES_MAX = 16, 1 << 20, 1 << 19
EF_ACCELERATORS_OLD, EF_ACCELERATORS_NEW = 0x800, 0x8  # sm_NNa. LLVM ELF.h: EF_CUDA_ACCELERATORS
DRIVER_STACK = 0x240  # what the vendor's driver keeps at the top of the local window (nv-engine facts 6)
STACK_UNKNOWN = 1024  # recursion: MIN_STACK_SIZE is 0 though a callee has a frame; CUDA's default limit


def load_cubin(data: bytes) -> Image:
    """Read a cubin. Raises BinaryError, whatever the bytes are."""
    elf = Elf(data)
    if elf.type != ET_EXEC:
        raise BinaryError(f"an unlinked object (ELF type {elf.type}): link it with nvlink, or compile without -rdc")
    abi = (elf.osabi, elf.abi_version)
    if abi not in (ABI_OLD, ABI_NEW):
        raise BinaryError(f"a cubin of ABI {abi[0]:#x}/{abi[1]}: known are 0x33/7 (CUDA 12) and 0x41/8 (CUDA 13)")
    return CubinReader(elf, new_abi=abi == ABI_NEW).image()


class CubinReader:
    """One pass over a cubin: layout, attributes, kernels, relocations."""

    def __init__(self, elf: Elf, *, new_abi: bool) -> None:
        self.elf, self.new_abi = elf, new_abi
        self.sm = elf.flags >> 8 & 0xFF if new_abi else elf.flags & 0xFF
        self.variant = "a" if elf.flags & (EF_ACCELERATORS_NEW if new_abi else EF_ACCELERATORS_OLD) else ""
        self.places: dict[int, int] = {}  # section index -> offset in the image
        self.functions: dict[int, dict[int, int]] = defaultdict(dict)  # symbol index -> attribute -> value
        self.info: dict[int, Section] = {}  # text section index -> its .nv.info.K
        self.shared: dict[int, Section] = {}  # text section index -> its .nv.shared.K
        self.bank0: dict[int, Section] = {}  # text section index -> its .nv.constant0.K
        self.banks: dict[int | None, dict[int, Section]] = defaultdict(dict)  # text section, None: all -> by number
        for section in elf.sections:
            number = bank_number(section.name)
            if section.name == ".nv.info":
                self._module_info(section)
            elif section.name == ".nv.compat":
                self._compatibility(section)
            elif section.name.startswith(".nv.info."):
                self.info[section.info & 0xFF_FFFF] = section
            elif section.name.startswith(".nv.shared."):
                self.shared[section.info] = section
            elif number == 0:
                self.bank0[section.info] = section
            elif number and section.size and self._is_data(section):
                own = section.name.count(".") > 2  # .nv.constant2.K, but .nv.constant3
                self.banks[section.info if own else None][number] = section
        self.frames: dict[int, list[tuple[int, int]]] = defaultdict(list)  # text section -> (symbol, frame bytes)
        for index, values in self.functions.items():
            symbol = elf.symbol(index, ".nv.info")
            self.frames[symbol.section].append((index, values.get(attr.FRAME_SIZE, 0)))

    def image(self) -> Image:
        data = self._layout()
        relocations, missing = link_values(self.elf, self.places)
        kernels: dict[str, Kernel] = {}
        owners: dict[int, str] = {}
        for symbol in self.elf.symbols:
            if symbol.kind == STT_FUNC and symbol.other == STO_CUDA_ENTRY and symbol.section != SHN_UNDEF:
                other = owners.setdefault(symbol.section, symbol.name)
                if other != symbol.name or symbol.name in kernels:
                    raise BinaryError(f"damaged file: kernels {other} and {symbol.name} share a section or a name")
                kernels[symbol.name] = self._kernel(symbol, missing)
        if not kernels:
            raise BinaryError("the cubin has no kernel: nothing in it is marked __global__")
        self._refuse_unclaimed(kernels, missing)
        return Image(self.sm, self.variant, bytes(data), kernels, tuple(relocations))

    @staticmethod
    def _refuse_unclaimed(kernels: Mapping[str, Kernel], missing: Mapping[int, set[str]]) -> None:
        """An external that only data refers to and that no kernel claims may be anybody's: refuse the whole file."""
        named = {name for kernel in kernels.values() for name in kernel.unresolved}
        rest = {name for names in missing.values() for name in names} - named
        if rest:
            raise BinaryError(
                f"the cubin needs {', '.join(sorted(rest))}, which is not in it; link the object that defines it"
            )

    # layout

    def _layout(self) -> bytearray:
        """Data, constants, then code; the hardware fetches beyond the last instruction, so that stays mapped."""
        data = bytearray()
        code = [s for s in self.elf.sections if s.name.startswith(".text.") and not s.flags & SHF_MERCURY]
        other = [s for s in self.elf.sections if self._is_data(s)]
        for section, least in (*((s, BANK_ALIGN) for s in other), *((s, CODE_ALIGN) for s in code)):
            align = max(section.align, least)
            if align > 1 << 20 or align & align - 1:
                raise BinaryError(f"damaged file: section {section.name} is aligned to {section.align}")
            start = align_up(len(data), align)
            if start + section.size > IMAGE_BYTES_MAX:
                raise BinaryError(
                    f"section {section.name} of {section.size} bytes: a module may have {IMAGE_BYTES_MAX}"
                )
            self.places[section.index] = start
            data += bytes(start - len(data))
            data += section.data if section.kind != SHT_NOBITS else bytes(section.size)
        data += bytes(PREFETCH_PAD)
        return data

    @staticmethod
    def _is_data(section: Section) -> bool:
        if section.flags & SHF_MERCURY or section.kind in (SHT_REL, SHT_RELA):
            return False
        bank = bank_number(section.name)
        return section.name.startswith(".nv.global") or (bank is not None and bank != 0)

    # attributes

    def _module_info(self, section: Section) -> None:
        for attribute, _, payload in attr.records(section.data, section.name):
            if attribute in (attr.REGCOUNT, attr.FRAME_SIZE, attr.MIN_STACK_SIZE):
                symbol, value = attr.words(payload, 2, attribute, section.name)
                self.functions[symbol][attribute] = value

    def _compatibility(self, section: Section) -> None:
        """CUDA 13 says here, and no longer in the ELF flags, whether the code is for one chip or one family only."""
        for attribute, value, _ in attr.records(section.data, section.name):
            if attribute == attr.COMPAT_ACCELERATED and value:
                self.variant = "a"
            elif attribute == attr.COMPAT_ISA_CLASS and value > attr.ISA_CLASS_PLAIN:
                self.variant = self.variant or "f"

    def _kernel(self, symbol: Symbol, missing: dict[int, set[str]]) -> Kernel:
        text = self.elf.section(symbol.section, f"kernel {symbol.name}")
        if text.index not in self.places or not text.name.startswith(".text."):
            raise BinaryError(f"damaged file: kernel {symbol.name} lies in section {text.name}")
        if symbol.value % CODE_ALIGN or symbol.value >= max(text.size, 1):
            raise BinaryError(f"damaged file: kernel {symbol.name} starts at {symbol.value:#x} of {text.size:#x}")
        facts = KernelFacts(self, symbol, text)
        unresolved = sorted({*facts.externs, *missing.get(text.index, ())})
        barriers = facts.barriers if self.new_abi else text.flags >> 20 & 0x7F
        if barriers > BARRIERS_MAX:
            raise BinaryError(f"kernel {symbol.name} uses {barriers} barriers, there are {BARRIERS_MAX}")
        return Kernel(
            name=symbol.name,
            entry=self.places[text.index] + symbol.value,
            registers=self._registers(symbol, text),
            barriers=barriers,
            shared_static=self._shared(text),
            local_low=0,
            local_high=self._stack(symbol, text),
            max_threads=facts.max_threads,
            required_block=facts.required_block,
            param_base=facts.param_base,
            params=facts.params(),
            param_bytes=facts.param_bytes,
            driver_area=True,
            shared_in_abi=True,
            banks=self._banks(text),
            unresolved=tuple(unresolved),
            refusal=facts.refusal,
        )

    def _registers(self, symbol: Symbol, text: Section) -> int:
        registers = self.functions[symbol.index].get(attr.REGCOUNT) or text.info >> 24
        if not 1 <= registers <= 255:
            raise BinaryError(f"kernel {symbol.name}: {registers} registers; the file gives no usable register count")
        return registers

    def _shared(self, text: Section) -> int:
        section = self.shared.get(text.index)
        if section is None:
            return 0
        if section.size > SHARED_BYTES_MAX:
            raise BinaryError(f"section {section.name} of {section.size} bytes: no chip has as much shared memory")
        chip = CHIPS.get(f"sm_{self.sm}")
        reserve = chip.arch.shared_reserve if chip and chip.arch.reserve_first else 0
        return max(section.size - reserve, 0)

    def _stack(self, symbol: Symbol, text: Section) -> int:
        """Scratch of a thread at the top of the local window: stack, and what the vendor's driver keeps there."""
        own = self.functions[symbol.index]
        least = own.get(attr.MIN_STACK_SIZE, 0)
        stack = max(least, own.get(attr.FRAME_SIZE, 0))
        if any(frame > least for index, frame in self.frames[text.index] if index != symbol.index):
            stack = max(stack, STACK_UNKNOWN)
        if stack > STACK_BYTES_MAX:
            raise BinaryError(f"kernel {symbol.name} wants {stack} bytes of stack per thread, at most 512 KiB exist")
        return align_up(stack + DRIVER_STACK, 16) if stack else 0

    def _banks(self, text: Section) -> dict[int, tuple[int, int]]:
        """Constant banks of a kernel: its own sections, and those of the module."""
        sections = {**self.banks.get(None, {}), **self.banks.get(text.index, {})}
        for number, section in sections.items():
            if number > 7 or section.size > BANK_BYTES_MAX:
                raise BinaryError(
                    f"section {section.name} of {section.size} bytes: banks are 1 to 7, of 64 KiB at most"
                )
        return {number: (self.places[section.index], section.size) for number, section in sections.items()}


def bank_number(name: str) -> int | None:
    found = re.match(r"\.nv\.constant([0-9]+)(\.|$)", name)
    return int(found[1][:9]) if found else None  # as many digits as Python reads; refused where it is too large


class KernelFacts:
    """What `.nv.info.K` says of one kernel."""

    def __init__(self, reader: CubinReader, symbol: Symbol, text: Section) -> None:
        self.name = symbol.name
        self.barriers, self.max_threads, self.refusal = 0, 1024, ""
        self.required_block: tuple[int, int, int] | None = None
        self.param_base, self.param_bytes = -1, 0
        self.externs: list[str] = []
        self._params: dict[int, Param] = {}
        section = reader.info.get(text.index)
        if section is None:
            raise BinaryError(f"kernel {self.name} has no .nv.info section: registers and parameters are unknown")
        self.section = section.name
        for attribute, value, payload in attr.records(section.data, section.name):
            self._take(reader.elf, attribute, value, payload)
        if (
            self.param_base < 0 and not self.param_bytes and text.index in reader.bank0
        ):  # no parameters: only their place is known
            self.param_base = reader.bank0[text.index].size
        if self.param_base + self.param_bytes > BANK_BYTES_MAX:
            raise BinaryError(f"kernel {self.name}: parameters end beyond the {BANK_BYTES_MAX} bytes of a bank")
        if self.param_base < 0:
            raise BinaryError(f"kernel {self.name}: {section.name} has no PARAM_CBANK, so parameters have no place")

    def _take(self, elf: Elf, attribute: int, value: int, payload: bytes) -> None:
        if attribute == attr.NUM_BARRIERS:
            self.barriers = value & 0xFF
        elif attribute == attr.MAX_THREADS:
            x, y, z = attr.words(payload, 3, attribute, self.section)
            self.max_threads = max(1, min(1024, x * y * z))
        elif attribute == attr.REQNTID:
            x, y, z = attr.words(payload, 3, attribute, self.section)
            self.required_block = (x, y, z)
            self.max_threads = max(1, min(self.max_threads, x * y * z))
        elif attribute == attr.PARAM_CBANK:
            _, place = attr.words(payload, 2, attribute, self.section)
            self.param_base, self.param_bytes = place & 0xFFFF, place >> 16
        elif attribute == attr.CBANK_PARAM_SIZE and self.param_base < 0:
            self.param_bytes = value
        elif attribute == attr.KPARAM_INFO:
            _, place, bits = attr.words(payload, 3, attribute, self.section)
            self._params[place & 0xFFFF] = Param(place >> 16, bits >> 18)
        elif attribute == attr.EXTERNS:
            for index in attr.words(payload, None, attribute, self.section):
                self.externs.append(elf.symbol(index, self.section).name)
        elif attribute == attr.SYSCALL_OFFSETS:
            self.refusal = self.refusal or "it calls the vendor's driver: printf, assert, malloc or a launch"
        elif attribute in (attr.EXPLICIT_CLUSTER, attr.BLOCKS_ARE_CLUSTERS) or (
            attribute == attr.CTA_PER_CLUSTER and any(n > 1 for n in attr.words(payload, 3, attribute, self.section))
        ):
            self.refusal = "it launches in clusters of blocks, which hcqrt does not do"

    def params(self) -> tuple[Param, ...] | None:
        """Parameters in order, when the file lists all of them."""
        if not self._params:
            return None if self.param_bytes else ()
        if sorted(self._params) != list(range(len(self._params))):
            raise BinaryError(f"kernel {self.name}: parameters {sorted(self._params)} have gaps")
        params = tuple(self._params[i] for i in range(len(self._params)))
        end = 0
        for index, param in enumerate(params):
            if not param.size or param.offset < end or param.offset + param.size > self.param_bytes:
                raise BinaryError(
                    f"kernel {self.name}: parameter {index}, {param.size} bytes at {param.offset}, is empty, overlaps "
                    f"the one before or leaves the {self.param_bytes} parameter bytes"
                )
            end = param.offset + param.size
        return params
