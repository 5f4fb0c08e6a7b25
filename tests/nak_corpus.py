"""NAK kernels to test the decoder and the executor with: made once, without a device, in a program of its own."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WORKER = Path(__file__).with_name("mesa_corpus_worker.py")
PACKAGES = ("tinygrad", "tinymesa")
HEADER_BYTES = 728  # of `nak_shader_info` in tinymesa 25.2.7.2
STAGE_COMPUTE = 5
INSTRUCTION_BYTES = 16
TIMEOUT_S = 240
# The chips whose code differs; made together, the first one decides how tinygrad shapes the kernels.
NAK_CHIPS = ("sm_86", "sm_75", "sm_80", "sm_89", "sm_100", "sm_120")


@dataclass(frozen=True)
class NakKernel:
    """One blob as NAK made it; `code` is its machine code."""

    blob: bytes

    @property
    def code(self) -> bytes:
        (count,) = struct.unpack_from("<I", self.blob, 12)
        return self.blob[HEADER_BYTES : HEADER_BYTES + INSTRUCTION_BYTES * count]

    @property
    def words(self) -> list[tuple[int, int]]:
        return list(struct.iter_unpack("<QQ", self.code))


def missing_packages() -> list[str]:
    """The packages that the corpus needs and that are not installed."""
    missing = []
    for name in PACKAGES:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return missing


def _key(arch: str) -> str:
    versions = [f"{name}={importlib.metadata.version(name)}" for name in PACKAGES]
    return hashlib.sha256(" ".join([arch, *versions, WORKER.read_text()]).encode()).hexdigest()[:16]


def _path(arch: str) -> Path:
    return Path(tempfile.gettempdir()) / f"hcqrt-test-corpus-{os.getuid()}" / f"{arch}-{_key(arch)}.bin"


def _make(arch: str) -> None:
    """Run the worker; a file appears whole or not at all, so that two test processes can't disturb each other."""
    paths = [_path(chip) for chip in (NAK_CHIPS if arch in NAK_CHIPS else (arch,))]
    partial = {path: path.with_suffix(f".{os.getpid()}") for path in paths}
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    # Its own environment: a DEV or DEBUG of the caller must not decide what is compiled.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    outputs = [word for path, part in partial.items() for word in (path.name.split("-")[0], str(part))]
    command = [sys.executable, str(WORKER), *outputs]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)} failed ({result.returncode}):\n{result.stderr[-4000:]}")
    for path, part in partial.items():
        part.replace(path)


def corpus_blobs(arch: str) -> list[bytes]:
    """The corpus for `arch`, from the cache if the same packages made it before. About 20 s when not."""
    path = _path(arch)
    if not path.exists():
        _make(arch)
    data = path.read_bytes()
    blobs, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        blobs.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return blobs


@cache
def nak_kernels(arch: str = "sm_86") -> tuple[NakKernel, ...]:
    return tuple(map(NakKernel, corpus_blobs(arch)))
