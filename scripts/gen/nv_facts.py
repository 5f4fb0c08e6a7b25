"""A driver version without headers: the table of facts says how it differs from the newest one that has them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gen.clang import GeneratorError, Value
from gen.nv_driver import Driver, sha256_of, version_tuple
from gen.structs import Field, Record


def driver_from_table(version: str, table: Path, base: Driver) -> Driver:
    """`base` with every layout and constant that the table gives a newer value at `version`.

    Raises:
        GeneratorError: the table does not know the version, or says too little of a layout.
    """
    facts = json.loads(table.read_text())
    driver = replace(
        base,
        version=version,
        consts=dict(base.consts),
        records=dict(base.records),
        typedefs=dict(base.typedefs),
        read={table.name: sha256_of(table)},
        source=f"{table.name}, and {base.version} where it says no more",
    )
    changed = False
    for name, entries in facts["structs"].items():
        entry = newer(entries, base.version, version)
        if entry is not None:
            changed = True
            change_record(driver, name, entry)
    for name, values in facts["consts"].items():
        steps = [{"from": first, "value": value} for first, value in values] if isinstance(values, list) else []
        step = newer(steps, base.version, version)
        if step is not None:
            changed = True
            driver.consts[name] = constant(step["value"])
    if not changed:
        raise GeneratorError(f"{table} says nothing of {version} that {base.version} does not have")
    return driver


def constant(value: Any) -> Value:
    if isinstance(value, str):
        msb, _, lsb = value.partition(":")
        return int(msb), int(lsb)
    if not isinstance(value, int):
        raise GeneratorError(f"a constant with the value {value!r}")
    return value


def newer(entries: list[dict[str, Any]], base: str, version: str) -> dict[str, Any] | None:
    """The entry that holds at `version`, if it is newer than `base`."""
    known = [e for e in entries if version_tuple(base) < version_tuple(e["from"]) <= version_tuple(version)]
    return known[-1] if known else None


def change_record(driver: Driver, name: str, entry: dict[str, Any]) -> None:
    """Replace a record, and with it every curated name that stands for it."""
    target = driver.typedefs[name]
    old = driver.records[target]
    known = {field.name: field for field in old.fields}
    fields = []
    for member, offset, size, _ in entry["fields"]:
        if "." not in member:
            fields.append(member_of(f"{name}.{member}", known.get(member), member, offset, size))
    text = {field.type.partition(" * ")[0] for field in fields}
    uses = tuple(use for use in old.uses if use in text)
    driver.records[target] = Record(target, old.kind, entry["size"], tuple(fields), uses, old.anonymous)


def member_of(what: str, old: Field | None, name: str, offset: int, size: int) -> Field:
    """A member of the table in the type that it had before; arrays may have grown."""
    if old is None:
        if size not in (1, 2, 4, 8) or offset % size:
            raise GeneratorError(f"{what}: the table does not say what these {size} bytes are")
        return Field(name, f"c_uint{8 * size}", offset, size, size)
    if old.size == size:
        return Field(name, old.type, offset, size, old.align)
    element, times, count = old.type.rpartition(" * ")
    if times and size % (old.size // int(count)) == 0:
        return Field(name, f"{element} * {size // (old.size // int(count))}", offset, size, old.align)
    return Field(name, f"c_uint8 * {size}", offset, size, 1)  # what its elements look like is not known
