"""Texts of hcqrt/autogen/nv/*.py from what the driver trees say (class and QMD modules: nv_classes.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gen import nv_tables as tables
from gen.clang import GeneratorError
from gen.emit import Raw, assignments, header, table
from gen.nv_driver import Driver, version_tuple
from gen.structs import Record

Entry = tuple[str, str | None]  # version, class name or None where the record is gone


def tree(drivers: Sequence[Driver]) -> list[str]:
    """What a module is made from: the range of trees, and what has no tree."""
    trees = [driver.version for driver in drivers if not driver.source]
    ends = trees[0] if len(trees) == 1 else f"{trees[0]} to {trees[-1]}"
    return [f"open-gpu-kernel-modules {ends}", *(f"{d.version} ({d.source})" for d in drivers if d.source)]


def consts_text(drivers: Sequence[Driver]) -> str:
    """Flat constants of the newest driver that has them; what changed between the versions is changes_text's."""
    values: dict[str, Any] = {}
    for driver in drivers:
        values |= driver.consts
    topic = "Constants of NVIDIA's driver headers, newest values: integers, and bit ranges as (msb, lsb)."
    text = header(topic, tree(drivers)) + "from __future__ import annotations\n\n"
    return text + assignments(dict(sorted(values.items())))


def releases_text(drivers: Sequence[Driver]) -> str:
    """Which releases the tables were made from: other patches of their branches are unknown."""
    text = header("The driver releases that the tables know, ascending.", tree(drivers))
    text += "from __future__ import annotations\n\nRELEASES: tuple[tuple[int, ...], ...] = (\n"
    return text + "".join(f"    {version_tuple(driver.version)},\n" for driver in drivers) + ")\n"


def changes_text(drivers: Sequence[Driver]) -> str:
    """Constants, status and robust-channel codes that not every driver has, or whose value changed."""
    names = dict.fromkeys(n for driver in drivers for n in (*driver.consts, *driver.status, *driver.robust))
    changes = {name: _changes(drivers, name) for name in sorted(names)}
    text = header("Constants and codes whose value depends on the driver version.", tree(drivers))
    text += "from __future__ import annotations\n\n"
    text += "# name -> ((first version, value, or None where there is none), ...)\n"
    changed = {name: Raw(_pairs(entries)) for name, entries in changes.items() if len(entries) > 1}
    kind = "dict[str, tuple[tuple[tuple[int, ...], int | tuple[int, int] | None], ...]]"
    return text + table("CHANGES", kind, changed)


def _pairs(entries: Sequence[tuple[str, Any]]) -> str:
    return "(" + ", ".join(f"({version_tuple(version)}, {value!r})" for version, value in entries) + ",)"


def _changes(drivers: Sequence[Driver], name: str) -> list[tuple[str, Any]]:
    entries: list[tuple[str, Any]] = []
    for driver in drivers:
        value = driver.consts.get(name, driver.status.get(name, driver.robust.get(name)))
        if not entries or entries[-1][1] != value:
            entries.append((driver.version, value))
    return entries


def status_text(drivers: Sequence[Driver]) -> str:
    """Where versions disagree, the newest has its way; names and numbers that it dropped are kept."""
    status: dict[str, int] = {}
    robust: dict[str, int] = {}
    for driver in reversed(drivers):
        status = status | {n: v for n, v in driver.status.items() if n not in status}
        robust = robust | {n: v for n, v in driver.robust.items() if n not in robust}
    text = header("Status codes of RM and UVM, and the robust-channel (Xid) codes.", tree(drivers))
    text += "from __future__ import annotations\n\n" + assignments(status) + "\n" + assignments(robust) + "\n"
    text += table("NV_STATUS", "dict[int, str]", _first_names(status))
    codes = {n: v for n, v in robust.items() if "_RECOVERY_LEVEL_" not in n and not n.endswith("_LAST_ERROR")}
    return text + "\n" + table("ROBUST_CHANNEL", "dict[int, str]", _first_names(codes))


def _first_names(values: dict[str, int]) -> dict[int, str]:
    names: dict[int, str] = {}
    for name, value in values.items():
        names.setdefault(value, name)
    return names


def names_text(drivers: Sequence[Driver]) -> str:
    """Numbers to names, for error texts and logs."""
    consts: dict[str, Any] = {}
    classes: dict[str, int] = {}
    for driver in drivers:
        consts |= driver.consts
        classes |= driver.classes
    controls = {n: v for n, v in consts.items() if "_CTRL_CMD_" in n and isinstance(v, int) and v > 0xFFFF}
    text = header("Names of class and control numbers, for error texts and logs.", tree(drivers))
    text += "from __future__ import annotations\n\n"
    text += table("CLASS_NAMES", "dict[int, str]", dict(sorted(_first_names(classes).items()))) + "\n"
    return text + table("CONTROL_NAMES", "dict[int, str]", dict(sorted(_first_names(controls).items())))


