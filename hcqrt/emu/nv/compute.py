"""The compute class: windows, local memory, launches, cache invalidates, inline data and report semaphores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hcqrt.emu.nv import limits
from hcqrt.emu.nv.caches import Caches
from hcqrt.emu.nv.classes import class_table, names
from hcqrt.emu.nv.gpu import Channel
from hcqrt.emu.nv.i2m import InlineToMemory
from hcqrt.emu.nv.launch import run_grids
from hcqrt.emu.nv.report import ReportSemaphores
from hcqrt.emu.nv.trouble import GR_CLASS_ERROR, GR_EXCEPTION, Refused

if TYPE_CHECKING:
    from hcqrt.emu.nv.fifo import Host

# SEND_SIGNALING_PCAS2_B actions that are modelled: (invalidate the cached QMD, schedule it)
PCAS_ACTIONS = {
    0: (False, False),  # NOP
    1: (True, False),  # INVALIDATE
    2: (False, True),  # SCHEDULE
    3: (True, True),  # INVALIDATE_COPY_SCHEDULE
    8: (False, False),  # PREFETCH
    9: (False, True),  # PREFETCH_SCHEDULE
    10: (True, True),  # INVALIDATE_PREFETCH_COPY_SCHEDULE
}
SHIFTED8 = 8
MAX_SM_COUNT = 0x1FF  # SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C; from cbc0 on counts of GPCs lie above it
ALWAYS_RENDER = 1  # SET_RENDER_ENABLE_OVERRIDE_MODE
STORED = names(
    "LINE_LENGTH_IN LINE_COUNT OFFSET_OUT_UPPER OFFSET_OUT PITCH_OUT SET_I2M_SEMAPHORE_A SET_I2M_SEMAPHORE_B"
    " SET_I2M_SEMAPHORE_C SEND_PCAS_A SET_SHADER_SHARED_MEMORY_WINDOW_A SET_SHADER_SHARED_MEMORY_WINDOW_B"
    " SET_SHADER_LOCAL_MEMORY_WINDOW_A SET_SHADER_LOCAL_MEMORY_WINDOW_B SET_SHADER_LOCAL_MEMORY_A"
    " SET_SHADER_LOCAL_MEMORY_B SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B"
    " SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C SET_REPORT_SEMAPHORE_A SET_REPORT_SEMAPHORE_B SET_REPORT_SEMAPHORE_C"
    " SET_REPORT_SEMAPHORE_PAYLOAD_LOWER SET_REPORT_SEMAPHORE_PAYLOAD_UPPER SET_REPORT_SEMAPHORE_ADDRESS_LOWER"
    " SET_REPORT_SEMAPHORE_ADDRESS_UPPER"
)
# Known, and without an effect that could be seen: nothing here runs ahead of its turn, textures do not exist
WITHOUT_EFFECT = names(
    "NO_OPERATION PIPE_NOP WAIT_FOR_IDLE SET_SHADER_EXCEPTIONS SET_SHADER_CACHE_CONTROL SET_BINDLESS_TEXTURE"
    " SET_TEX_SAMPLER_POOL_A SET_TEX_SAMPLER_POOL_B SET_TEX_SAMPLER_POOL_C SET_TEX_HEADER_POOL_A SET_TEX_HEADER_POOL_B"
    " SET_TEX_HEADER_POOL_C INVALIDATE_TEXTURE_DATA_CACHE INVALIDATE_TEXTURE_HEADER_CACHE INVALIDATE_SAMPLER_CACHE"
    " INVALIDATE_TEXTURE_DATA_CACHE_NO_WFI INVALIDATE_TEXTURE_HEADER_CACHE_NO_WFI INVALIDATE_SAMPLER_CACHE_NO_WFI"
    " SET_I2M_SPARE_NOOP00 SET_I2M_SPARE_NOOP01 SET_I2M_SPARE_NOOP02 SET_I2M_SPARE_NOOP03"
)


class ComputeEngine:
    """A compute object of one channel."""

    def __init__(self, host: Host, channel: Channel, number: int) -> None:
        table = class_table(number)
        if table is None:
            raise Refused(GR_CLASS_ERROR, f"compute class {number:#x} is not modelled")
        self.host, self.channel, self.table = host, channel, table
        self.registers: dict[str, int] = {}
        self.i2m = InlineToMemory(channel, self.registers)
        self.reports = ReportSemaphores(channel, self.registers)
        self.caches = Caches(host.check_caches)
        self.interrupts = 0
        self._free_windows: tuple[int, int, int] | None = None  # address space version and windows known to be free
        self.actions: dict[str, Callable[[int, dict[str, int]], None]] = {
            "LAUNCH_DMA": self.i2m.launch,
            "LOAD_INLINE_DATA": lambda data, fields: self.i2m.load(data),
            "SEND_SIGNALING_PCAS_B": self.pcas,
            "SEND_SIGNALING_PCAS2_B": self.pcas2,
            "INVALIDATE_SHADER_CACHES": self.invalidate,
            "INVALIDATE_SHADER_CACHES_NO_WFI": self.invalidate,
            "INVALIDATE_SKED_CACHES": lambda data, fields: self.caches.invalidate_qmds(),
            "SET_REPORT_SEMAPHORE_D": self.reports.old_form,
            "REPORT_SEMAPHORE_EXECUTE": self.reports.new_form,
            "SET_SPA_VERSION": self.spa_version,
            "SET_RENDER_ENABLE_OVERRIDE": self.render_enable,
        }

    def run(self, offset: int, data: int) -> None:
        """Execute one method. Raises Refused, HardwareFault, MmuFault, Hung."""
        method = self.table.method(offset, GR_CLASS_ERROR)
        fields = self.table.decode(method, data, GR_EXCEPTION)
        if method.name != "LOAD_INLINE_DATA":
            self.i2m.finish()
        if method.name in STORED:
            self.registers[method.name] = data
        elif method.name in self.actions:
            self.actions[method.name](data, fields)
        elif method.name not in WITHOUT_EFFECT:
            raise Refused(
                GR_EXCEPTION, f"class {self.table.number:#x} {method.text} ({offset:#x}) = {data:#x} is not modelled"
            )

    def finish(self) -> None:
        """Grids run to their end when they are launched; only an open inline transfer can be left."""
        self.i2m.finish()

    def pcas(self, data: int, fields: dict[str, int]) -> None:
        self.signal(f"SEND_SIGNALING_PCAS_B = {data:#x}", bool(fields["INVALIDATE"]), bool(fields["SCHEDULE"]))

    def pcas2(self, data: int, fields: dict[str, int]) -> None:
        action = fields["PCAS_ACTION"]
        what = f"SEND_SIGNALING_PCAS2_B = {data:#x}"
        if action not in PCAS_ACTIONS:
            raise Refused(GR_EXCEPTION, f"{what}: action {action:#x} is not supported")
        for name in ("SELECT", "OFFSET_MINUS_ONE"):
            if fields.get(name):
                raise Refused(GR_EXCEPTION, f"{what}: {name} = {fields[name]:#x} means nothing for action {action:#x}")
        self.signal(what, *PCAS_ACTIONS[action])

    def signal(self, what: str, invalidate: bool, schedule: bool) -> None:
        if "SEND_PCAS_A" not in self.registers:
            raise Refused(GR_EXCEPTION, f"{what}: SEND_PCAS_A was never sent on this channel")
        qmd_va = self.registers["SEND_PCAS_A"] << SHIFTED8
        if invalidate:
            self.caches.invalidate_qmds(qmd_va)
        if schedule:
            run_grids(self, qmd_va)

    def invalidate(self, data: int, fields: dict[str, int]) -> None:
        self.caches.invalidate(instructions=bool(fields["INSTRUCTION"]), constants=bool(fields["CONSTANT"]))

    def spa_version(self, data: int, fields: dict[str, int]) -> None:
        if fields["MAJOR"] * 10 + fields["MINOR"] != self.channel.gpu.chip.sm:
            raise Refused(GR_EXCEPTION, f"SET_SPA_VERSION = {data:#x}: this chip is sm_{self.channel.gpu.chip.sm}")

    def render_enable(self, data: int, fields: dict[str, int]) -> None:
        if fields["MODE"] > ALWAYS_RENDER:
            raise Refused(GR_EXCEPTION, f"SET_RENDER_ENABLE_OVERRIDE = {data:#x}: rendering cannot be turned off here")

    def pair(self, high: str, low: str) -> int | None:
        """A 64-bit value in two registers, or None when one was never written."""
        if high not in self.registers or low not in self.registers:
            return None
        return self.registers[high] << 32 | self.registers[low]

    def windows(self, qmd_va: int) -> tuple[int, int]:
        """Shared and local window. Refused: not programmed, overlapping, or with memory mapped inside."""
        shared = self.pair("SET_SHADER_SHARED_MEMORY_WINDOW_A", "SET_SHADER_SHARED_MEMORY_WINDOW_B")
        local = self.pair("SET_SHADER_LOCAL_MEMORY_WINDOW_A", "SET_SHADER_LOCAL_MEMORY_WINDOW_B")
        if shared is None or local is None:
            name = "shared" if shared is None else "local"
            raise Refused(GR_EXCEPTION, f"QMD at {qmd_va:#x}: the {name} memory window was never programmed")
        space = self.channel.address_space
        if self._free_windows == (space.version, shared, local):
            return shared, local
        sm = self.channel.gpu.chip.limits
        windows = (("shared", shared, sm.shared_window_bytes), ("local", local, limits.LOCAL_WINDOW_BYTES))
        for name, window, _ in windows:
            if window % sm.window_alignment:
                raise Refused(
                    GR_EXCEPTION,
                    f"{name} window {window:#x} is not a multiple of {sm.window_alignment:#x} on this chip",
                )
        if shared < local + limits.LOCAL_WINDOW_BYTES and local < shared + sm.shared_window_bytes:
            raise Refused(GR_EXCEPTION, f"shared window {shared:#x} and local window {local:#x} overlap")
        for start, nbytes, *_ in space.ranges():
            for name, window, reach in windows:
                if start < window + reach and window < start + nbytes:
                    raise Refused(GR_EXCEPTION, f"memory at {start:#x} lies in the {name} window {window:#x}")
        self._free_windows = (space.version, shared, local)
        return shared, local

    def local_memory(self) -> tuple[int, int, int] | None:
        """(base, bytes per TPC, most SMs) as programmed, or None."""
        base = self.pair("SET_SHADER_LOCAL_MEMORY_A", "SET_SHADER_LOCAL_MEMORY_B")
        size = self.pair("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A", "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B")
        sms = self.registers.get("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C")
        if sms is not None and sms > MAX_SM_COUNT:
            what = f"SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C = {sms:#x}"
            raise Refused(GR_EXCEPTION, f"{what}: counts of GPCs are not modelled")
        return None if base is None or size is None or sms is None else (base, size, sms)
