"""The README's Python runs as it stands there, block after block, in the root of the project."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def namespace(monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for block in blocks:
            exec(compile(block, "README.md", "exec"), names)
    return names


def test_what_the_readme_shows_gives_what_it_says(namespace):
    assert (namespace["result"] == namespace["x"] + namespace["y"]).all()
    assert namespace["system"].live_objects() == []
    assert isinstance(namespace["pixels"], np.ndarray)
