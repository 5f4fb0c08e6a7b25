"""PM4, the command processor's packets: headers with parity, registers and packets as words from named fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hcqrt.bits import check_field
from hcqrt.core.sints import is_symbolic, lo_hi
from hcqrt.qcom import tables
from hcqrt.qcom.tables import Fields, Registers

TYPE4, TYPE7 = 4, 7  # bits 31:28 of a header
TYPE4_COUNT_MAX, TYPE7_COUNT_MAX = 127, 16383  # bits 6:0, at least 1; bits 13:0
REGISTER_MAX, OPCODE_MAX = 0x3FFFF, 0x7F


def odd_parity(value: int) -> int:
    """The bit that, beside `value`, makes the number of ones odd."""
    return 1 ^ value.bit_count() & 1


def type4(register: int, count: int) -> int:
    """Header of a write of `count` words to consecutive registers. Source: qcom facts 2."""
    if not 1 <= count <= TYPE4_COUNT_MAX:
        raise ValueError(f"a write of {count} registers: a packet takes 1 to {TYPE4_COUNT_MAX}")
    if not 0 <= register <= REGISTER_MAX:
        raise ValueError(f"register {register:#x} does not fit 18 bits")
    return TYPE4 << 28 | odd_parity(register) << 27 | register << 8 | odd_parity(count) << 7 | count


def type7(opcode: int, count: int) -> int:
    """Header of a command with `count` words of payload. Source: qcom facts 2."""
    if not 0 <= count <= TYPE7_COUNT_MAX:
        raise ValueError(f"a command with {count} words: a packet takes at most {TYPE7_COUNT_MAX}")
    if not 0 <= opcode <= OPCODE_MAX:
        raise ValueError(f"opcode {opcode:#x} does not fit 7 bits")
    return TYPE7 << 28 | odd_parity(opcode) << 23 | opcode << 16 | odd_parity(count) << 15 | count


def packet_words(header: int) -> int:
    """Words of the packet with this header, the header included. Raises ValueError for what is no header."""
    kind = header >> 28
    if kind == TYPE7 and type7(header >> 16 & OPCODE_MAX, header & 0x3FFF) == header:
        return 1 + (header & 0x3FFF)
    if kind == TYPE4 and header & 0x7F and type4(header >> 8 & REGISTER_MAX, header & 0x7F) == header:
        return 1 + (header & 0x7F)
    raise ValueError(f"word {header:#010x} is no packet header: its type, a parity bit or a count is wrong")


def pack_fields(name: str, fields: Fields, values: Mapping[str, Any]) -> Any:
    """One value from named fields. A field with a shift is given whole and stored without its low bits.

    Raises ValueError for a value that is too wide or would lose bits; a symbol's value is refused when it is packed.
    """
    word: Any = 0
    for field, value in values.items():
        if field not in fields:
            raise TypeError(f"{name} has no field {field!r}; it has {', '.join(fields) or 'none'}")
        msb, lsb, shr = fields[field]
        if is_symbolic(value):
            word = word | symbolic_field(value, msb, lsb, shr)
            continue
        number = int(value)
        if number & (1 << shr) - 1:
            raise ValueError(f"{name}.{field} = {number:#x} is no multiple of {1 << shr:#x}")
        word = word | check_field(f"{name}.{field}", number >> shr, msb, lsb) << lsb
    return word


def symbolic_field(value: Any, msb: int, lsb: int, shr: int) -> Any:
    """A symbol in its place. What does not fit the field sets bits above 31: the word is then refused when packed."""
    width = msb - lsb + 1
    placed = value >> shr << lsb if shr else value << lsb if lsb else value
    if width < 32:
        placed = placed | value >> shr + width << 32
    if shr:
        placed = placed | (value & (1 << shr) - 1) << 32
    return placed


class Register:
    """A register of a generated table: its offset lives with its fields, so the two can't be paired wrongly.

    Called with fields it gives a write of itself; a register that is one number takes it alone.
    """

    def __init__(self, name: str, table: Registers) -> None:
        self.name = name
        self.offset, self.fields = table[name]
        self.words = 2 if self.fields.get("", (31,))[0] == 63 else 1

    def __call__(self, whole: Any = None, /, **fields: Any) -> RegisterWrite:
        if whole is not None and fields:
            raise TypeError(f"{self.name}: give the whole value or fields, not both")
        if whole is None:
            return RegisterWrite(self, (pack_fields(self.name, self.fields, fields),))
        only = next(iter(self.fields)) if len(self.fields) == 1 else ""
        value = pack_fields(self.name, self.fields, {only: whole})
        return RegisterWrite(self, lo_hi(value) if self.words == 2 else (value,))


class RegisterSet:
    """The registers of a generation as attributes, by the names that its table gives them."""

    def __init__(self, table: Registers) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Register:
        """Called once for each: from then on it is an attribute."""
        if name.startswith("_") or name not in self._table:
            raise AttributeError(f"no register {name} in this generation's table")
        register = Register(name, self._table)
        setattr(self, name, register)
        return register


class RegisterWrite:
    """Words for one register."""

    __slots__ = ("register", "words")

    def __init__(self, register: Register, words: tuple[Any, ...]) -> None:
        self.register, self.words = register, words


def write(*writes: RegisterWrite) -> list[Any]:
    """One packet that writes registers which follow each other. Raises ValueError when they do not."""
    words: list[Any] = []
    first = writes[0].register.offset
    for one in writes:
        if one.register.offset != first + len(words):
            raise ValueError(
                f"{one.register.name} at {one.register.offset:#x} does not follow at {first + len(words):#x}"
            )
        words += one.words
    return [type4(first, len(words)), *words]


def command(name: str, *payload: Any) -> list[Any]:
    """One type-7 packet."""
    return [type7(tables.OPCODES[name], len(payload)), *payload]


def payload(packet: str, dword: int, **values: Any) -> Any:
    """One payload word of `packet`, from the fields that the register description names."""
    return pack_fields(f"{packet}[{dword}]", tables.PACKETS[packet][dword], values)


# the commands of the compute queue that all generations write alike


def wait_for_idle() -> list[Any]:
    """Wait for all earlier shader work."""
    return command("CP_WAIT_FOR_IDLE")


def wait_memory(va: Any, value: Any) -> list[Any]:
    """Hold back what follows until the 32 bits at `va` are at least `value`, both unsigned."""
    function = tables.ENUMS["cp_cond_function"]["WRITE_GE"]
    head = payload("CP_WAIT_REG_MEM", 0, FUNCTION=function, POLL=tables.ENUMS["poll_memory_type"]["POLL_MEMORY"])
    return command("CP_WAIT_REG_MEM", head, *lo_hi(va), value, 0xFFFF_FFFF, POLL_DELAY_CYCLES)


POLL_DELAY_CYCLES = 32  # between two looks at memory: enough to leave the bus to others


def store_clock(va: Any) -> list[Any]:
    """Store the always-on counter, 64 bits at 19.2 MHz, at `va`."""
    counter = Register("CP_ALWAYS_ON_COUNTER", tables.REGISTERS)
    head = payload("CP_REG_TO_MEM", 0, REG=counter.offset, CNT=counter.words, **{"64B": 1})
    return command("CP_REG_TO_MEM", head, *lo_hi(va))


def load_state(block: str, kind: str, va: Any, units: int, dst: int = 0) -> list[Any]:
    """Load `units` of a state block from memory at `va`, which is 16-byte aligned, to unit `dst` of it."""
    if not is_symbolic(va) and va % 16:
        raise ValueError(f"state at {va:#x} for {block} is not aligned to 16 bytes")
    head = payload(
        "CP_LOAD_STATE6",
        0,
        DST_OFF=dst,
        STATE_TYPE=tables.ENUMS["a6xx_state_type"][kind],
        STATE_SRC=tables.ENUMS["a6xx_state_src"]["SS6_INDIRECT"],
        STATE_BLOCK=tables.ENUMS["a6xx_state_block"][block],
        NUM_UNIT=units,
    )
    return command("CP_LOAD_STATE6_FRAG", head, *lo_hi(va))
