"""Memory objects of KGSL: where they lie, how the host reaches them, what its caches need. Source: qcom facts 1.6."""

from __future__ import annotations

from hcqrt.autogen.qcom import kgsl_consts as consts
from hcqrt.bits import align_down, align_up
from hcqrt.core.device import MemoryKind
from hcqrt.errors import DriverError
from hcqrt.mmio import MMIOInterface
from hcqrt.qcom.kgsl import KgslClient

LINE_BYTES = 64  # of the CPU's caches: cache operations work on whole lines
CLEAN, INVALIDATE = consts.KGSL_GPUMEM_CACHE_TO_GPU, consts.KGSL_GPUMEM_CACHE_FROM_GPU
IOCOHERENT, READ_ONLY = consts.KGSL_MEMFLAGS_IOCOHERENT, consts.KGSL_MEMFLAGS_GPUREADONLY
CACHED = (consts.KGSL_CACHEMODE_WRITETHROUGH, consts.KGSL_CACHEMODE_WRITEBACK)
CACHE_MODES = {
    consts.KGSL_CACHEMODE_WRITECOMBINE: "write-combined",
    consts.KGSL_CACHEMODE_UNCACHED: "uncached",
    consts.KGSL_CACHEMODE_WRITETHROUGH: "write-through",
    consts.KGSL_CACHEMODE_WRITEBACK: "cached",
}
# KGSL_MEMALIGN_*: log2 of the alignment; larger pages where the size allows them
ALIGNMENTS = ((2 << 20, 21), (1 << 20, 20), (64 << 10, 16))

PLAIN: MemoryKind = (False, False, False)  # on the device: the host reaches it in our own copies only
SHARED: MemoryKind = (False, True, False)  # for the host too
CODE: MemoryKind = (False, True, False, True)  # for the host too, and read-only for the GPU


def flags_for(nbytes: int, kind: MemoryKind) -> int:
    """KGSL_MEMFLAGS_* of memory of a kind.

    What only our copies touch is cached, since the host reads it back; the driver snoops the CPU's caches for it, or
    we clean and invalidate. What others look at while the GPU works is write-combined and needs neither.
    """
    host, cpu_access, uncached, *read_only = kind
    mode = consts.KGSL_CACHEMODE_WRITEBACK
    if uncached:
        mode = consts.KGSL_CACHEMODE_UNCACHED
    elif host or cpu_access:
        mode = consts.KGSL_CACHEMODE_WRITECOMBINE
    flags = mode << consts.KGSL_CACHEMODE_SHIFT
    if mode == consts.KGSL_CACHEMODE_WRITEBACK:
        flags |= IOCOHERENT
    if any(read_only):
        flags |= READ_ONLY
    align = next((log2 for least, log2 in ALIGNMENTS if nbytes >= least), 0)
    return flags | align << consts.KGSL_MEMALIGN_SHIFT


def cache_mode(flags: int) -> int:
    return (flags & consts.KGSL_CACHEMODE_MASK) >> consts.KGSL_CACHEMODE_SHIFT


def lines(offset: int, nbytes: int) -> tuple[int, int]:
    """Start and length of the whole cache lines that hold a range."""
    start = align_down(offset, LINE_BYTES)
    return start, align_up(offset + nbytes, LINE_BYTES) - start


class CachedRange:
    """Cache maintenance of a part of an object: nothing where no cache lies between host and GPU.

    `first` is where in the object the part starts.
    """

    va: int
    nbytes: int

    def __init__(self, client: KgslClient, number: int, flags: int, first: int = 0) -> None:
        self.client, self.number, self.flags, self.first = client, number, flags, first
        self.coherent = cache_mode(flags) not in CACHED or bool(flags & IOCOHERENT)

    def sync(self, operation: int, offset: int, nbytes: int) -> None:
        """Clean or invalidate the whole lines that hold a range."""
        if not self.coherent and nbytes:
            self.client.sync([(self.number, operation, *lines(self.first + offset, nbytes))])

    def before_read(self, offset: int, nbytes: int) -> None:
        self.sync(INVALIDATE, offset, nbytes)

    def before_write(self, offset: int, nbytes: int) -> None:
        """Lines that the host fills in part must hold what the GPU wrote to the rest, since they go back whole."""
        if nbytes and not self.coherent:
            first = self.first + offset
            last = first + nbytes
            ends = ([first] if first % LINE_BYTES else []) + ([last - 1] if last % LINE_BYTES else [])
            self.client.sync((self.number, INVALIDATE, *line) for line in {lines(at, 1) for at in ends})

    def after_write(self, offset: int, nbytes: int) -> None:
        self.sync(CLEAN, offset, nbytes)
        self.client.system.fence()  # write-combined stores leave the CPU before anything tells the GPU of them


class KgslAllocation(CachedRange):
    """Memory from the driver at GPU address `va`. `cpu` is its host mapping where the caller may have one."""

    def __init__(self, client: KgslClient, nbytes: int, kind: MemoryKind) -> None:
        """Raises OutOfMemory, or DriverError for memory that would not work; nothing stays allocated."""
        asked = flags_for(nbytes, kind)
        made = client.alloc(nbytes, asked)
        super().__init__(client, made.id, made.flags)
        self.nbytes, self._map_bytes = nbytes, int(made.mmapsize)
        self._view: MMIOInterface | None = None
        self.cpu: MMIOInterface | None = None
        try:
            if cache_mode(asked) not in CACHED and not self.coherent:
                raise DriverError(
                    f"{nbytes} bytes asked {CACHE_MODES[cache_mode(asked)]}, the driver gave "
                    f"{CACHE_MODES[cache_mode(made.flags)]} memory that it does not keep coherent"
                )
            self.va = int(client.info(self.number).gpuaddr)
            if any(kind):
                self.cpu = self._map()
        except BaseException:
            self.close()
            raise

    def _map(self) -> MMIOInterface:
        if self._view is None:
            self._view = self.client.mmap(self.number, self._map_bytes)
        return self._view

    def host(self) -> memoryview:
        return self._map().mv

    def close(self) -> None:
        """Unmap and free. Twice is fine. The GPU no longer uses it."""
        view, self._view, self.cpu = self._view, None, None
        try:
            if view is not None:
                self.client.system.unmap(view.addr, self._map_bytes)
        finally:
            self.client.free(self.number)

    def __repr__(self) -> str:
        return f"<{CACHE_MODES[cache_mode(self.flags)]} memory of {self.nbytes} bytes at {getattr(self, 'va', 0):#x}>"
