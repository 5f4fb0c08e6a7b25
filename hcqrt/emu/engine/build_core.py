"""Builds the C core with cffi. Runs before the package is there: reads the contract's numbers without importing it."""

from __future__ import annotations

import ast
import os
import runpy
import sys
from typing import Any

from cffi import FFI

# Relative, as setuptools wants its paths: a build runs in the root of the project.
HERE = os.path.relpath(os.path.dirname(os.path.abspath(__file__)))
SOURCES = runpy.run_path(os.path.join(HERE, "core_sources.py"))
# Results must be the same on every machine: no contraction, no regrouping, nothing of the build machine's own.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing"]


def _read(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def contract() -> dict[str, Any]:
    """The capital names that uops.py assigns, but for RECORD, which is of NumPy."""
    names: dict[str, Any] = {}
    for node in ast.parse(_read("uops.py")).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if ast.unparse(target) != "RECORD":
            exec(ast.unparse(ast.Assign([target], node.value, lineno=1)), names)
    return {name: value for name, value in names.items() if name[0].isupper()}


def constants() -> str:
    """The contract's numbers as macros: U_<name>, and OP_<name> for the operations."""
    names = contract()
    lines = [f"#define U_{name} {value}u" for name, value in names.items() if isinstance(value, int)]
    lines += [f"#define OP_{name} {number}" for name, number in names["NUMBERS"].items()]
    return "\n".join(lines) + "\n"


def tables() -> str:
    """The table of the special functions, and where its parts begin and how long they are."""
    special = runpy.run_path(os.path.join(HERE, "special.py"))
    values = ", ".join(float(value).hex() for value in special["TABLE"])
    lines = [f"static const double SPECIAL[] = {{{values}}};"]
    for name, (first, count) in special["OFFSETS"].items():
        lines += [f"#define AT_{name} {first}", f"#define LENGTH_{name} {count}"]
    lines += [f"#define {name} {float(special[name]).hex()}" for name in SCALARS]
    return "\n".join(lines) + "\n"


SCALARS = ("MAGIC", "WHOLE_TURNS", "EX2_CLAMP", "SQRT2", "TWO_PI", "LOG2E", "TANH_SPLIT")

ffibuilder = FFI()
ffibuilder.cdef(_read("core_abi.h"))
ffibuilder.set_source(
    "hcqrt.emu.engine._core",
    f'{constants()}{tables()}#define CORE_DIGEST "{SOURCES["digest"]()}"\n#include "core.c"\n',
    include_dirs=[HERE],
    depends=[os.path.join(HERE, name) for name in SOURCES["FILES"]],
    extra_compile_args=[] if sys.platform == "win32" else FLAGS,
    libraries=[] if sys.platform == "win32" else ["m"],
    optional=True,  # without a compiler the NumPy core does the work
)

if __name__ == "__main__":
    ffibuilder.compile(verbose=True)
