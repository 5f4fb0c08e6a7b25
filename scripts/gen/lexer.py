"""Read the #define lines of a C header: names, parameters and bodies, without evaluating anything."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^()\n]*\))?(.*)$", re.M)


@dataclass(frozen=True)
class Define:
    """One #define line. `params` is None for an object-like macro."""

    name: str
    params: tuple[str, ...] | None
    body: str


def strip_comments(text: str) -> str:
    """Header text with continuation lines joined and comments replaced by a space."""
    return _COMMENT.sub(" ", text.replace("\\\r\n", " ").replace("\\\n", " "))


def defines(text: str) -> list[Define]:
    """Every #define of a header in file order, whatever #if it stands under.

    A name that is defined under several #ifs appears once, at its first place: what it means is asked of the compiler.
    """
    found: dict[str, Define] = {}
    for match in _DEFINE.finditer(strip_comments(text)):
        name, params, body = match.group(1), match.group(2), match.group(3).strip()
        args = None if params is None else tuple(p.strip() for p in params[1:-1].split(",") if p.strip())
        found.setdefault(name, Define(name, args, body))
    return list(found.values())
