"""Generated Adreno tables against the tables of facts and, where a tree is named, against what Mesa's tool prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import qcom_facts
from qcom_facts import ADRENO, GENERATIONS

from hcqrt import autogen
from hcqrt.autogen.qcom import a6xx, a7xx, adreno

MODULES: dict[str, Any] = {"a6xx": a6xx, "a7xx": a7xx}
REGISTERS = [(generation, name) for generation in GENERATIONS for name in ADRENO["registers"][generation]]
WORDS = [(table, name) for table in ("packets", "descriptors") for name in ADRENO[table]]

# What the facts' table has too much of: it was made without leaving out stripes of other chips and modes.
BEYOND: dict[tuple[str, str], dict[int, set[str]]] = {
    # The stripe of a4xx, whose address is one dword.
    ("a6xx", "CP_EXEC_CS_INDIRECT"): {1: {"ADDR"}, 2: {"LOCALSIZEX", "LOCALSIZEY", "LOCALSIZEZ"}},
    ("a7xx", "CP_EXEC_CS_INDIRECT"): {1: {"ADDR"}, 2: {"LOCALSIZEX", "LOCALSIZEY", "LOCALSIZEZ"}},
    # Fields of THREAD_MODE and REG_COMPARE_IMM, which its own enum compare_mode does not list for a6xx.
    ("a6xx", "CP_COND_REG_EXEC"): {0: {"BV", "BR", "LPAC"}, 1: {"IMM"}},
}
# What it has at another place: 25.0.7 leaves it amid the eight bindless bases of a7xx.
MOVED = {("a7xx", "SP_CS_IBO"): 0xA9F8}
# What it has too little of: the address in memory is one field of two dwords.
MISSING = {"CP_EVENT_WRITE7": {1: {"": (63, 0, 0)}}}


def table_of(generation: str, table: str) -> Any:
    return getattr(MODULES[generation], table.upper())


def test_copy_of_the_facts_is_current() -> None:
    same = not qcom_facts.SHARED.exists() or qcom_facts.SHARED.read_bytes() == qcom_facts.FACTS.read_bytes()
    assert same, "tests/facts/adreno.json is older than ../shared/facts/adreno.json"


@pytest.mark.parametrize(("generation", "name"), REGISTERS)
def test_register_equals_the_facts(generation: str, name: str) -> None:
    module, fact = MODULES[generation], ADRENO["registers"][generation][name]
    if not fact.get("array"):
        offset = MOVED.get((generation, name), fact["offset"])
        assert module.REGISTERS[name] == (offset, qcom_facts.bits(fact))
        assert module.TYPES.get(name, {}) == qcom_facts.types(fact)
        return
    elements = list(fact["elements"].values()) or [{"bits": 32 * fact["stride"]}]
    (element,) = elements
    place = (fact["offset"], fact["stride"], fact["length"])
    assert module.ARRAYS[name] == (*place, qcom_facts.bits(element))
    assert module.TYPES.get(name, {}) == qcom_facts.types(element)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_only_counters_are_beyond_the_facts(generation: str) -> None:
    ours = set(MODULES[generation].REGISTERS) | set(MODULES[generation].ARRAYS)
    beyond = ours - set(ADRENO["registers"][generation])
    assert beyond <= {"HLSQ_PERFCTR_HLSQ_SEL", "RBBM_PERFCTR_HLSQ", "SP_PERFCTR_HLSQ_SEL"}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("table", "name"), WORDS)
def test_packets_and_descriptors_equal_the_facts(generation: str, table: str, name: str) -> None:
    beyond, missing = BEYOND.get((generation, name), {}), MISSING.get(name, {})
    expected: dict[int, Any] = {}
    kinds: dict[int, Any] = {}
    for at, fact in qcom_facts.of(ADRENO[table][name], generation).items():
        fields = {n: bits for n, bits in qcom_facts.bits(fact).items() if n not in beyond.get(int(at), set())}
        expected[int(at)] = fields | missing.get(int(at), {})
        kinds[int(at)] = {n: kind for n, kind in qcom_facts.types(fact).items() if n in fields}
    module = MODULES[generation]
    assert table_of(generation, table)[name] == expected
    types = {at: {n: k for n, k in of_dword.items() if n or at not in missing} for at, of_dword in
             module.WORD_TYPES.get(name, {}).items()}  # fmt: skip
    assert {at: found for at, found in types.items() if found} == {at: found for at, found in kinds.items() if found}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", ADRENO["packets"])
def test_conditions_equal_the_facts(generation: str, name: str) -> None:
    """The facts' conditions are those of single fields; ours are also those of whole dwords."""
    beyond = BEYOND.get((generation, name), {})
    for at, fact in qcom_facts.of(ADRENO["packets"][name], generation).items():
        ours = MODULES[generation].WHEN.get(name, {}).get(int(at), {})
        for field, entry in fact.get("fields", {}).items():
            if "when" in entry and field not in beyond.get(int(at), set()):
                assert ours[field] == (entry["when"],)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_enums_opcodes_and_events_equal_the_facts(generation: str) -> None:
    module = MODULES[generation]
    assert {name: qcom_facts.of(fact, generation) for name, fact in ADRENO["enums"].items()} == module.ENUMS
    assert ADRENO["opcodes"][generation] == module.OPCODES
    assert ADRENO["events"][generation] == module.EVENTS


def test_common_tables_hold_what_both_have_alike() -> None:
    for table in ("ENUMS", "OPCODES", "EVENTS", "PACKETS", "DESCRIPTORS", "WHEN", "WORD_TYPES"):
        common, one, other = (getattr(module, table) for module in (adreno, a6xx, a7xx))
        alike = {name for name in set(one) & set(other) if one[name] == other[name]}
        assert common == {name: one[name] for name in alike}, table


