#!/usr/bin/env python3
"""Turn the Adreno register database into hcqrt/autogen/qcom/{adreno,a6xx,a7xx}.py.

    scripts/gen_adreno.py --mesa TREE [--check]

TREE is Mesa's source (the tables are made from 25.0.7), which carries the database as XML. Needs no extra.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gen.adreno import FILE, common_text, generation_text, read_all
from gen.output import AUTOGEN, finish, manifest_entry, manifest_text, mesa_version, sha256
from gen.rnn import Database

FOLDER = "src/freedreno/registers"


def generate(tree: Path) -> dict[str, str]:
    """File name inside hcqrt/autogen -> text, MANIFEST.json included."""
    version = mesa_version(tree)
    database = Database(tree / FOLDER, FILE)
    made = read_all(database)
    origin = [f"mesa {version} {FOLDER}/{FILE}"]
    texts = {"qcom/adreno.py": common_text(made, origin)}
    texts |= {f"qcom/{module}.py": generation_text(made, module, origin) for module in made}
    digests = {f"{FOLDER}/{path}": sha256(data) for path, data in sorted(database.read.items())}
    inputs: list[dict[str, object]] = [{"tree": "mesa", "tag": version, "sha256": digests}]
    entry = manifest_entry("gen_adreno", (), inputs, texts)
    return {**texts, "MANIFEST.json": manifest_text(AUTOGEN, "adreno", entry)}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mesa", required=True, type=Path, metavar="TREE", help="Mesa's source")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    arguments = parser.parse_args(argv)
    return finish("gen_adreno", AUTOGEN, "qcom/a*.py", arguments.check, lambda: generate(arguments.mesa))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
