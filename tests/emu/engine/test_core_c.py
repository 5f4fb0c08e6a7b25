"""The C core's own: its layouts are the contract's, stale builds and bad records are refused, tables are kept."""

from __future__ import annotations

import ctypes
import importlib
import platform
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from uop_programs import Buffers, imm, launch, operands, program, reg, vector_add, vector_add_launch

from hcqrt.emu.engine import core_sources, run, uops
from hcqrt.emu.engine.launch import FAULT_KINDS
from hcqrt.emu.engine.uops import Program, record

core_c = pytest.importorskip("hcqrt.emu.engine.core_c", reason="the C core is not built")


def test_records_lie_in_memory_as_the_contract_says():
    layout = dict(core_c.ffi.typeof("Record").fields)
    assert list(layout) == list(uops.RECORD.names)
    for name, (dtype, offset) in uops.RECORD.fields.items():
        assert (layout[name].offset, core_c.ffi.sizeof(layout[name].type)) == (offset, dtype.itemsize), name
    assert core_c.ffi.sizeof("Record") == uops.RECORD.itemsize


def test_tables_lie_in_memory_as_the_core_reads_them():
    for name, dtype in (("Range", core_c._RANGE), ("Place", core_c._PLACE)):
        offsets = {field: described.offset for field, described in core_c.ffi.typeof(name).fields}
        assert offsets == {field: offset for field, (_, offset) in dtype.fields.items()}
        assert core_c.ffi.sizeof(name) == dtype.itemsize


def test_fault_kinds_have_the_order_of_the_core():
    text = (core_sources.HERE / "core_base.h").read_text()
    found = re.search(r"enum \{ FAULT_NONE,(.*?)\}", text, re.DOTALL)
    assert found is not None
    names = [name.strip().removeprefix("FAULT_").lower() for name in found[1].split(",")]
    assert names == [kind.removesuffix("_instruction") for kind in FAULT_KINDS]


def test_every_operation_is_there():
    formats = {"F2I": uops.I32 | uops.F32 << 4, "I2F": uops.F32 | uops.I32 << 4}
    for name in uops.OPS:
        found = core_c.Prepared(program(record(name, mod=formats.get(name, 0))))
        assert len(found.records) == 1


def test_the_digest_covers_every_source():
    here = Path(core_sources.HERE)
    on_disk = {path.name for pattern in ("core*.c", "core*.h") for path in here.glob(pattern)}
    assert on_disk == {name for name in core_sources.FILES if not name.endswith(".py")}


def test_a_core_of_other_sources_is_not_used(monkeypatch):
    monkeypatch.delitem(sys.modules, "hcqrt.emu.engine.core_c")
    monkeypatch.setattr(core_sources, "digest", lambda: "0" * 64)
    with pytest.raises(ImportError, match="other sources"):
        importlib.import_module("hcqrt.emu.engine.core_c")
    run.c_core.cache_clear()
    try:
        assert run.c_core() is None and run.available_cores() == ("numpy",)
    finally:
        run.c_core.cache_clear()


BAD = {
    "destination": record("MOV", d=uops.REGISTERS - 3),
    "source": record("MOV", d=0, **operands(reg(uops.REGISTERS - 3))),
    "kind": record("MOV", d=0, kind=[4, 0, 0, 0]),
    "predicate": record("PLOP3", pd=uops.PREDICATES),
    "guard": record("NOP", guard=uops.PREDICATES),
    "target": record("BRA", target=1),
    "barrier register": record("BSSY", imm=uops.BARRIER_REGISTERS),
    "width": record("LD", width=7),
    "space": record("LD", space=5),
    "store to constants": record("ST", space=uops.S_CONST),
    "special register": record("S2R", imm=30),
    "special function": record("MUFU", mod=6),
    "format": record("F2F", mod=uops.I8),
    "atomic": record("ATOM", mod=10),
    "prmt mode": record("PRMT", mod=7),
    "word of a vote": record("VOTE", imm=4),
    "register range upside down": record("RGET", mod=9 | 8 << 16),
    "register range past the end": record("RPUT", mod=8 | uops.REGISTERS << 16),
}


@pytest.mark.parametrize("what", BAD)
def test_a_record_that_breaks_the_contract_is_refused(what):
    bad = Program(np.array([BAD[what]], uops.RECORD), {0x1000: 0})
    described, _ = vector_add_launch(32)
    with pytest.raises(uops.InvalidProgram, match="record 0"):
        core_c.run(bad, described)


def test_an_operation_that_is_not_there_is_refused():
    code = np.array([record("NOP")], uops.RECORD)
    code["op"] = len(uops.OPS)
    with pytest.raises(uops.InvalidProgram):
        core_c.run(Program(code, {}), vector_add_launch(32)[0])


def test_range_tables_are_kept_by_list_and_made_anew_for_another():
    tables = core_c.RangeTables()
    rows = [(0x2000, 16, 1, True, True), (0x1000, 16, 2, False, False)]
    first = tables.get(rows)
    assert first["va"].tolist() == [0x1000, 0x2000] and tables.get(rows) is first
    assert tables.get(list(rows)) is not first
    for n in range(2 * core_c.KEPT_TABLES):
        assert len(tables.get([(n << 12, 16, 1, True, True)])) == 1
    assert len(tables._kept) <= core_c.KEPT_TABLES


def test_a_launch_for_which_there_is_no_memory_says_so():
    described, _ = vector_add_launch(32)
    with pytest.raises(MemoryError, match="no memory"):
        core_c.run(vector_add(), replace(described, shared_bytes=1 << 62))


@pytest.fixture
def flushing_host():
    """The host's own arithmetic flushes denormals, as some libraries leave it. MXCSR lies in glibc's fenv_t."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        pytest.skip("the layout of fenv_t is that of x86-64 Linux")
    libm = ctypes.CDLL("libm.so.6")
    kept, changed = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    libm.fegetenv(kept)
    libm.fegetenv(changed)
    word = ctypes.c_uint32.from_buffer(changed, 28)
    word.value |= 0x8040  # flush to zero, denormals are zeros
    libm.fesetenv(changed)
    yield
    libm.fesetenv(kept)


def test_denormals_count_though_the_host_flushes_them(flushing_host):
    out = np.zeros(32, np.uint32)
    buffers = Buffers(out)
    code = program(
        record("FADD", d=4, **operands(imm(1), imm(2))),
        record("S2R", d=0, imm=uops.SR_LANE),
        record("MADW", d=2, **operands(reg(0), imm(4), (uops.CONST, 0))),
        record("ST", flags=uops.A64, width=uops.W_32, **operands(reg(2), None, reg(4))),
        record("EXIT"),
    )
    result = core_c.run(code, launch(buffers, buffers.va[0].to_bytes(8, "little"), (1,), (32,)))
    assert 5e-324 * 1.0 == 0.0  # the host does flush, and goes on doing so
    assert result.fault is None and set(out) == {3}
