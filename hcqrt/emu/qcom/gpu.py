"""One emulated Adreno as its driver sees it: contexts, their submissions in order, faults and the counter."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.executor import Launcher, run_kernel
from hcqrt.emu.memory import MmuFault
from hcqrt.emu.qcom.chips import EmuChip
from hcqrt.emu.qcom.cp import CommandProcessor, Words
from hcqrt.emu.qcom.trouble import BAD_PACKET, PAGE_FAULT, GpuFault, Refused, WorkFault
from hcqrt.emu.refusal import EmulatorRefusal

TICKS_NUMERATOR, TICKS_DENOMINATOR = 12, 625  # 19.2 MHz: 192 ticks are 10 000 ns


def no_fault(what: str) -> bool:
    return False


def nothing() -> None:
    return None


def always() -> bool:
    return True


def no_listener(fault: GpuFault) -> None:
    return None


@dataclass(eq=False)
class Submission:
    """Command buffers that one GPU_COMMAND handed over: `ibs` are (va, dwords), read when their turn comes.

    `ready` is asked before it starts (sync points); `started` and `done` are called once each, `done` in order. What
    lies in `watch` when it is submitted must still lie there when it starts: the hardware may read ahead.
    """

    timestamp: int
    ibs: Sequence[tuple[int, int]]
    done: Callable[[], None] = nothing
    started: Callable[[], None] = nothing
    ready: Callable[[], bool] = always
    watch: Sequence[tuple[int, int]] = ()
    running: bool = field(default=False, init=False)
    words: list[Words] = field(default_factory=list, init=False)  # what lay in `watch`


class GpuContext:
    """One context: its own registers and state, and a stream of submissions that retire in order."""

    def __init__(self, gpu: Gpu, space: GpuAddressSpace) -> None:
        self.gpu, self.space = gpu, space
        self.pending: deque[Submission] = deque()
        self.fault: GpuFault | None = None  # nothing runs while it is there
        self.on_fault: Callable[[GpuFault], None] = no_listener
        self.cp = CommandProcessor(gpu, space)

    def submit(self, submission: Submission) -> None:
        """Queue it. Nothing is run before the GPU's next turn."""
        if self.gpu.strict:
            submission.words = [words for va, count in submission.watch if (words := self.look(va, count)) is not None]
        self.pending.append(submission)

    def look(self, va: int, count: int) -> Words | None:
        """Command words as they are now; None where something is not mapped, which running them will find."""
        try:
            return Words(va, memoryview(self.space.read(va, 4 * count)).cast("I"))
        except MmuFault:
            return None

    def kill(self) -> None:
        """Drop everything queued; `done` is not called. The context can be used again, with fresh registers."""
        self.pending.clear()
        self.fault = None
        self.cp = CommandProcessor(self.gpu, self.space)

    def resume_after_fault(self) -> None:
        """The GPU was reset: the submission at fault is dropped, its `done` not called; the stream goes on behind it.

        The registers are fresh: what a context set once is gone.
        """
        if self.fault is None:
            return
        self.fault = None
        self.cp = CommandProcessor(self.gpu, self.space)
        self.pending.popleft()

    def close(self) -> None:
        """The context goes away, with what it has queued."""
        self.kill()
        if self in self.gpu.contexts:
            self.gpu.contexts.remove(self)

    def advance(self) -> bool:
        """One turn: up to the end of one submission, or to a wait. True when anything moved."""
        if self.fault is not None or not self.pending:
            return False
        submission = self.pending[0]
        if not submission.running:
            if not submission.ready():
                return False
            submission.running = True
            submission.started()
            for words in submission.words:
                words.check_unchanged(self.space, "after they were submitted")
            self.cp.start(submission.ibs)
        moved = self.cp.run()
        if self.cp.finished:
            self.pending.popleft()
            submission.done()
            return True
        return moved


class Gpu:
    """The chip: every context takes turns on it. `launch` executes shaders; tests may give their own."""

    def __init__(
        self,
        chip: EmuChip,
        clock_ns: Callable[[], int],
        strict: bool = True,
        refuse: Callable[[str], None] = lambda text: None,
        *,
        check_caches: bool = False,
        order: random.Random | None = None,
        launch: Launcher = run_kernel,
        budget: int | None = None,
    ) -> None:
        self.chip, self.clock_ns, self.strict, self.refuse = chip, clock_ns, strict, refuse
        self.launch, self.order, self.budget, self.check_caches = launch, order, budget, check_caches
        self.contexts: list[GpuContext] = []
        self.stats: Counter[str] = Counter(launches=0, copies=0, instructions=0, faults=0, interrupts=0)
        self.stalled = False
        self.fault_next = 0  # so many launches to come fault
        self.injected_fault: Callable[[str], bool] = no_fault
        self.log: list[str] = []  # one line per fault, in words: what dmesg would say

    def new_context(self, space: GpuAddressSpace) -> GpuContext:
        context = GpuContext(self, space)
        self.contexts.append(context)
        return context

    def ticks(self, clock_ns: int | None = None) -> int:
        """The always-on counter at a time in ns, now if none is given."""
        now = self.clock_ns() if clock_ns is None else clock_ns
        return now * TICKS_NUMERATOR // TICKS_DENOMINATOR

    def takes_fault(self, what: str) -> bool:
        """Whether the launch at hand has been chosen to fault."""
        if self.fault_next:
            self.fault_next -= 1
            return True
        return self.injected_fault(what)

    def run(self) -> bool:
        """Let every context go on until none can. True when anything moved."""
        moved = False
        while not self.stalled:
            contexts = [context for context in self.contexts if context.pending and context.fault is None]
            if self.order is not None:
                self.order.shuffle(contexts)
            moves = [self.turn(context) for context in contexts]  # all of them: any() would stop at the first
            if True not in moves:
                break
            moved = True
        return moved

    def turn(self, context: GpuContext) -> bool:
        """One turn of a context; what goes wrong becomes its fault. Raises EmulatorRefusal when strict."""
        try:
            return context.advance()
        except Refused as refusal:
            fault = WorkFault(BAD_PACKET, str(refusal))
        except MmuFault as miss:
            fault = WorkFault(PAGE_FAULT, str(miss), miss.address, miss.access, miss.kind)
        except WorkFault as found:
            fault = found
        self.post(context, fault)
        return True

    def post(self, context: GpuContext, fault: WorkFault) -> None:
        """Stop the context and tell its driver. Raises EmulatorRefusal for refused words when strict."""
        submission = context.pending[0]
        text = f"emulated {self.chip.name}, {context.cp.where()}: {fault.text}"
        context.fault = GpuFault(
            fault.kind, text, fault.address, fault.access, fault.reason, submission.timestamp, fault.launch, fault.place
        )
        self.stats["faults"] += 1
        self.log.append(text)
        refused = fault.kind == BAD_PACKET
        if refused:
            self.refuse(text)
        context.on_fault(context.fault)
        if refused and self.strict:
            raise EmulatorRefusal(text)
