"""What gen_nv.py takes from NVIDIA's headers: files, structs, and which struct belongs to which call."""

from __future__ import annotations

# Include folders of a driver tree, relative to its root.
INCLUDES = (
    "src/common/sdk/nvidia/inc",
    "kernel-open/common/inc",
    "kernel-open/nvidia-uvm",
    "src/nvidia/arch/nvalloc/unix/include",
)
SDK = "src/common/sdk/nvidia/inc/"
UVM = "kernel-open/nvidia-uvm/"

# Headers whose every constant is taken. A header that a version does not have is left out for that version.
CONST_HEADERS = (
    *(
        SDK + name
        for name in (
            "nvos.h",
            "nvlimits.h",
            "alloc/alloc_channel.h",
            "class/cl2080_notification.h",
            "ctrl/ctrl0000/ctrl0000client.h",
            "ctrl/ctrl0000/ctrl0000gpu.h",
            "ctrl/ctrl0000/ctrl0000system.h",
            "ctrl/ctrl0080/ctrl0080fifo.h",
            "ctrl/ctrl0080/ctrl0080gpu.h",
            "ctrl/ctrl0080/ctrl0080gr.h",
            "ctrl/ctrl0080/ctrl0080perf.h",
            "ctrl/ctrl2080/ctrl2080bus.h",
            "ctrl/ctrl2080/ctrl2080ce.h",
            "ctrl/ctrl2080/ctrl2080event.h",
            "ctrl/ctrl2080/ctrl2080fb.h",
            "ctrl/ctrl2080/ctrl2080fifo.h",
            "ctrl/ctrl2080/ctrl2080gpu.h",
            "ctrl/ctrl2080/ctrl2080gr.h",
            "ctrl/ctrl2080/ctrl2080mc.h",
            "ctrl/ctrl2080/ctrl2080perf.h",
            "ctrl/ctrl2080/ctrl2080rc.h",
            "ctrl/ctrl2080/ctrl2080tmr.h",
            "ctrl/ctrl83de/ctrl83debase.h",
            "ctrl/ctrl83de/ctrl83dedebug.h",
            "ctrl/ctrl906f.h",
            "ctrl/ctrla06c.h",
            "ctrl/ctrla06f/ctrla06fbase.h",
            "ctrl/ctrla06f/ctrla06fgpfifo.h",
            "ctrl/ctrla06f/ctrla06finternal.h",
            "ctrl/ctrla06f/ctrla06fevent.h",
            "ctrl/ctrlc36f.h",
            "ctrl/ctrlcb33.h",
        )
    ),
    "src/nvidia/arch/nvalloc/unix/include/nv_escape.h",
    "kernel-open/common/inc/nv-ioctl-numbers.h",
    "kernel-open/common/inc/nv-ioctl-numa.h",
    "kernel-open/common/inc/nv-ioctl.h",
    UVM + "uvm_ioctl.h",
    UVM + "uvm_linux_ioctl.h",
    UVM + "uvm_types.h",
    "kernel-open/common/inc/nv_uvm_user_types.h",
)
STATUS_HEADER = SDK + "nvstatuscodes.h"
ERROR_HEADER = SDK + "nverror.h"
CLASS_FOLDER = SDK + "class"
# The driver's own list of classes, with aliases that have no header. Every macro in it stands under its own #ifndef.
CLASS_LIST = "src/nvidia/generated/g_allclasses.h"
# Parsed for their structs only: too wide to take every constant.
STRUCT_HEADERS = (
    SDK + "nvstatus.h",
    SDK + "ctrl/ctrl2080/ctrl2080internal.h",
    SDK + "ctrl/ctrl00fd.h",
    SDK + "ctrl/ctrl00e0.h",
    "src/nvidia/arch/nvalloc/unix/include/nv-unix-nvos-params-wrappers.h",
)
# Single constants of headers that are else left out.
EXTRA_CONSTS = {
    SDK + "ctrl/ctrl2080/ctrl2080internal.h": ("NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_INFO",),
}
# MMU fault types are a hardware register's; the chip's own header differs in later types only by additions.
FAULT_CHIPS = ("pascal/gp100", "volta/gv100", "turing/tu102", "blackwell/gb100")  # 595 dropped the first two
FAULT_HEADERS = tuple(UVM + f"hwref/{chip}/dev_fault.h" for chip in FAULT_CHIPS)
FAULT_PREFIX = "NV_PFAULT_"

