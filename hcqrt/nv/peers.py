"""Peers: which other GPUs' memory a device's address space can map, and the windows through which it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from hcqrt.autogen.nv import status
from hcqrt.core.buffer import HCQBuffer
from hcqrt.core.peers import no_peers
from hcqrt.errors import DriverError, HCQError, UVMError
from hcqrt.nv.memory import NVAllocation, Owner, huge_or_small

if TYPE_CHECKING:
    from typing import TypeGuard

    from hcqrt.core.device import HCQDevice
    from hcqrt.nv.device import NVDevice

REMEDY = (
    "peers over PCIe need two cards of the same chip, a driver that allows it (on most GeForce cards it does not) and "
    "no IOMMU or virtual machine in between; without enable_peer copies work, through host memory"
)
# What UVM_ENABLE_PEER_ACCESS says of GPUs that NVLink joins, which are peers as soon as both are registered: an error
# by its name, so a mapping has to show whether they are.
LINKED = status.NV_ERR_INVALID_DEVICE


class NVPeers:
    """The GPUs that are registered in one device's unified address space beside its own.

    They are registered there again although their own devices have address spaces too: a space maps memory only of
    GPUs that it knows. So devices need not share a client, and each opens, closes and faults alone.
    """

    def __init__(self, dev: NVDevice, undo: ExitStack) -> None:
        self._dev, self._undo = dev, undo
        self._owner: Owner = dev.owner
        self._uuids: set[bytes] = set()

    def reaches(self, other: HCQDevice) -> bool:
        return self._candidate(other) and other.uuid in self._uuids

    def _candidate(self, other: HCQDevice) -> TypeGuard[NVDevice]:
        """Whether one driver knows both: uuids tell the GPUs of one machine apart."""
        return isinstance(other, type(self._dev)) and self._dev.system.same_machine(other.system)

    def enable(self, other: HCQDevice) -> None:
        """Raises DriverError naming both GPUs; nothing of it stays then."""
        if not self._candidate(other):
            raise no_peers(self._dev, other)
        with other.alloc(1) as probe, self._dev.lock:
            if other.uuid in self._uuids:
                return
            with ExitStack() as undo:
                try:
                    self._register(undo, other)
                    with self.window(probe):
                        pass
                except DriverError as error:
                    raise refused(self._dev, other, error) from error
                self._undo.push(undo.pop_all())
                self._uuids.add(other.uuid)

    def _register(self, undo: ExitStack, other: NVDevice) -> None:
        uvm, mine = self._owner.uvm, self._owner.uuid
        if other.uuid == mine:  # opened twice: the space knows it
            return
        uvm.register_gpu(other.uuid)
        undo.callback(uvm.unregister_gpu, other.uuid)  # which ends the peers' access too
        uvm.enable_peers(mine, other.uuid, accept=(status.NV_OK, LINKED))

    @contextmanager
    def window(self, buffer: HCQBuffer) -> Iterator[HCQBuffer]:
        """Another device's buffer at an address of this one's, for as long as the `with` lasts.

        Where that ends with an error, work may still use the window: it stays until the device closes.
        """
        owner, memory = self._owner, buffer.memory
        if not isinstance(memory, NVAllocation):  # another thread closed it
            raise HCQError(f"{buffer!r} was closed; allocate another")
        space = owner.space(low=False)
        with ExitStack() as undo:
            va = space.alloc(memory.nbytes, max(huge_or_small(memory.nbytes), owner.rm.system.page_size))
            undo.callback(space.free, va)
            owner.uvm.map(owner.uuid, va, memory.nbytes, memory.handle, memory.owner.rm)
            undo.callback(owner.uvm.unmap, va, memory.nbytes)
            try:
                yield HCQBuffer(va + buffer.va_addr - memory.va, buffer.size, self._dev)
            except BaseException:  # also Ctrl-C
                self._undo.push(undo.pop_all())
                raise


def refused(dev: NVDevice, other: NVDevice, error: DriverError) -> DriverError:
    """The error for a pair that the driver does not let be peers."""
    text = f"{dev.identity} cannot have {other.identity} as its peer: {error}; {REMEDY}"
    facts = dict(request=error.request, status_name=error.status_name)
    return UVMError(text, status=error.status, errno=error.errno, **facts)
