"""The reader of the register database and the printer of its tables, on small inputs and on Mesa's tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gen_adreno
import pytest
import qcom_facts
from gen import adreno
from gen.clang import GeneratorError
from gen.rnn import Array, Database, Field, Register, View

HEAD = '<database xmlns="http://nouveau.freedesktop.org/">'
COMMON = """
<enum name="chip"><value name="A5XX" value="5"/><value name="A6XX" value="6"/><value name="A7XX" value="7"/></enum>
<enum name="mode"><value name="FIRST"/><value name="SECOND" varset="chip" variants="A7XX-"/>
<value name="TENTH" value="0xa"/><value name="NEXT"/></enum>
"""
MAIN = """
<copyright year="2013"><author name="x"/></copyright>
<import file="common.xml"/><import file="common.xml"/>
<bitset name="shape" inline="yes">
  <bitfield name="WIDTH" low="0" high="7" shr="2" type="uint"/>
  <bitfield name="DEEP" pos="9" type="boolean" varset="chip" variants="A7XX-"/>
</bitset>
<domain name="D" width="32" varset="chip" prefix="variant">
  <doc>words with <b>marks</b></doc>
  <reg32 offset="0x10" name="PLAIN" usage="cmd"/>
  <reg32 offset="0x11" name="NARROW" low="0" high="6" type="uint" align="4"/>
  <reg32 offset="0x12" name="SHAPE" type="shape"><bitfield name="OWN" pos="31"/></reg32>
  <reg64 offset="0x13" name="BASE" type="address"/>
  <reg32 offset="0x20" name="MOVED" variants="A5XX-A6XX"/>
  <reg32 offset="0x30" name="MOVED" variants="A7XX-"/>
  <reg32 offset="0x40" name="LATE" variants="A7XX"/>
  <array offset="0x50" name="BANK" stride="2" length="4" variants="A6XX-">
    <reg64 offset="0" name="ENTRY"><bitfield name="ADDR" low="2" high="63" shr="2" type="address"/></reg64>
  </array>
  <array offset="0x60" name="COUNTER" stride="2" length="3"/>
</domain>
<domain name="P" width="32">
  <reg32 offset="0" name="0" varset="mode">
    <bitfield name="MODE" low="0" high="3" type="mode" addvariant="yes"/>
    <bitfield name="LEVEL" low="8" high="15" type="fixed" radix="4" variants="TENTH,NEXT"/>
    <bitfield name="GONE" pos="16" variants="SECOND"/>
  </reg32>
  <stripe varset="mode" variants="FIRST">
    <reg32 offset="1" name="1"><bitfield name="X" low="0" high="3"/></reg32>
  </stripe>
  <stripe varset="mode" variants="TENTH"><reg64 offset="1" name="1" type="waddress"/></stripe>
  <stripe varset="chip" variants="A5XX"><reg32 offset="2" name="2"><bitfield name="OLD" pos="0"/></reg32></stripe>
