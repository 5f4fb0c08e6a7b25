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

from hcqrt.autogen.nv import consts, ioctls, layout, names, status, structs

DRIVERS = nv_facts.generated_versions()
STRUCTS = nv_facts.load("nv-abi.json")["structs"]


def dotted(driver: tuple[int, ...]) -> str:
    return ".".join(map(str, driver))


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


def test_driver_580_95_05_is_among_the_generated_versions() -> None:
    assert (580, 95, 5) in DRIVERS


@pytest.mark.parametrize("name", nv_facts.NAMES)
def test_copies_are_current(name: str) -> None:
    shared = nv_facts.FACTS.parent.parent.parent / "shared" / "facts" / name
    ours = (nv_facts.FACTS / name).read_bytes()
    assert not shared.exists() or shared.read_bytes() == ours, (
        f"tests/facts/{name} is older than ../shared/facts/{name}"
    )


@pytest.mark.parametrize("driver", DRIVERS, ids=dotted)
@pytest.mark.parametrize("name", STRUCTS)
def test_record_has_the_size_and_offsets_of_the_facts(name: str, driver: tuple[int, ...]) -> None:
    expected = nv_facts.struct_at(STRUCTS[name], driver)
    if expected is None:
        with pytest.raises(KeyError, match=name):
            layout(name, driver)
        return
    cls = layout(name, driver)
    assert ctypes.sizeof(cls) == expected["size"]
    got = {field[0]: member(cls, field[0]) for field in expected["fields"]}
    assert got == {field[0]: (field[1], field[2]) for field in expected["fields"]}


@pytest.mark.parametrize("name", STRUCTS)
def test_record_has_no_members_that_the_facts_do_not_know(name: str) -> None:
    driver = DRIVERS[-1]
    expected = nv_facts.struct_at(STRUCTS[name], driver)
    if expected is not None:
        ours = {field[0] for field in layout(name, driver)._fields_ if not field[0].startswith("_pad")}
        assert ours == {field[0].split(".")[0] for field in expected["fields"]}


@pytest.mark.parametrize("driver", DRIVERS, ids=dotted)
def test_constants_equal_the_facts(driver: tuple[int, ...]) -> None:
    wrong = {}
    for name, value in nv_facts.consts_at(driver):
        ours = getattr(consts, name, getattr(status, name, None))
        if name in consts.VERSIONED:
            ours = [entry[1] for entry in consts.VERSIONED[name] if entry[0] <= driver][-1]
        if ours != value and (name != "ROBUST_CHANNEL_LAST_ERROR" or driver == DRIVERS[-1]):
            wrong[name] = (ours, value)
    assert wrong == {}


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


@pytest.mark.skipif(
    not (HEADERS and shutil.which("gcc")),
    reason="HCQRT_NV_HEADERS names no checkout of open-gpu-kernel-modules of the newest generated version, or no gcc",
)
def test_gcc_lays_out_every_record_as_generated(tmp_path: Path) -> None:
    assert HEADERS
    folders = ("src/common/sdk/nvidia/inc", "kernel-open/common/inc", "kernel-open/nvidia-uvm")
    folders = (*folders, "src/nvidia/arch/nvalloc/unix/include")
    lines, expected = [], []
    for name, entries in structs.LAYOUTS.items():
        cls = entries[-1][1]
        if cls is None:
            continue
        lines.append(f"sizeof({name}),")
        expected.append(ctypes.sizeof(cls))
        for field in cls._fields_:
            if not field[0].startswith("_pad"):
                lines.append(f"offsetof({name}, {field[0]}), sizeof((({name} *)0)->{field[0]}),")
                expected += [getattr(cls, field[0]).offset, getattr(cls, field[0]).size]
    headers = header_list(Path(HEADERS))
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n"
        + "".join(f'#include "{header}"\n' for header in headers)
        + "static const unsigned long all[] = {\n" + "\n".join(lines) + "\n};\n"
        + "int main(void) { for (size_t i = 0; i < sizeof all / sizeof *all; i++)"
        + ' printf("%lu\\n", all[i]); return 0; }\n'
    )  # fmt: skip
    include = [f"-I{Path(HEADERS) / folder}" for folder in folders]
    program = tmp_path / "layout"
    subprocess.run(["gcc", "-w", *include, str(source), "-o", str(program)], check=True, timeout=120)
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=30).stdout
    assert [int(line) for line in printed.split()] == expected


def header_list(root: Path) -> list[Path]:
    """Every header of the tree that the generator parsed, as MANIFEST.json names them: the ones with records."""
    import json

    from hcqrt import autogen

    manifest = json.loads((Path(autogen.__file__).parent / "MANIFEST.json").read_text())
    newest = max((t for t in manifest["nv"]["inputs"] if "tag" in t), key=lambda t: nv_facts.version(t["tag"]))
    paths = [path for path in newest["sha256"] if "hwref" not in path and not path.endswith("nvstatuscodes.h")]
    assert all((root / path).exists() for path in paths), f"not a tree of {newest['tag']}: {root}"
    first = [p for p in paths if p.endswith(("/nvtypes.h", "/nvstatus.h", "/nvlimits.h"))]
    return [root / path for path in dict.fromkeys([*first, *paths])]