@pytest.mark.parametrize("generation", GENERATIONS)
def test_flat_names_agree_with_the_tables(generation: str) -> None:
    module = MODULES[generation]
    places = {name: entry[0] for name, entry in (module.REGISTERS | module.ARRAYS).items()}
    flat = {name: value for name, value in vars(module).items() if name.startswith("REG_A")}
    assert {re.sub("^REG_A[67]XX_", "", name): value for name, value in flat.items()} == places
    for table in (module.OPCODES, module.EVENTS, *module.ENUMS.values()):
        for name, value in table.items():
            assert getattr(module, name, getattr(adreno, name, None)) == value, name


@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_two_registers_share_an_offset(generation: str) -> None:
    module = MODULES[generation]
    owners: dict[int, str] = {}
    for name, (offset, fields) in module.REGISTERS.items():
        width = 2 if max(bits[0] for bits in fields.values()) > 31 else 1
        for at in range(offset, offset + width):
            assert owners.setdefault(at, name) == name
    for name, (offset, stride, count, _) in module.ARRAYS.items():
        for at in range(offset, offset + stride * count):
            assert owners.setdefault(at, name) == name


@pytest.mark.parametrize("generation", GENERATIONS)
def test_fields_of_registers_do_not_overlap(generation: str) -> None:
    module = MODULES[generation]
    fields = {name: entry[-1] for name, entry in (module.REGISTERS | module.ARRAYS).items()}
    for name, of_register in fields.items():
        for a, b in combinations(of_register.values(), 2):
            assert a[0] < b[1] or b[0] < a[1], name
        assert all(64 > msb >= lsb >= 0 and shr >= 0 for msb, lsb, shr in of_register.values())


def test_every_bit_of_the_worked_dispatch_lies_in_a_field() -> None:
    places: dict[int, list[tuple[int, int, int]]] = {}
    for offset, fields in a6xx.REGISTERS.values():
        for msb, lsb, shr in fields.values():
            for half in range(msb // 32 + 1):
                low, high = max(lsb - 32 * half, 0), min(msb - 32 * half, 31)
                places.setdefault(offset + half, []).append((high, low, shr))
    written = 0
    for packet in ADRENO["dispatch_example"]["packets"]:
        head, *payload = (int(word, 16) for word in packet.split())
        if head >> 28 != 4:
            continue
        for at, value in enumerate(payload, head >> 8 & 0x3FFFF):
            covered = sum(((2 << high) - (1 << low)) for high, low, _ in places[at])
            assert value & ~covered == 0, hex(at)
            written += 1
    assert written == 32


def test_manifest_names_every_file_of_the_database() -> None:
    manifest = json.loads((Path(autogen.__file__).parent / "MANIFEST.json").read_text())
    (tree,) = manifest["adreno"]["inputs"]
    assert (tree["tree"], tree["tag"]) == ("mesa", "25.0.7")
    names = {path.removeprefix("src/freedreno/registers/") for path in tree["sha256"]}
    assert names == {
        "freedreno_copyright.xml", "adreno/adreno_common.xml", "adreno/adreno_pm4.xml", "adreno/a6xx.xml",
    }  # fmt: skip


@pytest.mark.skipif(not qcom_facts.MESA, reason=qcom_facts.NO_MESA)
@pytest.mark.parametrize("file", ["a6xx", "adreno_pm4"])
def test_names_places_and_fields_are_those_that_mesas_tool_prints(file: str) -> None:
    """Mesa's own program reads the same database; the header it prints has names, offsets, masks and shifts."""
    folder = Path(qcom_facts.MESA or "") / "src" / "freedreno" / "registers"
    command = [sys.executable, str(folder / "gen_header.py"), "--rnn", str(folder), "--xml"]
    command += [str(folder / "adreno" / f"{file}.xml"), "c-defines"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    known = {m[1]: int(m[2], 0) for m in re.finditer(r"^#define\s+(\w+)\s+(0x[0-9a-f]+|\d+)\s*$", printed, re.M)}
    checked = 0
    for module in (a6xx, a7xx):
        for prefix, fields in places_of(module, file):
            for field, (msb, lsb, _) in fields.items():
                mask = (2 << msb) - (1 << lsb)
                name = f"{prefix}_{field}" if field else prefix
                if f"{name}__MASK" in known:
                    assert (known[f"{name}__MASK"], known[f"{name}__SHIFT"]) == (mask, lsb), name
                    checked += 1
                elif name in known and not field.isdigit() and msb == lsb:
                    assert known[name] == mask, name
                    checked += 1
        for name, value in vars(module).items():
            if name.startswith("REG_A") and name in known:
                assert known[name] == value, name
                checked += 1
    assert checked > {"a6xx": 500, "adreno_pm4": 200}[file]


def places_of(module: Any, file: str) -> list[tuple[str, dict[str, tuple[int, int, int]]]]:
    """What Mesa's header calls a register or dword, and its fields."""
    if file == "a6xx":
        prefixes = {name[9:]: name[4:8] for name in vars(module) if name.startswith("REG_A")}
        found = [(f"{prefixes[name]}_{name}", entry[-1]) for name, entry in module.REGISTERS.items()]
        return found + [(f"{name}_{at}", f) for name, words in module.DESCRIPTORS.items() for at, f in words.items()]
    return [(f"{name}_{at}", fields) for name, words in module.PACKETS.items() for at, fields in words.items()]
