"""Scheduling fields that are safe on hardware for code written without them: slow on purpose, never early.

Fixed-latency instructions stall long enough that the next one sees their result. The others set a scoreboard for
their results and one for their sources, and whoever touches those registers waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .families import family
from .model import (
    NO_BARRIER,
    PT,
    RZ,
    Bindless,
    Const,
    Instruction,
    Mem,
    Operand,
    Pred,
    Reg,
    SassError,
    Sched,
    UPred,
    UReg,
)

# Cycles until the next instruction issues. Vector results are readable after 4 to 6 cycles, predicates after up to 13,
# results of the uniform datapath after up to 12 (Mesa's NAK, sm80 latency tables); 15 is the most the field holds.
VECTOR_STALL = 8
SLOW_STALL = 15
SCOREBOARD_STALL = 4  # a scoreboard counts up only some cycles after issue
SCOREBOARDS = 6

# Instructions whose latency is not fixed, on most chips: `Family` names the exceptions.
VARIABLE = frozenset([
    "LDG", "STG", "LD", "ST", "LDL", "STL", "LDS", "STS", "ATOMS", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS", "LDSM",
    "LDC", "QSPC", "CCTL", "MEMBAR", "ERRBAR", "S2R", "S2UR", "R2UR", "REDUX", "MATCH", "SHFL", "MUFU", "F2F",
    "F2I", "I2F", "FRND", "FLO", "POPC", "BREV", "FCHK", "DADD", "DMUL", "DFMA", "DSETP", "B2R", "BMOV", "BAR",
])  # fmt: skip
# Fixed latency, but longer than arithmetic; the doubles where they are not variable.
SLOW = frozenset(["CS2R", "VOTE", "IDP.4A", "IDP.2A.LO", "IDP.2A.HI", "DADD", "DMUL", "DFMA", "DSETP"])
# Instructions that end a stretch of code: everything in flight is waited for.
FENCES = frozenset([
    "BRA", "BRX", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "BAR", "YIELD", "NANOSLEEP",
    "BPT", "MEMBAR",
])  # fmt: skip
HAND_SCHEDULED = frozenset(["HMMA", "DEPBAR", "LDGDEPBAR"])
# Destination slots; every other register operand is read.
DESTINATIONS = frozenset(["d", "pd", "pd2"])
DOUBLES = frozenset(["DADD", "DMUL", "DFMA", "DSETP"])
WIDE_VALUES = {"64": 2, "S64": 2, "U64": 2, "F64": 2, "F64.RN": 2, "128": 4}

Resource = tuple[str, int]


def _registers(inst: Instruction) -> int:
    """How many registers one operand of `inst` spans at most."""
    if inst.mnemonic in DOUBLES or inst.mnemonic.endswith(".WIDE") or inst.mnemonic == "CS2R" or inst.mods.get("U64"):
        return 2
    if inst.mnemonic == "LDSM":
        return 4
    words = [piece for value in inst.mods.values() for piece in [str(value), *str(value).split(".")]]
    return max([WIDE_VALUES.get(word, 1) for word in words], default=1)


def _span(file: str, first: int, zero: int, count: int) -> Iterator[Resource]:
    if first != zero:
        yield from ((file, number) for number in range(first, first + count))


def _resources(operand: Operand | None, count: int, urz: int) -> Iterator[Resource]:
    if isinstance(operand, Reg):
        yield from _span("R", operand.index, RZ, count)
    elif isinstance(operand, UReg):
        yield from _span("UR", operand.index, urz, count)
    elif isinstance(operand, (Pred, UPred)):
        yield from _span("P" if isinstance(operand, Pred) else "UP", operand.index, PT, 1)
    elif isinstance(operand, Mem):
        yield from _resources(operand.base, 2, urz)
        yield from _resources(operand.ureg, 2, urz)
    elif isinstance(operand, Const):
        yield from _resources(operand.index, 1, urz)
    elif isinstance(operand, Bindless):
        yield from _resources(operand.handle, 2, urz)
        yield from _resources(operand.index, 1, urz)


def written(inst: Instruction, urz: int) -> set[Resource]:
    count = _registers(inst)
    return {r for name, op in inst.args.items() if name in DESTINATIONS for r in _resources(op, count, urz)}


def read(inst: Instruction, urz: int) -> set[Resource]:
    count = _registers(inst)
    found = {r for name, op in inst.args.items() if name not in DESTINATIONS for r in _resources(op, count, urz)}
    return found | set(_resources(inst.guard, 1, urz))


@dataclass
class Flight:
    """What is in flight: for each scoreboard, the registers still to be written and those still to be read."""

    writes: list[set[Resource]] = field(default_factory=lambda: [set() for _ in range(SCOREBOARDS)])
    reads: list[set[Resource]] = field(default_factory=lambda: [set() for _ in range(SCOREBOARDS)])
    busy: list[bool] = field(default_factory=lambda: [False] * SCOREBOARDS)
    next: int = 0

    def wait_for(self, sources: set[Resource], results: set[Resource], everything: bool) -> int:
        mask = 0
        for number in range(SCOREBOARDS):
            clash = (sources | results) & self.writes[number] or results & self.reads[number]
            if self.busy[number] and (everything or clash):
                mask |= 1 << number
                self.free(number)
        return mask

    def free(self, number: int) -> None:
        self.writes[number], self.reads[number], self.busy[number] = set(), set(), False

    def take(self) -> int:
        """A scoreboard for a new instruction; a busy one may be shared, waiting for it then waits for both."""
        for step in range(SCOREBOARDS):
            number = (self.next + step) % SCOREBOARDS
            if not self.busy[number]:
                break
        else:
            number = self.next
        self.next = (number + 1) % SCOREBOARDS
        self.busy[number] = True
        return number


def is_variable(inst: Instruction) -> bool:
    own = family(inst.sm)
    return inst.mnemonic in own.variable_latency or inst.mnemonic in VARIABLE - own.fixed_latency


def _stall(inst: Instruction, results: Iterable[Resource]) -> int:
    if inst.mnemonic in FENCES:
        return SLOW_STALL
    if is_variable(inst):
        return SCOREBOARD_STALL
    if any(file != "R" for file, _ in results) or inst.mnemonic in SLOW:
        return SLOW_STALL
    return VECTOR_STALL


def _one(inst: Instruction, flight: Flight, urz: int, block_start: bool) -> Instruction:
    if inst.mnemonic in HAND_SCHEDULED:
        raise SassError(f"{inst.mnemonic} needs scheduling fields written by hand")
    sources, results = read(inst, urz), written(inst, urz)
    wait = flight.wait_for(sources, results, block_start or inst.mnemonic in FENCES)
    write_barrier = read_barrier = NO_BARRIER
    if is_variable(inst):
        if results:
            write_barrier = flight.take()
            flight.writes[write_barrier] |= results
        if any(file in ("R", "UR") for file, _ in sources):  # predicates are read at issue
            read_barrier = flight.take()
            flight.reads[read_barrier] |= sources
    stall = _stall(inst, results)
    return replace(inst, sched=Sched(stall, False, write_barrier, read_barrier, wait, inst.sched.reuse))


def schedule(
    code: Sequence[Instruction], starts: Sequence[bool], by_hand: Sequence[bool], urz: int
) -> list[Instruction]:
    """Fill the scheduling fields of `code`, except of instructions that have theirs written out.

    `starts[i]`: instruction i can be reached from elsewhere, so nothing may be assumed about what is in flight; all
    that this code put in flight is waited for there (branches wait before they leave).
    """
    flight = Flight()
    done = []
    for inst, start, fixed in zip(code, starts, by_hand, strict=True):
        if fixed:
            for number in range(SCOREBOARDS):
                if inst.sched.wait_mask >> number & 1:
                    flight.free(number)
            for number, registers in (
                (inst.sched.write_barrier, flight.writes),
                (inst.sched.read_barrier, flight.reads),
            ):
                if number < SCOREBOARDS:
                    flight.busy[number] = True
                    registers[number] |= written(inst, urz) if registers is flight.writes else read(inst, urz)
            done.append(inst)
        else:
            done.append(_one(inst, flight, urz, start))
    return done
