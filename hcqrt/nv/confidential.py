"""Confidential computing: GPUs whose memory the host cannot see are not used. Source: nv-driver facts 13."""

from __future__ import annotations

from hcqrt.autogen.nv import consts, status
from hcqrt.errors import DriverError, IoctlError, RMError
from hcqrt.nv.arch import Arch
from hcqrt.nv.rm import RmClient

ABSENT = (status.NV_ERR_INVALID_CLASS, status.NV_ERR_NOT_SUPPORTED)  # the driver or the machine does not know of it


def check_not_confidential(rm: RmClient, arch: Arch) -> None:
    """Raise DriverError when the driver runs its GPUs confidentially."""
    if not arch.confidential:
        return
    try:
        feature = confidential_feature(rm)
    except IoctlError:
        return  # a sandbox that does not pass it on
    except RMError as error:
        if error.status in ABSENT:
            return
        raise
    if feature == consts.NV_CONF_COMPUTE_SYSTEM_FEATURE_HCC_ENABLED:
        raise DriverError(
            f"the driver runs its GPUs in confidential computing mode (ccFeature {feature}): their memory cannot be "
            f"mapped, which hcqrt needs; {rm.abi.text}; switch the mode off with nvidia-smi conf-compute"
        )


def confidential_feature(rm: RmClient) -> int:
    """One of NV_CONF_COMPUTE_SYSTEM_FEATURE_*."""
    handle = rm.alloc("NV_CONFIDENTIAL_COMPUTE", rm.root)
    try:
        return int(rm.control(handle, "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES").ccFeature)
    finally:
        rm.free(handle, rm.root)
