"""The emulated NVIDIA driver as a whole: device nodes, procfs texts, boards, RM clients and UVM spaces."""

from __future__ import annotations

import errno as errno_codes
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.emu.files import EmulatedFile, LiveObject, os_error
from hcqrt.emu.nv.abi import Abi
from hcqrt.emu.nv.board import Board, make_board
from hcqrt.emu.nv.rm.node import CTL_NODE, CtlFile, GpuFile
from hcqrt.emu.nv.rm.tree import FIRST_CLIENT, Client
from hcqrt.emu.nv.sandbox import lets_through, visible
from hcqrt.emu.nv.texts import driver_texts
from hcqrt.emu.nv.uvm.node import UVM_NODE, UvmFile
from hcqrt.emu.nv.uvm.space import UvmSpace
from hcqrt.emu.trace import Call

if TYPE_CHECKING:
    from hcqrt.emu.system import EmulatedSystem

NODE_MODE = 0o666  # the driver's DeviceFileMode


class NvDriver:
    """State of nvidia.ko and nvidia-uvm.ko."""

    def __init__(self, system: EmulatedSystem, entries: Sequence[str | Mapping[str, Any]], version: str) -> None:
        self.system, self.abi = system, Abi(version)
        self.boards: list[Board] = []
        self.refusals: list[str] = []
        for index, entry in enumerate(entries):
            board = make_board(
                system.libc, index, entry, system.seed, system.clock_ns, strict=system.strict
            )  # fmt: skip
            if self.abi.version < board.chip.first_driver:
                first = ".".join(f"{part:02}" for part in board.chip.first_driver)
                raise ValueError(f"driver {version} does not know {board.chip.name}: {first} was the first that did")
            board.gpu.injected_fault, board.gpu.refusals = self.injected_fault, self.refusals
            self.boards.append(board)
            self.attach_engines(board)
        for what in ("minor", "gpu_id", "uuid", "pci"):
            if len({getattr(board, what) for board in self.boards}) < len(self.boards):
                raise ValueError(f"two GPUs of this machine have the same {what}")
        self.clients: dict[int, Client] = {}
        self.spaces: list[UvmSpace] = []
        self.last_refusal = ""
        self._next_client = FIRST_CLIENT

    def attach_engines(self, board: Board) -> None:
        """Give a board its GPU side. With a seed or with threads, ready channels run in an order of its own."""
        from hcqrt.emu.nv.fifo import Host

        shuffled = self.system.seed or self.system.threads > 1
        order = random.Random(self.system.seed + board.index) if shuffled else None
        board.gpu.engines = Host(board.gpu, order=order, check_caches="caches" in self.system.check)

    def board_by(self, what: str, value: object) -> Board | None:
        """The board whose attribute `what` has this value."""
        return next((board for board in self.boards if getattr(board, what) == value), None)

    def injected_fault(self, name: str) -> bool:
        return self.system.rules.hit("fault", lambda: (name,)) is not None

    def new_client(self, file: CtlFile, number: int) -> Client:
        client = Client(file, self._next_client, number)
        self._next_client += 1
        self.clients[client.handle] = client
        return client

    def free_client(self, client: Client) -> None:
        client.remove(client)
        del self.clients[client.handle]

    # what the machine asks

    def nodes(self) -> dict[str, tuple[int, int | None]]:
        names = [CTL_NODE, UVM_NODE, *(board.node for board in self.boards)]
        return dict.fromkeys(names, (NODE_MODE, None))

    def texts(self) -> dict[str, str]:
        texts = driver_texts(self.abi.text, self.boards)
        return {path: text for path, text in texts.items() if not self.system.restricted or visible(path)}

    def check_allowed(self, call: Call, path: str) -> None:
        """A sandbox's proxy refuses before the driver sees anything."""
        if self.system.restricted and not lets_through(call):
            raise os_error(errno_codes.EINVAL, f"{call.name} {call.inner_name} on {path}: refused by the sandbox")

    def open(self, path: str) -> EmulatedFile | None:
        if path == CTL_NODE:
            return CtlFile(self, path)
        if path == UVM_NODE:
            return UvmFile(self, path)
        board = self.board_by("node", path)
        return GpuFile(self, path, board) if board is not None else None

    def run(self) -> bool:
        moved = [board.gpu.run() for board in self.boards]
        return any(moved)

    def live(self) -> Iterator[LiveObject]:
        for client in self.clients.values():
            for item in client.objects.values():
                yield LiveObject("handle", f"{item.class_name} {item.handle:#x} of {client.handle:#x}", item.where)
        for space in self.spaces:
            yield from space.live()

    def stats(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for board in self.boards:
            for name, value in board.gpu.stats.items():
                total[name] = total.get(name, 0) + value
        return total

    def stall(self, stalled: bool) -> None:
        for board in self.boards:
            board.gpu.stalled = stalled

    def close(self) -> None:
        for client in list(self.clients.values()):
            self.free_client(client)
        for space in list(self.spaces):
            space.destroy()
        for board in self.boards:
            board.gpu.vidmem.close()
