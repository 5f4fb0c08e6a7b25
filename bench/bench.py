"""Times the launch path; --against-tinygrad runs tinygrad's in turns with it and prints the medians of the ratios."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]

import project_venv  # noqa: E402

TINYGRAD = "tinygrad==0.11.0"
TINYGRAD_VENV = ROOT / ".venv-tinygrad"
ROWS = "a_launch_call_4bufs,b_,d_copyin_32x64B_control_only,e_per_exec"
RATIOS = ("launch", "resubmit_0", "resubmit_8", "resubmit_64", "exec", "copyin_control")
TURNS = 5
KINDS = ("NV", "QCOM")


def tinygrad_python() -> Path:
    """The interpreter of an environment that has the tinygrad to compare with; made when missing."""
    python = TINYGRAD_VENV / "bin" / "python"
    stamp = TINYGRAD_VENV / "stamp"
    if not stamp.exists() or stamp.read_text() != TINYGRAD:
        project_venv.run([sys.executable, "-m", "venv", "--clear", str(TINYGRAD_VENV)])
        project_venv.run([str(python), "-m", "pip", "install", "--quiet", TINYGRAD])
        stamp.write_text(TINYGRAD)
    return python


def run_json(*command: str) -> Any:
    """What a program prints, in a process of its own."""
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def theirs(kind: str, python: Path, runs: int) -> dict[str, float]:
    """tinygrad's microseconds of CPU time per operation, by our names."""
    if kind == "QCOM":
        found: dict[str, float] = run_json(str(python), str(ROOT / "bench" / "tinygrad_qcom.py"), "--runs", str(runs))
        return found
    script = str(ROOT / "bench" / "tinygrad_hcq.py")
    rows = run_json(str(python), script, "--json", "--runs", str(runs), "--only", ROWS)["results"]
    cpu = {name: row["cpu_us_median"] for name, row in rows.items()}
    result = {"launch": cpu["a_launch_call_4bufs"], "exec": cpu["e_per_exec"]}
    for changed in (0, 8, 64):
        result[f"resubmit_{changed}"] = (
            cpu[f"b_resubmit_64syms_{changed}changed"] - cpu[f"b_dict_only_{changed}changed"]
        )
    result["copyin_control"] = cpu["d_copyin_32x64B_control_only"] / 32
    return result


def ours(kind: str, runs: int) -> dict[str, float]:
    """Our microseconds, in a process of its own as theirs are."""
    result: dict[str, float] = run_json(sys.executable, __file__, "--hot-paths-only", kind, "--runs", str(runs))
    return result


def engine_ns() -> dict[str, dict[str, float | None]]:
    """Nanoseconds per executed thread-instruction on a vector add; None for a core that is not built."""
    from engine_speed import vector_add_ns

    return {kind: {core: vector_add_ns(kind, core) for core in ("c", "numpy")} for kind in KINDS}


def compare(kind: str, turns: int, runs: int) -> tuple[dict[str, float], dict[str, float]]:
    """Medians of our figures, and of theirs over ours, from runs in turns."""
    python = tinygrad_python()
    pairs = [(ours(kind, runs), theirs(kind, python, runs)) for _ in range(turns)]
    figures = {name: statistics.median(mine[name] for mine, _ in pairs) for name in pairs[0][0]}
    ratios = {name: statistics.median(other[name] / mine[name] for mine, other in pairs) for name in RATIOS}
    return figures, ratios


def show(report: dict[str, Any]) -> None:
    for kind in report["us"]:
        for name, value in report["us"][kind].items():
            ratio = (
                f"  {report['ratio'][kind][name]:6.1f} times cheaper than tinygrad 0.11.0" if "ratio" in report else ""
            )
            print(f"{kind:5}{name:16} {value:8.2f} us{ratio}")
    for kind, cores in report["engine_ns"].items():
        for core, ns in cores.items():
            print(f"{kind:5}engine {core:9} {'not built' if ns is None else f'{ns:8.2f} ns per thread-instruction'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against-tinygrad", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--device", action="append", choices=KINDS, help="default: each kind")
    parser.add_argument("--hot-paths-only", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hot_paths_only:
        from hot_paths import HotPaths

        paths = HotPaths(args.hot_paths_only)
        print(json.dumps(paths.measure(args.runs)))
        paths.close()
        return 0
    start = time.monotonic()
    report: dict[str, Any] = {"us": {}}
    for kind in args.device or KINDS:
        if args.against_tinygrad:
            report["us"][kind], report.setdefault("ratio", {})[kind] = compare(kind, max(TURNS, args.turns), args.runs)
        else:
            report["us"][kind] = ours(kind, args.runs)
    report["engine_ns"] = engine_ns()
    if args.json:
        print(json.dumps(report, indent=1))
        return 0
    show(report)
    print(f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
