"""What a container sandbox lets through to the driver: gVisor's proxy with compute capabilities (nv-driver.md §14)."""

from __future__ import annotations

from hcqrt.autogen.nv import consts as c
from hcqrt.emu.trace import Call

ESCAPES = frozenset(
    "NV_ESC_" + name
    for name in (
        "CARD_INFO", "CHECK_VERSION_STR", "REGISTER_FD", "ATTACH_GPUS_TO_FD", "RM_ALLOC", "RM_FREE", "RM_CONTROL",
        "RM_MAP_MEMORY", "RM_UNMAP_MEMORY", "RM_ALLOC_MEMORY", "RM_VID_HEAP_CONTROL", "RM_DUP_OBJECT",
    )
)  # fmt: skip
UVM = frozenset(
    "UVM_" + name
    for name in (
        "INITIALIZE", "DEINITIALIZE", "MM_INITIALIZE", "REGISTER_GPU", "UNREGISTER_GPU", "REGISTER_GPU_VASPACE",
        "UNREGISTER_GPU_VASPACE", "REGISTER_CHANNEL", "UNREGISTER_CHANNEL", "ENABLE_PEER_ACCESS",
        "DISABLE_PEER_ACCESS", "CREATE_EXTERNAL_RANGE", "MAP_EXTERNAL_ALLOCATION", "UNMAP_EXTERNAL", "FREE",
    )
)  # fmt: skip
CLASSES = frozenset(
    (
        c.NV01_ROOT_CLIENT, c.NV01_DEVICE_0, c.NV20_SUBDEVICE_0, c.NV01_MEMORY_SYSTEM, c.NV01_MEMORY_LOCAL_USER,
        c.FERMI_VASPACE_A, c.FERMI_CONTEXT_SHARE_A, c.KEPLER_CHANNEL_GROUP_A, c.GT200_DEBUGGER,
        c.NV_CONFIDENTIAL_COMPUTE,
        c.TURING_USERMODE_A, c.HOPPER_USERMODE_A, c.BLACKWELL_USERMODE_A,
        c.TURING_CHANNEL_GPFIFO_A, c.AMPERE_CHANNEL_GPFIFO_A, c.HOPPER_CHANNEL_GPFIFO_A,
        c.BLACKWELL_CHANNEL_GPFIFO_A, c.BLACKWELL_CHANNEL_GPFIFO_B,
        c.TURING_COMPUTE_A, c.AMPERE_COMPUTE_A, c.AMPERE_COMPUTE_B, c.ADA_COMPUTE_A, c.HOPPER_COMPUTE_A,
        c.BLACKWELL_COMPUTE_A, c.BLACKWELL_COMPUTE_B,
        c.TURING_DMA_COPY_A, c.AMPERE_DMA_COPY_A, c.AMPERE_DMA_COPY_B, c.HOPPER_DMA_COPY_A,
        c.BLACKWELL_DMA_COPY_A, c.BLACKWELL_DMA_COPY_B,
    )
)  # fmt: skip
CONTROLS = frozenset(
    (
        c.NV0000_CTRL_CMD_GPU_GET_ID_INFO, c.NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2,
        c.NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
        c.NV2080_CTRL_CMD_PERF_BOOST, c.NV2080_CTRL_CMD_GPU_GET_GID_INFO, c.NV2080_CTRL_CMD_GR_GET_INFO,
        c.NV2080_CTRL_CMD_GR_GET_GPC_MASK, c.NV2080_CTRL_CMD_GR_GET_TPC_MASK, c.NV2080_CTRL_CMD_MC_GET_ARCH_INFO,
        c.NV2080_CTRL_CMD_GPU_GET_NAME_STRING, c.NV2080_CTRL_CMD_FB_GET_INFO_V2, c.NV2080_CTRL_CMD_TIMER_GET_TIME,
        c.NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO,
        c.NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, c.NVA06F_CTRL_CMD_GPFIFO_SCHEDULE,
        c.NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
        c.NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES, c.NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES,
    )
)  # fmt: skip
HIDDEN = ("/proc/driver/nvidia", "/sys/module/nvidia")  # what the sandbox's own file systems do not show


def lets_through(call: Call) -> bool:
    """Whether a call reaches the driver; any other comes back as EINVAL with nothing written."""
    if call.name not in ESCAPES and call.name not in UVM:
        return False
    number = call.numbers[-1] if len(call.numbers) > 1 else None
    if call.name == "NV_ESC_RM_ALLOC":
        return number in CLASSES
    if call.name == "NV_ESC_RM_CONTROL":
        return number in CONTROLS
    return True


def visible(path: str) -> bool:
    return not path.startswith(HIDDEN)
