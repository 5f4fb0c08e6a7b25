"""libclang: find the wheel's own library, parse a translation unit, evaluate macros and lay out records."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

LIBCLANG_MAJOR = "18"

# What the vendors' headers need of the C library: no header of the machine is read, so the output can't depend on one.
BUILTIN_HEADERS = {
    "stddef.h": (
        "#pragma once\ntypedef unsigned long size_t;\ntypedef long ptrdiff_t;\ntypedef int wchar_t;\n"
        "#define NULL ((void *)0)\n#define offsetof(t, m) __builtin_offsetof(t, m)\n"
    ),
    "stdint.h": "#pragma once\n"
    + "".join(
        f"typedef signed {c} int{n}_t;\ntypedef unsigned {c} uint{n}_t;\n"
        for c, n in (("char", 8), ("short", 16), ("int", 32), ("long", 64))
    )
    + "typedef unsigned long uintptr_t;\ntypedef long intptr_t;\n",
    "inttypes.h": "#pragma once\n#include <stdint.h>\n",
    "stdarg.h": "#pragma once\ntypedef __builtin_va_list va_list;\n",
}


class GeneratorError(Exception):
    """The headers do not say what the generator expects; the message names the symbol."""


def unusable() -> str:
    """Why the generator can't run here; empty where it can.

    The packages clang and libclang write the same clang/cindex.py, so both must be of one major version.
    """
    for name, major in (("libclang", LIBCLANG_MAJOR), ("clang", LIBCLANG_MAJOR), ("ctypeslib2", "2")):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"the Python package {name} is not installed"
        if found.split(".")[0] != major:
            return f"the Python package {name} is {found}, the generator is checked with {major}"
    return ""


def load() -> Any:
    """clang.cindex bound to the libclang that its own wheel carries, never to one of the system."""
    reason = unusable()
    if reason:
        raise GeneratorError(f"{reason}: pip install 'hcqrt[gen]'")
    spec = importlib.util.find_spec("clang")
    assert spec is not None and spec.origin is not None
    library = Path(spec.origin).parent / "native" / "libclang.so"
    os.environ["CLANG_LIBRARY_PATH"] = str(library)  # ctypeslib2 binds cindex when imported, to a system library if any
    import ctypeslib
    from clang import cindex

    if ctypeslib.clang_version().split(".")[0] != LIBCLANG_MAJOR:
        raise GeneratorError(f"{library} is libclang {ctypeslib.clang_version()}, not {LIBCLANG_MAJOR}")
    return cindex


class Clang:
    """Parses C text against a set of include folders."""

    def __init__(
        self,
        includes: Sequence[Path],
        scratch: Path,
        defines: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`headers` are texts by include name that stand beside BUILTIN_HEADERS."""
        self.cindex = load()
        self.scratch = scratch
        builtin = scratch / "builtin"
        builtin.mkdir(parents=True, exist_ok=True)
        for name, text in {**BUILTIN_HEADERS, **(headers or {})}.items():
            (builtin / name).parent.mkdir(parents=True, exist_ok=True)
            (builtin / name).write_text(text)
        self.args = ["-x", "c", "-std=gnu11", "-target", "x86_64-linux-gnu", "-nostdinc", "-ferror-limit=0", "-w"]
        self.args += [f"-D{define}" for define in defines]
        for folder in (*includes, builtin):
            self.args += ["-isystem" if folder == builtin else "-I", str(folder)]

    def parse(self, text: str) -> Any:
        """The translation unit of `text`. Errors are left in its diagnostics."""
        unit = self.cindex.Index.create().parse("unit.c", args=self.args, unsaved_files=[("unit.c", text)])
        return unit

    def checked(self, text: str) -> Any:
        """As parse(), and any error is raised."""
        unit = self.parse(text)
        errors = self.errors(unit)
        if errors:
            raise GeneratorError("the headers do not parse: " + "; ".join(str(e) for e in errors[:3]))
        return unit

    def errors(self, unit: Any) -> list[Any]:
        return [d for d in unit.diagnostics if d.severity >= self.cindex.Diagnostic.Error]

    def evaluate(self, prefix: str, expressions: Sequence[str]) -> list[int | None]:
        """The integer value of each C expression after `prefix`; None where it is no integer constant."""
        head = prefix.rstrip("\n").count("\n") + 1
        alive = list(range(len(expressions)))
        while True:
            lines = [f"enum {{ hcqrt_{n} = ({expressions[n]}) }};" for n in alive]
            unit = self.parse(prefix.rstrip("\n") + "\n" + "\n".join(lines) + "\n")
            bad = {e.location.line - head - 1 for e in self.errors(unit)}
            if not bad:
                break
            if min(bad) < 0 or max(bad) >= len(lines):
                raise GeneratorError(f"the headers do not parse: {self.errors(unit)[0]}")
            alive = [n for line, n in enumerate(alive) if line not in bad]
        values: list[int | None] = [None] * len(expressions)
        for constant in self.enum_constants(unit):
            if constant.spelling.startswith("hcqrt_"):
                values[int(constant.spelling[6:])] = constant.enum_value
        return values

    def enum_constants(self, unit: Any) -> Iterator[Any]:
        for cursor in unit.cursor.get_children():
            if cursor.kind == self.cindex.CursorKind.ENUM_DECL:
                yield from cursor.get_children()


