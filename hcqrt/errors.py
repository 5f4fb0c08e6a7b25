"""Every exception class of hcqrt. The text of each says what failed, on what, why, and what to do next."""

from __future__ import annotations

NO_HARDWARE = "or emulate a GPU: HCQRT_SYSTEM=emulated"  # how to go on where a machine has none


class HCQError(Exception):
    """Base of all errors that hcqrt raises on purpose."""


class DeviceNotFound(HCQError):
    """No device of this name: node, driver or card is missing, or the visibility setting hides it."""


class DriverError(HCQError):
    """The kernel driver refused a call, or is one that hcqrt does not know.

    Attributes: `request` (ioctl, class or control name), `status` (driver status or None), `status_name`,
    `errno` (or None).
    """

    def __init__(
        self,
        text: str,
        *,
        request: str = "",
        status: int | None = None,
        status_name: str = "",
        errno: int | None = None,
    ) -> None:
        super().__init__(text)
        self.request = request
        self.status = status
        self.status_name = status_name
        self.errno = errno


class IoctlError(DriverError):
    """A system call on a device node failed with an errno."""


class RMError(DriverError):
    """NVIDIA's resource manager answered with a status other than NV_OK."""


class UVMError(DriverError):
    """NVIDIA's unified-memory driver answered with a status other than NV_OK."""


class DeviceFault(HCQError):
    """The GPU stopped: memory fault, illegal instruction, bad command words. Sticky: the device must be reopened."""


class SignalTimeout(HCQError):
    """A signal did not reach its value in time and made no progress meanwhile."""


class OutOfMemory(HCQError, MemoryError):
    """Device or host memory is exhausted, also after the allocation cache was dropped."""


class LaunchError(HCQError):
    """A launch breaks a limit of the chip or of the program. Nothing was submitted."""


class BinaryError(HCQError, ValueError):
    """A program file is damaged, for another chip, or uses what hcqrt does not support."""
