"""HWQueue: a list of command words with holes for symbols; binding it to memory, and submitting it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hcqrt.core.patch import MemoryPatch, PatchPlan
from hcqrt.core.program import three
from hcqrt.core.sints import Sint, VarVals, compile_sints, evaluate, is_symbolic, variables_of
from hcqrt.errors import HCQError, LaunchError

if TYPE_CHECKING:
    from typing_extensions import Self

    from hcqrt.core.alloc import Segment
    from hcqrt.core.device import HCQDevice
    from hcqrt.core.program import HCQArgsState, HCQProgram, Size
    from hcqrt.core.signal import HCQSignal
    from hcqrt.core.sints import Variable
    from hcqrt.mmio import MMIOInterface


class BoundWords(Protocol):
    """Command words in memory of their own."""

    @property
    def mv(self) -> memoryview:
        """Their bytes, host side."""

    def close(self) -> None: ...


class Channel(Protocol):
    """What a queue submits to. Every submission gets a progress value, which retires when its work has finished."""

    def submit_words(self, words: Sequence[int]) -> int:
        """Copy `words` to command memory and run them. Raises struct.error, having run nothing, when one is no u32."""

    def submit_packed(self, packed: PackedQueue, *values: int) -> int:
        """Run a template with its variables set to `values`."""

    def progress_words(self, progress: Sint) -> list[Any]:
        """The words that set the channel's progress, which end every submission."""

    def bind_words(self, words: Sequence[int]) -> BoundWords: ...
    def submit_bound(self, bound: Any) -> int:
        """Run bound words whose last submission has retired."""

    def submit_bound_again(self, bound: Any, last: int) -> int:
        """Run bound words as they are, also while their last submission, of progress `last`, is in flight."""

    @property
    def submitted(self) -> int:
        """The progress value of the last submission."""

    def wait_progress(self, value: int) -> None: ...


