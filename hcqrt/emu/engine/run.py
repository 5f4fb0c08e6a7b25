"""Runs a launch on a core: the C core where it was built, else the NumPy core. Both give the same bits."""

from __future__ import annotations

import functools
import importlib
from dataclasses import replace
from typing import Any

from hcqrt.emu.engine import core_numpy
from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.engine.program import ProgramCache

CORES = ("c", "numpy")
_PROGRAMS = ProgramCache()  # by content only, so machines may share it


@functools.cache
def c_core() -> Any:
    """The C core's module, or None when it was not built, or from other sources than these."""
    try:
        return importlib.import_module("hcqrt.emu.engine.core_c")
    except ImportError:
        return None


def available_cores() -> tuple[str, ...]:
    return CORES if c_core() is not None else ("numpy",)


def launch(job: Launch, core: str = "auto") -> Result:
    """Execute a launch. Raises ValueError for a core that is not there."""
    if core not in ("auto", *available_cores()):
        raise ValueError(f"core {core!r}: there are {', '.join(available_cores())}")
    program = _PROGRAMS.get(job)
    built = None if core == "numpy" else c_core()
    result: Result = core_numpy.run(program, job) if built is None else built.run(program, job)
    fault = result.fault
    if fault is not None and fault.kind == "illegal_instruction" and fault.pc in program.reasons:
        return replace(result, fault=replace(fault, detail=program.reasons[fault.pc]))
    return result
