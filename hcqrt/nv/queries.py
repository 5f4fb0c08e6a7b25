"""What the driver says of a GPU: graphics info, memory size, enabled TPCs. Source: nv-driver facts 9."""

from __future__ import annotations

import ctypes

from hcqrt.autogen.nv import consts
from hcqrt.nv.rm import RmClient


def gr_info(rm: RmClient, subdevice: int, name: str) -> int:
    """One NV2080_CTRL_GR_INFO_INDEX_* value."""
    entry = rm.abi.struct("NV2080_CTRL_GR_INFO")
    query = (entry * 1)()
    query[0].index = getattr(consts, f"NV2080_CTRL_GR_INFO_INDEX_{name}")
    rm.control(subdevice, "NV2080_CTRL_CMD_GR_GET_INFO", grInfoListSize=1, grInfoList=ctypes.addressof(query))
    return int(query[0].data)


def vram_bytes(rm: RmClient, subdevice: int) -> int:
    """The GPU's memory that clients may use."""
    reply = rm.control(
        subdevice,
        "NV2080_CTRL_CMD_FB_GET_INFO_V2",
        fbInfoListSize=1,
        fbInfoList_0=(consts.NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE, 0),
    )
    return int(reply.fbInfoList[0].data) << 10


def tpc_count(rm: RmClient, subdevice: int) -> int:
    """TPCs that this board has enabled."""
    gpcs = int(rm.control(subdevice, "NV2080_CTRL_CMD_GR_GET_GPC_MASK").gpcMask)
    count = 0
    for gpc in range(32):
        if gpcs >> gpc & 1:
            reply = rm.control(subdevice, "NV2080_CTRL_CMD_GR_GET_TPC_MASK", gpcId=gpc)
            count += bin(reply.tpcMask).count("1")
    return count


def class_list(rm: RmClient, device: int) -> set[int]:
    """Every class of the GPU. The count is asked first: too small a buffer is an error, and lists grow with drivers."""
    name = "NV0080_CTRL_CMD_GPU_GET_CLASSLIST"
    count = int(rm.control(device, name).numClasses)
    numbers = (ctypes.c_uint32 * count)()
    reply = rm.control(device, name, numClasses=count, classList=ctypes.addressof(numbers))
    return set(numbers[: reply.numClasses])
