"""NVDevice: bring-up of one GPU in the driver's order, its channels, memory, local memory and faults."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from decimal import Decimal
from typing import Any

from hcqrt.bits import align_up
from hcqrt.config import Config
from hcqrt.core.alloc import FencedRing
from hcqrt.core.device import HCQDevice, MemoryKind
from hcqrt.core.program import HCQProgram
from hcqrt.core.staging import Staging
from hcqrt.errors import DeviceFault, DriverError, HCQError
from hcqrt.fileio import System
from hcqrt.nv import memory as nv_memory
from hcqrt.nv.arch import chip_for
from hcqrt.nv.channel import COMPUTE_GROUP, CONTEXT_WINDOW_BYTES, COPY_GROUP, Channel, best_class
from hcqrt.nv.confidential import check_not_confidential
from hcqrt.nv.discover import (
    add_subdevice,
    choose_card,
    identify,
    open_card,
    open_client,
    open_failed,
    uuid_text,
)
from hcqrt.nv.faults import FaultReader, Notification, describe
from hcqrt.nv.gpfifo import GpFifo
from hcqrt.nv.image import Image
from hcqrt.nv.launch import pack_launch_words
from hcqrt.nv.memory import NVAllocation, Owner, Reservation
from hcqrt.nv.methods import COMPUTE, IMMD, header
from hcqrt.nv.peers import NVPeers
from hcqrt.nv.program import NVProgram
from hcqrt.nv.queries import class_list, gr_info, tpc_count, vram_bytes
from hcqrt.nv.queue import NVComputeQueue, NVCopyQueue
from hcqrt.nv.uvm import NODE as UVM_NODE
from hcqrt.nv.uvm import UvmClient

USERMODE_BYTES = 64 << 10
VA_BASE, VA_BYTES = 0x1000, 0x1_FFFF_FB00_0000  # 49 bits: what every chip from Turing on has
KERNARGS_BYTES, KERNARGS_SEGMENTS = 4 << 20, 16  # some 4000 launches in flight
PERF_BOOST = 2 | 1 << 4 | 1 << 6  # BOOST_TO_MAX, CUDA_YES, CUDA_PRIORITY_HIGH
PERF_BOOST_FOREVER = 0xFFFF_FFFF
LOCAL_WARP_UNIT, LOCAL_TPC_UNIT, LOCAL_UNIT = 0x200, 0x8000, 0x20000  # nv-engine facts 6
MAX_SM_COUNT = 0x1FF  # SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C, 9 bits: no limit


class NVDevice(HCQDevice):
    """One NVIDIA GPU."""

    staging: Staging

    def __init__(self, name: str, system: System, config: Config, index: int) -> None:
        super().__init__(name, system, config)
        with ExitStack() as undo:
            self._open_driver(undo, index)
            self._open_channels(undo)
            self._undo = undo.pop_all()
        self.peers = NVPeers(self, self._undo)
        self._start(self._start_queues)

    # bring-up

    def _open_driver(self, undo: ExitStack, index: int) -> None:
        rm = self.rm = open_client(self.system, self.config)
        undo.callback(rm.close)
        self.card = choose_card(rm, self.config, self.name, index)
        try:
            self.uvm = UvmClient(rm)
        except OSError as error:
            raise open_failed(self.system, UVM_NODE, error) from error
        undo.callback(self.uvm.close)
        fd = undo.enter_context(open_card(rm, self.card))
        device, self.subdevice = add_subdevice(rm, self.card)
        undo.callback(rm.free, device, rm.root)
        who = identify(rm, self.subdevice)
        self.uuid, self.model, self.chip = who.uuid, who.model, chip_for(who.sm_version)
        self.place = f"{who.model}, {self.uuid_name}, {self.card.pci}, {self.card.node}"
        arch = self.chip.arch
        check_not_confidential(rm, arch)
        self.arch, self.qmd_layout = self.chip.name, arch.qmd
        self.schedule_word = header(COMPUTE, *arch.schedule, IMMD)
        self.shared_window_va, self.local_window_va = arch.shared_window_va, arch.local_window_va
        self._choose_classes(device)
        self.doorbell = self._map_usermode(undo, device)
        self._boost(undo)
        self.va_space = rm.alloc(
            "FERMI_VASPACE_A", device, flags=0x8 | 0x40, vaBase=VA_BASE, vaSize=VA_BYTES
        )  # IS_EXTERNALLY_OWNED, ENABLE_PAGE_FAULTING
        self.uvm.register_gpu(self.uuid)
        undo.callback(self.uvm.unregister_gpu, self.uuid)
        self.uvm.register_va_space(self.uuid, self.va_space)
        undo.callback(self.uvm.unregister_va_space, self.uuid)
        reservation = Reservation(self.system)
        undo.callback(reservation.close)
        high = Reservation(self.system, high=True)
        undo.callback(high.close)
        self.owner = Owner(rm, self.uvm, reservation, device, self.uuid, self.card.node, fd, high)
        self._ask_sizes()

    def _choose_classes(self, device: int) -> None:
        arch, known = self.chip.arch, self.rm.abi.classes
        known.update(arch.own_classes)
        listed = class_list(self.rm, device)
        numbers = {name: number for name, (number, _) in known.items()}
        self.channel_class_name = best_class(arch.channel_classes, listed, numbers, "channel")
        self.compute_class_name = best_class(arch.compute_classes, listed, numbers, "compute")
        self.copy_class_name = best_class(arch.copy_classes, listed, numbers, "copy")
        self.usermode_class_name = best_class(arch.usermode_classes, listed, numbers, "usermode")
        self.compute_class, self.copy_class = numbers[self.compute_class_name], numbers[self.copy_class_name]

    def _map_usermode(self, undo: ExitStack, device: int) -> Any:
        handle = self.rm.alloc(self.usermode_class_name, self.subdevice)
        view, cookie = self.rm.map_memory(self.card.node, self.subdevice, handle, USERMODE_BYTES)
        undo.callback(self.system.unmap, view.addr, USERMODE_BYTES)
        undo.callback(self.rm.unmap_memory, self.subdevice, handle, cookie)
        return view.words

    def _boost(self, undo: ExitStack) -> None:
        """Ask for full clocks. A driver that refuses runs kernels all the same."""

        def boost(flags: int, duration: int) -> None:
            with suppress(DriverError):
                self.rm.control(self.subdevice, "NV2080_CTRL_CMD_PERF_BOOST", flags=flags, duration=duration)

        boost(PERF_BOOST, PERF_BOOST_FOREVER)
        undo.callback(boost, 0, 0)

    def _ask_sizes(self) -> None:
        rm, subdevice = self.rm, self.subdevice
        self.vram_bytes = vram_bytes(rm, subdevice)
        self.warps_per_sm = gr_info(rm, subdevice, "MAX_WARPS_PER_SM")
        self.sms_per_tpc = gr_info(rm, subdevice, "LITTER_NUM_SM_PER_TPC")
        self.tpc_slots = gr_info(rm, subdevice, "LITTER_NUM_GPCS") * gr_info(rm, subdevice, "LITTER_NUM_TPC_PER_GPC")
        self.sm_count = tpc_count(rm, subdevice) * self.sms_per_tpc

    def _open_channels(self, undo: ExitStack) -> None:
        space, entries = self.owner.reservation.space, self.config.ring_entries
        window = space.alloc(CONTEXT_WINDOW_BYTES, nv_memory.HUGE_PAGE)
        common: dict[str, Any] = dict(channel_class=self.channel_class_name, entries=entries)
        args = (self.owner, self.va_space, window)
        self.compute_channel = Channel(*args, COMPUTE_GROUP, engine_class=self.compute_class_name, **common)
        undo.callback(self.compute_channel.close)
        self.copy_channel = Channel(*args, COPY_GROUP, engine_class=self.copy_class_name, **common)
        undo.callback(self.copy_channel.close)
        try:
            self.fault_reader: FaultReader | None = FaultReader(
                self.rm,
                self.owner.device,
                self.compute_channel.engine,
                self.compute_channel.handle,
                self.sm_count,
            )
        except DriverError:
            self.fault_reader = None  # sandboxes refuse debuggers; faults are then reported without details

    def _start_queues(self) -> None:
        self._local_bytes = 0
        self._local: NVAllocation | None = None
        self.compute_fifo = self._fifo(self.compute_channel, "compute progress")
        self.copy_fifo = self._fifo(self.copy_channel, "copy progress")
        self.timeline_signal = self._signals.new(self, name="timeline")
        memory = lambda: self.take_memory(KERNARGS_BYTES, GpFifo.COMMAND_MEMORY)  # noqa: E731  # a callback
        self.kernargs = FencedRing(memory, KERNARGS_SEGMENTS, self.compute_fifo.wait_progress)
        windows = dict(shared_window_va=self.shared_window_va, local_window_va=self.local_window_va)
        NVComputeQueue(self).setup(**windows).submit(self)
        NVCopyQueue(self).setup().submit(self)
        self.launch_words = pack_launch_words(self)
        self.staging = Staging(self, self.copy_fifo)

    def _fifo(self, channel: Channel, name: str) -> GpFifo:
        return GpFifo(
            self,
            ring=channel.ring,
            gp_put=channel.gp_put,
            entries=channel.entries,
            token=channel.token,
            doorbell=self.doorbell,
            progress=self._signals.new(self, name=name),
            cmd_bytes=self.config.cmd_bytes,
        )

    # queues and programs

    def compute_queue(self) -> NVComputeQueue:
        return NVComputeQueue(self)

    def copy_queue(self) -> NVCopyQueue:
        return NVCopyQueue(self)

    def program(self, binary: bytes, name: str | None = None) -> HCQProgram:
        with self.lock:
            self.check_usable()
            return NVProgram(self, binary, name)

    def load_code(self, image: Image) -> NVAllocation:
        """Place an image in GPU memory; launches after this see it, since they wait for the timeline."""
        memory: NVAllocation = self.take_memory(len(image.data), (False, False, False))
        self.staging.copyin_va(memory.va, memoryview(image.at(memory.va)))
        return memory

    def ensure_local(self, bytes_per_thread: int) -> None:
        """Have local memory for kernels that use this much per thread, on every thread the chip can hold.

        Growing waits for the work in flight and frees the old memory only when the new is in use.
        """
        if bytes_per_thread <= self._local_bytes:
            return
        per_warp = align_up(bytes_per_thread * 32, LOCAL_WARP_UNIT)
        per_tpc = align_up(per_warp * self.warps_per_sm * self.sms_per_tpc, LOCAL_TPC_UNIT)
        total = align_up(per_tpc * self.tpc_slots, LOCAL_UNIT)
        new = self.take_memory(total, (False, False, False))
        self.compute_fifo.wait_progress(self.compute_fifo.submitted)
        NVComputeQueue(self).local_memory(new.va, per_tpc, MAX_SM_COUNT).submit(self)
        old, self._local, self._local_bytes = self._local, new, bytes_per_thread
        if old is not None:
            self.free(old)

    def ticks_to_us(self, ticks: int) -> Decimal:
        return Decimal(ticks) / 1000  # PTIMER counts nanoseconds

    # memory

    def round_size(self, nbytes: int, kind: MemoryKind) -> int:
        return nv_memory.rounded(self.system, nbytes, vidmem=not kind[0])

    def _allocate(self, nbytes: int, kind: MemoryKind) -> NVAllocation:
        host, cpu_access, uncached, *low = kind
        if host and uncached:
            return nv_memory.alloc_sysmem(self.owner, nbytes, cached=False)
        if host:
            return nv_memory.alloc_pinned(self.owner, nbytes)
        return nv_memory.alloc_vidmem(self.owner, nbytes, cpu=cpu_access, low=any(low))

    def _release(self, memory: NVAllocation) -> None:
        memory.close()

    def _signal_page(self) -> NVAllocation:
        page: NVAllocation = self.take_memory(self.system.page_size, (True, False, True))
        return page

    def _total_bytes(self) -> int:
        return self.vram_bytes

    # progress and faults

    def _marks(self) -> tuple[int, int]:
        return self.compute_fifo.submitted, self.copy_fifo.submitted

    def _retired(self, marks: tuple[int, int]) -> bool:
        return self.compute_fifo.retired >= marks[0] and self.copy_fifo.retired >= marks[1]

    def _wait_marks(self, marks: tuple[int, int]) -> None:
        self.compute_fifo.wait_progress(marks[0])
        self.copy_fifo.wait_progress(marks[1])

    def _poll_fault(self) -> HCQError | None:
        channels = (("compute", self.compute_channel), ("copy", self.copy_channel))
        filled = [Notification.read(name, c.notifier) for name, c in channels if c.faulted]
        if not filled:
            return None
        text = describe(
            f"{self.name} ({self.model}, driver {self.rm.abi.driver})",
            filled,
            self.fault_reader,
            last_launch=self.last_launch,
            find_allocation=self.pool.find,
            find_code=self._find_code,
        )
        return DeviceFault(text)

    def _find_code(self, pc: int) -> str | None:
        places = (prg.locate(pc) for prg in self.children if isinstance(prg, NVProgram))
        return next((place for place in places if place), None)

    def _stop_work(self) -> None:
        """Freeing the channels takes their work off the GPU."""
        self.compute_channel.close()
        self.copy_channel.close()

    def _close_driver(self) -> None:
        self._undo.close()

    @property
    def uuid_name(self) -> str:
        return uuid_text(self.uuid)
