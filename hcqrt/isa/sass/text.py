"""Prints one instruction the way the vendor's disassembler does."""

from __future__ import annotations

from .codec import row_of
from .families import Family
from .families import family as family_of
from .memory_slots import ConstSlot, MemSlot, TargetSlot
from .model import (
    PT,
    RZ,
    Barrier,
    Bindless,
    Const,
    Imm,
    Instruction,
    Mem,
    Num,
    Operand,
    Pred,
    Reg,
    Scoreboard,
    SpecialReg,
    Target,
    UPred,
    UReg,
)
from .names import SPECIAL
from .numbers import hexadecimal, immediate
from .row import ModField, Row
from .slots import CONST_OFFSET_BITS, HIGH_HALF, UNSET, RegSlot, Slot, sign_extend

INSTRUCTION_BYTES = 16


def _register(operand: Reg | UReg, urz: int) -> str:
    if isinstance(operand, Reg):
        return "RZ" if operand.index == RZ else f"R{operand.index}"
    return "URZ" if operand.index == urz else f"UR{operand.index}"


def predicate(operand: Pred | UPred) -> str:
    file = "P" if isinstance(operand, Pred) else "UP"
    return f"{'!' if operand.neg else ''}{file}{'T' if operand.index == PT else operand.index}"


def _modified(core: str, operand: Reg | UReg | Const | Bindless, reuse: bool = False) -> str:
    half = f".{operand.half}" if operand.half else ""
    # The vendor puts the half of a register outside the bars, except HIGH_HALF, and that of anything else inside.
    if not isinstance(operand, Reg) or operand.half == HIGH_HALF:
        core, half = core + half, ""
    core = f"|{core}|" if operand.abs else core
    core = f"{'-' if operand.neg else ''}{'~' if operand.inv else ''}{core}"
    return core + (".reuse" if reuse else "") + half


def _constant(operand: Const | Bindless, slot: Slot, urz: int, packed: bool) -> str:
    bank = hexadecimal(operand.bank) if isinstance(operand, Const) else _register(operand.handle, urz)
    value = operand.offset
    own_index = slot if isinstance(slot, ConstSlot) and slot.index_lsb != UNSET else None
    if (isinstance(operand, Const) or operand.index is not None) and own_index is None:  # these print signed
        value = sign_extend(value & 0xFFFF, CONST_OFFSET_BITS)
    offset = hexadecimal(value)
    if own_index is not None and not value:
        offset = "URZ" if own_index.index_uniform else "RZ"
    if operand.index is not None:
        register = _register(operand.index, urz)
        offset = f"{register}+{offset}" if operand.offset else register
    prefix = "c" if isinstance(operand, Const) else "cx"
    return f"{prefix}[{bank}]{' ' if packed else ''}[{offset}]"


def _address(operand: Mem, slot: MemSlot, family: Family) -> str:
    parts, urz = [], family.urz
    always_64 = slot.wide_bit >= 0
    scaled = operand.scale != 1 and (operand.base.index != RZ or operand.ureg is not None)
    always_shown = always_64 and family.shows_zero_pairs
    if operand.base.index != RZ or always_shown or scaled or (operand.ureg is None and not operand.offset):
        base = _register(operand.base, urz)
        if always_64:
            base += ".64" if operand.wide else ".U32"
        parts.append(base + (f".X{operand.scale}" if scaled else ""))
    if operand.ureg is not None and not operand.descriptor:
        parts.append(_register(operand.ureg, urz))
    offset = operand.offset
    if not parts and slot.base_lsb == BASE_LSB:
        offset &= (1 << slot.offset_width) - 1
    if offset or not parts:
        parts.append(hexadecimal(offset))
    shown = f"[{'+'.join(parts)}]"
    if operand.descriptor and operand.ureg is not None and family.shows_descriptors:
        return f"desc[{_register(operand.ureg, urz)}]{shown}"
    return shown


def is_shown(slot: Slot, operand: Operand, inst: Instruction) -> bool:
    """Whether the text prints this operand: the meaning of `?` in table.py."""
    if slot.shown is None:
        return True
    for term in slot.shown.split("&") if slot.shown else ["?"]:
        if term == "+":
            continue
        if term == "?":
            neg = isinstance(operand, (Pred, UPred)) and operand.neg
            zero = {Pred: PT, UPred: PT, Reg: RZ, UReg: family_of(inst.sm).urz}.get(type(operand))
            number = operand.value if isinstance(operand, Num) else getattr(operand, "index", None)
            if number == (0 if zero is None else zero) and not neg:
                return False
        elif term.startswith("<"):
            if isinstance(operand, Num) and operand.value == int(term[1:]):
                return False
        elif bool(inst.mods[term.lstrip("!")]) == term.startswith("!"):
            return False
    return True