_P = "_PARAMS"
STRUCTS = (
    # escapes
    "nv_pci_info_t", "nv_ioctl_xfer_t", "nv_ioctl_card_info_t", "nv_ioctl_register_fd_t", "nv_ioctl_rm_api_version_t",
    "nv_ioctl_sys_params_t", "nv_ioctl_alloc_os_event_t", "nv_ioctl_free_os_event_t", "nv_ioctl_status_code_t",
    "nv_ioctl_wait_open_complete_t", "nv_ioctl_export_to_dma_buf_fd_t", "nv_ioctl_numa_info_t",
    "nv_ioctl_nvos02_parameters_with_fd", "nv_ioctl_nvos33_parameters_with_fd",
    *(f"NVOS{n}_PARAMETERS" for n in ("00", "02", "21", "64", "33", "34", "41", "46", "47", "54", "55", "57", "32")),
    "RS_ACCESS_MASK", "RS_SHARE_POLICY",
    # allocation parameters
    "NV0000_ALLOC_PARAMETERS", "NV0080_ALLOC_PARAMETERS", "NV2080_ALLOC_PARAMETERS", "NV_VASPACE_ALLOCATION_PARAMETERS",
    "NV_MEMORY_ALLOCATION_PARAMS", "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS", "NV_OS_DESC_MEMORY_ALLOCATION_PARAMS",
    "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS", "NV_CTXSHARE_ALLOCATION_PARAMETERS", "NV_CHANNEL_ALLOC_PARAMS",
    "NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS", "NV_MEMORY_DESC_PARAMS", "NV83DE_ALLOC_PARAMETERS",
    "NV_HOPPER_USERMODE_A_PARAMS", "NV_GR_ALLOCATION_PARAMETERS", "NV0005_ALLOC_PARAMETERS",
    "NVC637_ALLOCATION_PARAMETERS", "NVC638_ALLOCATION_PARAMETERS", "NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS",
    "NV503B_ALLOC_PARAMETERS", "NVB2CC_ALLOC_PARAMETERS", "NVB0B5_ALLOCATION_PARAMETERS",
    # memory that the driver or the GPU writes
    "NvNotification", "NvUnixEvent", "Nvc46fControl", "Nvc56fControl", "Nvc86fControl", "Nvc96fControl",
    "AmpereAControlGPFifo", "HopperAControlGPFifo", "BlackwellAControlGPFifo",
    # controls
    *(f"NV0000_CTRL_{n}{_P}" for n in (
        "SYSTEM_GET_BUILD_VERSION", "SYSTEM_GET_BUILD_VERSION_V2", "SYSTEM_GET_P2P_CAPS_V2", "SYSTEM_GET_P2P_CAPS",
        "GPU_GET_ATTACHED_IDS", "GPU_GET_PROBED_IDS", "GPU_ATTACH_IDS", "GPU_DETACH_IDS", "GPU_GET_ID_INFO",
        "GPU_GET_ID_INFO_V2", "GPU_GET_PCI_INFO", "GPU_GET_UUID_FROM_GPU_ID", "GPU_GET_UUID_INFO",
        "CLIENT_GET_ADDR_SPACE_TYPE", "GPU_GET_MEMOP_ENABLE")),
    *(f"NV0080_CTRL_{n}{_P}" for n in (
        "GPU_GET_CLASSLIST", "GPU_GET_CLASSLIST_V2", "GPU_GET_NUM_SUBDEVICES", "FIFO_GET_CHANNELLIST",
        "FIFO_GET_CAPS_V2", "PERF_CUDA_LIMIT_CONTROL")),
    *(f"NV2080_CTRL_{n}" for n in ("GR_INFO", "GR_ROUTE_INFO", "FB_INFO", "GPU_INFO", "GPU_REG_OP")),
    *(f"NV2080_CTRL_{n}{_P}" for n in (
        "PERF_BOOST", "GPU_GET_GID_INFO", "GR_GET_INFO", "GR_GET_INFO_V2", "FB_FLUSH_GPU_CACHE", "FB_GET_INFO_V2",
        "GPU_GET_NAME_STRING", "GPU_GET_SHORT_NAME_STRING", "MC_GET_ARCH_INFO", "BUS_GET_PCI_INFO", "BUS_GET_INFO_V2",
        "GPU_GET_ENGINES_V2", "GPU_GET_ENGINE_CLASSLIST", "CE_GET_CAPS_V2", "CE_GET_ALL_CAPS", "GR_GET_GPC_MASK",
        "GR_GET_TPC_MASK", "GR_GET_GLOBAL_SM_ORDER", "GR_GET_SM_TO_GPC_TPC_MAPPINGS", "GR_GET_CTX_BUFFER_SIZE",
        "TIMER_GET_TIME", "TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO", "RC_GET_ERROR_COUNT", "GPU_GET_INFO_V2",
        "GPU_GET_ACTIVE_PARTITION_IDS", "EVENT_SET_NOTIFICATION", "GPU_GET_SIMULATION_INFO",
        "INTERNAL_STATIC_GR_GET_INFO", "GPU_GET_COMPUTE_POLICY_CONFIG")),
    *(f"NVA06C_CTRL_{n}{_P}" for n in ("GPFIFO_SCHEDULE", "TIMESLICE", "PREEMPT", "INTERLEAVE_LEVEL")),
    *(f"NVA06F_CTRL_{n}{_P}" for n in ("GPFIFO_SCHEDULE", "BIND", "STOP_CHANNEL")),
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS",
    "NVC36F_CTRL_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX_PARAMS",
    "NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS", "NV906F_CTRL_GET_CLASS_ENGINEID_PARAMS",
    "NV906F_CTRL_CMD_RESET_CHANNEL_PARAMS",
    "NV83DE_SM_ERROR_STATE_REGISTERS", "NV83DE_MMU_FAULT_INFO", "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY",
    *(f"NV83DE_CTRL_{n}{_P}" for n in (
        "DEBUG_READ_ALL_SM_ERROR_STATES", "DEBUG_READ_MMU_FAULT_INFO", "DEBUG_CLEAR_ALL_SM_ERROR_STATES",
        "DEBUG_SET_EXCEPTION_MASK", "DEBUG_READ_SINGLE_SM_ERROR_STATE", "CMD_DEBUG_SUSPEND_CONTEXT",
        "DEBUG_SET_MODE_MMU_DEBUG")),
    *(f"NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_{n}{_P}" for n in ("CAPABILITIES", "GPUS_STATE")),
    "NV00FD_CTRL_ATTACH_GPU_PARAMS", "NV00E0_CTRL_EXPORT_MEM_PARAMS",
    # UVM
    "UvmGpuMappingAttributes", "NvProcessorUuid",
    *(f"UVM_{n}{_P}" for n in (
        "INITIALIZE", "MM_INITIALIZE", "REGISTER_GPU", "UNREGISTER_GPU", "REGISTER_GPU_VASPACE",
        "UNREGISTER_GPU_VASPACE", "REGISTER_CHANNEL", "UNREGISTER_CHANNEL", "ENABLE_PEER_ACCESS",
        "DISABLE_PEER_ACCESS", "CREATE_EXTERNAL_RANGE", "MAP_EXTERNAL_ALLOCATION", "UNMAP_EXTERNAL",
        "MAP_EXTERNAL_SPARSE", "FREE", "MAP_DYNAMIC_PARALLELISM_REGION", "ALLOC_SEMAPHORE_POOL", "VALIDATE_VA_RANGE",
        "PAGEABLE_MEM_ACCESS", "PAGEABLE_MEM_ACCESS_ON_GPU", "CLEAN_UP_ZOMBIE_RESOURCES", "SET_PREFERRED_LOCATION",
        "ALLOC_DEVICE_P2P", "DISABLE_READ_DUPLICATION", "MIGRATE")),
)  # fmt: skip

