"""Delays and waits for ir3 assembly text that has none: slow on purpose, never early.

An ALU result is readable some issue slots later, so nops go between; results of the special function unit and of shared
memory, and registers that an instruction in flight still reads, are waited for by (ss), results of other loads by (sy).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hcqrt.isa.ir3 import Instruction, Pred, Reg

# Issue slots between a result and its use. Source: Mesa's ir3 compiler, delay slots of a6xx.
ALU_TO_ALU, ALU_TO_OTHER, WIDTH_CHANGE = 3, 6, 3
ALU = (1, 2, 3)
LABEL = re.compile(r"\s*[A-Za-z_]\w*:\s*$")
NO_SS = (5, 6)  # categories whose words have no room for (ss)
SHARED_LOADS = ("ldl", "ldlw", "shfl")
P0 = 0xF8
Register = tuple[bool, int]  # half, number


def span(name: str, instruction: Instruction) -> int:
    """How many registers from the one it names an operand takes."""
    mods, opcode = instruction.mods, instruction.opcode
    if instruction.category == 5:
        return int(mods["wrmask"]).bit_length() if name == "dst" else 2
    if instruction.category != 6:
        return instruction.repeat + 1
    if name == "coord":
        return int(mods["dims"])
    if name == "addr":
        return 2 if opcode.split(".")[0] in ("ldg", "stg") or ".g." in opcode else 1
    return int(mods["components"] if "components" in mods else mods.get("size", 1))


def registers(instruction: Instruction, written: bool) -> Iterator[Register]:
    """What an instruction writes, or what it reads."""
    loads = not instruction.opcode.startswith("stib")
    for name, operand in instruction.args.items():
        is_result = name.startswith("dst") or (name == "value" and loads)
        if isinstance(operand, Reg) and is_result == written:
            for step in range(span(name, instruction)):
                yield operand.half, operand.number + step
        elif isinstance(operand, Pred) and not written:
            yield False, P0 + operand.component
    if instruction.opcode in ("predt", "predf") and not written:
        yield False, P0


@dataclass
class Scheduler:
    """What is in flight while lines are placed one after the other."""

    lines: list[str] = field(default_factory=list)
    slot: int = 0
    ready: dict[Register, int] = field(default_factory=dict)  # ALU results by the slot that wrote them
    loading: set[Register] = field(default_factory=set)  # until (sy)
    busy: set[Register] = field(default_factory=set)  # until (ss)
    behind_barrier: bool = False

    def nops(self, count: int) -> None:
        if count > 0:
            self.lines.append(f"(rpt{count - 1})nop" if count > 1 else "nop")
            self.slot += count

    def label(self, line: str) -> None:
        """A place that is reached from elsewhere: nothing may be in flight."""
        self.lines += [line, f"(sy)(ss)(rpt{ALU_TO_OTHER - 1})nop"]
        self.slot += ALU_TO_OTHER
        self.ready.clear()
        self.loading.clear()
        self.busy.clear()
        self.behind_barrier = False

    def place(self, line: str, instruction: Instruction) -> None:
        reads, writes = set(registers(instruction, False)), set(registers(instruction, True))
        self.nops(self._delay(reads, instruction.category in ALU))
        fence = self.behind_barrier or instruction.opcode == "bar"
        flags = "(sy)" if fence or (reads | writes) & self.loading else ""
        if fence or (reads | writes) & self.busy:
            if instruction.category in NO_SS:
                self.lines.append("(ss)nop")
                self.slot += 1
            else:
                flags += "(ss)"
            self.busy.clear()
        if "(sy)" in flags:
            self.loading.clear()
        self.lines.append(flags + line.strip())
        self.slot += instruction.repeat + 1
        self._note(instruction, reads, writes)

    def _delay(self, reads: set[Register], is_alu: bool) -> int:
        """Nops until every ALU result among `reads` is there."""
        missing = [0]
        for half, number in reads:
            for other in (half, not half):  # with merged registers the halves lie in the full ones
                written = self.ready.get((other, number if other == half else number // 2 if half else number * 2))
                if written is not None:
                    needed = (ALU_TO_ALU if is_alu else ALU_TO_OTHER) + (WIDTH_CHANGE if other != half else 0)
                    missing.append(written + needed + 1 - self.slot)
        return max(missing)

    def _note(self, instruction: Instruction, reads: set[Register], writes: set[Register]) -> None:
        self.behind_barrier = instruction.opcode == "bar"
        if instruction.category in ALU:
            self.ready.update(dict.fromkeys(writes, self.slot - 1))
            return
        if instruction.category in (4, 5, 6):
            self.busy |= reads
            fast = instruction.category == 4 or instruction.opcode in SHARED_LOADS
            (self.busy if fast else self.loading).update(writes)


def schedule(text: str, decode_line: Callable[[str], Instruction]) -> str:
    """The text with delays and waits. `decode_line` gives the instruction of one line, whatever its branch target."""
    scheduler = Scheduler()
    for whole in text.splitlines():
        line = whole.split("//")[0].rstrip()
        if LABEL.match(line):
            scheduler.label(line.strip())
        elif line.strip():
            scheduler.place(line, decode_line(line))
    return "\n".join(scheduler.lines) + "\n"
