"""scripts/nv_trees.py on a small repository: known releases and the named ones, headers only."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import nv_trees
import pytest
from gen import nv_tables as tables

needs_git = pytest.mark.skipif(not (shutil.which("git") and shutil.which("tar")), reason="needs git and tar")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Tags: a known release, a beta of a known branch, an old one, and one that is no version."""
    root = tmp_path / "clone"
    for name in (*(f"{folder}/a.h" for folder in tables.INCLUDES), tables.CLASS_LIST, tables.UVM + "uvm.c", "README"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1\n")
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all")
    for tag in ("580.95.05", "580.94.18", "470.1", "main-580"):
        git(root, "tag", tag)
    return root


@needs_git
def test_known_releases_and_named_ones_are_laid_out(clone: Path, tmp_path: Path) -> None:
    trees = tmp_path / "trees"
    assert nv_trees.main([str(clone), str(trees), "580.94.18"]) == 0
    assert sorted(path.name for path in trees.iterdir()) == ["580.94.18", "580.95.05"]
    for tree in trees.iterdir():
        assert (
            all((tree / folder / "a.h").exists() for folder in tables.INCLUDES) and (tree / tables.CLASS_LIST).exists()
        )
        assert not (tree / tables.UVM / "uvm.c").exists() and not (tree / "README").exists()
    kept = trees / "580.95.05" / "kept"
    kept.write_text("")
    assert nv_trees.main([str(clone), str(trees)]) == 0 and kept.exists()


@needs_git
def test_a_release_without_a_tag_is_named(clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nv_trees.main([str(clone), str(tmp_path / "trees"), "999.1"]) == 1
    assert "999.1" in capsys.readouterr().err
    assert "999.1" not in {path.name for path in (tmp_path / "trees").iterdir()}
