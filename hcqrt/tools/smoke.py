"""`hcqrt smoke`: a device's checks one by one, each with its time; text for people or one JSON object."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from hcqrt.errors import HCQError
from hcqrt.fileio import System
from hcqrt.opening import devices, parse_name
from hcqrt.tools.check_frame import CheckFailed, Context
from hcqrt.tools.checks import CHECKS

BAR_WIDTH = 24


class Progress:
    """A bar on a terminal's standard error; nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.live = total, sys.stderr.isatty()

    def show(self, done: int, name: str) -> None:
        if self.live:
            filled = BAR_WIDTH * done // max(self.total, 1)
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            print(f"\r\x1b[K[{bar}] {done}/{self.total} {name}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def emulated(system: System) -> bool:
    return system.name != "real"


def describe(system: System, name: str) -> dict[str, Any]:
    """What the first line says: the device, its chip, the driver, real or emulated."""
    info = next((info for info in devices(system) if info.name == name), None)
    return {
        "device": name,
        "arch": info.arch if info else "unknown",
        "driver": (info and info.driver) or "unknown",
        "emulated": emulated(system),
    }


def label(head: dict[str, Any]) -> str:
    kind = "emulated " if head["emulated"] else ""
    return f"{head['device']} ({kind}{head['arch']}, driver {head['driver']})"


def run_check(name: str, context: Context) -> dict[str, Any]:
    """One check as a record; an error of hcqrt or a wrong result fails it, a bug of ours goes up."""
    start = time.perf_counter()
    ok, detail = True, ""
    try:
        detail = CHECKS[name](context) or ""
    except (HCQError, CheckFailed) as error:
        ok, detail = False, f"{type(error).__name__}: {error}"
    return {"name": name, "ok": ok, "seconds": round(time.perf_counter() - start, 6), "detail": detail}


def run_device(system: System, name: str, *, as_json: bool, quick: bool) -> dict[str, Any]:
    """All checks of one device; those after a failure that broke the device fail at once with its reason."""
    stream = sys.stderr if as_json else sys.stdout
    context = Context(system, name, quick)
    head = describe(system, name)
    print(f"{'emulated' if head['emulated'] else 'real'} {label(head)}", file=stream, flush=True)
    progress, checks = Progress(len(CHECKS)), []
    try:
        for number, check in enumerate(CHECKS):
            progress.show(number, check)
            record = run_check(check, context)
            checks.append(record)
            progress.clear()
            if not as_json:
                state = "ok  " if record["ok"] else "FAIL"
                detail = f"  {record['detail']}" if record["detail"] else ""
                print(f"{state} {record['seconds']:9.3f} s  {check}{detail}", flush=True)
    finally:
        context.close()
    return {**head, "checks": checks}


def run_smoke(chosen: Sequence[tuple[System, str]], *, as_json: bool, quick: bool) -> int:
    """Exit status 1 when a check of any device fails. Raises DeviceNotFound, before any check, for what is no name."""
    full = [(system, "{}:{}".format(*parse_name(name))) for system, name in chosen]
    results = [run_device(system, name, as_json=as_json, quick=quick) for system, name in full]
    failed = sum(not check["ok"] for result in results for check in result["checks"])
    if as_json:
        print(json.dumps(results[0] if len(results) == 1 else {"devices": results}, indent=1))
        return 1 if failed else 0
    for result in results:
        bad = sum(not check["ok"] for check in result["checks"])
        count = len(result["checks"])
        if bad:
            print(f"smoke: {bad} of {count} checks FAILED on {label(result)}")
        else:
            print(f"smoke: {count} checks passed on {label(result)}")
    return 1 if failed else 0
