"""The files that an NVIDIA driver shows in procfs and sysfs."""

from __future__ import annotations

from collections.abc import Sequence

from hcqrt.emu.nv.board import NVIDIA, Board

VERSION = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (hcqrt emulator)
GCC version:  none
"""
PARAMS = """\
ResmanDebugLevel: 4294967295
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
ModifyDeviceFiles: 1
"""
DEVICES = """\
Character devices:
195 nvidia-frontend
511 nvidia-uvm

Block devices:
"""
INFORMATION = """\
Model: \t\t {model}
IRQ:   \t\t {irq}
GPU UUID: \t {uuid}
Video BIOS: \t 94.02.42.40.00
Bus Type: \t PCIe
DMA Size: \t 47 bits
DMA Mask: \t 0x7fffffffffff
Bus Location: \t {pci}
Device Minor: \t {minor}
GPU Firmware: \t {version}
GPU Excluded:\t No
"""


def driver_texts(version: str, boards: Sequence[Board]) -> dict[str, str]:
    texts = {
        "/proc/driver/nvidia/version": VERSION.format(version=version),
        "/proc/driver/nvidia/params": PARAMS,
        "/sys/module/nvidia/version": version + "\n",
        "/proc/devices": DEVICES,
    }
    for board in boards:
        texts[f"/proc/driver/nvidia/gpus/{board.pci_text}/information"] = INFORMATION.format(
            model=board.chip.model, irq=16 + board.index, uuid=board.uuid_text, pci=board.pci_text,
            minor=board.minor, version=version,
        )  # fmt: skip
        folder = f"/sys/bus/pci/devices/{board.pci_text}"
        texts[f"{folder}/vendor"] = f"{NVIDIA:#06x}\n"
        texts[f"{folder}/device"] = f"{board.chip.pci_device:#06x}\n"
        texts[f"{folder}/class"] = "0x030000\n"
    return texts
