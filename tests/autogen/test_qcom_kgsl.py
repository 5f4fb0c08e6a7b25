"""Generated KGSL records, constants and ioctls against tables typed by hand, and against gcc where a tree is named."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import qcom_facts

from hcqrt import autogen
from hcqrt.autogen.qcom import kgsl_consts, kgsl_ioctls, kgsl_structs
from hcqrt.ioctl import Ioctl

HEADER = "src/freedreno/vulkan/msm_kgsl.h"

# Name, number, request: the table of the KGSL sheet, section 1.2.
REQUESTS = {
    "DEVICE_GETPROPERTY": (0x02, 0xC0180902),
    "DEVICE_WAITTIMESTAMP_CTXTID": (0x07, 0x400C0907),
    "DRAWCTXT_CREATE": (0x13, 0xC0080913),
    "DRAWCTXT_DESTROY": (0x14, 0x40040914),
    "MAP_USER_MEM": (0x15, 0xC0300915),
    "CMDSTREAM_READTIMESTAMP_CTXTID": (0x16, 0xC00C0916),
    "SHAREDMEM_FREE": (0x21, 0x40080921),
    "SETPROPERTY": (0x32, 0x40180932),
    "TIMESTAMP_EVENT": (0x33, 0xC0200933),
    "GPUMEM_ALLOC_ID": (0x34, 0xC0300934),
    "GPUMEM_FREE_ID": (0x35, 0xC0080935),
    "GPUMEM_GET_INFO": (0x36, 0xC0480936),
    "GPUMEM_SYNC_CACHE": (0x37, 0x40200937),
    "PERFCOUNTER_GET": (0x38, 0xC0140938),
    "PERFCOUNTER_PUT": (0x39, 0x40100939),
    "PERFCOUNTER_QUERY": (0x3A, 0xC020093A),
    "PERFCOUNTER_READ": (0x3B, 0xC018093B),
    "GPUMEM_SYNC_CACHE_BULK": (0x3C, 0xC018093C),
    "GPUOBJ_ALLOC": (0x45, 0xC0300945),
    "GPUOBJ_FREE": (0x46, 0x40200946),
    "GPUOBJ_INFO": (0x47, 0xC0300947),
    "GPUOBJ_IMPORT": (0x48, 0xC0200948),
    "GPUOBJ_SYNC": (0x49, 0x40100949),
    "GPU_COMMAND": (0x4A, 0xC040094A),
    "PREEMPTIONCOUNTER_QUERY": (0x4B, 0xC018094B),
    "GPUOBJ_SET_INFO": (0x4C, 0x4020094C),
    "GPUMEM_BIND_RANGES": (0x56, 0xC0200956),
    "GPU_AUX_COMMAND": (0x57, 0xC0300957),
    "TIMELINE_CREATE": (0x58, 0xC0100958),
    "TIMELINE_WAIT": (0x59, 0x40280959),
    "TIMELINE_QUERY": (0x5A, 0xC010095A),
    "TIMELINE_SIGNAL": (0x5B, 0x4010095B),
    "TIMELINE_FENCE_GET": (0x5C, 0xC010095C),
    "TIMELINE_DESTROY": (0x5D, 0x4004095D),
    "GET_FAULT_REPORT": (0x5E, 0xC018095E),
}

# Struct: size, members as name@offset:bytes. The table of section 1.3, with the small ones of its last lines.
LAYOUTS = {
    "device_getproperty": (24, "type@0:4 value@8:8 sizebytes@16:8"),
    "devinfo": (
        40,
        "device_id@0:4 chip_id@4:4 mmu_enabled@8:4 gmem_gpubaseaddr@16:8 gpu_id@24:4 gmem_sizebytes@32:8",
    ),
    "device_constraint": (24, "type@0:4 context_id@4:4 data@8:8 size@16:8"),
    "device_constraint_pwrlevel": (4, "level@0:4"),
    "drawctxt_create": (8, "flags@0:4 drawctxt_id@4:4"),
    "drawctxt_destroy": (4, "drawctxt_id@0:4"),
    "gpuobj_alloc": (48, "size@0:8 flags@8:8 va_len@16:8 mmapsize@24:8 id@32:4 metadata_len@36:4 metadata@40:8"),
    "gpuobj_free": (32, "flags@0:8 priv@8:8 id@16:4 type@20:4 len@24:4"),
    "gpu_event_timestamp": (8, "context_id@0:4 timestamp@4:4"),
    "gpu_event_fence": (4, "fd@0:4"),
    "gpuobj_info": (48, "gpuaddr@0:8 flags@8:8 size@16:8 va_len@24:8 va_addr@32:8 id@40:4"),
    "gpuobj_import": (32, "priv@0:8 priv_len@8:8 flags@16:8 type@24:4 id@28:4"),
    "gpuobj_import_dma_buf": (4, "fd@0:4"),
    "gpuobj_import_useraddr": (8, "virtaddr@0:8"),
    "gpuobj_sync": (16, "objs@0:8 obj_len@8:4 count@12:4"),
    "gpuobj_sync_obj": (24, "offset@0:8 length@8:8 id@16:4 op@20:4"),
    "gpuobj_set_info": (32, "flags@0:8 metadata@8:8 id@16:4 metadata_len@20:4 type@24:4"),
    "gpu_command": (
        64,
        "flags@0:8 cmdlist@8:8 cmdsize@16:4 numcmds@20:4 objlist@24:8 objsize@32:4 numobjs@36:4 "
        "synclist@40:8 syncsize@48:4 numsyncs@52:4 context_id@56:4 timestamp@60:4",
    ),
    "command_object": (32, "offset@0:8 gpuaddr@8:8 size@16:8 flags@24:4 id@28:4"),
    "command_syncpoint": (24, "priv@0:8 size@8:8 type@16:4"),
    "cmd_syncpoint_timestamp": (8, "context_id@0:4 timestamp@4:4"),
    "cmd_syncpoint_fence": (4, "fd@0:4"),
    "cmd_syncpoint_timeline": (16, "timelines@0:8 count@8:4 timelines_size@12:4"),
    "device_waittimestamp_ctxtid": (12, "context_id@0:4 timestamp@4:4 timeout@8:4"),
    "cmdstream_readtimestamp_ctxtid": (12, "context_id@0:4 type@4:4 timestamp@8:4"),
    "timestamp_event": (32, "type@0:4 timestamp@4:4 context_id@8:4 priv@16:8 len@24:8"),
    "timestamp_event_fence": (4, "fence_fd@0:4"),
    "map_user_mem": (48, "fd@0:4 gpuaddr@8:8 len@16:8 offset@24:8 hostptr@32:8 memtype@40:4 flags@44:4"),
    "sharedmem_free": (8, "gpuaddr@0:8"),
    "gpumem_alloc_id": (48, "id@0:4 flags@4:4 size@8:8 mmapsize@16:8 gpuaddr@24:8 __pad@32:16"),
    "gpumem_free_id": (8, "id@0:4 __pad@4:4"),
    "gpumem_get_info": (
        72,
        "gpuaddr@0:8 id@8:4 flags@12:4 size@16:8 mmapsize@24:8 useraddr@32:8 __pad@40:32",
    ),
    "gpumem_sync_cache": (32, "gpuaddr@0:8 id@8:4 op@12:4 offset@16:8 length@24:8"),
    "perfcounter_get": (20, "groupid@0:4 countable@4:4 offset@8:4 offset_hi@12:4 __pad@16:4"),
    "perfcounter_put": (16, "groupid@0:4 countable@4:4 __pad@8:8"),
    "perfcounter_query": (32, "groupid@0:4 countables@8:8 count@16:4 max_counters@20:4 __pad@24:8"),
    "perfcounter_read": (24, "reads@0:8 count@8:4 __pad@12:8"),
    "perfcounter_read_group": (16, "groupid@0:4 countable@4:4 value@8:8"),
    "fault_report": (24, "faultlist@0:8 faultnents@8:4 faultsize@12:4 context_id@16:4 padding@20:4"),
    "fault": (24, "fault@0:8 type@8:4 count@12:4 size@16:4 padding@20:4"),
    "pagefault_report": (32, "fault_addr@0:8 reserved@8:16 fault_type@24:4 __pad@28:4"),
    "gpumem_bind_ranges": (32, "ranges@0:8 ranges_nents@8:4 ranges_size@12:4 id@16:4 flags@20:4 fence_id@24:4"),
    "gpumem_bind_range": (32, "child_offset@0:8 target_offset@8:8 length@16:8 child_id@24:4 op@28:4"),
    "timeline_create": (16, "seqno@0:8 id@8:4"),
    "timeline_wait": (40, "tv_sec@0:8 tv_nsec@8:8 timelines@16:8 count@24:4 timelines_size@28:4 flags@32:4"),
    "timeline_signal": (16, "timelines@0:8 count@8:4 timelines_size@12:4"),
    "timeline_fence_get": (16, "seqno@0:8 timeline@8:4 handle@12:4"),
    "timeline_val": (16, "seqno@0:8 timeline@8:4"),
    "cmdbatch_profiling_buffer": (
        40,
        "wall_clock_s@0:8 wall_clock_ns@8:8 gpu_ticks_queued@16:8 gpu_ticks_submitted@24:8 gpu_ticks_retired@32:8",
    ),
    "devmemstore": (
        40,
        "soptimestamp@0:4 eoptimestamp@8:4 preempted@16:4 ref_wait_ts@24:4 current_context@32:4",
    ),
    "version": (16, "drv_major@0:4 drv_minor@4:4 dev_major@8:4 dev_minor@12:4"),
    "ucode_version": (8, "pfp@0:4 pm4@4:4"),
    "gpu_model": (32, "gpu_model@0:32"),
    "shadowprop": (24, "gpuaddr@0:8 size@8:8 flags@16:4"),
    "qtimer_prop": (16, "gpuaddr@0:8 size@8:8"),
    "context_property": (24, "data@0:8 size@8:4 type@12:4 contextid@16:4"),
    "context_property_fault": (8, "faults@0:4 timestamp@4:4"),
}

# Sections 1.4 to 1.9.
CONSTANTS = {
    "KGSL_PROP_DEVICE_INFO": 1, "KGSL_PROP_DEVICE_SHADOW": 2, "KGSL_PROP_MMU_ENABLE": 6, "KGSL_PROP_VERSION": 8,
    "KGSL_PROP_GPU_RESET_STAT": 9, "KGSL_PROP_PWR_CONSTRAINT": 0x12, "KGSL_PROP_UCHE_GMEM_VADDR": 0x13,
    "KGSL_PROP_UCODE_VERSION": 0x15, "KGSL_PROP_HIGHEST_BANK_BIT": 0x17, "KGSL_PROP_DEVICE_BITNESS": 0x18,
    "KGSL_PROP_MIN_ACCESS_LENGTH": 0x1A, "KGSL_PROP_UBWC_MODE": 0x1B, "KGSL_PROP_DEVICE_QTIMER": 0x20,
    "KGSL_PROP_SPEED_BIN": 0x25, "KGSL_PROP_QUERY_CAPABILITIES": 0x27, "KGSL_PROP_CONTEXT_PROPERTY": 0x28,
    "KGSL_PROP_GPU_MODEL": 0x29, "KGSL_PROP_VK_DEVICE_ID": 0x2A, "KGSL_PROP_IS_LPAC_ENABLED": 0x2B,
    "KGSL_PROP_GPU_VA64_SIZE": 0x2C, "KGSL_PROP_IS_RAYTRACING_ENABLED": 0x2D, "KGSL_PROP_UCHE_TRAP_BASE": 0x2F,
    "KGSL_PROP_IS_AQE_ENABLED": 0x30,
    "KGSL_CTX_STAT_NO_ERROR": 0, "KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT": 1,
    "KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT": 2, "KGSL_CTX_STAT_UNKNOWN_CONTEXT_RESET_EXT": 3,
    "KGSL_CONTEXT_SAVE_GMEM": 1, "KGSL_CONTEXT_NO_GMEM_ALLOC": 2, "KGSL_CONTEXT_PREAMBLE": 0x10,
    "KGSL_CONTEXT_PER_CONTEXT_TS": 0x40, "KGSL_CONTEXT_USER_GENERATED_TS": 0x80,
    "KGSL_CONTEXT_NO_FAULT_TOLERANCE": 0x200, "KGSL_CONTEXT_PWR_CONSTRAINT": 0x800,
    "KGSL_CONTEXT_PRIORITY_MASK": 0xF000, "KGSL_CONTEXT_PRIORITY_SHIFT": 12, "KGSL_CONTEXT_IFH_NOP": 0x10000,
    "KGSL_CONTEXT_NO_SNAPSHOT": 0x40000, "KGSL_CONTEXT_TYPE_MASK": 0x01F00000, "KGSL_CONTEXT_TYPE_SHIFT": 20,
    "KGSL_CONTEXT_TYPE_ANY": 0, "KGSL_CONTEXT_TYPE_GL": 1, "KGSL_CONTEXT_TYPE_CL": 2, "KGSL_CONTEXT_TYPE_VK": 5,
    "KGSL_CONTEXT_PREEMPT_STYLE_MASK": 0x0E000000, "KGSL_CONTEXT_PREEMPT_STYLE_SHIFT": 25,
    "KGSL_CONTEXT_PREEMPT_STYLE_DEFAULT": 0, "KGSL_CONTEXT_PREEMPT_STYLE_RINGBUFFER": 1,
    "KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN": 2, "KGSL_CONTEXT_INVALIDATE_ON_FAULT": 0x10000000,
    "KGSL_CONTEXT_LPAC": 0x20000000, "KGSL_CONTEXT_FAULT_INFO": 0x40000000,
    "KGSL_MEMFLAGS_SECURE": 1 << 3, "KGSL_MEMFLAGS_USERMEM_MASK": 0xE0, "KGSL_MEMTYPE_MASK": 0xFF00,
    "KGSL_MEMTYPE_SHIFT": 8, "KGSL_MEMTYPE_OBJECTANY": 0, "KGSL_MEMTYPE_CL": 10, "KGSL_MEMTYPE_CL_KERNEL_STACK": 15,
    "KGSL_MEMTYPE_COMMAND": 16, "KGSL_MEMALIGN_MASK": 0xFF0000, "KGSL_MEMALIGN_SHIFT": 16,
    "KGSL_MEMFLAGS_GPUREADONLY": 1 << 24, "KGSL_CACHEMODE_MASK": 0x0C000000, "KGSL_CACHEMODE_SHIFT": 26,
    "KGSL_CACHEMODE_WRITECOMBINE": 0, "KGSL_CACHEMODE_UNCACHED": 1, "KGSL_CACHEMODE_WRITETHROUGH": 2,
    "KGSL_CACHEMODE_WRITEBACK": 3, "KGSL_MEMFLAGS_USE_CPU_MAP": 1 << 28, "KGSL_MEMFLAGS_IOCOHERENT": 1 << 31,
    "KGSL_MEMFLAGS_FORCE_32BIT": 1 << 32, "KGSL_MEMFLAGS_GUARD_PAGE": 1 << 33, "KGSL_MEMFLAGS_VBO": 1 << 34,
    "KGSL_MEMFLAGS_VBO_NO_MAP_ZERO": 1 << 35,
    "KGSL_GPUMEM_CACHE_CLEAN": 1, "KGSL_GPUMEM_CACHE_TO_GPU": 1, "KGSL_GPUMEM_CACHE_INV": 2,
    "KGSL_GPUMEM_CACHE_FROM_GPU": 2, "KGSL_GPUMEM_CACHE_FLUSH": 3, "KGSL_GPUMEM_CACHE_RANGE": 1 << 31,
    "KGSL_USER_MEM_TYPE_ADDR": 2, "KGSL_USER_MEM_TYPE_DMABUF": 3,
    "KGSL_GPUOBJ_FREE_ON_EVENT": 1, "KGSL_GPU_EVENT_TIMESTAMP": 1, "KGSL_GPU_EVENT_FENCE": 2,
    "KGSL_CMDBATCH_MARKER": 2, "KGSL_CMDBATCH_SUBMIT_IB_LIST": 4, "KGSL_CMDBATCH_PROFILING": 0x10,
    "KGSL_CMDBATCH_SYNC": 0x400, "KGSL_CMDBATCH_PWR_CONSTRAINT": 0x800, "KGSL_CMDLIST_IB": 1,
    "KGSL_CMDLIST_CTXTSWITCH_PREAMBLE": 2, "KGSL_CMDLIST_IB_PREAMBLE": 4, "KGSL_OBJLIST_MEMOBJ": 8,
    "KGSL_OBJLIST_PROFILE": 0x10, "KGSL_CMD_SYNCPOINT_TYPE_TIMESTAMP": 0, "KGSL_CMD_SYNCPOINT_TYPE_FENCE": 1,
    "KGSL_CMD_SYNCPOINT_TYPE_TIMELINE": 2, "KGSL_TIMESTAMP_CONSUMED": 1, "KGSL_TIMESTAMP_RETIRED": 2,
    "KGSL_TIMESTAMP_QUEUED": 3, "KGSL_TIMESTAMP_EVENT_FENCE": 2,
    "KGSL_PAGEFAULT_TYPE_READ": 1, "KGSL_PAGEFAULT_TYPE_WRITE": 2, "KGSL_PAGEFAULT_TYPE_TRANSLATION": 4,
    "KGSL_PAGEFAULT_TYPE_PERMISSION": 8, "KGSL_PAGEFAULT_TYPE_EXTERNAL": 16,
    "KGSL_PAGEFAULT_TYPE_TRANSACTION_STALLED": 32, "KGSL_CONTEXT_PROP_FAULTS": 1,
    "KGSL_CONSTRAINT_NONE": 0, "KGSL_CONSTRAINT_PWRLEVEL": 1, "KGSL_CONSTRAINT_PWR_MIN": 0,
    "KGSL_CONSTRAINT_PWR_MAX": 1,
    "KGSL_PERFCOUNTER_GROUP_CP": 0, "KGSL_PERFCOUNTER_GROUP_RBBM": 1, "KGSL_PERFCOUNTER_GROUP_HLSQ": 4,
    "KGSL_PERFCOUNTER_GROUP_UCHE": 8, "KGSL_PERFCOUNTER_GROUP_TP": 9, "KGSL_PERFCOUNTER_GROUP_SP": 0xA,
    "KGSL_PERFCOUNTER_GROUP_PWR": 0xC, "KGSL_PERFCOUNTER_GROUP_VBIF": 0xD, "KGSL_PERFCOUNTER_GROUP_ALWAYSON": 0x1B,
}  # fmt: skip


def all_calls() -> dict[str, Ioctl[Any]]:
    return {name: value for name, value in vars(kgsl_ioctls).items() if isinstance(value, Ioctl)}


def all_records() -> dict[str, type[ctypes.Structure]]:
    return {name: value for name, value in vars(kgsl_structs).items() if name.startswith("kgsl_")}


def members(text: str) -> dict[str, tuple[int, int]]:
    found = re.findall(r"(\w+)@(\d+):(\d+)", text)
    assert len(found) == len(text.split())
    return {name: (int(offset), int(size)) for name, offset, size in found}


def member(cls: Any, name: str) -> tuple[int, int]:
    return getattr(cls, name).offset, getattr(cls, name).size


@pytest.mark.parametrize("name", REQUESTS)
def test_request_number(name: str) -> None:
    number, request = REQUESTS[name]
    call = getattr(kgsl_ioctls, name)
    assert (call.name, call.request) == (f"IOCTL_KGSL_{name}", request)
    assert kgsl_ioctls.IOCTLS[number] is call


@pytest.mark.parametrize("name", LAYOUTS)
def test_record_has_the_size_and_offsets_of_the_sheet(name: str) -> None:
    size, text = LAYOUTS[name]
    cls, expected = getattr(kgsl_structs, f"kgsl_{name}"), members(text)
    assert ctypes.sizeof(cls) == size
    assert {n: member(cls, n) for n in expected} == expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_record_has_no_members_that_the_sheet_does_not_know(name: str) -> None:
    filler = re.compile(r"_pad\d+|__pad|padding|sbz\d*")  # what only fills a gap
    ours = {field[0] for field in getattr(kgsl_structs, f"kgsl_{name}")._fields_}
    sheet = set(members(LAYOUTS[name][1]))
    assert {n for n in ours - sheet if not filler.fullmatch(n)} == set()


def test_the_sheet_has_every_record_of_its_calls() -> None:
    known = {f"kgsl_{name}" for name in LAYOUTS}
    left_out = {
        "PREEMPTIONCOUNTER_QUERY", "GPUMEM_SYNC_CACHE_BULK", "GPU_AUX_COMMAND",  # only their size is in the sheet
        "TIMELINE_DESTROY",  # takes a plain word
    }  # fmt: skip
    used = {name: getattr(kgsl_ioctls, name).struct.__name__ for name in REQUESTS}
    assert {name for name, struct in used.items() if struct not in known} == left_out


def test_constants_of_the_sheet() -> None:
    assert {name: getattr(kgsl_consts, name, None) for name in CONSTANTS} == CONSTANTS


def test_every_constant_fits_a_64_bit_field() -> None:
    values = {name: value for name, value in vars(kgsl_consts).items() if name.startswith("KGSL_")}
    assert len(values) > 250
    assert all(isinstance(value, int) and 0 <= value < 1 << 64 for value in values.values())


def test_table_of_calls_is_complete() -> None:
    for name, call in all_calls().items():
        assert call.name == f"IOCTL_KGSL_{name}"
        assert call.request >> 8 & 0xFF == 0x09
        listed = kgsl_ioctls.IOCTLS[call.request & 0xFF]
        assert listed is call or name.endswith("_OLD")


def test_a_call_that_takes_a_word_takes_it_as_a_record() -> None:
    assert kgsl_ioctls.TIMELINE_DESTROY.struct is kgsl_structs.kgsl_u32
    assert [field[0] for field in kgsl_structs.kgsl_u32._fields_] == ["value"]


def test_manifest_names_the_header() -> None:
    manifest = json.loads((Path(autogen.__file__).parent / "MANIFEST.json").read_text())
    (tree,) = manifest["kgsl"]["inputs"]
    assert (tree["tree"], tree["tag"], list(tree["sha256"])) == ("mesa", "25.0.7", [HEADER])
    assert set(manifest["kgsl"]["tools"]) == {"ctypeslib2", "libclang", "clang"}


@pytest.mark.skipif(not (qcom_facts.MESA and shutil.which("gcc")), reason=f"{qcom_facts.NO_MESA}, or no gcc")
def test_gcc_lays_out_every_record_and_number_as_generated(tmp_path: Path) -> None:
    assert qcom_facts.MESA
    lines, expected = [], []
    for name, cls in all_records().items():
        if name == "kgsl_u32":
            continue
        lines.append(f"sizeof(struct {name})")
        expected.append(ctypes.sizeof(cls))
        for field in cls._fields_:
            if not re.fullmatch(r"_pad\d+", field[0]):
                lines += [f"offsetof(struct {name}, {field[0]})", f"sizeof(((struct {name} *)0)->{field[0]})"]
                expected += member(cls, field[0])
    constants = {n: v for n, v in vars(kgsl_consts).items() if n.startswith("KGSL_")}
    for name, value in [*constants.items(), *((c.name, c.request) for c in all_calls().values())]:
        # What C takes for a negative int is meant as the bits of it.
        lines.append(f"({name}) < 0 ? (unsigned int)({name}) : ({name})")
        expected.append(value)
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#define __user\n#include "{Path(qcom_facts.MESA) / HEADER}"\n'
        "static const unsigned long long all[] = {\n" + ",\n".join(lines) + "\n};\n"
        "int main(void) { for (size_t i = 0; i < sizeof all / sizeof *all; i++)"
        ' printf("%llu\\n", all[i]); return 0; }\n'
    )
    program = tmp_path / "layout"
    subprocess.run(["gcc", "-w", str(source), "-o", str(program)], check=True, timeout=120)
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=30).stdout
    assert dict(zip(lines, map(int, printed.split()), strict=True)) == dict(zip(lines, expected, strict=True))
