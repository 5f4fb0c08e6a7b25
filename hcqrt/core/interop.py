"""Other libraries' memory: buffer protocol in, NumPy and DLPack out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer

DLPACK_CPU = (1, 0)  # dlpack.h: kDLCPU, device 0


def byte_view(data: Any) -> memoryview:
    """Any object with the buffer protocol as flat bytes, without copying. ValueError when not contiguous."""
    view = data if type(data) is memoryview and data.format == "B" and data.ndim == 1 else memoryview(data)
    if not view.contiguous:
        raise ValueError("the data is not contiguous; make a contiguous copy first")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def as_numpy(buffer: HCQBuffer, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array on the buffer's own memory. Raises ValueError when the host cannot see it or it is too small."""
    import numpy

    view = buffer.cpu_view()
    wanted = numpy.dtype(dtype)
    nbytes = wanted.itemsize
    for extent in shape:
        nbytes *= extent
    if nbytes > buffer.size:
        raise ValueError(f"{shape} of {wanted} needs {nbytes} bytes, the buffer has {buffer.size}")
    return numpy.frombuffer(view.view(0, nbytes, "B").mv, dtype=wanted).reshape(shape)


def dlpack(buffer: HCQBuffer, **options: Any) -> Any:
    """A DLPack capsule of the buffer's bytes (uint8, one axis) in host-visible memory."""
    return as_numpy(buffer, "uint8", (buffer.size,)).__dlpack__(**options)
