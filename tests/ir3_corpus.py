"""ir3 kernels to test the decoder with, made as nak_corpus.py says, and Mesa's own disassembler as the judge."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nak_corpus import corpus_blobs

CODE_BYTES_AT = 224  # of the field that holds the size of the code, in the image of tinymesa 25.2.7.2
GPU_ID = 630
LIBRARY = "libtinymesa.so"
NEXT = b"\x01"  # printed before each instruction


@dataclass(frozen=True)
class Ir3Kernel:
    """One image as Mesa made it: metadata, immediates, and last the code."""

    blob: bytes

    @property
    def words(self) -> list[int]:
        (size,) = struct.unpack_from("<I", self.blob, CODE_BYTES_AT)
        return [word for (word,) in struct.iter_unpack("<Q", self.blob[-size:])]


@cache
def ir3_kernels() -> tuple[Ir3Kernel, ...]:
    return tuple(map(Ir3Kernel, corpus_blobs("a630")))


BeforeEach = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)


class Options(ctypes.Structure):
    """isa_decode_options of Mesa 25.2.7."""

    _fields_ = (
        ("gpu_id", ctypes.c_uint32),
        ("show_errors", ctypes.c_bool),
        ("max_errors", ctypes.c_uint32),
        ("branch_labels", ctypes.c_bool),
        ("stop", ctypes.c_bool),
        ("cbdata", ctypes.c_void_p),
        ("field_cb", ctypes.c_void_p),
        ("field_print_cb", ctypes.c_void_p),
        ("pre_instr_cb", BeforeEach),
        ("post_instr_cb", ctypes.c_void_p),
        ("no_match_cb", ctypes.c_void_p),
        ("entrypoint_count", ctypes.c_uint32),
        ("entrypoints", ctypes.c_void_p),
    )


@cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """Mesa's, and the C library for its streams."""
    spec = importlib.util.find_spec("tinymesa")
    assert spec is not None and spec.origin is not None
    mesa, c = ctypes.CDLL(str(Path(spec.origin).with_name(LIBRARY))), ctypes.CDLL(None)
    mesa.ir3_isa_disasm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Options)]
    mesa.ir3_isa_disasm.restype = None
    c.open_memstream.restype = ctypes.c_void_p
    c.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    c.fclose.argtypes = c.free.argtypes = [ctypes.c_void_p]
    return mesa, c


def mesa_texts(words: Sequence[int], gpu_id: int = GPU_ID) -> list[str]:
    """What Mesa's disassembler prints for each word, its complaints included."""
    mesa, c = _libraries()
    code = struct.pack(f"<{len(words)}Q", *words)
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = c.open_memstream(ctypes.byref(text), ctypes.byref(size))
    mark = BeforeEach(lambda data, number, word: c.fputs(NEXT, stream))
    options = Options(gpu_id=gpu_id, show_errors=True, pre_instr_cb=mark)
    mesa.ir3_isa_disasm(code, len(code), stream, ctypes.byref(options))
    c.fclose(stream)
    assert text.value is not None
    printed = ctypes.string_at(text.value, size.value)
    c.free(text)
    lines = [line.decode().rstrip("\n") for line in printed.split(NEXT)[1:]]
    assert len(lines) == len(words)
    return lines