# RM escapes: name -> struct; the size that goes into the request is the struct's (times n where it is an array).
ESCAPES = {
    "NV_ESC_RM_ALLOC_MEMORY": "nv_ioctl_nvos02_parameters_with_fd",
    "NV_ESC_RM_FREE": "NVOS00_PARAMETERS",
    "NV_ESC_RM_CONTROL": "NVOS54_PARAMETERS",
    "NV_ESC_RM_ALLOC": "NVOS21_PARAMETERS",  # the kernel takes NVOS64_PARAMETERS too and tells them apart by size
    "NV_ESC_RM_DUP_OBJECT": "NVOS55_PARAMETERS",
    "NV_ESC_RM_SHARE": "NVOS57_PARAMETERS",
    "NV_ESC_RM_GET_EVENT_DATA": "NVOS41_PARAMETERS",
    "NV_ESC_RM_VID_HEAP_CONTROL": "NVOS32_PARAMETERS",
    "NV_ESC_RM_MAP_MEMORY": "nv_ioctl_nvos33_parameters_with_fd",
    "NV_ESC_RM_UNMAP_MEMORY": "NVOS34_PARAMETERS",
    "NV_ESC_RM_MAP_MEMORY_DMA": "NVOS46_PARAMETERS",
    "NV_ESC_RM_UNMAP_MEMORY_DMA": "NVOS47_PARAMETERS",
    "NV_ESC_CARD_INFO": "nv_ioctl_card_info_t",  # an array
    "NV_ESC_REGISTER_FD": "nv_ioctl_register_fd_t",
    "NV_ESC_ALLOC_OS_EVENT": "nv_ioctl_alloc_os_event_t",
    "NV_ESC_FREE_OS_EVENT": "nv_ioctl_free_os_event_t",
    "NV_ESC_STATUS_CODE": "nv_ioctl_status_code_t",
    "NV_ESC_CHECK_VERSION_STR": "nv_ioctl_rm_api_version_t",
    "NV_ESC_IOCTL_XFER_CMD": "nv_ioctl_xfer_t",
    "NV_ESC_ATTACH_GPUS_TO_FD": None,  # an array of u32 gpu_id
    "NV_ESC_SYS_PARAMS": "nv_ioctl_sys_params_t",
    "NV_ESC_NUMA_INFO": "nv_ioctl_numa_info_t",
    "NV_ESC_EXPORT_TO_DMABUF_FD": "nv_ioctl_export_to_dma_buf_fd_t",
    "NV_ESC_WAIT_OPEN_COMPLETE": "nv_ioctl_wait_open_complete_t",
}
# UVM calls whose struct is not NAME_PARAMS.
UVM_WITHOUT_PARAMS = ("UVM_DEINITIALIZE",)

