"""Micro-op records with their fields as Python values, each bound to the handler of its operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import uops

if TYPE_CHECKING:
    from .unit import Unit

Handler = Callable[["Unit", "Rec"], None]
HANDLERS: dict[str, Handler] = {}
CONTROL: dict[str, Handler] = {}


class Rec:
    """One record. `handler` writes registers; `control` moves lanes instead and is None for all other operations."""

    __slots__ = (
        "backward", "control", "d", "first", "flags", "full", "guard", "guard_neg", "handler", "imm", "index", "kind",
        "mod", "mode", "name", "p", "p2", "p2_neg", "p3", "p3_neg", "p_neg", "pc", "pd", "pd2", "space", "src",
        "target", "width",
    )  # fmt: skip

    def __init__(self, index: int, raw: Any):
        self.index = index
        self.name = uops.NAMES[int(raw["op"])]
        for field in (
            "d",
            "flags",
            "mod",
            "guard",
            "p",
            "p2",
            "p3",
            "pd",
            "pd2",
            "width",
            "space",
            "target",
            "imm",
            "pc",
        ):
            setattr(self, field, int(raw[field]))
        self.guard_neg, self.p_neg = bool(raw["guard_neg"]), bool(raw["p_neg"])
        self.p2_neg, self.p3_neg = bool(raw["p2_neg"]), bool(raw["p3_neg"])
        self.kind: list[int] = raw["kind"].tolist()
        self.src: list[int] = raw["src"].tolist()
        self.first = bool(self.flags & uops.FIRST)
        # Of the memory operations only constant loads (the uniform ones) run on all lanes.
        bound = self.name in ("LD", "ST", "ATOM") and self.space != uops.S_CONST
        self.full = bool(self.flags & uops.FULL) and not bound
        self.mode: int = self.flags >> uops.ROUND_SHIFT & 3
        self.backward: bool = self.target <= index
        self.control = CONTROL.get(self.name)
        self.handler = HANDLERS.get(self.name)

    if TYPE_CHECKING:
        d: int
        flags: int
        mod: int
        guard: int
        p: int
        p2: int
        p3: int
        pd: int
        pd2: int
        width: int
        space: int
        target: int
        imm: int
        pc: int

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register the function that carries out these operations on the running lanes."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def controls(*names: str) -> Callable[[Handler], Handler]:
    """Register the function that moves the group's lanes for these operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            CONTROL[name] = handler
        return handler

    return register
