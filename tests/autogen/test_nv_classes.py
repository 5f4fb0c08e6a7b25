"""Generated class methods and QMD fields against the fact tables and against offsets of the engine sheet."""

from __future__ import annotations

import importlib
from itertools import combinations
from typing import Any

import nv_facts
import pytest

from hcqrt.autogen.nv import clc7b5, clc7c0, clc56f, clc461, qmd, structs

CLASSES = (
    "c46f", "c56f", "c76f", "c5c0", "c6c0", "c7c0", "c9c0", "cbc0", "cdc0", "cec0",
    "c5b5", "c6b5", "c7b5", "c8b5", "c9b5", "cab5",
)  # fmt: skip
QMD_FACTS = nv_facts.load("nv-qmd.json")
ENUM_FACTS = nv_facts.load("nv-qmd-enums.json")
# Methods whose fields are alternatives: which ones count depends on another field. So are pushbuffer headers.
UNIONS = {"MEM_OP_A", "MEM_OP_C", "MEM_OP_D", "GP_ENTRY0", "GP_ENTRY1", "DMA"}


def module(number: str) -> Any:
    return importlib.import_module(f"hcqrt.autogen.nv.cl{number}")


def offsets(methods: dict[str, Any]) -> list[int]:
    """Every offset a class accepts (an array of unknown length gives its first)."""
    found = []
    for value in methods.values():
        start, stride, count = value if isinstance(value, tuple) else (value, 4, 1)
        found += [start + n * stride for n in range(count or 1)]
    return found


