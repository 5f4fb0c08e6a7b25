#!/usr/bin/env python3
"""Lay out the header trees that gen_nv.py reads, one folder per driver release.

    scripts/nv_trees.py CLONE TREES [VERSION ...]

CLONE is a clone of NVIDIA's open-gpu-kernel-modules with its tags, bare or not. Into TREES go the releases that hcqrt
knows and the named ones; trees that are there are kept. Only headers are taken, some 15 MB a release.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gen import nv_tables as tables

from hcqrt.autogen.nv.releases import RELEASES


def git(clone: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(clone), *arguments], check=True, capture_output=True).stdout


def known_tags(clone: Path) -> list[str]:
    """Tags of the releases that the tables know; a release without a tag is one whose headers were not published."""
    tags = git(clone, "tag").decode().split()
    return [tag for tag in tags if all(p.isdigit() for p in tag.split(".")) and version(tag) in RELEASES]


def version(tag: str) -> tuple[int, ...]:
    return tuple(int(part) for part in tag.split("."))


def lay_out(clone: Path, tag: str, target: Path) -> None:
    """The headers of one tag; nothing is left behind where it fails."""
    archive = git(clone, "archive", tag, *tables.INCLUDES, tables.CLASS_LIST)
    part = target.with_name(f"{target.name}.part")
    part.mkdir(parents=True)
    subprocess.run(["tar", "x", "-C", str(part), "--exclude=*.c"], input=archive, check=True)
    part.rename(target)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("trees", type=Path)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    arguments = parser.parse_args(argv)
    try:
        for tag in dict.fromkeys((*known_tags(arguments.clone), *arguments.versions)):
            if not (arguments.trees / tag).exists():
                lay_out(arguments.clone, tag, arguments.trees / tag)
    except subprocess.CalledProcessError as error:
        print(f"nv_trees: {error.stderr.decode().strip() or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
