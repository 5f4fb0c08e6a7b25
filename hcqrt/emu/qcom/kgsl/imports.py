"""Memory of others as memory objects: pinned pages of the process, and dma-bufs, which a memfd stands for."""

from __future__ import annotations

import errno as errno_codes
import mmap as mmap_flags
import os
from typing import TYPE_CHECKING, Any

from hcqrt.autogen.qcom import kgsl_consts as c
from hcqrt.autogen.qcom import kgsl_ioctls as k
from hcqrt.autogen.qcom.kgsl_structs import kgsl_gpuobj_import_dma_buf, kgsl_gpuobj_import_useraddr
from hcqrt.bits import align_up
from hcqrt.emu.host import Unpinnable
from hcqrt.emu.memory import Block
from hcqrt.emu.qcom.caches import Views
from hcqrt.emu.qcom.kgsl.calls import handles
from hcqrt.emu.qcom.kgsl.errors import ENOTSUPP, refuse
from hcqrt.emu.qcom.kgsl.memory import GpuObject, align_log2, is_coherent, with_cache_mode
from hcqrt.fileio import PROT_RW

if TYPE_CHECKING:
    from hcqrt.emu.qcom.kgsl.node import KgslFile

USER_FLAGS = (
    c.KGSL_MEMFLAGS_GPUREADONLY
    | c.KGSL_CACHEMODE_MASK
    | c.KGSL_MEMFLAGS_USE_CPU_MAP
    | c.KGSL_MEMTYPE_MASK
    | c.KGSL_MEMFLAGS_FORCE_32BIT
    | c.KGSL_MEMFLAGS_IOCOHERENT
)
DMA_BUF_FLAGS = (
    c.KGSL_MEMFLAGS_GPUREADONLY
    | c.KGSL_MEMTYPE_MASK
    | c.KGSL_MEMALIGN_MASK
    | c.KGSL_MEMFLAGS_FORCE_32BIT
    | c.KGSL_MEMFLAGS_GUARD_PAGE
)
OWN_MEMORY = "/memfd:hcqrt-"  # the emulated machine itself lies in memfds, which no client ever sees
LARGE_ALIGN_LOG2 = (20, 16)  # objects of at least this size get addresses aligned to it


def usermem_flag(kind: int) -> int:
    """How a kind of foreign memory is reported in an object's flags: the kind plus one in bits 7:5."""
    return (kind + 1) << c.KGSL_MEMFLAGS_USERMEM_SHIFT


def with_size_alignment(flags: int, nbytes: int) -> int:
    wanted = next((log2 for log2 in LARGE_ALIGN_LOG2 if nbytes >= 1 << log2), 0)
    if wanted <= align_log2(flags):
        return flags
    return flags & ~c.KGSL_MEMALIGN_MASK | wanted << c.KGSL_MEMALIGN_SHIFT


@handles(k.GPUOBJ_IMPORT)
def gpuobj_import(file: KgslFile, a: Any) -> None:
    if a.type == c.KGSL_USER_MEM_TYPE_ADDR:
        pages = file.driver.user.record(kgsl_gpuobj_import_useraddr, a.priv, 8)
        item = import_pages(file, pages.virtaddr, a.priv_len, a.flags)
    elif a.type == c.KGSL_USER_MEM_TYPE_DMABUF:
        shared = file.driver.user.record(kgsl_gpuobj_import_dma_buf, a.priv, a.priv_len)
        item = import_dma_buf(file, shared.fd, a.flags)
    else:
        refuse(ENOTSUPP, f"import of memory type {a.type}")
    a.flags, a.id = item.flags, item.id


@handles(k.MAP_USER_MEM)
def map_user_mem(file: KgslFile, a: Any) -> None:
    """The older call: tells the address at once, and has 32 bits of flags."""
    if a.memtype == c.KGSL_USER_MEM_TYPE_DMABUF:
        item = import_dma_buf(file, a.fd, a.flags)
    elif a.memtype == c.KGSL_USER_MEM_TYPE_ADDR:
        if a.offset:
            refuse(errno_codes.EINVAL, f"offset {a.offset:#x}: user pages are mapped from their start")
        item = import_pages(file, a.hostptr, a.len, a.flags)
    else:
        refuse(ENOTSUPP, f"mapping of memory type {a.memtype}")
    a.gpuaddr, a.len, a.flags = item.va, item.size, item.flags & 0xFFFFFFFF