def overlap(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return a[1] <= b[0] and b[1] <= a[0]


@pytest.mark.parametrize("number", CLASSES)
def test_each_offset_is_one_method(number: str) -> None:
    found = offsets(module(number).METHODS)
    assert len(set(found)) == len(found)
    assert all(offset % 4 == 0 and 0 <= offset < 0x4000 for offset in found)


@pytest.mark.parametrize("number", CLASSES)
def test_every_method_has_fields_inside_its_word(number: str) -> None:
    cl = module(number)
    assert set(cl.METHODS) <= set(cl.FIELDS)
    for method, fields in cl.FIELDS.items():
        assert fields, method
        assert all(31 >= msb >= lsb >= 0 for msb, lsb in fields.values()), method


@pytest.mark.parametrize("number", CLASSES)
def test_fields_overlap_only_in_known_unions(number: str) -> None:
    for method, fields in module(number).FIELDS.items():
        if method not in UNIONS:
            clash = [(a, b) for a, b in combinations(fields, 2) if overlap(fields[a], fields[b])]
            assert clash == [], method


@pytest.mark.parametrize("number", CLASSES)
def test_values_fit_their_fields(number: str) -> None:
    cl = module(number)
    for method, fields in cl.VALUES.items():
        for field, values in fields.items():
            msb, lsb = cl.FIELDS[method][field]
            for name, value in values.items():
                assert 0 <= value < 1 << (msb - lsb + 1), f"{method}.{field}.{name}"


@pytest.mark.parametrize("number", CLASSES)
def test_flat_names_agree_with_the_tables(number: str) -> None:
    cl = module(number)
    assert int(number, 16) == cl.CLASS
    prefix = f"NV{number.upper()}_"
    for method, offset in cl.METHODS.items():
        assert getattr(cl, prefix + method) == offset
    for method, fields in cl.FIELDS.items():
        for field, bits in fields.items():
            assert getattr(cl, f"{prefix}{method}_{field}") == bits


def test_number_of_methods_of_ampere() -> None:
    # Counted in the headers: lines whose value is written with four hexadecimal digits.
    assert len(clc7c0.METHODS) == 179


def test_host_offsets_of_the_engine_sheet() -> None:
    expected = {
        "SET_OBJECT": 0x00, "ILLEGAL": 0x04, "NOP": 0x08, "SEMAPHOREA": 0x10, "NON_STALL_INTERRUPT": 0x20,
        "MEM_OP_A": 0x28, "MEM_OP_D": 0x34, "SET_REFERENCE": 0x50, "SEM_ADDR_LO": 0x5C, "SEM_ADDR_HI": 0x60,
        "SEM_PAYLOAD_LO": 0x64, "SEM_PAYLOAD_HI": 0x68, "SEM_EXECUTE": 0x6C, "WFI": 0x78, "YIELD": 0x80,
    }  # fmt: skip
    assert {name: clc56f.METHODS[name] for name in expected} == expected
    execute, values = clc56f.FIELDS["SEM_EXECUTE"], clc56f.VALUES["SEM_EXECUTE"]
    assert execute["OPERATION"] == (2, 0)
    assert execute["ACQUIRE_SWITCH_TSG"] == (12, 12)
    assert execute["RELEASE_WFI"] == (20, 20)
    assert execute["PAYLOAD_SIZE"] == (24, 24)
    assert execute["RELEASE_TIMESTAMP"] == (25, 25)
    assert execute["REDUCTION"] == (30, 27)
    assert values["OPERATION"] == {
        "ACQUIRE": 0, "RELEASE": 1, "ACQ_STRICT_GEQ": 2, "ACQ_CIRC_GEQ": 3, "ACQ_AND": 4, "ACQ_NOR": 5, "REDUCTION": 6,
    }  # fmt: skip
    assert clc56f.FIELDS["GP_ENTRY1"]["LENGTH"] == (30, 10)
    assert clc56f.FIELDS["DMA"]["METHOD_COUNT"] == (28, 16)
    assert clc56f.VALUES["DMA"]["SEC_OP"]["NON_INC_METHOD"] == 3
    assert "GP_ENTRY0" not in clc56f.METHODS


def test_compute_offsets_of_the_engine_sheet() -> None:
    expected = {
        "NO_OPERATION": 0x100, "WAIT_FOR_IDLE": 0x110, "LAUNCH_DMA": 0x1B0, "LOAD_INLINE_DATA": 0x1B4,
        "INVALIDATE_SHADER_CACHES": 0x21C, "INVALIDATE_SKED_CACHES": 0x298, "SET_SHADER_SHARED_MEMORY_WINDOW_A": 0x2A0,
        "SEND_PCAS_A": 0x2B4, "SEND_SIGNALING_PCAS_B": 0x2BC, "SEND_SIGNALING_PCAS2_B": 0x2C0,
        "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A": 0x2E4, "SET_INLINE_QMD_ADDRESS_A": 0x318,
        "LOAD_INLINE_QMD_DATA": (0x320, 4, 64), "SET_SHADER_LOCAL_MEMORY_A": 0x790,
        "SET_SHADER_LOCAL_MEMORY_WINDOW_A": 0x7B0, "SET_SHADER_EXCEPTIONS": 0x1528,
        "INVALIDATE_SHADER_CACHES_NO_WFI": 0x1698, "PIPE_NOP": 0x1A2C, "SET_REPORT_SEMAPHORE_A": 0x1B00,
        "REPORT_SEMAPHORE_EXECUTE": 0x168, "SET_BINDLESS_TEXTURE": 0x2608,
    }  # fmt: skip
    assert {name: clc7c0.METHODS[name] for name in expected} == expected
    actions = clc7c0.VALUES["SEND_SIGNALING_PCAS2_B"]["PCAS_ACTION"]
    assert (actions["INVALIDATE_COPY_SCHEDULE"], actions["PREFETCH_SCHEDULE"]) == (3, 9)
    assert "SEND_SIGNALING_PCAS2_B" not in module("c5c0").METHODS
    assert "REPORT_SEMAPHORE_EXECUTE" not in module("c6c0").METHODS


def test_copy_offsets_of_the_engine_sheet() -> None:
    expected = {
        "NOP": 0x100, "SET_SEMAPHORE_A": 0x240, "SET_SEMAPHORE_B": 0x244, "SET_SEMAPHORE_PAYLOAD": 0x248,
        "SET_SEMAPHORE_PAYLOAD_UPPER": 0x24C, "SET_SRC_PHYS_MODE": 0x260, "LAUNCH_DMA": 0x300, "OFFSET_IN_UPPER": 0x400,
        "OFFSET_OUT_LOWER": 0x40C, "PITCH_IN": 0x410, "PITCH_OUT": 0x414, "LINE_LENGTH_IN": 0x418, "LINE_COUNT": 0x41C,
        "SET_REMAP_CONST_A": 0x700, "SET_REMAP_CONST_B": 0x704, "SET_REMAP_COMPONENTS": 0x708,
    }  # fmt: skip
    assert {name: clc7b5.METHODS[name] for name in expected} == expected
    launch = clc7b5.FIELDS["LAUNCH_DMA"]
    assert launch["DATA_TRANSFER_TYPE"] == (1, 0)
    assert launch["SEMAPHORE_TYPE"] == (4, 3)
    assert launch["REMAP_ENABLE"] == (10, 10)
    assert launch["SEMAPHORE_PAYLOAD_SIZE"] == (27, 27)
    assert "SET_SEMAPHORE_PAYLOAD_UPPER" not in module("c6b5").METHODS


@pytest.mark.parametrize("number", ["c86f", "c96f", "ca6f"])
def test_host_classes_of_the_driver_tree(number: str) -> None:
    """They say less than c56f, and of the same methods the same, but for 57-bit addresses and one ring opcode."""
    cl = module(number)
    assert int(number, 16) == cl.CLASS
    assert all(clc56f.METHODS[name] == offset for name, offset in cl.METHODS.items())
    assert cl.FIELDS["SEM_ADDR_HI"] == {"OFFSET": (24, 0)}
    assert clc56f.FIELDS["SEM_ADDR_HI"] == {"OFFSET": (7, 0)}
    for group in ("SEM_EXECUTE", "SEM_ADDR_LO"):
        assert cl.FIELDS[group].items() <= clc56f.FIELDS[group].items()
    assert cl.FIELDS["GP_ENTRY0"]["PB_EXTENDED_BASE_OPERAND"] == (24, 8)
    assert cl.VALUES["GP_ENTRY1"]["OPCODE"]["SET_PB_SEGMENT_EXTENDED_BASE"] == 4
    assert "GP_ENTRY0" not in cl.METHODS


COMPUTE = ("c5c0", "c6c0", "c7c0", "c9c0", "cbc0", "cdc0", "cec0")
COPY = ("c5b5", "c6b5", "c7b5", "c8b5", "c9b5", "cab5")


@pytest.mark.parametrize("number", COMPUTE)
def test_compute_methods_that_every_class_has(number: str) -> None:
    expected = {
        "SET_OBJECT": 0x0, "NO_OPERATION": 0x100, "WAIT_FOR_IDLE": 0x110, "INVALIDATE_SHADER_CACHES": 0x21C,
        "INVALIDATE_SKED_CACHES": 0x298, "SET_SHADER_SHARED_MEMORY_WINDOW_A": 0x2A0, "SEND_PCAS_A": 0x2B4,
        "SEND_SIGNALING_PCAS_B": 0x2BC, "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A": 0x2E4,
        "SET_SHADER_LOCAL_MEMORY_A": 0x790, "SET_SHADER_LOCAL_MEMORY_WINDOW_A": 0x7B0,
        "INVALIDATE_SHADER_CACHES_NO_WFI": 0x1698, "SET_REPORT_SEMAPHORE_A": 0x1B00,
    }  # fmt: skip
    cl = module(number)
    assert {name: cl.METHODS[name] for name in expected} == expected
    assert cl.FIELDS["INVALIDATE_SHADER_CACHES_NO_WFI"] == {
        "INSTRUCTION": (0, 0), "GLOBAL_DATA": (4, 4), "CONSTANT": (12, 12),
    }  # fmt: skip
    assert cl.FIELDS["SEND_SIGNALING_PCAS_B"] == {"INVALIDATE": (0, 0), "SCHEDULE": (1, 1)}
    for window in ("SHARED", "LOCAL"):
        assert cl.FIELDS[f"SET_SHADER_{window}_MEMORY_WINDOW_A"] == {"BASE_ADDRESS_UPPER": (16, 0)}
    wide = number in ("cbc0", "cdc0", "cec0")
    assert cl.FIELDS["SET_SHADER_LOCAL_MEMORY_A"]["ADDRESS_UPPER"] == ((24, 0) if wide else (16, 0))
    assert cl.FIELDS["SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A"] == {"SIZE_UPPER": (7, 0)}
    assert cl.FIELDS["SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C"]["MAX_SM_COUNT"] == (8, 0)


def test_the_launch_method_that_turing_lacks() -> None:
    for number in COMPUTE[1:]:
        cl = module(number)
        assert cl.METHODS["SEND_SIGNALING_PCAS2_B"] == 0x2C0
        assert cl.FIELDS["SEND_SIGNALING_PCAS2_B"]["PCAS_ACTION"] == (3, 0)
        assert cl.VALUES["SEND_SIGNALING_PCAS2_B"]["PCAS_ACTION"]["INVALIDATE_COPY_SCHEDULE"] == 3


@pytest.mark.parametrize("number", COPY)
def test_copy_methods_that_every_class_has(number: str) -> None:
    expected = {
        "LAUNCH_DMA": 0x300, "OFFSET_IN_UPPER": 0x400, "OFFSET_OUT_UPPER": 0x408, "PITCH_IN": 0x410, "PITCH_OUT": 0x414,
        "LINE_LENGTH_IN": 0x418, "LINE_COUNT": 0x41C, "SET_REMAP_CONST_B": 0x704, "SET_REMAP_COMPONENTS": 0x708,
    }  # fmt: skip
    cl = module(number)
    assert {name: cl.METHODS[name] for name in expected} == expected
    launch = cl.FIELDS["LAUNCH_DMA"]
    assert (launch["DATA_TRANSFER_TYPE"], launch["FLUSH_ENABLE"], launch["MULTI_LINE_ENABLE"]) == (
        (1, 0),
        (2, 2),
        (9, 9),
    )
    assert (launch["SRC_MEMORY_LAYOUT"], launch["DST_MEMORY_LAYOUT"], launch["REMAP_ENABLE"]) == (
        (7, 7),
        (8, 8),
        (10, 10),
    )
    wide = number in ("c8b5", "c9b5", "cab5")
    assert cl.FIELDS["OFFSET_IN_UPPER"]["UPPER"] == ((24, 0) if wide else (16, 0))
    assert ("SET_SEMAPHORE_PAYLOAD_UPPER" in cl.METHODS) == (number not in ("c5b5", "c6b5"))


def test_userd_and_usermode_window() -> None:
    assert structs.Nvc56fControl.GPGet.offset == 0x88
    assert structs.Nvc56fControl.GPPut.offset == 0x8C
    assert clc461.REGISTERS == {"TIME_0": 0x80, "TIME_1": 0x84, "NOTIFY_CHANNEL_PENDING": 0x90}
    assert clc461.SIZE == 65536


def field_of_facts(value: Any) -> tuple[int, ...]:
    if isinstance(value, list):
        return tuple(value)
    second = (value["stride_j"],) if "stride_j" in value else ()
    return (*value["array"], value["stride"], *second)


@pytest.mark.parametrize("version", QMD_FACTS)
def test_qmd_fields_equal_the_facts(version: str) -> None:
    assert qmd.QMD[version] == {name: field_of_facts(value) for name, value in QMD_FACTS[version].items()}


def test_no_qmd_version_is_beyond_the_facts() -> None:
    assert set(qmd.QMD) == set(QMD_FACTS)


@pytest.mark.parametrize("version", ENUM_FACTS)
def test_qmd_values_equal_the_facts(version: str) -> None:
    flat = {f"{field}_{n}": v for field, values in qmd.QMD_VALUES[version].items() for n, v in values.items()}
    assert flat == ENUM_FACTS[version]


@pytest.mark.parametrize("version", qmd.QMD)
def test_qmd_fields_overlap_only_with_their_array_form(version: str) -> None:
    fields = qmd.QMD[version]
    for a, b in combinations(fields, 2):
        if overlap(fields[a], fields[b]):
            assert a.replace("QMD0_", "QMD_").replace("BANK0_", "BANK_") == b, (a, b)


@pytest.mark.parametrize("version", qmd.QMD)
def test_qmd_fields_lie_inside_the_structure(version: str) -> None:
    assert qmd.SIZES[version] == (384 if version >= "V04" else 256)
    assert all(qmd.SIZES[version] * 8 > f[0] >= f[1] >= 0 for f in qmd.QMD[version].values())


def test_qmd_offsets_of_the_engine_sheet() -> None:
    v3 = qmd.QMD["V03_00"]
    assert v3["QMD_GROUP_ID"] == (133, 128)
    assert v3["CTA_RASTER_WIDTH"] == (415, 384)
    assert v3["REGISTER_COUNT_V"] == (656, 648)
    assert v3["PROGRAM_ADDRESS_LOWER"] == (1567, 1536)
    assert v3["CONSTANT_BUFFER_ADDR_LOWER"] == (1055, 1024, 64)
    assert v3["RELEASE0_ENABLE"] == (823, 823)
    assert v3["DEPENDENT_QMD0_POINTER"] == (511, 480)
