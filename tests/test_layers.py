"""Imports go down only: the rooms of the project and what each may see, read from the source, not from running it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hcqrt"

BASE = {"errors", "bits", "config"}
SYSTEM = BASE | {"fileio", "mmio", "ioctl"}
TOP = SYSTEM | {"core", "nv", "qcom", "reference", "opening", "autogen", "isa", "decode", "compilers", "kernels"}
# room -> rooms it may import when loaded; `lazy` adds what it may import inside functions
MAY_SEE = {
    "errors": set(),
    "bits": {"errors"},
    "config": {"errors", "bits"},
    "mmio": BASE | {"mmio"},
    "fileio": BASE | {"mmio"},
    "ioctl": BASE | {"mmio", "fileio"},
    "autogen": {"ioctl", "errors", "bits"},
    "core": SYSTEM | {"autogen"},
    "nv": SYSTEM | {"autogen", "core"},
    "qcom": SYSTEM | {"autogen", "core"},
    "reference": SYSTEM | {"autogen", "core"},
    "isa": {"errors", "bits", "autogen"},
    "decode": {"errors", "bits", "ioctl", "autogen", "isa"},
    "compilers": {"errors", "bits", "config"},
    "kernels": set(),
    "emu": {"errors", "bits", "ioctl", "fileio", "mmio", "autogen", "isa"},
    "opening": SYSTEM | {"core", "nv", "qcom", "reference"},
    "tinygrad": TOP,
    "tools": TOP,
    "__init__": SYSTEM | {"core", "nv", "opening"},
}  # fmt: skip
LAZY = {"fileio": {"emu"}, "nv": {"decode", "compilers"}, "qcom": {"decode", "compilers"}, "tools": {"emu"}}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST, path: Path) -> list[tuple[str, bool, int]]:
    """(room, only inside a function, line) of every import of hcqrt; type-checking blocks count as loaded."""
    found = []

    def visit(node: ast.AST, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            names: list[str] = []
            if isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    package = ["hcqrt", *path.relative_to(PACKAGE).parts[:-1]]
                    base = ".".join([*package[: len(package) - child.level + 1], *filter(None, [child.module])])
                names = [f"{base}.{alias.name}" for alias in child.names] if base == "hcqrt" else [base]
            elif isinstance(child, ast.Import):
                names = [alias.name for alias in child.names]
            for name in names:
                if name == "hcqrt" or name.startswith("hcqrt."):
                    parts = name.split(".")
                    found.append((parts[1] if len(parts) > 1 else "__init__", lazy, child.lineno))
            visit(child, lazy or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(tree, False)
    return found


def violations(path: Path, source: str) -> list[str]:
    room = room_of(path)
    allowed = MAY_SEE[room] | {room}
    lazily = allowed | LAZY.get(room, set())
    return [
        f"{path.relative_to(ROOT)}:{line}: {room} may not import {other}{' even lazily' if lazy else ''}"
        for other, lazy, line in imported_rooms(ast.parse(source), path)
        if other not in (lazily if lazy else allowed)
    ]


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_is_known():
    assert {room_of(path) for path in FILES} <= set(MAY_SEE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path):
    assert violations(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("emu/nv/x.py", "from hcqrt.core.alloc import AddressSpace"),
        ("emu/nv/x.py", "def f():\n    import hcqrt.nv.queue"),
        ("core/x.py", "from hcqrt import nv"),
        ("nv/x.py", "from ..emu import system"),
        ("isa/x.py", "import hcqrt.emu"),
        ("fileio.py", "from hcqrt.emu.system import EmulatedSystem"),
    ],
)
def test_the_check_sees_a_violation(place, source):
    assert violations(PACKAGE / place, source)


def test_backends_do_not_speak_of_emulation():
    for room in ("nv", "qcom", "core"):
        for path in (PACKAGE / room).rglob("*.py"):
            assert "emulat" not in path.read_text().lower(), path


def meaningful_lines(path: Path) -> list[str]:
    """Lines of code without what everybody writes: indentation, blank lines, comments, imports."""
    stripped = (line.strip() for line in path.read_text().splitlines())
    return [line for line in stripped if line and not line.startswith(("#", "import ", "from ", '"""'))]


def equal_runs(first: dict[Path, list[str]], second: dict[Path, list[str]]) -> list[str]:
    """Where the same RUN lines stand in a file of each."""
    known = {tuple(lines[at : at + RUN]): path for path, lines in first.items() for at in range(len(lines) - RUN + 1)}
    windows = ((path, tuple(lines[at : at + RUN])) for path, lines in second.items() for at in range(len(lines)))
    return [f"{known[run]} and {path}: {run[0]}" for path, run in windows if run in known]


RUN = 6
PEERS = [
    ("nv", "qcom"),
    ("emu/nv", "emu/qcom"),
    ("nv", "emu/nv"),
    ("qcom", "emu/qcom"),
    ("nv", "emu/qcom"),
    ("qcom", "emu/nv"),
]


@pytest.mark.parametrize(("first", "second"), PEERS)
def test_peers_share_no_copied_lines(first, second):
    """What two backends, two emulators, or both sides of a driver need is written once, below them, or twice anew."""
    rooms = [{path: meaningful_lines(path) for path in (PACKAGE / room).rglob("*.py")} for room in (first, second)]
    assert equal_runs(*rooms) == []


def test_the_search_for_copies_finds_one():
    lines = [f"line {n}" for n in range(9)]
    assert equal_runs({Path("a"): ["x", *lines]}, {Path("b"): [*lines[2:], "y"]})
    assert not equal_runs({Path("a"): lines[:5]}, {Path("b"): lines})


def test_modules_are_small_enough_to_hold_in_the_head():
    for path in FILES:
        if room_of(path) == "autogen":
            continue
        lines = path.read_text().splitlines()
        tree = ast.parse("\n".join(lines))
        assert ast.get_docstring(tree), f"{path} has no first line that says what it does"
        assert len(lines) <= 400, f"{path} has {len(lines)} lines"


def test_importing_hcqrt_loads_neither_numpy_nor_a_backend(tmp_path):
    import subprocess
    import sys

    unwanted = ("numpy", "cffi", "ctypes", "hcqrt.nv", "hcqrt.emu")
    probe = f"import sys, hcqrt; print([m for m in {unwanted} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr
