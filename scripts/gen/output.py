"""What every generator does with its texts: MANIFEST.json, the comparison that --check makes, and writing."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gen.clang import GeneratorError

AUTOGEN = Path(__file__).resolve().parent.parent.parent / "hcqrt" / "autogen"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def mesa_version(tree: Path) -> str:
    version = tree / "VERSION"
    if not version.exists():
        raise GeneratorError(f"{tree} is no source tree of Mesa: it has no file VERSION")
    return version.read_text().strip()


def manifest_entry(
    generator: str, tools: Iterable[str], inputs: list[dict[str, object]], texts: Mapping[str, str]
) -> dict[str, Any]:
    """One generator's part of MANIFEST.json; `tools` are Python packages whose version the output depends on."""
    return {
        "generator": f"scripts/{generator}.py",
        "tools": {name: importlib.metadata.version(name) for name in tools},
        "inputs": inputs,
        "outputs": {name: sha256(text.encode()) for name, text in sorted(texts.items())},
    }


def manifest_text(autogen: Path, key: str, entry: Mapping[str, Any]) -> str:
    """MANIFEST.json with this generator's entry replaced; entries of other generators in it are kept."""
    known = autogen / "MANIFEST.json"
    whole = json.loads(known.read_text()) if known.exists() else {}
    whole[key] = entry
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def difference(autogen: Path, texts: Mapping[str, str], pattern: str) -> list[str]:
    """One line per file that is not what the inputs give; `pattern` finds the files that this generator owns."""
    lines = []
    for name, text in sorted(texts.items()):
        path = autogen / name
        old = path.read_text() if path.exists() else None
        if old is None:
            lines.append(f"{name}: missing")
        elif old != text:
            gone, new = set(old.splitlines()) - set(text.splitlines()), set(text.splitlines()) - set(old.splitlines())
            first = next(iter(sorted(new or gone)), "order of lines").strip()
            lines.append(f"{name}: {len(gone)} lines gone, {len(new)} new, first: {first[:80]}")
    stale = {path.relative_to(autogen).as_posix() for path in autogen.glob(pattern)} - set(texts)
    return lines + [f"{name}: no longer generated" for name in sorted(stale)]


def finish(name: str, autogen: Path, pattern: str, check: bool, generate: Callable[[], Mapping[str, str]]) -> int:
    """Write the texts, or with `check` only compare them; the exit status."""
    try:
        texts = generate()
    except GeneratorError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    if check:
        lines = difference(autogen, texts, pattern)
        print("\n".join(lines) or f"{len(texts)} files are current")
        return 1 if lines else 0
    for file, text in texts.items():
        path = autogen / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0