def ioctls_text(drivers: Sequence[Driver]) -> str:
    consts: dict[str, Any] = {}
    known: set[str] = set()
    for driver in drivers:
        consts |= driver.consts
        known |= set(driver.typedefs)
    escapes = {n: (consts[n], s) for n, s in tables.ESCAPES.items() if n in consts}
    uvm: dict[str, tuple[int, str | None]] = {
        s[:-7]: (consts[s[:-7]], s) for s in tables.STRUCTS if s.startswith("UVM_") and s[:-7] in consts
    }
    uvm |= {n: (consts[n], None) for n in tables.UVM_WITHOUT_PARAMS}
    classes = {n: (consts[n], s) for n, s in tables.CLASSES.items() if n in consts}
    commands = {n: v for n, v in consts.items() if "_CTRL_CMD_" in n and isinstance(v, int)}
    controls = {n: (v, _control_struct(n, known)) for n, v in commands.items()}
    controls = {n: e for n, e in controls.items() if e[1] is not None or n in tables.CONTROL_STRUCTS}
    topic = "Which number and which struct belong to which call; struct names are keys of structs.LAYOUTS."
    text = header(topic, tree(drivers))
    text += "from __future__ import annotations\n\n_Calls = dict[str, tuple[int, str | None]]\n"
    for name, what, calls in (
        ("ESCAPES", "RM escapes: ioctl nr, struct.", escapes),
        ("UVM", "UVM calls: the whole request number, struct.", uvm),
        ("CLASSES", "RM classes: number, struct of the allocation parameters (None: the class takes none).", classes),
        ("CONTROLS", "RM controls: number, struct of the parameters.", controls),
    ):
        missing = [s for _, s in calls.values() if s is not None and s not in known]
        if missing:
            raise GeneratorError(f"{name}: no such struct: {', '.join(missing)}")
        ordered = dict(sorted(calls.items(), key=lambda item: (item[1][0], item[0])))
        shown = {n: Raw(f"({hex(v)}, {chr(34) + s + chr(34) if s else None})") for n, (v, s) in ordered.items()}
        text += f"\n# {what}\n" + table(name, "_Calls", shown)
    return text


def _control_struct(name: str, known: set[str]) -> str | None:
    if name in tables.CONTROL_STRUCTS:
        return tables.CONTROL_STRUCTS[name]
    stems = (name.replace("_CTRL_CMD_", "_CTRL_"), name)
    return next((f"{stem}_PARAMS" for stem in stems if f"{stem}_PARAMS" in known), None)


def structs_text(drivers: Sequence[Driver]) -> str:
    """Records of all versions, equal layouts once. The newest has the plain name, older ones their first version."""
    layouts, order = _layouts(drivers)
    printed = {name for name, _ in order}
    text = header("Records of NVIDIA's driver headers (x86-64 and arm64, little endian).", tree(drivers))
    scalars = "c_char, c_int8, c_int16, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64"
    text += f"from __future__ import annotations\n\nfrom ctypes import Structure, Union, {scalars}\n"
    text += "".join(f"\n\n{body}" for _, body in order)
    newest = {n: next(c for _, c in reversed(e) if c is not None) for n, e in layouts.items()}
    text += "\n\n" + assignments({n: Raw(c) for n, c in newest.items() if n not in printed})
    shown = {n: Raw("(" + ", ".join(f"({version_tuple(v)}, {c})" for v, c in e) + ",)") for n, e in layouts.items()}
    text += "\n# Record -> ((first version, class, or None where the record is gone), ...), versions ascending.\n"
    kind = "dict[str, tuple[tuple[tuple[int, ...], type[Structure | Union] | None], ...]]"
    return text + table("LAYOUTS", kind, shown)


def _layouts(drivers: Sequence[Driver]) -> tuple[dict[str, list[Entry]], list[tuple[str, str]]]:
    """Curated name -> its layouts by version, and (name, class statement) of every class that they need."""
    full = [_full_bodies(driver.records) for driver in drivers]
    tags = _tags(drivers, full)
    printed: dict[str, str] = {}
    for driver, bodies in zip(drivers, full, strict=True):
        for name, record in driver.records.items():
            shown = tags[name, bodies[name]]
            if shown not in printed:
                body = _renamed(record, {use: tags[use, bodies[use]] for use in record.uses})
                printed[shown] = f"class {shown}({record.kind}):\n{body}"
    layouts: dict[str, list[Entry]] = {}
    for name in (n for n in tables.STRUCTS if any(n in d.typedefs for d in drivers)):
        entries: list[Entry] = []
        last = ""
        for driver, bodies in zip(drivers, full, strict=True):
            target = driver.typedefs.get(name)
            body = bodies[target] if target is not None else ""
            if body != last:
                entries.append((driver.version, tags[target, body] if target is not None else None))
            last = body
        layouts[name] = entries
    return layouts, list(printed.items())


def _tags(drivers: Sequence[Driver], full: Sequence[dict[str, str]]) -> dict[tuple[str, str], str]:
    """(record, its whole layout) -> printed name: the newest layout keeps the record's."""
    newest: dict[str, str] = {}
    for bodies in full:
        newest |= bodies
    tags: dict[tuple[str, str], str] = {}
    for driver, bodies in zip(drivers, full, strict=True):
        for name, body in bodies.items():
            suffix = "" if body == newest[name] else "__" + driver.version.replace(".", "_")
            tags.setdefault((name, body), name + suffix)
    return tags


def _renamed(record: Record, names: dict[str, str]) -> str:
    body = record.body
    for old, new in names.items():
        body = body.replace(f", {old})", f", {new})").replace(f", {old} *", f", {new} *")
    return body


def _full_bodies(records: dict[str, Record]) -> dict[str, str]:
    """Each record's text with the texts of the records inside it: equal only where the whole layout is."""
    full: dict[str, str] = {}

    def whole(name: str) -> str:
        if name not in full:
            record = records[name]
            full[name] = f"{record.kind} {record.size}\n{record.body}" + "".join(map(whole, record.uses))
        return full[name]

    return {name: whole(name) for name in records}