</domain>
<domain name="NEW" width="32" varset="chip" variants="A7XX-"><reg32 offset="0" name="0"/></domain>
"""


def view(tmp_path: Path, main: str = MAIN, chip: str = "A6XX", common: str = COMMON) -> View:
    (tmp_path / "common.xml").write_text(f"{HEAD}{common}</database>")
    (tmp_path / "main.xml").write_text(f"{HEAD}{main}</database>")
    return View(Database(tmp_path, "main.xml"), chip)


def registers(tmp_path: Path, chip: str) -> dict[str, Register]:
    found = view(tmp_path, chip=chip).domain("D")
    assert found is not None
    return {register.name: register for register in found.registers}


def shape_of(fields: Any) -> dict[str, tuple[int, int, int, str]]:
    return {f.name: (f.msb, f.lsb, f.shr, f.type) for f in fields}


def test_registers_of_a_chip(tmp_path: Path) -> None:
    found = registers(tmp_path, "A6XX")
    assert list(found) == ["PLAIN", "NARROW", "SHAPE", "BASE", "MOVED"]
    assert (found["PLAIN"].offset, shape_of(found["PLAIN"].fields)) == (0x10, {"": (31, 0, 0, "")})
    assert shape_of(found["NARROW"].fields) == {"": (6, 0, 0, "uint")}
    assert shape_of(found["SHAPE"].fields) == {"WIDTH": (7, 0, 2, "uint"), "OWN": (31, 31, 0, "")}
    assert shape_of(found["BASE"].fields) == {"": (63, 0, 0, "address")}
    assert (found["MOVED"].offset, found["MOVED"].prefix, found["PLAIN"].prefix) == (0x20, "A5XX", "D")


def test_registers_of_the_next_chip(tmp_path: Path) -> None:
    found = registers(tmp_path, "A7XX")
    assert (found["MOVED"].offset, found["MOVED"].prefix, found["LATE"].offset) == (0x30, "A7XX", 0x40)
    assert shape_of(found["SHAPE"].fields)["DEEP"] == (9, 9, 0, "boolean")


def test_arrays(tmp_path: Path) -> None:
    found = view(tmp_path).domain("D")
    assert found is not None
    bank, counter = found.arrays
    assert (bank.offset, bank.stride, bank.length, bank.prefix) == (0x50, 2, 4, "A6XX")
    assert shape_of(adreno.array_fields(bank)) == {"ADDR": (63, 2, 2, "address")}
    assert shape_of(adreno.array_fields(counter)) == {"": (63, 0, 0, "")}
    old = view(tmp_path, chip="A5XX").domain("D")
    assert old is not None and [array.name for array in old.arrays] == ["COUNTER"]


def test_a_domain_that_the_chip_has_not(tmp_path: Path) -> None:
    assert view(tmp_path).domain("NEW") is None
    assert view(tmp_path, chip="A7XX").domain("NEW") is not None


def test_enum_values_follow_each_other_and_depend_on_the_chip(tmp_path: Path) -> None:
    assert view(tmp_path).enum("mode") == {"FIRST": 0, "TENTH": 10, "NEXT": 11}
    assert view(tmp_path, chip="A7XX").enum("mode") == {"FIRST": 0, "SECOND": 1, "TENTH": 10, "NEXT": 11}


def test_every_file_is_read_once_and_noted(tmp_path: Path) -> None:
    assert set(view(tmp_path).database.read) == {"main.xml", "common.xml"}


def test_words_of_a_packet_with_their_conditions(tmp_path: Path) -> None:
    seen = view(tmp_path)
    found = seen.domain("P")
    assert found is not None
    words, when, types = adreno._words("P", found.registers, seen)
    assert words == {
        0: {"MODE": (3, 0, 0), "LEVEL": (15, 8, 0)},
        1: {"X": (3, 0, 0), "": (63, 0, 0)},
    }
    assert when == {0: {"LEVEL": ("TENTH", "NEXT")}, 1: {"X": ("FIRST",), "": ("TENTH",)}}
    assert types == {0: {"MODE": "mode", "LEVEL": "fixed.4"}, 1: {"": "waddress"}}


@pytest.mark.parametrize(
    ("variants", "when"),
    [
        (("FIRST", ""), {}),
        (("", "FIRST"), {}),
        (("FIRST", "NEXT"), {1: {"X": ("FIRST", "NEXT")}}),
        (("FIRST", "TENTH,NEXT"), {}),  # all that this chip has
    ],
)
def test_field_in_two_stripes(tmp_path: Path, variants: tuple[str, str], when: dict[int, Any]) -> None:
    word = '<reg32 offset="1" name="1"><bitfield name="X" low="0" high="3"/></reg32>'
    stripes = [f'<stripe varset="mode" variants="{v}">{word}</stripe>' if v else word for v in variants]
    main = f'<import file="common.xml"/><domain name="P" width="32">{"".join(stripes)}</domain>'
    seen = view(tmp_path, main)
    found = seen.domain("P")
    assert found is not None
    assert adreno._words("P", found.registers, seen) == ({1: {"X": (3, 0, 0)}}, when, {})


@pytest.mark.parametrize(
    ("main", "message"),
    [
        ('<import file="absent.xml"/>', "absent.xml"),
        ("<surprise/>", "unknown in .*<surprise>"),
        ('<domain name="D" width="32" colour="red"/>', "unknown in .*<domain> colour"),
        ('<domain name="D" width="32"/><domain name="D" width="32"/>', "domain D is defined twice"),
        ("<domain", "main.xml: "),
    ],
)
def test_file_that_is_not_understood_is_refused(tmp_path: Path, main: str, message: str) -> None:
    with pytest.raises(GeneratorError, match=message):
        view(tmp_path, main + '<import file="common.xml"/>')


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ('<reg32 name="R"/>', "R> has no offset"),
        ('<reg32 name="R" offset="x"/>', "R>: offset is 'x'"),
        ('<reg32 name="R" offset="0" type="riddle"/>', "R>: unknown type riddle"),
        ('<reg32 name="R" offset="0"><bitfield name="F" low="4" high="32"/></reg32>', "F>: bits 32..4 of 32"),
        ('<reg32 name="R" offset="0"><bitfield name="F" low="4" high="3"/></reg32>', "F>: bits 3..4 of 32"),
        (
            '<reg32 name="R" offset="0"><bitfield name="F" low="0" high="1" type="boolean"/></reg32>',
            "a boolean of 2 bits",
        ),
        ('<reg32 name="R" offset="0"><bitfield name="F" low="0" high="7" type="fixed"/></reg32>', "F> has no radix"),
        (
            '<reg32 name="R" offset="0"><bitfield name="F" pos="0"/><bitfield name="F" pos="1"/></reg32>',
            "F is there twice",
        ),
        (
            '<reg32 name="R" offset="0" type="uint"><bitfield name="F" pos="0"/></reg32>',
            "R is of type uint and has fields",
        ),
        ('<reg32 name="R" offset="0" variants="A6XX"/>', "variants A6XX of no set"),
        ('<reg32 name="R" offset="0" varset="chip" variants="A9XX"/>', "variants A9XX: no such chip"),
        ('<reg32 name="R" offset="0" varset="mode" variants="THIRD"/>', "THIRD is not of mode"),
        ('<reg32 name="R" offset="0" varset="moods" variants="THIRD"/>', "no enum moods"),
    ],
)
def test_register_that_is_not_understood_is_refused(tmp_path: Path, inside: str, message: str) -> None:
    seen = view(tmp_path, f'<import file="common.xml"/><domain name="D" width="32">{inside}</domain>')
    with pytest.raises(GeneratorError, match=message):
        seen.domain("D")


def test_enum_with_two_values_for_a_name_is_refused(tmp_path: Path) -> None:
    seen = view(tmp_path, '<import file="common.xml"/><enum name="E"><value name="A"/><value name="A"/></enum>')
    with pytest.raises(GeneratorError, match=r"E\.A has two values for A6XX"):
        seen.enum("E")


def test_chip_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="A9XX is none of A5XX, A6XX, A7XX"):
        view(tmp_path, chip="A9XX")


def register(name: str, prefix: str, offset: int = 0) -> Register:
    return Register(name, offset, 32, (Field("", 31, 0, 0, ""),), prefix)


def test_register_of_its_own_wins_over_the_one_that_all_have() -> None:
    both = [register("SP_CS_X", "A6XX", 1), register("SP_CS_X", "A7XX", 2), register("VPC_X", "A6XX")]
    assert {name: r.offset for name, r in adreno._chosen(both).items()} == {"SP_CS_X": 2}
    for pair in (both[:1] * 2, both[1::-1]):
        with pytest.raises(GeneratorError, match="SP_CS_X is there twice"):
            adreno._chosen(pair)


def test_array_of_groups_is_refused() -> None:
    two = (register("A", "A6XX"), register("B", "A6XX", 1))
    with pytest.raises(GeneratorError, match="array GROUPS"):
        adreno.array_fields(Array("GROUPS", 0, 2, 4, two, "A6XX"))


def test_texts_read_back() -> None:
    def generation(offset: int) -> adreno.Generation:
        return adreno.Generation(
            registers={"SP_CS_X": register("SP_CS_X", "A6XX", offset)},
            arrays={"SP_CS_Y": Array("SP_CS_Y", 0x20, 2, 5, (), "A6XX")},
            packets={"CP_SAME": {0: {"F": (3, 0, 0)}}, "CP_OTHER": {0: {"F": (offset, 0, 0)}}},
            when={"CP_OTHER": {0: {"F": ("ONE",)}}},
            opcodes={"CP_SAME": 0x10, "CP_OTHER": offset},
            enums={"e": {"ONE": 1}},
        )

    made = {"a6xx": generation(11), "a7xx": generation(12)}
    common: dict[str, Any] = {}
    exec(adreno.common_text(made, ["somewhere"]), common)
    assert (common["CP_SAME"], common["ONE"], "CP_OTHER" in common) == (0x10, 1, False)
    assert common["PACKETS"] == {"CP_SAME": {0: {"F": (3, 0, 0)}}}
    text = adreno.generation_text(made, "a7xx", ["somewhere"])
    text = text.replace("from hcqrt.autogen.qcom import adreno\n", "").replace(
        "from hcqrt.autogen.qcom.adreno import Bits\n", ""
    )
    space: dict[str, Any] = {"adreno": type("adreno", (), common), "Bits": common["Bits"]}
    exec(text, space)
    assert space["REG_A6XX_SP_CS_X"] == 12
    assert space["REGISTERS"] == {"SP_CS_X": (12, {"": (31, 0, 0)})}
    assert space["ARRAYS"] == {"SP_CS_Y": (0x20, 2, 5, {"": (63, 0, 0)})}
    assert space["PACKETS"] == {"CP_SAME": {0: {"F": (3, 0, 0)}}, "CP_OTHER": {0: {"F": (12, 0, 0)}}}
    assert space["WHEN"] == {"CP_OTHER": {0: {"F": ("ONE",)}}}
    assert space["OPCODES"] == {"CP_SAME": 0x10, "CP_OTHER": 12}


@pytest.mark.skipif(not qcom_facts.MESA, reason=qcom_facts.NO_MESA)
def test_committed_adreno_tables_are_what_the_tree_gives() -> None:
    assert gen_adreno.main(["--mesa", str(qcom_facts.MESA), "--check"]) == 0
