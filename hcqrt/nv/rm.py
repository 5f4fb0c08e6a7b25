"""The resource manager's client: objects, controls and CPU mappings, every status by name."""

from __future__ import annotations

import ctypes
import errno as errno_codes
from collections.abc import Callable
from typing import Any

from hcqrt.autogen.nv import consts, status
from hcqrt.errors import DriverError, IoctlError, OutOfMemory, RMError
from hcqrt.fileio import FileIOInterface, System
from hcqrt.ioctl import Ioctl, fill, ioctl_error, iowr
from hcqrt.mmio import MMIOInterface
from hcqrt.nv.abi import Abi, version_text

CTL = "/dev/nvidiactl"
SCRATCH_BYTES = 4096  # RM_ALLOC copies its own size in and out, whatever paramsSize says: never give it less
BUSY_RETRIES = 200
CARDS = 32  # the most devices RM knows
NR_CARD_INFO = 200
VERSION_QUERY = 0x32  # NV_RM_API_VERSION_CMD_QUERY, '2': the reply is the driver's version, nothing is compared
MEMORY_STATUSES = (status.NV_ERR_NO_MEMORY, status.NV_ERR_INSUFFICIENT_RESOURCES)
HINTS = {
    status.NV_ERR_GPU_IS_LOST: "the GPU has fallen off the bus: it needs a reset or a reboot",
    status.NV_ERR_GPU_IN_FULLCHIP_RESET: "the GPU is being reset: open it again later",
    status.NV_ERR_RESET_REQUIRED: "the GPU needs a reset (nvidia-smi --gpu-reset) or a reboot",
    status.NV_ERR_TIMEOUT: "the GPU's firmware does not answer: it may need a reset; see the kernel log (Xid)",
    status.NV_ERR_NOT_READY: "it accepts no clients yet, as in confidential computing: nvidia-smi conf-compute -srs 1",
    status.NV_ERR_INSUFFICIENT_PERMISSIONS: "the process may not do this; see the driver's profiling and MIG settings",
    status.NV_ERR_INVALID_CLASS: "this chip or driver does not have the class",
    status.NV_ERR_INVALID_STATE: "an earlier step is missing, or MIG is enabled without an instance",
    status.NV_ERR_INVALID_CLIENT: "the client is gone; was the device opened before a fork?",
}
ERRNO_HINTS = {
    errno_codes.EINVAL: "the size does not fit this driver's ABI, a sandbox refuses the call, or the GPU is gone",
    errno_codes.EIO: "the GPU is lost or did not start: see the kernel log (NVRM, Xid), it may need a reset",
}
ABI_STATUSES = (status.NV_ERR_INVALID_ARGUMENT, status.NV_ERR_INVALID_PARAM_STRUCT)


def running_version(system: System, fd: FileIOInterface) -> str:
    """The version of the running kernel module, never of a library: asked, or else read where the module shows it."""
    try:
        return query_version(fd)
    except IoctlError:
        shown = (system.read_text("/sys/module/nvidia/version") or "").strip()
        if not shown:
            raise
        return shown


def query_version(fd: FileIOInterface) -> str:
    """The running driver's version, by the one call whose layout never changed."""
    from hcqrt.autogen.nv.structs import nv_ioctl_rm_api_version_t

    call = Ioctl(
        "NV_ESC_CHECK_VERSION_STR",
        iowr("F", 0xD2, ctypes.sizeof(nv_ioctl_rm_api_version_t)),
        nv_ioctl_rm_api_version_t,
    )
    reply: Any = call(fd, cmd=VERSION_QUERY)
    return bytes(reply.versionString).decode()