def operand_text(operand: Operand, slot: Slot, inst: Instruction, pc: int) -> str:
    family = family_of(inst.sm)
    urz = family.urz
    if isinstance(operand, (Reg, UReg)):
        reuse = isinstance(slot, RegSlot) and bool(inst.sched.reuse & slot.reuse)
        return _modified(_register(operand, urz), operand, reuse)
    if isinstance(operand, (Pred, UPred)):
        return predicate(operand)
    if isinstance(operand, Imm):
        return immediate(operand)
    if isinstance(operand, (Const, Bindless)):
        return _modified(_constant(operand, slot, urz, _is_narrow(inst)), operand)
    if isinstance(operand, Mem):
        assert isinstance(slot, MemSlot)
        return _address(operand, slot, family)
    if isinstance(operand, Target):
        absolute = operand.relative + (
            0 if isinstance(slot, TargetSlot) and slot.style == "D" else pc + INSTRUCTION_BYTES
        )
        return hexadecimal(absolute)
    if isinstance(operand, SpecialReg):
        return SPECIAL.get(operand.index, f"SR{operand.index}")
    if isinstance(operand, Barrier):
        return f"B{operand.index}"
    if isinstance(operand, Scoreboard):
        return f"SB{operand.index}"
    return hexadecimal(operand.value)


BASE_LSB = 24  # usual place of an address register; elsewhere a lone offset prints signed
HFMA2_MMA = 0x035  # base opcode of the spelling HFMA2.MMA
# Instructions on packed halves print a space inside their constant operands.
PACKED_HALVES = frozenset(("HADD2", "HFMA2", "HMUL2", "HSET2", "HSETP2", "HMNMX2"))


NARROW = ("F16", "BF16", "U8", "S8", "U16", "S16")


def _is_narrow(inst: Instruction) -> bool:
    """Whether constants print with a space between their brackets: sources below 32 bits."""
    if inst.mnemonic in PACKED_HALVES:
        return inst.opcode & 0x1FF != HFMA2_MMA
    if inst.mnemonic == "MUFU":
        return inst.mods["type"] in NARROW
    if inst.mnemonic in ("F2F", "F2I", "I2F", "FRND"):
        return str(inst.mods.get("src", inst.mods.get("format"))).rpartition(".")[2] in NARROW
    return False


# Powers of two that print as a shift; 0x10000 and the sign bit do not.
SHIFT_FACTORS = frozenset(1 << k for k in range(1, 31) if k != 16)


def imad_alias(inst: Instruction) -> str:
    """The vendor prints some multiply-adds by what they amount to; the word is an IMAD all the same."""
    a, b, c = inst.args["a"], inst.args["b"], inst.args["c"]
    if inst.mods["X"] or isinstance(b, (UReg, Bindless)) or isinstance(c, (UReg, Bindless)) or not isinstance(a, Reg):
        return ""
    factor = b.value if isinstance(b, Imm) else 0 if isinstance(b, Reg) and b.index == RZ else None
    adds_nothing = isinstance(c, Reg) and c.index == RZ
    if a.index == RZ or factor == 0 or (factor == 1 and adds_nothing):
        return ".MOV"
    if factor == 1:
        return ".IADD"
    if adds_nothing and factor in SHIFT_FACTORS:
        return ".SHL"
    return ""


def name_text(inst: Instruction, row: Row) -> str:
    """Mnemonic with all suffixes."""
    name = inst.mnemonic + (imad_alias(inst) if inst.mnemonic == "IMAD" else "")
    for item in row.suffix:
        name += item.text(inst.mods[item.name]) if isinstance(item, ModField) else f".{item}"
    return name


def text(inst: Instruction, pc: int = 0) -> str:
    """The instruction as the vendor prints it at byte address `pc` of its section, without the `;`."""
    row = row_of(inst)
    out = "" if inst.guard.index == PT and not inst.guard.neg else f"@{predicate(inst.guard)} "
    out += name_text(inst, row)
    separator = " "
    for slot in row.slots:
        operand = inst.args[slot.name]
        if not is_shown(slot, operand, inst):
            continue
        if isinstance(slot, TargetSlot) and slot.style != "T":
            separator = " "
        out += separator + operand_text(operand, slot, inst, pc)
        separator = ", "
    return out.rstrip()
