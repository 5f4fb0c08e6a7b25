#!/usr/bin/env python3
"""Rebuilds the shipped kernels from their sources in hcqrt/kernels/src: by our assemblers, or by Mesa's compilers.

Those compilers need the extra `mesa`.

usage: gen_kernels.py [--arch sm_86 ...] [--check]
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gen import ir3_kernel  # noqa: E402
from gen.cubin_writer import PARAM_BASE, KernelSource, Module, param_layout, write_cubin  # noqa: E402

from hcqrt.isa.sass import Reg, assemble, decode  # noqa: E402

T = TypeVar("T")
KERNELS = ROOT / "hcqrt" / "kernels"
ARCHES = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "a630", "a730")  # the others run one of these
NO_NAK = ("sm_90",)  # Mesa's NAK writes code of the older chips for it
LAUNCH_SIZES = ("ntid.x", "ntid.y", "ntid.z", "nctaid.x", "nctaid.y", "nctaid.z")
# Where the toolkit's ABI keeps launch dimensions and the stack top in bank 0 (nv-engine facts 7).
DRIVER_AREAS = {
    75: {**dict(zip(LAUNCH_SIZES, range(0x00, 0x18, 4), strict=True)), "stack_top": 0x28},
    100: {"ntid.x": 0x360, "ntid.y": 0x364, "ntid.z": 0x368, "nctaid.x": 0x370, "nctaid.y": 0x374, "nctaid.z": 0x378,
          "stack_top": 0x37C},
}  # fmt: skip
# Where a kernel's own shared memory starts: behind what the toolkit's ABI reserves (nv-engine facts 8.3).
SHARED_STARTS = {75: 0, 90: 0x400}
PC_REGISTERS = 2  # the hardware keeps two for the program counter on top of those the code names


def since(table: Mapping[int, T], sm: int) -> T:
    """The entry of the newest chip that is not newer than `sm`."""
    return table[max(first for first in table if first <= sm)]


def parse(source: str, sm: int) -> tuple[str, dict[str, int], list[int]]:
    """(code text, settings, parameter sizes) of one .sass file, every {name} replaced by its place."""
    settings, names, sizes, lines = {"shared": 0, "stack": 0, "barriers": 0}, [], [], []
    for line in source.splitlines():
        directive = re.match(r"\.(\w+)\s+(.*)", line)
        if directive is None:
            lines.append(line)
        elif directive[1] == "param":
            name, size = directive[2].split()
            names.append(name)
            sizes.append(int(size))
        elif directive[1] in settings:
            settings[directive[1]] = int(directive[2], 0)
        else:
            raise SystemExit(f"unknown directive {line!r}")
    places = {**since(DRIVER_AREAS, sm), "shared": since(SHARED_STARTS, sm)}
    places.update({name: PARAM_BASE[sm] + offset for name, offset in zip(names, param_layout(sizes), strict=True)})
    text = re.sub(r"\{([\w.]+)\}", lambda found: hex(places[found[1]]), "\n".join(lines))
    return text, settings, sizes


def register_count(code: bytes, sm: int) -> int:
    """Registers that the code names, and those of the program counter, in the hardware's steps of 8."""
    highest = 0
    for lo, hi in struct.iter_unpack("<QQ", code):
        instruction = decode(lo, hi, sm)
        registers = [op.index for op in instruction.args.values() if isinstance(op, Reg)]
        bases = [op.base.index for op in instruction.args.values() if isinstance(getattr(op, "base", None), Reg)]
        highest = max([highest, *(n + 1 for n in (*registers, *bases) if n != 255)])  # + 1: pairs
    return -(-(highest + 1 + PC_REGISTERS) // 8) * 8


def build(path: Path, sm: int) -> bytes:
    text, settings, sizes = parse(path.read_text(), sm)
    code = assemble(text, sm)
    registers = register_count(code, sm)
    kernel = KernelSource(path.stem, code, registers, sizes, **settings)
    return write_cubin(Module(sm, [kernel]))


def build_mesa(path: Path, arches: Sequence[str]) -> Iterator[tuple[Path, bytes]]:
    """(file, its content) of a source that compiles itself, in one process for all chips of a vendor."""
    with tempfile.TemporaryDirectory() as folder:
        words = [word for arch in arches for word in (arch, str(Path(folder) / arch))]
        subprocess.run([sys.executable, str(path), *words], check=True, stdout=subprocess.DEVNULL)
        for arch in arches:
            suffix = "nak" if is_nvidia(arch) else "ir3"
            yield KERNELS / f"{path.stem}.{arch}.{suffix}", (Path(folder) / arch).read_bytes()


def is_nvidia(arch: str) -> bool:
    return arch.startswith("sm_")


def assembled(arch: str) -> Iterator[tuple[Path, bytes]]:
    """(file, its content) of every kernel of a chip that our assembler makes."""
    nvidia = is_nvidia(arch)
    for path in sorted((KERNELS / "src").iterdir()):
        if path.suffix == ".sass" and nvidia:
            yield KERNELS / f"{path.stem}.{arch}.cubin", build(path, int(arch[3:]))
        elif path.suffix == ".ir3" and not nvidia:
            yield KERNELS / f"{path.stem}.{arch}.ir3", ir3_kernel.build(path.read_text(), int(arch[1]))


def binaries(arches: Sequence[str]) -> Iterator[tuple[Path, bytes]]:
    """(file, its content) of every kernel of these chips."""
    for arch in arches:
        yield from assembled(arch)
    nvidia = [arch for arch in arches if is_nvidia(arch) and arch not in NO_NAK]
    for group in (nvidia, [arch for arch in arches if not is_nvidia(arch)]):
        for path in sorted((KERNELS / "src").glob("*.py")) if group else ():
            yield from build_mesa(path, group)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", action="append", help="sm_86, a630, …; default: all that are shipped")
    parser.add_argument("--check", action="store_true", help="say whether the binaries are current")
    args = parser.parse_args()
    stale = []
    for target, binary in binaries(args.arch or ARCHES):
        if args.check and (not target.exists() or target.read_bytes() != binary):
            stale.append(target.name)
        elif not args.check:
            target.write_bytes(binary)
    if stale:
        print("not current:", ", ".join(stale), file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
