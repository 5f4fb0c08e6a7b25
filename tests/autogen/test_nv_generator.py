"""Parts of scripts/gen_nv.py on small header texts."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import gen_nv
import pytest
from gen.clang import Clang, GeneratorError, array_values, macro_values, unusable
from gen.classes import class_tables, owner, qmd_tables
from gen.emit import Raw, assignments, literal, table
from gen.lexer import Define, defines
from gen.nv_driver import Driver, reads_alike
from gen.nv_facts import driver_from_table
from gen.nv_modules import changes_text, consts_text, releases_text, structs_text
from gen.output import difference
from gen.structs import Field, Printer, Record

needs_libclang = pytest.mark.skipif(bool(unusable()), reason=f"needs the extra `gen`: {unusable()}")

HEADER = """
#ifndef SAMPLE_H
#define SAMPLE_H
#define PLAIN (0x10) // first
#define RANGE 7:4 /* msb:lsb */
#  define LONG (1 + \\
   2)
#define WORD(i) (0x20+(i)*4)
#define PAIR(i,j) (100+(i)*8+(j)*2):(96+(i)*8+(j)*2)
#define TEXT "no number"
#define ALIAS RANGE
// #define HIDDEN 1
/* #define HIDDEN2 2
#define HIDDEN3 3 */
#define WIDE 0x8000000000000000ULL
#define TYPE unsigned int
#if 0
#define ABSENT 5
#endif
#endif
"""


def test_lexer_reads_names_parameters_and_bodies() -> None:
    found = {d.name: d for d in defines(HEADER)}
    assert list(found) == [
        "SAMPLE_H", "PLAIN", "RANGE", "LONG", "WORD", "PAIR", "TEXT", "ALIAS", "WIDE", "TYPE", "ABSENT",
    ]  # fmt: skip
    assert found["PLAIN"] == Define("PLAIN", None, "(0x10)")
    assert found["RANGE"].body == "7:4"
    assert found["LONG"].body.split() == ["(1", "+", "2)"]
    assert found["WORD"].params == ("i",)
    assert found["PAIR"].params == ("i", "j")
    assert found["SAMPLE_H"].body == ""


def test_owner_is_the_longest_whole_word_prefix() -> None:
    assert owner("SEM_ADDR_LO_OFFSET", ["SEM", "SEM_ADDR", "SEM_ADDR_L"]) == "SEM_ADDR"
    assert owner("SEMAPHORE", ["SEM"]) is None


def test_methods_fields_and_values_are_told_apart() -> None:
    tables = class_tables(
        {
            "SET_SEMAPHORE_PAYLOAD": 0x248,
            "SET_SEMAPHORE_PAYLOAD_PAYLOAD": (31, 0),
            "SET_SEMAPHORE_PAYLOAD_UPPER": 0x24C,  # a method, though it begins like a field's value
            "SET_SEMAPHORE_PAYLOAD_UPPER_PAYLOAD": (31, 0),
            "LAUNCH": 0x300,
            "LAUNCH_TYPE": (1, 0),
            "LAUNCH_TYPE_NONE": 0,
            "LAUNCH_TYPE_PIPELINED": 1,
            "LAUNCH_TYPE_EXTRA": (4, 4),
            "LAUNCH_TYPE_EXTRA_ON": 1,
        }
    )
    assert tables.methods == {"SET_SEMAPHORE_PAYLOAD": 0x248, "SET_SEMAPHORE_PAYLOAD_UPPER": 0x24C, "LAUNCH": 0x300}
    assert tables.fields["LAUNCH"] == {"TYPE": (1, 0), "TYPE_EXTRA": (4, 4)}
    assert tables.values == {"LAUNCH": {"TYPE": {"NONE": 0, "PIPELINED": 1}, "TYPE_EXTRA": {"ON": 1}}}


def test_array_ends_at_the_next_method_and_siblings_interleave() -> None:
    tables = class_tables(
        {
            "COUNTER": (0x100, 4, None),
            "COUNTER_V": (31, 0),
            "NEXT": 0x120,
            "NEXT_V": (31, 0),
            "CALL_MACRO": (0x3800, 8, None),
            "CALL_MACRO_V": (31, 0),
            "CALL_DATA": (0x3804, 8, None),
            "CALL_DATA_V": (31, 0),
        }
    )
    assert tables.methods["COUNTER"] == (0x100, 4, 8)
    assert tables.methods["CALL_MACRO"] == (0x3800, 8, 256)
    assert tables.methods["CALL_DATA"] == (0x3804, 8, 256)


def test_groups_of_bits_are_no_methods() -> None:
    tables = class_tables(
        {
            "GP_ENTRY0": 0,
            "GP_ENTRY0_GET": (31, 2),
            "DMA_SEC_OP": (31, 29),
            "DMA_SEC_OP_INC": 1,
            "DMA_NOP": 0,
            "SIZE": 8,
        },
        formats=("GP_ENTRY0", "DMA"),
        constants=("SIZE",),
    )
    assert tables.methods == {}
    assert tables.fields == {"GP_ENTRY0": {"GET": (31, 2)}, "DMA": {"SEC_OP": (31, 29)}}
    assert tables.values == {"DMA": {"SEC_OP": {"INC": 1}}}
    assert tables.flat["SIZE"] == 8


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"A": 0x100, "B_FIELD": (1, 0)}, "field B_FIELD follows method A"),
        ({"A": 0x100, "B": 0x100}, "method B at 0x100"),
        ({"A": 0x102}, "method A at 0x102"),
        ({"A": 0x4000}, "method A at 0x4000"),
        ({"A": (0x100, 16, None), "B": 0x180, "C": 0x110}, ""),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(entries: dict[str, Any], message: str) -> None:
    if message:
        with pytest.raises(GeneratorError, match=message):
            class_tables(entries)
    else:
        assert class_tables(entries).methods["A"] == (0x100, 16, 1)


def test_qmd_names_are_split_by_version() -> None:
    found = qmd_tables(
        {
            "QMDV02_03_IS_QUEUE": (136, 136),
            "QMDV02_03_IS_QUEUE_TRUE": 1,
            "QMDV03_00_CONSTANT_BUFFER_VALID": (640, 640, 1),
            "QMDV03_00_CONSTANT_BUFFER_VALID_FALSE": 0,
        }
    )
    assert found["V02_03"] == ({"IS_QUEUE": (136, 136)}, {"IS_QUEUE": {"TRUE": 1}})
    assert found["V03_00"] == ({"CONSTANT_BUFFER_VALID": (640, 640, 1)}, {"CONSTANT_BUFFER_VALID": {"FALSE": 0}})


@pytest.mark.parametrize("name", ["OTHER_FIELD", "QMDV2_FIELD"])
def test_name_that_is_no_qmd_field_is_refused(name: str) -> None:
    with pytest.raises(GeneratorError, match=name):
        qmd_tables({name: (1, 0)})


def test_literals_and_tables_read_back() -> None:
    assert [literal(v) for v in (9, 10, -1, (31, 0), (1, 2, None), "a", None, Raw("x"))] == [
        "9", "0xa", "-1", "(31, 0)", "(1, 2, None)", '"a"', "None", "x",
    ]  # fmt: skip
    space: dict[str, Any] = {}
    value = {"A": {"B": (3, 1)}, "C": {}}
    exec(assignments({"N": 255}) + table("T", "dict", value), space)
    assert (space["N"], space["T"]) == (255, value)


def two_drivers() -> list[Driver]:
    old, new = Driver("1.2.3"), Driver("1.10")
    old.consts = {"SAME": 1, "CHANGED": 5, "GONE": 7}
    new.consts = {"SAME": 1, "CHANGED": (6, 2), "ADDED": 9}
    return [old, new]


def test_constants_that_change_between_versions_are_listed() -> None:
    space: dict[str, Any] = {}
    drivers = two_drivers()
    drivers[0].status, drivers[1].status = {"NV_OK": 0, "NV_ERR_ODD": 0x8B}, {"NV_OK": 0, "NV_ERR_ODD": 0x8C}
    for text in (consts_text(drivers), releases_text(drivers), changes_text(drivers)):
        exec(text, space)
    assert (space["SAME"], space["CHANGED"], space["ADDED"], space["GONE"]) == (1, (6, 2), 9, 7)
    assert space["RELEASES"] == ((1, 2, 3), (1, 10))
    assert space["CHANGES"] == {
        "ADDED": (((1, 2, 3), None), ((1, 10), 9)),
        "CHANGED": (((1, 2, 3), 5), ((1, 10), (6, 2))),
        "GONE": (((1, 2, 3), 7), ((1, 10), None)),
        "NV_ERR_ODD": (((1, 2, 3), 0x8B), ((1, 10), 0x8C)),
    }


def test_record_layouts_are_kept_once_and_older_ones_carry_their_version() -> None:
    def record(name: str, *fields: Any) -> Any:
        return type(name, (ctypes.Structure,), {"_fields_": list(fields)})

    drivers = two_drivers()
    for driver, last in zip(drivers, (ctypes.c_uint32, ctypes.c_uint64), strict=True):
        inner = record("inner", ("x", last))
        free = record("free", ("base", ctypes.c_uint64), ("inner", inner * 2))
        same = record("same", ("a", ctypes.c_uint8), ("p", ctypes.c_void_p))
        printer = Printer({free: "UVM_FREE_PARAMS", same: "RS_ACCESS_MASK"})
        driver.typedefs = {n: printer.add(c, n) for n, c in (("UVM_FREE_PARAMS", free), ("RS_ACCESS_MASK", same))}
        driver.records = printer.done
    space: dict[str, Any] = {}
    exec(structs_text(drivers), space)
    layouts = space["LAYOUTS"]
    assert [entry[0] for entry in layouts["UVM_FREE_PARAMS"]] == [(1, 2, 3), (1, 10)]
    assert layouts["UVM_FREE_PARAMS"][0][1].__name__ == "UVM_FREE_PARAMS__1_2_3"
    assert layouts["UVM_FREE_PARAMS"][1][1] is space["UVM_FREE_PARAMS"]
    assert [ctypes.sizeof(entry[1]) for entry in layouts["UVM_FREE_PARAMS"]] == [16, 24]
    assert layouts["RS_ACCESS_MASK"] == (((1, 2, 3), space["RS_ACCESS_MASK"]),)
    assert dict(space["RS_ACCESS_MASK"]._fields_)["p"] is ctypes.c_uint64


def plain(name: str, *fields: Field, size: int) -> Record:
    return Record(name, "Structure", size, fields, ())


def test_a_record_that_is_gone_and_back_keeps_one_class() -> None:
    short = plain("UVM_FREE_PARAMS", Field("base", "c_uint64", 0, 8, 8), size=8)
    long = plain("UVM_FREE_PARAMS", *short.fields, Field("length", "c_uint64", 8, 8, 8), size=16)
    drivers = []
    for version, record in (("1.0", short), ("1.1", None), ("2.0", long), ("2.1", short)):
        driver = Driver(version)
        if record is not None:
            driver.records, driver.typedefs = {record.name: record}, {record.name: record.name}
        drivers.append(driver)
    space: dict[str, Any] = {}
    exec(structs_text(drivers), space)
    layouts = space["LAYOUTS"]["UVM_FREE_PARAMS"]
    assert [(v, c and c.__name__) for v, c in layouts] == [
        ((1, 0), "UVM_FREE_PARAMS"), ((1, 1), None), ((2, 0), "UVM_FREE_PARAMS__2_0"), ((2, 1), "UVM_FREE_PARAMS"),
    ]  # fmt: skip


def test_holes_are_spelled_out() -> None:
    fields = (Field("a", "c_uint8", 0, 1, 1), Field("b", "c_uint32", 8, 4, 4))
    assert [line.strip() for line in plain("odd", *fields, size=16).body.splitlines()[1:-1]] == [
        '("a", c_uint8),', '("_pad0", c_uint8 * 7),', '("b", c_uint32),', '("_pad1", c_uint8 * 4),',
    ]  # fmt: skip


TABLE = """{"structs": {"UVM_FREE_PARAMS": [
    {"from": "1.0", "size": 8, "fields": [["base", 0, 8, "NvU64"]]},
    {"from": "3.0", "size": %d,
     "fields": [["fresh", 0, %d, "?"], ["base", 8, 8, "NvU64"], ["list", 16, 12, "NvU32[2]"]]}]},
 "consts": {"SAME": 1, "BITS": [["1.0", 4], ["3.0", "7:5"]], "LATER": [["4.0", 1]]}}"""


def base_driver() -> Driver:
    fields = (Field("base", "c_uint64", 0, 8, 8), Field("list", "c_uint32 * 2", 8, 8, 4))
    record = plain("UVM_FREE_PARAMS", *fields, size=16)
    consts: dict[str, Any] = {"SAME": 1, "BITS": 4}
    return Driver("2.0", consts=consts, records={record.name: record}, typedefs={record.name: record.name})


def test_a_driver_without_headers_comes_from_the_table(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(TABLE % (32, 4))
    base = base_driver()
    made = driver_from_table("3.0", tmp_path / "t.json", base)
    assert made.consts == {"SAME": 1, "BITS": (7, 5)} and base.consts["BITS"] == 4
    record = made.records["UVM_FREE_PARAMS"]
    assert [(f.name, f.type, f.offset) for f in record.fields] == [
        ("fresh", "c_uint32", 0), ("base", "c_uint64", 8), ("list", "c_uint32 * 3", 16),
    ]  # fmt: skip
    assert (record.size, base.records["UVM_FREE_PARAMS"].size) == (32, 16)
    assert made.source == "t.json, and 2.0 where it says no more" and list(made.read) == ["t.json"]
    assert "2.0, 3.0 (t.json" in releases_text([base, made])


def test_a_table_that_says_too_little_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(TABLE % (32, 5))
    with pytest.raises(GeneratorError, match=r"UVM_FREE_PARAMS\.fresh: .* 5 bytes"):
        driver_from_table("3.0", tmp_path / "t.json", base_driver())
    (tmp_path / "t.json").write_text(TABLE % (32, 4))
    with pytest.raises(GeneratorError, match=r"says nothing of 2\.5"):
        driver_from_table("2.5", tmp_path / "t.json", base_driver())


def test_a_tree_is_read_again_only_if_it_says_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "common" / "sdk" / "nvidia" / "inc"
    folder.mkdir(parents=True)
    (folder / "a.h").write_text("1")
    name = "src/common/sdk/nvidia/inc/a.h"
    known = Driver("1.0", read={name: gen_nv.sha256(b"1")}, headers=(name,))
    assert reads_alike(known, tmp_path)
    (folder / "a.h").write_text("2")
    assert not reads_alike(known, tmp_path)
    (folder / "a.h").write_text("1")
    (folder / "b.h").write_text("")
    assert not reads_alike(known, tmp_path)


def test_command_line_wants_a_version_and_a_tree(tmp_path: Path) -> None:
    arguments = gen_nv.parse(["--driver", "580.95.05=a", "--table", "610.43.02=b", "--classes", "c", "--check"])
    assert (arguments.driver, arguments.table) == ([("580.95.05", Path("a"))], [("610.43.02", Path("b"))])
    assert arguments.check and arguments.drivers == []
    (tmp_path / "580.95.05").mkdir()
    assert gen_nv.trees_in(tmp_path) == [("580.95.05", tmp_path / "580.95.05")]
    (tmp_path / "main").mkdir()
    with pytest.raises(GeneratorError, match="main is not named by a driver version"):
        gen_nv.trees_in(tmp_path)
    with pytest.raises(GeneratorError, match="no driver tree"):
        gen_nv.read_drivers([], [], tmp_path)
    for bad in ("580.95.05", "v580=a"):
        with pytest.raises(SystemExit):
            gen_nv.parse(["--driver", bad, "--classes", "c"])


def test_check_tells_what_would_change(tmp_path: Path) -> None:
    (tmp_path / "nv").mkdir()
    (tmp_path / "nv" / "a.py").write_text("X = 1\n")
    (tmp_path / "nv" / "stale.py").write_text("")
    assert difference(tmp_path, {"nv/a.py": "X = 1\n", "nv/stale.py": ""}, "nv/*.py") == []
    lines = difference(tmp_path, {"nv/a.py": "X = 2\n", "nv/b.py": ""}, "nv/*.py")
    assert lines == [
        "nv/a.py: 1 lines gone, 1 new, first: X = 2",
        "nv/b.py: missing",
        "nv/stale.py: no longer generated",
    ]


@needs_libclang
def test_macros_are_evaluated_and_others_left_out(tmp_path: Path) -> None:
    (tmp_path / "sample.h").write_text(HEADER)
    clang = Clang([tmp_path], tmp_path / "scratch")
    found = defines(HEADER)
    prefix = '#include "sample.h"\n'
    values = macro_values(clang, prefix, [d.name for d in found if d.params is None and d.body])
    assert values == {"PLAIN": 16, "RANGE": (7, 4), "LONG": 3, "ALIAS": (7, 4), "WIDE": 1 << 63}
    arrays = array_values(clang, prefix, {d.name: len(d.params) for d in found if d.params})
    assert arrays == {"WORD": (0x20, (4,)), "PAIR": ((100, 96), (8, 2))}


@needs_libclang
def test_macro_that_is_not_linear_is_refused(tmp_path: Path) -> None:
    clang = Clang([], tmp_path)
    with pytest.raises(GeneratorError, match="SQUARE"):
        array_values(clang, "#define SQUARE(i) ((i)*(i))\n", {"SQUARE": 1})


@needs_libclang
def test_broken_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="do not parse"):
        macro_values(Clang([], tmp_path), "struct {\n", ["A"])


@needs_libclang
def test_records_are_checked_against_the_compiler(tmp_path: Path) -> None:
    from gen.structs import check, records

    clang = Clang([], tmp_path)
    text = (
        "typedef struct { unsigned char a; union { unsigned int u; unsigned short v[2]; }; void *p; } Sample;\n"
        "typedef struct { char name[5]; struct { long long t; } at[2] __attribute__((aligned(16))); } Second;\n"
    )
    found, names = records(clang, text, ["Sample", "Second", "Missing"])
    assert list(found) == ["Sample", "Second"]
    assert names[found["Sample"]] == "Sample"
    assert (ctypes.sizeof(found["Sample"]), ctypes.sizeof(found["Second"])) == (16, 32)
    types = {c.spelling: c.type for c in clang.checked(text).cursor.get_children() if c.spelling == "Sample"}
    wrong = type("wrong", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_uint8)]})
    with pytest.raises(GeneratorError, match="ctypeslib2 says 1 bytes, libclang 16"):
        check(clang, "Sample", types["Sample"], wrong)


@needs_libclang
def test_mistake_of_ctypeslib2_is_refused(tmp_path: Path) -> None:
    from gen.structs import records

    # ctypeslib2 2.4.0 forgets the two bytes behind `v` that make the union a multiple of its alignment.
    text = "typedef struct { unsigned char a; union { unsigned int u; unsigned short v[3]; }; } Sample;\n"
    with pytest.raises(GeneratorError, match="Sample: ctypeslib2 says"):
        records(Clang([], tmp_path), text, ["Sample"])


TREES, CLASSES = os.environ.get("HCQRT_NV_HEADERS"), os.environ.get("HCQRT_NV_CLASSES")


@needs_libclang
@pytest.mark.skipif(
    not (TREES and CLASSES), reason="HCQRT_NV_HEADERS and HCQRT_NV_CLASSES name no trees: minutes of work when they do"
)
def test_the_trees_give_autogen_byte_for_byte(capsys: pytest.CaptureFixture[str]) -> None:
    table = Path(__file__).parent.parent / "facts" / "nv-abi.json"
    options = ["--drivers", str(TREES), "--table", f"610.43.02={table}", "--classes", str(CLASSES), "--check"]
    assert gen_nv.main(options) == 0, capsys.readouterr().out