_CHANNEL, _GR, _CE = "NV_CHANNEL_ALLOC_PARAMS", "NV_GR_ALLOCATION_PARAMETERS", "NVB0B5_ALLOCATION_PARAMETERS"
CLASSES = {
    "NV01_ROOT": "NV0000_ALLOC_PARAMETERS",
    "NV01_ROOT_NON_PRIV": "NV0000_ALLOC_PARAMETERS",
    "NV01_ROOT_CLIENT": "NV0000_ALLOC_PARAMETERS",
    "NV01_EVENT": "NV0005_ALLOC_PARAMETERS",
    "NV01_EVENT_OS_EVENT": "NV0005_ALLOC_PARAMETERS",
    "NV01_DEVICE_0": "NV0080_ALLOC_PARAMETERS",
    "NV20_SUBDEVICE_0": "NV2080_ALLOC_PARAMETERS",
    "NV01_MEMORY_SYSTEM": "NV_MEMORY_ALLOCATION_PARAMS",
    "NV01_MEMORY_LOCAL_USER": "NV_MEMORY_ALLOCATION_PARAMS",
    "NV01_MEMORY_VIRTUAL": "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS",
    "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR": "NV_OS_DESC_MEMORY_ALLOCATION_PARAMS",
    "FERMI_VASPACE_A": "NV_VASPACE_ALLOCATION_PARAMETERS",
    "FERMI_CONTEXT_SHARE_A": "NV_CTXSHARE_ALLOCATION_PARAMETERS",
    "KEPLER_CHANNEL_GROUP_A": "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS",
    "GT200_DEBUGGER": "NV83DE_ALLOC_PARAMETERS",
    "NV50_P2P": "NV503B_ALLOC_PARAMETERS",
    "MAXWELL_PROFILER_DEVICE": "NVB2CC_ALLOC_PARAMETERS",
    "AMPERE_SMC_PARTITION_REF": "NVC637_ALLOCATION_PARAMETERS",
    "AMPERE_SMC_EXEC_PARTITION_REF": "NVC638_ALLOCATION_PARAMETERS",
    "NV_CONFIDENTIAL_COMPUTE": "NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS",
    **dict.fromkeys(("VOLTA_USERMODE_A", "TURING_USERMODE_A", "AMPERE_USERMODE_A")),
    **dict.fromkeys(("HOPPER_USERMODE_A", "BLACKWELL_USERMODE_A"), "NV_HOPPER_USERMODE_A_PARAMS"),
    **dict.fromkeys(
        (*(f"{n}_CHANNEL_GPFIFO_A" for n in ("VOLTA", "TURING", "AMPERE", "HOPPER", "BLACKWELL")),
         "BLACKWELL_CHANNEL_GPFIFO_B"), _CHANNEL),
    **dict.fromkeys(
        (*(f"{n}_COMPUTE_A" for n in ("VOLTA", "TURING", "AMPERE", "ADA", "HOPPER", "BLACKWELL")),
         "AMPERE_COMPUTE_B", "BLACKWELL_COMPUTE_B"), _GR),
    **dict.fromkeys(
        (*(f"{n}_DMA_COPY_A" for n in ("TURING", "AMPERE", "HOPPER", "BLACKWELL")),
         "AMPERE_DMA_COPY_B", "BLACKWELL_DMA_COPY_B"), _CE),
}  # fmt: skip

