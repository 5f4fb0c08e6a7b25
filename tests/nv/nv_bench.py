"""A GPU opened as far as an address space, for the tests of the NVIDIA backend's driver half."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from hcqrt.config import Config
from hcqrt.emu import EmulatedSystem
from hcqrt.nv.discover import add_subdevice, identify, list_cards, open_card
from hcqrt.nv.memory import Owner, Reservation
from hcqrt.nv.rm import RmClient
from hcqrt.nv.uvm import UvmClient

Machine = Callable[..., EmulatedSystem]


@dataclass
class Bench:
    """A GPU opened as far as an address space: what memory and channels need, without queues."""

    system: EmulatedSystem
    rm: RmClient
    uvm: UvmClient
    owner: Owner
    subdevice: int
    va_space: int

    def calls(self) -> list[tuple[str, str]]:
        """(request name, class or control name) of the ioctls since the last `forget`."""
        return [(entry[2], entry[3]) for entry in self.system.ioctl_log]

    def forget(self) -> None:
        self.system.ioctl_log.clear()

    def held(self) -> list[str]:
        """What the machine holds, but for the reservation, which allocations split and join."""
        return sorted(str(item) for item in self.system.live_objects() if "reservation" not in item.name)


@contextmanager
def opened(system: EmulatedSystem) -> Iterator[Bench]:
    with ExitStack() as undo:
        rm = RmClient(system, Config().nv_abi)
        undo.callback(rm.close)
        uvm = UvmClient(rm)
        undo.callback(uvm.close)
        card = list_cards(rm)[0]
        fd = undo.enter_context(open_card(rm, card))
        device, subdevice = add_subdevice(rm, card)
        undo.callback(rm.free, device, rm.root)
        uuid = identify(rm, subdevice).uuid
        fields: dict[str, Any] = dict(flags=0x48, vaBase=0x1000, vaSize=0x1_FFFF_FB00_0000)
        va_space = rm.alloc("FERMI_VASPACE_A", device, **fields)
        uvm.register_gpu(uuid)
        undo.callback(uvm.unregister_gpu, uuid)
        uvm.register_va_space(uuid, va_space)
        undo.callback(uvm.unregister_va_space, uuid)
        reservation = Reservation(system)
        undo.callback(reservation.close)
        owner = Owner(rm, uvm, reservation, device, uuid, card.node, fd)
        yield Bench(system, rm, uvm, owner, subdevice, va_space)
