"""Runs the vendor's disassembler, where its package is installed, on raw instruction words."""

from __future__ import annotations

import importlib.metadata
import re
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

PACKAGE = "nvidia-cuda-nvdisasm"
LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$")
INSTRUCTION_BYTES = 16


def find() -> Path | None:
    """The program, or None when the package is not installed."""
    try:
        files = importlib.metadata.files(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files or ():
        if file.name == "nvdisasm":
            return Path(str(file.locate()))
    return None


def disassemble(words: Iterable[tuple[int, int]], sm: int, program: Path, folder: Path) -> list[str | None]:
    """The text of each word at its place in the sequence; None where the program prints none."""
    code = b"".join(struct.pack("<QQ", *word) for word in words)
    raw = folder / "code.bin"
    raw.write_bytes(code)
    command = [str(program), "--binary", f"SM{sm}", "--no-dataflow", str(raw)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found: dict[int, str] = {}
    for line in result.stdout.splitlines():
        match = LINE.match(line)
        if match:
            found[int(match[1], 16) // INSTRUCTION_BYTES] = match[2]
    return [found.get(at) for at in range(len(code) // INSTRUCTION_BYTES)]