Value = int | tuple[int, int]


def macro_values(clang: Clang, prefix: str, names: Sequence[str]) -> dict[str, Value]:
    """Values of object-like macros: integers, and bit ranges `msb:lsb` as pairs. Others are left out."""
    plain = clang.evaluate(prefix, names)
    rest = [name for name, value in zip(names, plain, strict=True) if value is None]
    # A range is the tail of a conditional expression: `1 ? 31:2` is 31 and `0 ? 31:2` is 2.
    ends = clang.evaluate(prefix, [f"{c} ? {name}" for name in rest for c in (1, 0)])
    ranges = {name: (ends[2 * n], ends[2 * n + 1]) for n, name in enumerate(rest)}
    values: dict[str, Value] = {}
    for name, value in zip(names, plain, strict=True):
        msb, lsb = ranges.get(name, (None, None))
        if value is not None:
            values[name] = value
        elif msb is not None and lsb is not None:
            values[name] = (msb, lsb)
    return values


def array_values(clang: Clang, prefix: str, macros: Mapping[str, int]) -> dict[str, tuple[Value, tuple[int, ...]]]:
    """Function-like macros (name -> number of parameters) at zero, and the stride of each parameter.

    Raises:
        GeneratorError: a macro is not linear in its parameters (checked at 1, 2 and at all of them together).
    """
    points = {name: _points(count) for name, count in macros.items()}
    calls = [f"{name}({', '.join(map(str, p))})" for name, found in points.items() for p in found]
    values = macro_values(clang, prefix, calls)
    result: dict[str, tuple[Value, tuple[int, ...]]] = {}
    for name, found in points.items():
        at = {p: values.get(f"{name}({', '.join(map(str, p))})") for p in found}
        if None not in at.values():
            ends = {p: v if isinstance(v, tuple) else (v,) for p, v in at.items() if v is not None}
            origin, units = found[0], found[1 : 1 + macros[name]]
            strides = tuple(ends[unit][0] - ends[origin][0] for unit in units)
            for point, end in ends.items():
                shift = sum(n * stride for n, stride in zip(point, strides, strict=True))
                if end != tuple(v + shift for v in ends[origin]):
                    raise GeneratorError(f"{name}{point} is not linear")
            zero = at[origin]
            assert zero is not None
            result[name] = (zero, strides)
    return result


def _points(count: int) -> list[tuple[int, ...]]:
    """The origin, the unit vectors, and two points that tell whether a macro is linear."""
    units = [tuple(int(n == k) for n in range(count)) for k in range(count)]
    return [(0,) * count, *units, (2,) * count, tuple(range(3, 3 + count))]
