"""Choose what compute needs of the Adreno register database, and print hcqrt/autogen/qcom/{adreno,a6xx,a7xx}.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from gen.clang import GeneratorError
from gen.emit import assignments, header, table
from gen.rnn import Array, Database, Field, Register, View

GENERATOR = "gen_adreno"
GENERATIONS = {"a6xx": "A6XX", "a7xx": "A7XX"}  # module -> chip of the database

FILE = "adreno/a6xx.xml"
REGISTER_DOMAIN = "A6XX"
OPCODE_ENUM, EVENT_ENUM = "adreno_pm4_type3_packets", "vgt_event_type"

# Registers that compute writes, mirrors of them, and what a client may read: counters and status.
REGISTERS = (
    "CP_ALWAYS_ON_COUNTER", "CP_PERFCTR_CP_SEL", "CP_SCRATCH", "CP_STATUS_1", "GRAS_DBG_ECO_CNTL",
    "HLSQ_BINDLESS_BASE", "HLSQ_CONTROL_?_REG", "HLSQ_CS_*", "HLSQ_DBG_ECO_CNTL", "HLSQ_FS_CNTL_0",
    "HLSQ_INVALIDATE_CMD", "HLSQ_LOAD_STATE_FRAG_*", "HLSQ_PERFCTR_HLSQ_SEL", "HLSQ_SHARED_CONSTS*",
    "RBBM_INT_0_STATUS", "RBBM_PERFCTR_CNTL", "RBBM_PERFCTR_CP", "RBBM_PERFCTR_HLSQ", "RBBM_PERFCTR_RBBM",
    "RBBM_PERFCTR_SP", "RBBM_PERFCTR_TP", "RBBM_PERFCTR_UCHE", "RBBM_SECVID_TSB_CNTL", "RBBM_STATUS", "RBBM_STATUS3",
    "RB_CCU_CNTL", "RB_CCU_CNTL2", "RB_DBG_ECO_CNTL", "SP_BINDLESS_BASE", "SP_CHICKEN_BITS", "SP_CS_*",
    "SP_DBG_ECO_CNTL", "SP_FLOAT_CNTL", "SP_FS_CONFIG", "SP_FS_INSTRLEN", "SP_IBO", "SP_IBO_COUNT", "SP_MODE_CONTROL",
    "SP_PERFCTR_*", "SP_PS_TP_BORDER_COLOR_BASE_ADDR", "SP_TP_BORDER_COLOR_BASE_ADDR", "SP_TP_MODE_CNTL",
    "SP_UNKNOWN_A9A8", "TPL1_DBG_ECO_CNTL*", "UCHE_CACHE_WAYS", "UCHE_CLIENT_PF", "UCHE_MODE_CNTL",
    "UCHE_PERFCTR_UCHE_SEL", "UCHE_UNKNOWN_0E12",
)  # fmt: skip

PACKETS = (
    "CP_BV_BR_COUNT_OPS", "CP_COND_REG_EXEC", "CP_COND_WRITE5", "CP_EVENT_WRITE", "CP_EVENT_WRITE7", "CP_EXEC_CS",
    "CP_EXEC_CS_INDIRECT", "CP_LOAD_STATE6", "CP_MEM_TO_MEM", "CP_MEM_TO_REG", "CP_MEM_WRITE", "CP_MODIFY_TIMESTAMP",
    "CP_REG_RMW", "CP_REG_TO_MEM", "CP_REG_WRITE", "CP_RESET_CONTEXT_STATE", "CP_SCRATCH_TO_REG", "CP_SCRATCH_WRITE",
    "CP_SET_MARKER", "CP_SET_PSEUDO_REG", "CP_SMMU_TABLE_UPDATE", "CP_START_BIN", "CP_THREAD_CONTROL",
    "CP_WAIT_MEM_GTE", "CP_WAIT_REG_MEM", "CP_WAIT_TWO_REGS",
)  # fmt: skip

DESCRIPTORS = ("A6XX_TEX_CONST", "A6XX_TEX_SAMP", "A6XX_UBO")

# Enums that no chosen field has as its type, but that decoders of streams want.
MORE_ENUMS = (
    "a6xx_fragcoord_sample_mode", "a6xx_polygon_mode", "a6xx_raster_mode", "a6xx_render_mode", "a6xx_single_prim_mode",
    "a6xx_varying_interp_mode", "a6xx_varying_ps_repl_mode", "a6xx_ztest_mode", "a7xx_cs_yalign", "adreno_state_block",
    "adreno_state_src", "adreno_state_type", "chip", "ts_wait_type", "ts_wait_value_src",
)  # fmt: skip

# Registers that the database has at a wrong place: (chip, name) -> what it says, what is right.
# It gives A7XX eight bindless bases from 0xA9E8 and leaves the table of images behind the fifth, as on A6XX. Later
# editions (Mesa 25.2: SP_CS_UAV_BASE of A7XX) have it behind the eighth.
MISPLACED = {("A7XX", "SP_CS_IBO"): (0xA9F2, 0xA9F8)}

Bits = tuple[int, int, int]
Words = dict[int, dict[str, Bits]]


@dataclass
class Generation:
    """All tables of one generation, complete."""

    registers: dict[str, Register] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    packets: dict[str, Words] = field(default_factory=dict)
    descriptors: dict[str, Words] = field(default_factory=dict)
    when: dict[str, dict[int, dict[str, tuple[str, ...]]]] = field(default_factory=dict)
    types: dict[str, dict[int, dict[str, str]]] = field(default_factory=dict)  # of packets and descriptors
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    opcodes: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)


def read_all(database: Database) -> dict[str, Generation]:
    """The tables of every generation, by the name of its module. All have the same enums."""
    views = {module: View(database, chip) for module, chip in GENERATIONS.items()}
    made = {module: read(view) for module, view in views.items()}
    names = {name for generation in made.values() for name in _used_enums(generation, database)}
    for module, view in views.items():
        made[module].enums = {name: view.enum(name) for name in sorted({*names, *MORE_ENUMS})}
    return made


def read(view: View) -> Generation:
    """All but the enums."""
    made = Generation()
    domain = view.domain(REGISTER_DOMAIN)
    if domain is None:
        raise GeneratorError(f"{view.chip} has no registers")
    made.registers = _chosen(domain.registers)
    for (chip, name), (said, right) in MISPLACED.items():
        if chip == view.chip:
            if made.registers[name].offset != said:
                raise GeneratorError(f"{chip} {name} is no longer at {said:#x}: see whether it must still be moved")
            made.registers[name] = replace(made.registers[name], offset=right, prefix=chip)
    made.arrays = _chosen(domain.arrays)
    for name in (*PACKETS, *DESCRIPTORS):
        found = view.domain(name)
        if found is None:
            continue
        if found.arrays:
            # A packet that repeats a group of dwords up to its end (CP_SET_PSEUDO_REG): the first group is given.
            found.registers += [r for array in found.arrays for r in _repeated(name, array)]
        words, when, types = _words(name, found.registers, view)
        (made.packets if name in PACKETS else made.descriptors)[name] = words
        made.types[name] = types
        if when:
            made.when[name] = when
    made.opcodes, made.events = view.enum(OPCODE_ENUM), view.enum(EVENT_ENUM)
    return made


def _chosen(entries: Iterable[Any]) -> dict[str, Any]:
    """The chosen ones by name. Where a chip has one of its own beside one that all have, its own counts."""
    found: dict[str, Any] = {}
    for entry in entries:
        if not any(fnmatchcase(entry.name, pattern) for pattern in REGISTERS):
            continue
        other = found.get(entry.name)
        if other is not None and (other.prefix == entry.prefix or other.prefix != REGISTER_DOMAIN):
            raise GeneratorError(f"{entry.name} is there twice")
        found[entry.name] = entry
    return dict(sorted(found.items()))


def _repeated(name: str, array: Array) -> list[Register]:
    if array.offset < 0 or any(register.when for register in array.registers):
        raise GeneratorError(f"{name}: array {array.name} is of no kind that this generator knows")
    return [Register(r.name, array.offset + r.offset, r.bits, r.fields, r.prefix, r.when) for r in array.registers]


def _words(
    name: str, registers: Iterable[Register], view: View
) -> tuple[Words, dict[int, dict[str, tuple[str, ...]]], dict[int, dict[str, str]]]:
    """Fields by dword, the conditions of those that do not always count, and the types of those that have one."""
    words: Words = {}
    when: dict[int, dict[str, tuple[str, ...]]] = {}
    types: dict[int, dict[str, str]] = {}
    for register in registers:
        if register.bits == 64 and not register.when and register.offset in words:
            continue  # another name for two dwords that are described already
        word = words.setdefault(register.offset, {})
        for entry in register.fields:
            if entry.when and register.when:
                raise GeneratorError(f"{name}.{entry.name}: two conditions")
            condition = entry.when or register.when
            bits = (entry.msb, entry.lsb, entry.shr)
            if word.setdefault(entry.name, bits) != bits:
                raise GeneratorError(f"{name} dword {register.offset}: {entry.name} lies in two places")
            known = when.setdefault(register.offset, {})
            earlier = known.get(entry.name, condition)  # where it counts always in one place, it does in all
            known[entry.name] = tuple(dict.fromkeys((*earlier, *condition))) if earlier and condition else ()
            typed = types.setdefault(register.offset, {})
            if entry.type and typed.setdefault(entry.name, entry.type) != entry.type:
                raise GeneratorError(f"{name} dword {register.offset}: {entry.name} has two types")
    kept = {at: {n: c for n, c in known.items() if c and not _always(view, c)} for at, known in when.items()}
    return dict(sorted(words.items())), _without_empty(kept), _without_empty(types)


def _without_empty(by_dword: dict[int, Any]) -> dict[int, Any]:
    return {at: entries for at, entries in sorted(by_dword.items()) if entries}


def _always(view: View, condition: tuple[str, ...]) -> bool:
    """Whether these are all the values of an enum."""
    return any(set(condition) == set(view.enum(name)) for name in view.database.enums)


def _used_enums(made: Generation, database: Database) -> set[str]:
    fields = [entry for register in _all_registers(made) for entry in register.fields]
    types = {entry.type for entry in fields} | {
        kind for words in made.types.values() for fields in words.values() for kind in fields.values()
    }
    return {kind for kind in types if kind in database.enums} - {EVENT_ENUM, OPCODE_ENUM}


def _all_registers(made: Generation) -> list[Register]:
    return [*made.registers.values(), *(r for array in made.arrays.values() for r in array.registers)]


def array_fields(array: Array) -> tuple[Field, ...]:
    """Fields of one element; an element without any is as wide as the stride."""
    if not array.registers:
        return (Field("", 32 * array.stride - 1, 0, 0, ""),)
    if len(array.registers) != 1 or array.registers[0].offset or array.registers[0].when:
        raise GeneratorError(f"array {array.name}: its elements are not one register each")
    return array.registers[0].fields


def bits_text(fields: Iterable[Field], indent: str = "    ") -> str:
    lines = [f'{indent}    "{f.name}": ({f.msb}, {f.lsb}, {f.shr}),\n' for f in fields]
    return "{\n" + "".join(lines) + indent + "}"


def register_tables(made: Generation) -> str:
    text = assignments({f"REG_{r.prefix}_{n}": r.offset for n, r in (made.registers | made.arrays).items()})
    text += (
        "\n# Register -> (offset, field -> (msb, lsb, shr)).\nREGISTERS: dict[str, tuple[int, dict[str, Bits]]] = {\n"
    )
    for name, register in made.registers.items():
        text += f'    "{name}": ({register.offset:#x}, {bits_text(register.fields)}),\n'
    text += "}\n\n# Array of registers -> (offset, stride, count, field -> (msb, lsb, shr) of one element).\n"
    text += "ARRAYS: dict[str, tuple[int, int, int, dict[str, Bits]]] = {\n"
    for name, array in made.arrays.items():
        if array.offset < 0:
            raise GeneratorError(f"array {name} has no offset of its own")
        fields = bits_text(array_fields(array))
        text += f'    "{name}": ({array.offset:#x}, {array.stride}, {array.length}, {fields}),\n'
    types = {n: {f.name: f.type for f in r.fields if f.type} for n, r in made.registers.items()}
    types |= {n: {f.name: f.type for f in array_fields(a) if f.type} for n, a in made.arrays.items()}
    text += (
        "}\n\n# What the value of a field is: the name of an enum, or a plain type. Fields without one are left out.\n"
    )
    return text + table("TYPES", "dict[str, dict[str, str]]", {n: t for n, t in sorted(types.items()) if t})


def flat(made: Generation) -> dict[str, int]:
    """Every enumerator, opcode and event by its bare name."""
    found: dict[str, int] = {}
    for values in (made.opcodes, made.events, *made.enums.values()):
        for name, value in values.items():
            if not name.isidentifier() or found.setdefault(name, value) != value:
                raise GeneratorError(f"{name} is no name that a constant can have")
    return found


TABLES = (
    ("ENUMS", "dict[str, dict[str, int]]", "enums", "Enum -> name -> value."),
    ("OPCODES", "dict[str, int]", "opcodes", "Packets of type 7."),
    ("EVENTS", "dict[str, int]", "events", "Events of CP_EVENT_WRITE."),
    ("PACKETS", "dict[str, dict[int, dict[str, Bits]]]", "packets",
     "Packet -> payload dword -> field -> (msb, lsb, shr)."),
    ("DESCRIPTORS", "dict[str, dict[int, dict[str, Bits]]]", "descriptors",
     "Descriptor -> dword -> field -> (msb, lsb, shr)."),
    ("WHEN", "dict[str, dict[int, dict[str, tuple[str, ...]]]]", "when",
     "Packet -> dword -> field -> values of another of its fields under which this one counts. Else it always does."),
    ("WORD_TYPES", "dict[str, dict[int, dict[str, str]]]", "types",
     "Packet or descriptor -> dword -> field -> enum or plain type."),
)  # fmt: skip


def shared(tables: list[Mapping[str, Any]]) -> dict[str, Any]:
    """What all generations have alike."""
    first, *rest = tables
    return {name: value for name, value in first.items() if all(t.get(name) == value for t in rest)}


def common_text(made: Mapping[str, Generation], tree: list[str]) -> str:
    text = header("What Adreno a6xx and a7xx have alike: enums, packets, descriptors.", tree, GENERATOR)
    text += (
        "from __future__ import annotations\n\n"
        "# msb, lsb, shift: the value is stored >> shift; an msb above 31 lies in the next dword.\n"
        '# The field "" is the whole dword or register.\n'
        "Bits = tuple[int, int, int]\n\n"
    )
    text += assignments(shared([flat(generation) for generation in made.values()]))
    for name, kind, attribute, what in TABLES:
        value = shared([getattr(generation, attribute) for generation in made.values()])
        text += f"\n# {what}\n{table(name, kind, value)}"
    return text


def generation_text(made: Mapping[str, Generation], module: str, tree: list[str]) -> str:
    """Registers of one generation, and the common tables with what is its own."""
    own = made[module]
    text = header(f"Registers of Adreno {module}, and all tables as they are there.", tree, GENERATOR)
    text += "from __future__ import annotations\n\n"
    text += "from hcqrt.autogen.qcom import adreno\nfrom hcqrt.autogen.qcom.adreno import Bits\n\n"
    text += register_tables(own)
    alike = shared([flat(generation) for generation in made.values()])
    text += "\n# Enumerators, opcodes and events that not all generations have alike.\n"
    text += assignments({name: value for name, value in flat(own).items() if name not in alike})
    for name, kind, attribute, what in TABLES:
        alike = shared([getattr(generation, attribute) for generation in made.values()])
        value = {n: v for n, v in getattr(own, attribute).items() if n not in alike}
        text += f"\n# {what}\n" + table(name, kind, value).replace(" = {", f" = adreno.{name} | {{", 1)
    return text
