"""Other libraries' memory: buffer protocol in, NumPy and DLPack out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer

DLPACK_CPU = (1, 0)  # dlpack.h: kDLCPU, device 0


def byte_view(data: Any) -> memoryview:
    """Any object with the buffer protocol as flat bytes, without copying. ValueError when not contiguous in C order."""
    view = data if type(data) is memoryview and data.format == "B" and data.ndim == 1 else memoryview(data)
    if not view.c_contiguous:
        raise ValueError("the data is not contiguous, rows first; make a contiguous copy first")
    if view.format == "B" and view.ndim == 1:
        return view
    return view.cast("B") if view.nbytes else memoryview(bytearray())  # a shape with a zero in it cannot be cast


def as_numpy(buffer: HCQBuffer, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array on the buffer's own memory, which it keeps from being dropped, but not from `close()`.

    Raises ValueError when the buffer is too small, HCQError when the host cannot see it.
    """
    import numpy

    if buffer.image is not None:
        raise ValueError(f"{buffer!r} is an image, whose rows do not follow each other; use copyout()")
    view = buffer.cpu_view()
    wanted = numpy.dtype(dtype)
    nbytes = wanted.itemsize
    for extent in shape:
        if extent < 0:
            raise ValueError(f"shape {shape}: {extent} is negative")
        nbytes *= extent
    if nbytes > buffer.size:
        raise ValueError(f"{shape} of {wanted} needs {nbytes} bytes, the buffer has {buffer.size}")
    memory: Any = view.view(0, nbytes, "B").mv
    memory.obj.buffer = buffer  # the ctypes array under the view: NumPy holds it for as long as the array lives
    return numpy.frombuffer(memory, dtype=wanted).reshape(shape)


def dlpack(buffer: HCQBuffer, **options: Any) -> Any:
    """A DLPack capsule of the buffer's bytes (uint8, one axis) in host-visible memory, once earlier work is done.

    Whoever takes the capsule may read at once: on the CPU the protocol has no other moment to wait.
    """
    if buffer.dev is not None:
        buffer.dev.synchronize()
    return as_numpy(buffer, "uint8", (buffer.size,)).__dlpack__(**options)