# Controls whose struct has another stem than the command. None: the control takes no parameters.
CONTROL_STRUCTS: dict[str, str | None] = {
    "NVC36F_CTRL_CMD_GPFIFO_SCHEDULE": "NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS",
    "NVC36F_CTRL_CMD_BIND": "NVA06F_CTRL_BIND_PARAMS",
    "NVA06C_CTRL_CMD_SET_TIMESLICE": "NVA06C_CTRL_TIMESLICE_PARAMS",
    "NVA06C_CTRL_CMD_GET_TIMESLICE": "NVA06C_CTRL_TIMESLICE_PARAMS",
    "NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL": "NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS",
    "NVA06C_CTRL_CMD_GET_INTERLEAVE_LEVEL": "NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS",
    "NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL": "NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS",
    "NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_INFO": "NV2080_CTRL_INTERNAL_STATIC_GR_GET_INFO_PARAMS",
}

# Class headers: number -> folder in the class tree. Names that are no methods.
HOST_FORMATS = ("GP_ENTRY0", "GP_ENTRY1", "DMA")
CLASS_HEADERS = {
    **dict.fromkeys(("c46f", "c56f", "c76f"), "host"),
    **dict.fromkeys(("c5c0", "c6c0", "c7c0", "c9c0", "cbc0", "cdc0", "cec0"), "compute"),
    **dict.fromkeys(("c5b5", "c6b5", "c7b5", "c8b5", "c9b5", "cab5"), "dma-copy"),
}
# Host classes whose header is in the driver tree only. They declare what changed: the rest is c56f's.
DRIVER_HOSTS = ("c86f", "c96f", "ca6f")
QMD_HEADERS = ("c3c0", "c5c0", "c6c0", "c7c0", "c9c0", "cbc0", "cdc0", "cec0")
# The class whose header stands for a QMD version (the default is the first of QMD_HEADERS that has it).
QMD_HOME = {"V03_00": "c7c0"}
