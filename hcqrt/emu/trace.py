"""The log of emulated ioctls, and the rules that make chosen calls fail."""

from __future__ import annotations

import ctypes
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

KINDS = ("open", "ioctl", "mmap", "stall", "fault")
COMPRESS_BYTES = 1024  # argument structs with large, mostly empty tables are kept small
DEFAULT_LIMIT = 100_000

Fields = dict[str, Any]
LogEntry = tuple[int, str, str, str, Fields, Fields, int, "int | None"]


@dataclass
class Call:
    """One ioctl as its driver reads it: names to match and log, the struct, and the struct its pointer leads to."""

    name: str
    request: int
    struct: type[ctypes.Structure] | None
    inner_name: str = ""
    inner_struct: type[ctypes.Structure] | None = None
    inner_address: int = 0
    numbers: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()

    def names(self) -> set[str]:
        """Every text that names this call."""
        given = {self.name, self.inner_name, *self.aliases} - {""}
        return given | {name.removeprefix("NV_ESC_") for name in given}


def snapshot(address: int, struct: type[ctypes.Structure] | None) -> bytes:
    if struct is None or not address:
        return b""
    raw = ctypes.string_at(address, ctypes.sizeof(struct))
    return zlib.compress(raw, 1) if len(raw) > COMPRESS_BYTES else raw


def fields_of(value: Any) -> Any:
    """A struct as plain data; table rows that are all zero at the end are left out."""
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return {entry[0]: fields_of(getattr(value, entry[0])) for entry in value._fields_}
    if isinstance(value, ctypes.Array):
        items = [fields_of(item) for item in value]
        while items and is_zero(items[-1]):
            items.pop()
        return bytes(items) if value._type_ in (ctypes.c_ubyte, ctypes.c_uint8) else items
    return value


def is_zero(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_zero(item) for item in value.values())
    return not value


def restore(raw: bytes, struct: type[ctypes.Structure] | None) -> Fields:
    if struct is None or not raw:
        return {}
    if ctypes.sizeof(struct) > COMPRESS_BYTES:
        raw = zlib.decompress(raw)
    fields: Fields = fields_of(struct.from_buffer_copy(raw))
    return fields


@dataclass
class Record:
    """An ioctl as it happened, not yet put in words."""

    t_ns: int
    path: str
    call: Call
    before: bytes
    inner_before: bytes
    after: bytes = b""
    inner_after: bytes = b""
    errno: int = 0
    status: int | None = None

    def entry(self) -> LogEntry:
        call = self.call
        fields_in, fields_out = restore(self.before, call.struct), restore(self.after, call.struct)
        if call.inner_struct is not None:
            fields_in |= restore(self.inner_before, call.inner_struct)
            fields_out |= restore(self.inner_after, call.inner_struct)
        return (self.t_ns, self.path, call.name, call.inner_name, fields_in, fields_out, self.errno, self.status)


class IoctlLog:
    """Keeps the last `limit` calls. They are put in words when somebody reads them."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._records: deque[Record] = deque(maxlen=limit)
        self._entries: list[LogEntry] = []

    def add(self, record: Record) -> None:
        self._records.append(record)

    def entries(self) -> list[LogEntry]:
        """The log as tuples, always the same list: clearing it clears the log."""
        self._entries.extend(record.entry() for record in self._records)
        self._records.clear()
        del self._entries[: max(len(self._entries) - self.limit, 0)]
        return self._entries

    def clear(self) -> None:
        self._records.clear()
        self._entries.clear()


@dataclass
class Rule:
    """Make the `nth` matching call and the `times - 1` after it fail."""

    kind: str
    match: str | int | None
    nth: int
    times: int
    errno: int | None
    status: int | None
    seen: int = 0

    def hits(self, names: Iterable[str], numbers: Iterable[int]) -> bool:
        if self.match is not None and self.match not in set(names) | set(numbers):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


class Rules:
    """The failures that a test asked for."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> None:
        if rule.kind not in KINDS:
            raise ValueError(f"inject kind {rule.kind!r}: say one of {', '.join(KINDS)}")
        if rule.nth < 1 or rule.times < 1:
            raise ValueError(f"inject nth={rule.nth}, times={rule.times}: both count from 1")
        self._rules.append(rule)

    def hit(self, kind: str, names: Callable[[], Iterable[str]], numbers: Iterable[int] = ()) -> Rule | None:
        """The first rule that makes this call fail; every matching rule counts the call."""
        if not self._rules:
            return None
        given, found = set(names()), None
        for rule in self._rules:
            if rule.kind == kind and rule.hits(given, numbers) and found is None:
                found = rule
        return found

    def drop(self, kind: str) -> None:
        self._rules = [rule for rule in self._rules if rule.kind != kind]