def import_pages(file: KgslFile, address: int, nbytes: int, flags: int) -> GpuObject:
    """Pin pages of the caller. They are cleaned and invalidated once, so that DRAM has what the CPU sees now."""
    memory, page = file.memory, file.system.page_size
    if not nbytes or nbytes % page:
        refuse(errno_codes.EINVAL, f"import of {nbytes} bytes: whole pages of {page} bytes only")
    address = address // page * page  # the object starts with the page that the pointer lies in
    flags = memory.kept_flags(flags & USER_FLAGS) | usermem_flag(c.KGSL_USER_MEM_TYPE_ADDR)
    flags = with_size_alignment(flags, nbytes)
    try:
        cpu = file.system.host.pin(address, nbytes, writable=not flags & c.KGSL_MEMFLAGS_GPUREADONLY)
    except Unpinnable as error:
        refuse(errno_codes.EFAULT, f"import: {error}")
    pinned = cpu.memory is None and cpu.on_free is None
    views = two_views(file, cpu, flags, pinned=pinned)
    item = memory.add("user pointer", nbytes, flags, views)
    if item.svm:
        try:
            memory.place_svm(item, address)
        except OSError:
            memory.free(item)
            raise
    return item


def import_dma_buf(file: KgslFile, fd: int, flags: int) -> GpuObject:
    """Always write-back; coherent where the machine is and the caller asks (or the kernel always does)."""
    memory = file.memory
    wanted = flags & (DMA_BUF_FLAGS | c.KGSL_MEMFLAGS_IOCOHERENT)
    if flags & c.KGSL_MEMFLAGS_SECURE:
        refuse(ENOTSUPP, "import of secure memory")
    flags = memory.kept_flags(with_cache_mode(wanted, c.KGSL_CACHEMODE_WRITEBACK))
    flags |= usermem_flag(c.KGSL_USER_MEM_TYPE_DMABUF)
    cpu = open_dma_buf(file, fd)
    flags = with_size_alignment(flags, cpu.nbytes)
    return memory.add("dma-buf", cpu.nbytes, flags, two_views(file, cpu, flags))


def open_dma_buf(file: KgslFile, fd: int) -> Block:
    """The pages of a memfd, held until the block goes. Raises OSError."""
    if fd < 0:
        refuse(errno_codes.EINVAL, f"dma-buf fd {fd}")
    try:
        held, name = os.dup(fd), os.readlink(f"/proc/self/fd/{fd}")
    except OSError as error:
        refuse(errno_codes.EBADF, f"dma-buf fd {fd}: {error}")
    try:
        nbytes = align_up(os.fstat(held).st_size, file.system.page_size)
        if not name.startswith("/memfd:") or name.startswith(OWN_MEMORY) or not nbytes:
            refuse(errno_codes.EINVAL, f"fd {fd} ({name}) is no dma-buf; a memfd with a size stands for one")
        libc = file.system.libc
        pointer = libc.mmap(0, nbytes, PROT_RW, mmap_flags.MAP_SHARED, held, 0)
    except OSError:
        os.close(held)
        raise

    def close() -> None:
        libc.munmap(pointer, nbytes)
        os.close(held)

    return Block(pointer, nbytes, held, on_free=close)


def two_views(file: KgslFile, cpu: Block, flags: int, *, pinned: bool = False) -> Views:
    """The foreign memory itself, or with a copy that stands for DRAM, flushed at once. Raises OSError ENOMEM."""
    if is_coherent(flags):
        return Views(cpu, cpu, file.driver.user)
    try:
        dram = file.memory.new_block(file.driver.shadows, cpu.nbytes)
    except OSError:
        cpu.drop()
        raise
    views = Views(cpu, dram, file.driver.user, pinned)
    views.clean(0, cpu.nbytes)
    return views