class RmClient:
    """A client of the resource manager. `root` is its handle; everything it allocates dies with it."""

    def __init__(self, system: System, abi_override: str = "") -> None:
        self.system = system
        self.ctl = system.open(CTL)
        try:
            self.abi = Abi(running_version(system, self.ctl), abi_override)
            self.root = 0
            self.root = self.alloc("NV01_ROOT_CLIENT", 0)
        except BaseException:
            self.ctl.close()
            raise
        self._next_handle = 1

    def new_handle(self) -> int:
        """A handle of our own for the calls that do not pick one; RM picks from 0xCAF00000 up."""
        self._next_handle += 1
        return self._next_handle

    # errors

    def error(
        self, what: str, code: int, hint: str = "", *, kind: type[DriverError] = RMError, request: str = ""
    ) -> DriverError:
        """The exception for a status other than NV_OK."""
        notes = [note for note in (hint, HINTS.get(code, "")) if note]
        name = self.abi.status_name(code)
        shown = f"{name or 'unknown status'} ({code:#x})"
        text = f"{what}: {shown}; {self.abi.text}" + "".join(f"; {note}" for note in notes)
        return kind(text, request=request or what, status=code, status_name=name)

    def issue(self, call: Ioctl[Any], argument: Any, hint: str = "", fd: FileIOInterface | None = None) -> None:
        """Issue a call; an errno becomes an IoctlError that names the driver's version, and what it means here."""
        try:
            call.issue(fd or self.ctl, argument)
        except IoctlError as error:
            meaning = ERRNO_HINTS.get(error.errno or 0, "")
            text = "; ".join(part for part in (str(error), hint, f"{self.abi.text}", meaning) if part)
            raise IoctlError(text, request=error.request, errno=error.errno) from error

    def _issue(
        self,
        call: Ioctl[Any],
        argument: Any,
        read: Callable[[], int],
        what: str,
        hint: str = "",
        fd: FileIOInterface | None = None,
    ) -> None:
        """Issue an escape whose argument holds a status; BUSY_RETRY is tried again."""
        for spins in range(BUSY_RETRIES):
            self.issue(call, argument, f"{what}; {hint}" if hint else what, fd)
            code = read()
            if code != status.NV_ERR_BUSY_RETRY:
                break
            self.system.back_off(spins + 100_000)
        if code != status.NV_OK:
            raise self.error(what, code, hint)

    # objects

    def alloc(self, name: str, parent: int, *, read: str = "", hint: str = "", **fields: Any) -> Any:
        """Allocate an object; returns its handle, or (handle, value of output field `read`).

        Params go through a zeroed buffer larger than any driver's struct. Raises RMError, IoctlError.
        """
        number, struct = self.abi.alloc_class(name)
        scratch = ctypes.create_string_buffer(SCRATCH_BYTES)
        params = struct.from_buffer(scratch) if struct is not None else None
        use = bool(fields)
        if use:
            fill_nested(params, fields, name)
        call = self.abi.escape("NV_ESC_RM_ALLOC")
        argument = fill(
            call.struct(),
            dict(
                hRoot=self.root,
                hObjectParent=parent or self.root,
                hClass=number,
                pAllocParms=ctypes.addressof(scratch) if use else 0,
                paramsSize=ctypes.sizeof(struct) if use else 0,
            ),
            name,
        )
        what = f"RM_ALLOC {name} ({number:#x}) under {parent:#x}"
        self._issue(call, argument, lambda: argument.status, what, hint)
        return (argument.hObjectNew, getattr(params, read)) if read else argument.hObjectNew

    def alloc_memory(self, name: str, parent: int, nbytes: int, **fields: Any) -> int:
        """Allocate memory; raises OutOfMemory when the driver has none."""
        try:
            handle: int = self.alloc(name, parent, hint=f"{nbytes} bytes asked", size=nbytes, **fields)
        except RMError as error:
            raise as_out_of_memory(error) from error
        return handle

    def free(self, handle: int, parent: int = 0) -> None:
        """Free an object and its descendants."""
        call = self.abi.escape("NV_ESC_RM_FREE")
        argument = fill(call.struct(), dict(hRoot=self.root, hObjectParent=parent, hObjectOld=handle), "RM_FREE")
        self._issue(call, argument, lambda: argument.status, f"RM_FREE {handle:#x}")

    def control(self, handle: int, name: str, **fields: Any) -> Any:
        """Issue a control; returns its params. The size must be exactly the driver's."""
        command, struct = self.abi.control(name)
        params = fill_nested(struct(), fields, name) if struct is not None else None
        size = ctypes.sizeof(struct) if struct is not None else 0
        call = self.abi.escape("NV_ESC_RM_CONTROL")
        argument = fill(
            call.struct(),
            dict(
                hClient=self.root,
                hObject=handle,
                cmd=command,
                params=ctypes.addressof(params) if params is not None else 0,
                paramsSize=size,
            ),
            name,
        )
        what = f"RM_CONTROL {name} ({command:#x}) on {handle:#x}"
        try:
            self._issue(call, argument, lambda: argument.status, what)
        except RMError as error:
            if error.status not in ABI_STATUSES:
                raise
            hint = f"maybe an ABI mismatch: {size} bytes sent, layout of {version_text(self.abi.release)}"
            raise self.error(what, error.status or 0, hint) from error
        return params

    # CPU mappings

    def map_memory(
        self, node: str, device: int, memory: int, nbytes: int, address: int | None = None
    ) -> tuple[MMIOInterface, int]:
        """Map an object's memory for the CPU, at `address` when given; returns the view and RM's cookie for unmapping.

        `node` is the GPU's node for memory behind its BARs, `CTL` for system memory. Each mapping needs a fresh file.
        """
        call = self.abi.escape("NV_ESC_RM_MAP_MEMORY")
        with self._fresh(node) as fd:
            if node != CTL:
                self.register_fd(fd)
            argument = call.struct()
            params = dict(hClient=self.root, hDevice=device, hMemory=memory, length=nbytes)
            fill(argument.params, params, "RM_MAP_MEMORY")
            argument.fd = fd.fd
            what = f"RM_MAP_MEMORY of {memory:#x}"
            try:
                self._issue(call, argument, lambda: argument.params.status, what, f"{nbytes} bytes asked")
            except RMError as error:
                raise as_out_of_memory(error) from error  # the aperture that the CPU sees memory through is full
            try:
                view = fd.mmap(nbytes, address=address)
            except OSError as error:
                self.unmap_memory(device, memory, argument.params.pLinearAddress)
                asked = f"{nbytes} bytes at {address or 0:#x}; {self.abi.text}"
                raise ioctl_error("mmap", node, error, f"{asked}; see ulimit -v and vm.max_map_count") from error
        return view, argument.params.pLinearAddress

    def _fresh(self, node: str) -> FileIOInterface:
        """Another file on a node, for one mapping."""
        try:
            return self.system.open(node)
        except OSError as error:
            limits = "; see ulimit -n" if error.errno == errno_codes.EMFILE else ""
            raise ioctl_error("open", node, error, f"to map memory; {self.abi.text}{limits}") from error

    def unmap_memory(self, device: int, memory: int, cookie: int) -> None:
        """Give the BAR space of a mapping back; the caller unmaps the addresses itself."""
        call = self.abi.escape("NV_ESC_RM_UNMAP_MEMORY")
        fields = dict(hClient=self.root, hDevice=device, hMemory=memory, pLinearAddress=cookie)
        argument = fill(call.struct(), fields, "RM_UNMAP_MEMORY")
        self._issue(call, argument, lambda: argument.status, f"RM_UNMAP_MEMORY of {memory:#x}")

    def register_fd(self, fd: FileIOInterface) -> None:
        """Tie a GPU node's file to this client; once per file."""
        call = self.abi.escape("NV_ESC_REGISTER_FD")
        self.issue(call, fill(call.struct(), dict(ctl_fd=self.ctl.fd), call.name), fd=fd)

    def pin_host_memory(self, fd: FileIOInterface, device: int, address: int, nbytes: int) -> int:
        """Make page-aligned host memory an object that GPUs can map, on the GPU's own node. Raises OutOfMemory."""
        call = self.abi.escape("NV_ESC_RM_ALLOC_MEMORY")
        number, _ = self.abi.alloc_class("NV01_MEMORY_SYSTEM_OS_DESCRIPTOR")
        flags = (
            consts.NVOS02_FLAGS_PHYSICALITY_NONCONTIGUOUS << 4
            | consts.NVOS02_FLAGS_COHERENCY_CACHED << 12
            | consts.NVOS02_FLAGS_MAPPING_NO_MAP << 30
        )
        argument = call.struct()
        handle = self.new_handle()
        fields = dict(hRoot=self.root, hObjectParent=device, hObjectNew=handle, hClass=number, flags=flags,
                      pMemory=address, limit=nbytes - 1)  # fmt: skip
        fill(argument.params, fields, "RM_ALLOC_MEMORY")
        argument.fd = -1
        what = f"RM_ALLOC_MEMORY of {nbytes} host bytes at {address:#x}"
        try:
            self._issue(call, argument, lambda: argument.params.status, what, "see ulimit -l", fd)
        except RMError as error:
            raise as_out_of_memory(error) from error
        return handle

    def cards(self) -> list[Any]:
        """The `nv_ioctl_card_info_t` of each GPU that the driver is bound to, in the driver's order."""
        entry = self.abi.struct("nv_ioctl_card_info_t")
        table = type("CardInfos", (ctypes.Structure,), {"_fields_": (("cards", entry * CARDS),)})
        call: Ioctl[Any] = Ioctl("NV_ESC_CARD_INFO", iowr("F", NR_CARD_INFO, ctypes.sizeof(table)), table)
        found: Any = table()
        self.issue(call, found)
        return [card for card in found.cards if card.valid]

    def close(self) -> None:
        """Free the client with all it owns, and the control node."""
        try:
            if self.ctl.fd >= 0 and self.root:
                self.free(self.root)
        finally:
            self.root = 0
            self.ctl.close()


def as_out_of_memory(error: DriverError) -> DriverError | OutOfMemory:
    """The same error as OutOfMemory when its status says so."""
    return OutOfMemory(str(error)) if error.status in MEMORY_STATUSES else error


def fill_nested(struct: Any, fields: dict[str, Any], name: str) -> Any:
    """As `fill`; `field_0=value` sets element 0 of an array field."""
    plain = {}
    for key, value in fields.items():
        base, _, index = key.rpartition("_")
        if index.isdigit() and not hasattr(type(struct), key):
            getattr(struct, base)[int(index)] = value
        else:
            plain[key] = value
    return fill(struct, plain, name)
