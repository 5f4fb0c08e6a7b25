"""Generated records and constants against the fact tables, and against gcc where a header tree is named."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nv_facts
import pytest
from gen import nv_tables as tables

from hcqrt.autogen.nv import constant, ioctls, layout, names, status, structs
from hcqrt.autogen.nv.releases import RELEASES

FACTS = nv_facts.load("nv-abi.json")
STRUCTS = FACTS["structs"]
IN_FACTS = [nv_facts.version(text) for text in (*FACTS["meta"]["releases"], "610.43.02")]


def dotted(driver: tuple[int, ...]) -> str:
    return ".".join([str(driver[0]), *(f"{part:02}" for part in driver[1:])])


def member(cls: Any, path: str) -> tuple[int, int]:
    """Offset and size of a member; a path through an array means its element 0."""
    offset = size = 0
    for part in path.split("."):
        while issubclass(cls, ctypes.Array):
            cls = cls._type_
        descriptor = getattr(cls, part)
        offset, size = offset + descriptor.offset, descriptor.size
        cls = dict(field[:2] for field in cls._fields_)[part]
    return offset, size


@pytest.mark.parametrize("name", nv_facts.NAMES)
def test_copies_are_current(name: str) -> None:
    shared = nv_facts.FACTS.parent.parent.parent / "shared" / "facts" / name
    ours = (nv_facts.FACTS / name).read_bytes()
    assert not shared.exists() or shared.read_bytes() == ours, (
        f"tests/facts/{name} is older than ../shared/facts/{name}"
    )


def test_every_release_of_the_facts_is_known() -> None:
    assert set(IN_FACTS) <= set(RELEASES) and len(IN_FACTS) == 97
    assert list(RELEASES) == sorted(RELEASES) == nv_facts.generated_versions()


def test_the_manifest_says_which_release_has_no_headers() -> None:
    inputs = nv_facts.manifest_inputs()
    tables = [(entry["tag"], entry["table"]) for entry in inputs if "table" in entry]
    assert tables == [("610.43.02", "nv-abi.json, and 595.45.04 where it says no more")]
    assert {entry["tree"] for entry in inputs if "table" not in entry} == {"open-gpu-kernel-modules"}


@pytest.mark.parametrize("driver", IN_FACTS, ids=dotted)
def test_records_have_the_sizes_and_offsets_of_the_facts(driver: tuple[int, ...]) -> None:
    wrong = {}
    for name, entries in STRUCTS.items():
        expected = nv_facts.struct_at(entries, driver)
        if expected is None:
            with pytest.raises(KeyError, match=name):
                layout(name, driver)
            continue
        cls = layout(name, driver)
        got = [(field[0], *member(cls, field[0])) for field in expected["fields"]]
        if (ctypes.sizeof(cls), got) != (expected["size"], [tuple(field[:3]) for field in expected["fields"]]):
            wrong[name] = (ctypes.sizeof(cls), expected["size"], got)
        ours = {field[0] for field in cls._fields_ if not field[0].startswith("_pad")}
        if ours != {field[0].split(".")[0] for field in expected["fields"]}:
            wrong[f"members of {name}"] = ours
    assert wrong == {}


@pytest.mark.parametrize("driver", IN_FACTS, ids=dotted)
def test_constants_equal_the_facts(driver: tuple[int, ...]) -> None:
    known = dict(nv_facts.consts_at(driver))
    assert {name: constant(name, driver) for name in known} == known


def test_layouts_are_printed_only_where_they_differ() -> None:
    for name, entries in structs.LAYOUTS.items():
        classes = [cls for _, cls in entries]
        assert all(classes[n] is not classes[n + 1] for n in range(len(classes) - 1)), name
    assert len(structs.LAYOUTS["NV_CHANNEL_ALLOC_PARAMS"]) == 4
    assert len(structs.LAYOUTS["NVOS54_PARAMETERS"]) == 1


def test_a_constant_of_some_versions_only() -> None:
    schedule = "NVC36F_CTRL_CMD_GPFIFO_SCHEDULE"
    assert constant(schedule, (550, 163, 1)) == 0xC36F0103 and constant(schedule, (555, 42, 2)) is None
    assert constant("BLACKWELL_COMPUTE_A", (555, 58)) is None
    assert constant("BLACKWELL_COMPUTE_A", (560, 28, 3)) == 0xCDC0
    assert constant("NV_ESC_RM_ALLOC", (535, 54, 3)) == 0x2B and constant("NV_OK", (1,)) == 0
    with pytest.raises(KeyError, match="NO_SUCH_NAME"):
        constant("NO_SUCH_NAME", (580, 95, 5))


def test_layout_before_the_first_version_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match=r"NVOS54_PARAMETERS at driver 1\.2"):
        layout("NVOS54_PARAMETERS", (1, 2))


def test_newer_driver_takes_the_newest_layout() -> None:
    assert layout("NVOS54_PARAMETERS", (9999,)) is structs.NVOS54_PARAMETERS


def test_versions_of_a_record_ascend() -> None:
    for name, entries in structs.LAYOUTS.items():
        versions = [entry[0] for entry in entries]
        assert versions == sorted(set(versions)), name


def test_every_struct_of_a_call_exists() -> None:
    for calls in (ioctls.ESCAPES, ioctls.UVM, ioctls.CLASSES, ioctls.CONTROLS):
        for name, (_, struct) in calls.items():
            assert struct is None or struct in structs.LAYOUTS, name


def test_no_two_calls_share_a_number() -> None:
    for calls in (ioctls.ESCAPES, ioctls.UVM, ioctls.CLASSES, ioctls.CONTROLS):
        numbers = [number for number, _ in calls.values()]
        assert len(set(numbers)) == len(numbers)


def test_calls_of_the_driver_sheet() -> None:
    # Numbers and sizes as nv-driver.md sections 2 and 4 give them.
    sizes = {
        "NV_ESC_RM_ALLOC_MEMORY": (0x27, 56), "NV_ESC_RM_FREE": (0x29, 16), "NV_ESC_RM_CONTROL": (0x2A, 32),
        "NV_ESC_RM_ALLOC": (0x2B, 32), "NV_ESC_RM_VID_HEAP_CONTROL": (0x4A, 184), "NV_ESC_RM_MAP_MEMORY": (0x4E, 56),
        "NV_ESC_RM_UNMAP_MEMORY": (0x4F, 32), "NV_ESC_RM_MAP_MEMORY_DMA": (0x57, 64),
        "NV_ESC_RM_UNMAP_MEMORY_DMA": (0x58, 48), "NV_ESC_CARD_INFO": (200, 72), "NV_ESC_REGISTER_FD": (201, 4),
        "NV_ESC_CHECK_VERSION_STR": (210, 72), "NV_ESC_WAIT_OPEN_COMPLETE": (218, 8),
    }  # fmt: skip
    for name, (number, size) in sizes.items():
        nr, struct = ioctls.ESCAPES[name]
        assert struct is not None
        assert (nr, ctypes.sizeof(layout(struct, (580, 95, 5)))) == (number, size), name
    assert ioctls.ESCAPES["NV_ESC_ATTACH_GPUS_TO_FD"] == (212, None)
    assert ioctls.UVM["UVM_INITIALIZE"][0] == 0x30000001
    assert ioctls.UVM["UVM_MM_INITIALIZE"][0] == 75
    assert ioctls.CLASSES["AMPERE_CHANNEL_GPFIFO_A"] == (0xC56F, "NV_CHANNEL_ALLOC_PARAMS")
    assert ioctls.CLASSES["TURING_USERMODE_A"] == (0xC461, None)
    assert ioctls.CONTROLS["NVA06C_CTRL_CMD_GPFIFO_SCHEDULE"] == (0xA06C0101, "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS")
    assert ioctls.CONTROLS["NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN"][0] == 0xC36F0108
    assert ioctls.CONTROLS["NV2080_CTRL_CMD_GR_GET_INFO"][0] == 0x20801201


def test_numbers_have_names() -> None:
    assert names.CLASS_NAMES[0xC7C0] == "AMPERE_COMPUTE_B"
    assert names.CONTROL_NAMES[0x800201] == "NV0080_CTRL_CMD_GPU_GET_CLASSLIST"
    assert status.NV_STATUS[0x3A] == "NV_ERR_INVALID_PARAM_STRUCT"
    assert status.NV_STATUS[0] == "NV_OK"
    assert status.ROBUST_CHANNEL[31] == "ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT"


HEADERS = os.environ.get("HCQRT_NV_HEADERS")
STARTS = sorted(
    {first for entries in structs.LAYOUTS.values() for first, _ in entries}
    - {nv_facts.version(e["tag"]) for e in nv_facts.manifest_inputs() if "table" in e}
)


@pytest.mark.skipif(
    not (HEADERS and shutil.which("gcc")),
    reason="HCQRT_NV_HEADERS names no folder with a tree of open-gpu-kernel-modules per release, or no gcc",
)
@pytest.mark.parametrize("driver", STARTS, ids=dotted)
def test_gcc_lays_out_every_record_as_generated(tmp_path: Path, driver: tuple[int, ...]) -> None:
    root = Path(str(HEADERS)) / dotted(driver)
    lines, expected = [], []
    for name, entries in structs.LAYOUTS.items():
        cls = [cls for first, cls in entries if first <= driver][-1:]
        if not cls or cls[0] is None:
            continue
        lines.append(f"sizeof({name}),")
        expected.append(ctypes.sizeof(cls[0]))
        for field in cls[0]._fields_:
            if not field[0].startswith("_pad"):
                lines.append(f"offsetof({name}, {field[0]}), sizeof((({name} *)0)->{field[0]}),")
                expected += [getattr(cls[0], field[0]).offset, getattr(cls[0], field[0]).size]
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n"
        + "".join(f'#include "{header}"\n' for header in header_list(root))
        + "static const unsigned long all[] = {\n" + "\n".join(lines) + "\n};\n"
        + "int main(void) { for (size_t i = 0; i < sizeof all / sizeof *all; i++)"
        + ' printf("%lu\\n", all[i]); return 0; }\n'
    )  # fmt: skip
    include = [f"-I{root / folder}" for folder in tables.INCLUDES]
    program = tmp_path / "layout"
    subprocess.run(["gcc", "-w", *include, str(source), "-o", str(program)], check=True, timeout=120)
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=30).stdout
    assert [int(line) for line in printed.split()] == expected


def header_list(root: Path) -> list[Path]:
    """The headers of a tree that the generator reads for records."""
    first = [tables.SDK + name for name in ("nvtypes.h", "nvstatus.h", "nvlimits.h")]
    classes = sorted((root / tables.CLASS_FOLDER).glob("cl*.h"))
    wanted = [root / name for name in (*first, *tables.CONST_HEADERS, *tables.STRUCT_HEADERS)]
    return [path for path in dict.fromkeys((*wanted, *classes)) if path.exists()]