class PackedQueue:
    """A queue as one `struct` and one function of its variables' values: what a launch of a known shape costs least.

    The words come from the public queue methods with Variables where something changes, so a packed launch and the
    straight line emit the same words.
    """

    __slots__ = ("nbytes", "nwords", "pack_into", "slot_bytes", "words")

    def __init__(self, queue: HWQueue, channel: Channel, variables: Sequence[Variable], progress: Variable) -> None:
        if queue.memory_patches:
            raise ValueError("a packed queue has symbols in its words only")
        words = [*queue.words, *channel.progress_words(progress)]
        self.nwords, self.nbytes = len(words), 4 * len(words)
        self.slot_bytes = -(-self.nbytes // 256) * 256
        items = constant_runs(words)
        formats = (f"{len(item)}s" if isinstance(item, bytes) else "I" for item in items)
        self.pack_into = struct.Struct("<" + "".join(formats)).pack_into
        self.words = compile_sints(items, [*variables, progress])


def constant_runs(words: Sequence[Any]) -> list[Any]:
    """`words` with each run of known ones as bytes: one item to pack in place of many."""
    items: list[Any] = []
    for symbolic, run in itertools.groupby(words, is_symbolic):
        known = [*run]
        items += known if symbolic else [struct.pack(f"<{len(known)}I", *known)]
    return items


class HWQueue:
    """Commands for one engine of one device. Vendor queues add the methods that emit words.

    A queue may be submitted any number of times. `bind` moves its words to memory of its own, so that a re-submission
    costs only the symbols that changed.
    """

    def __init__(self, dev: HCQDevice) -> None:
        self.dev = dev
        self.words: list[Any] = []  # u32 each, or a symbol of one
        self.memory_patches: list[MemoryPatch] = []
        self._args: list[HCQArgsState] = []
        self._segments: list[Segment] | None = None
        self._plan: PatchPlan | None = None
        self._bound: BoundWords | None = None
        self._closed = False
        self._in_flight = 0  # progress value of the last submission

    # what vendor queues provide

    def wait(self, signal: HCQSignal, value: Sint) -> Self:
        """Hold back what follows until `signal` has reached `value` (64 bits, circular)."""
        raise HCQError(f"{type(self).__name__} has no wait")

    def signal(self, signal: HCQSignal, value: Sint) -> Self:
        """Set `signal` to `value` once everything before has finished; stamps the time too."""
        raise HCQError(f"{type(self).__name__} has no signal")

    def timestamp(self, signal: HCQSignal) -> Self:
        """Store the GPU's time to `signal` once everything before has finished. Its value becomes 0."""
        raise HCQError(f"{type(self).__name__} has no timestamp")

    def memory_barrier(self) -> Self:
        """Make earlier writes of host, copies and kernels visible to the kernels that follow."""
        raise HCQError(f"{type(self).__name__} has no memory_barrier")

    def exec(
        self,
        prg: HCQProgram,
        args_state: HCQArgsState,
        global_size: Sequence[Sint],
        local_size: Sequence[Sint],
        dynamic_shared: int = 0,
    ) -> Self:
        """Run `prg` on `global_size` workgroups of `local_size` threads, with that many bytes of shared memory more."""
        groups, local = three(global_size, "global_size"), three(local_size, "local_size")
        if args_state.prg is not prg or prg.dev is not self.dev:
            raise LaunchError(
                f"{prg.name} of {prg.dev.name} cannot run on {self.dev.name} with arguments of {args_state.prg.name}; "
                "fill_kernargs and queue must be of the program and its device"
            )
        self._exec(prg, args_state, groups, local, dynamic_shared)
        self.dev.last_launch = prg.name
        return self

    def _exec(self, prg: Any, args_state: HCQArgsState, groups: Size, local: Size, dynamic_shared: int) -> None:
        """Add the launch; program and arguments are this device's."""
        raise HCQError(f"{type(self).__name__} runs no kernels; use compute_queue()")

    def copy(self, dest: Any, src: Any, nbytes: Sint) -> Self:
        """Copy `nbytes` between buffers or GPU addresses."""
        raise HCQError(f"{type(self).__name__} copies nothing; use copy_queue()")

    def fill(self, dest: Any, nbytes: Sint, byte: int) -> Self:
        """Set `nbytes` bytes at a buffer or GPU address to `byte`."""
        raise HCQError(f"{type(self).__name__} fills nothing; use copy_queue()")

    def _channel(self, dev: HCQDevice) -> Channel:
        raise HCQError(f"{type(self).__name__} has no channel")

    # for implementers

    def q(self, *words: Any) -> Self:
        """Append words; a symbol stands for the value it has at submission."""
        self._unbound()
        self.words.extend(words)
        return self

    def bind_sints(
        self, *vals: Sint, mem: MMIOInterface, struct_t: Any, start_field: str, fmt: str, mask: int | None = None
    ) -> Self:
        """As `bind_sints_to_mem`, from field `start_field` of the ctypes struct `struct_t` that lies at `mem`."""
        return self.bind_sints_to_mem(*vals, mem=mem, fmt=fmt, mask=mask, offset=getattr(struct_t, start_field).offset)

    def bind_sints_to_mem(
        self, *vals: Sint, mem: MMIOInterface, fmt: str, mask: int | None = None, offset: int = 0
    ) -> Self:
        """Store `vals` one after the other as items of `fmt` from byte `offset` of `mem`, symbols at submission.

        `mask` limits the store to some bits of each item; the value is given in place.
        """
        step = struct.calcsize(f"<{fmt}")
        if offset < 0 or offset + step * len(vals) > mem.nbytes:
            raise ValueError(f"{len(vals)} items of {step} bytes at byte {offset} leave memory of {mem.nbytes} bytes")
        for val in vals:
            self._patch(MemoryPatch(mem.view(fmt="B").mv, offset, fmt, val, mask))
            offset += step
        return self

    def bind_args_state(self, args_state: HCQArgsState) -> Self:
        """Take the symbols of filled kernel arguments over, and keep the arguments alive while the queue needs them."""
        self._unbound()
        self._args.append(args_state)
        self._segments = None
        for patch in args_state.patches:
            self._patch(patch)
        return self

    def _patch(self, patch: MemoryPatch) -> None:
        self._unbound()
        if is_symbolic(patch.value):
            self.memory_patches.append(patch)
        else:
            patch.store(patch.value)

    def _unbound(self) -> None:
        if self._bound is not None or self._closed:
            raise HCQError(f"the queue is {'closed' if self._closed else 'bound'}; make another to add commands")
        self._plan = None

    # binding and submitting

    def bind(self, dev: HCQDevice) -> Self:
        """Move the words to device-visible memory of the queue's own."""
        self._unbound()
        with dev.lock:
            self._check_device(dev)
            known = [0 if is_symbolic(word) else word for word in self.words]
            try:
                bound = self._channel(dev).bind_words(known)
            except struct.error as error:
                raise too_wide(known, known) from error
            words = [
                MemoryPatch(bound.mv, 4 * index, "I", word, None)
                for index, word in enumerate(self.words)
                if is_symbolic(word)
            ]
            self._plan = PatchPlan([*words, *self.memory_patches])
            self._bound = bound
            dev.own(self)
        return self

    def submit(self, dev: HCQDevice, var_vals: VarVals | None = None) -> Self:
        """Run the queue. `var_vals` gives each Variable's value. Returns at once unless a ring is full.

        Raises:
            KeyError: a variable without a value. ValueError: a value out of its bounds or too wide for its place.
            DeviceFault: the device has faulted. Nothing was submitted in any of these cases.
        """
        with dev.lock:
            if dev is not self.dev or dev.broken is not None or self._closed:
                self._check_device(dev)
            channel = self._channel(dev)
            before = channel.submitted
            try:
                if self._bound is None:
                    progress = self._submit_copy(channel, var_vals or {})
                elif self._plan and self._plan.variables is not None:
                    channel.wait_progress(self._in_flight)  # the GPU may still read what is patched now
                    self._plan.apply(var_vals or {})
                    progress = channel.submit_bound(self._bound)
                else:
                    progress = channel.submit_bound_again(self._bound, self._in_flight)
                self._tag(progress)
            except BaseException:  # also Ctrl-C: what was submitted may be read, whoever interrupts
                if channel.submitted != before:
                    self._tag(channel.submitted)
                raise
        return self

    def _check_device(self, dev: HCQDevice) -> None:
        if dev is not self.dev:
            raise HCQError(f"the queue was made on {self.dev.name}, it cannot go to {dev.name}")
        dev.check_usable()
        if self._closed:
            raise HCQError("the queue was closed; make another")

    def _tag(self, progress: int) -> None:
        """Keep what this queue's commands read until `progress` has retired."""
        self._in_flight = progress
        for segment in self._segments or self._find_segments():
            segment.fence = progress

    def _find_segments(self) -> list[Segment]:
        """The ring segments that hold this queue's kernel arguments."""
        self._segments = list(dict.fromkeys(args.segment for args in self._args))
        return self._segments

    def _submit_copy(self, channel: Channel, var_vals: VarVals) -> int:
        if self.memory_patches:
            channel.wait_progress(self._in_flight)
            if self._plan is None:
                self._plan = PatchPlan(self.memory_patches)
            self._plan.apply(var_vals)
        try:
            return channel.submit_words(self.words)
        except struct.error as error:
            if not any(map(is_symbolic, self.words)):
                raise too_wide(self.words, self.words) from error
        words = [evaluate(word, var_vals) for word in self.words]
        try:
            return channel.submit_words(words)
        except struct.error as error:
            raise too_wide(self.words, words) from error

    @property
    def variables(self) -> list[Variable]:
        """What `submit` needs values for."""
        return variables_of([*self.words, *(patch.value for patch in self.memory_patches)])

    def close(self) -> None:
        """Free the memory of a bound queue once its last submission has retired. Twice is fine."""
        bound, self._bound = self._bound, None
        self._closed = True
        self._args.clear()
        if bound is not None:
            bound.close()
            self.dev.disown(self)


def too_wide(words: Sequence[Any], values: Sequence[int]) -> ValueError:
    """The error for the first of `values` that is no 32-bit word, under its name in `words`."""
    for word, value in zip(words, values, strict=True):
        if not 0 <= value < 1 << 32:
            name = f"{word!r} = {value:#x}" if is_symbolic(word) else f"command word {value}"
            return ValueError(f"{name} does not fit 32 bits")
    return ValueError(f"not all of these command words are integers: {list(words)}")
