"""Opening the Adreno: why it does not open, what is asked, and that nothing stays behind when it fails."""

from __future__ import annotations

import errno
import os
import warnings

import pytest
from words import entries

import hcqrt
from hcqrt.errors import BinaryError, DeviceNotFound, DriverError, HCQError
from hcqrt.tools.check_frame import shipped_kernel

NODE = "/dev/kgsl-3d0"


def test_3_msm_drm_is_told_from_a_machine_without_the_gpu(machine):
    """Field report 3: mainline kernels drive Adreno through msm DRM, not KGSL."""
    mainline, bare = machine(()), machine(())
    mainline.nodes["/dev/dri/renderD128"] = (0o666, None)
    with pytest.raises(DeviceNotFound, match=r"kgsl-3d0 does not exist \[ENOENT\].*/dev/dri.*msm DRM") as drm:
        hcqrt.open_device("QCOM", mainline)
    with pytest.raises(DeviceNotFound, match=r"kgsl-3d0 does not exist \[ENOENT\]") as none:
        hcqrt.open_device("QCOM", bare)
    assert str(drm.value) != str(none.value) and "HCQRT_SYSTEM=emulated" in str(none.value)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_3_a_node_without_permission_shows_owner_and_mode(adreno, number):
    """Field report 3: Android sandboxes refuse the node."""
    adreno.nodes[NODE] = (0o660, number)
    with pytest.raises(
        DeviceNotFound, match=rf"no permission \[{errno.errorcode[number]}\]; crw-rw---- uid 0"
    ) as error:
        hcqrt.open_device("QCOM", adreno)
    assert "group" in str(error.value) and "SELinux" in str(error.value)
    [info] = hcqrt.devices(adreno)
    assert (info.name, info.usable) == ("QCOM:0", False) and "SELinux" in info.reason


@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENXIO, errno.EIO, errno.EMFILE, errno.EBUSY])
def test_a_node_that_does_not_open_says_why(adreno, number):
    adreno.nodes[NODE] = (0o666, number)
    with pytest.raises(DeviceNotFound, match=rf"kgsl-3d0: .*\[{errno.errorcode[number]}\]"):
        hcqrt.open_device("QCOM", adreno)


def test_what_is_found_is_listed(adreno):
    [info] = hcqrt.devices(adreno)
    assert (info.name, info.kind, info.arch, info.usable, info.minor) == ("QCOM:0", "QCOM", "a630", True, 0)
    assert info.driver == "KGSL 3.14" and info.model
    assert adreno.live_objects() == []


def test_both_kinds_of_gpu_are_listed_and_open_side_by_side(machine):
    system = machine(("sm_86",), qcom="a630")
    assert [info.name for info in hcqrt.devices(system)] == ["NV:0", "QCOM:0"]
    with hcqrt.open_device("NV", system) as nv, hcqrt.open_device("QCOM", system) as qcom:
        data = os.urandom(5000)
        for dev in (nv, qcom):
            with dev.alloc(5000) as buffer:
                buffer.copyin(data)
                assert buffer.copyout() == data


def test_there_is_one_adreno(adreno, monkeypatch):
    with pytest.raises(DeviceNotFound, match="no device QCOM:1: 1 visible"):
        hcqrt.open_device("QCOM:1", adreno)
    monkeypatch.setenv("HCQRT_VISIBLE_DEVICES", "")
    with pytest.raises(DeviceNotFound, match="HCQRT_VISIBLE_DEVICES=''"):
        hcqrt.open_device("QCOM", adreno)
    assert hcqrt.devices(adreno) == []
    monkeypatch.setenv("HCQRT_VISIBLE_DEVICES", "0")
    hcqrt.open_device("QCOM", adreno).close()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    hcqrt.open_device("QCOM", adreno).close()


@pytest.mark.parametrize("chip_id", [0x43030B00, 0x43050C01, 0x44050000, 0xE0010203, 0x07030002])
def test_24_an_unsupported_chip_is_refused_before_a_context_is_made(adreno_machine, chip_id):
    """Field report 24: newer generations need other packets, and their ids do not decode as major.minor."""
    system = adreno_machine(chip_id=chip_id)
    with pytest.raises(HCQError, match=rf"{chip_id:#010x}.*a630.*a640.*a650.*a660.*a690.*a730.*a740.*a750"):
        hcqrt.open_device("QCOM", system)
    assert not entries(system, "DRAWCTXT_CREATE") and system.live_objects() == []
    [info] = hcqrt.devices(system)
    assert not info.usable and f"{chip_id:#010x}" in info.reason


def test_24_an_untried_sibling_warns_once_and_works(adreno_machine):
    """Field report 24: listing it does not warn, opening it does."""
    system = adreno_machine(chip_id=0x06030500)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert hcqrt.devices(system)[0].usable
        assert not seen
        with hcqrt.open_device("QCOM", system) as dev, dev.alloc(64) as buffer:
            buffer.fill(3)
            assert buffer.copyout() == b"\3" * 64
    assert len(seen) == 1 and "0x06030500" in str(seen[0].message)


def test_the_context_is_asked_for_what_the_facts_say(qcom, adreno):
    [made] = entries(adreno, "DRAWCTXT_CREATE")
    flags = made[4]["flags"]
    assert flags & 0x12 == 0x12, "PREAMBLE and NO_GMEM_ALLOC, without which the kernel makes none"
    assert flags & 0x800 and flags & 0x40 and flags >> 20 & 31 == 2  # PWR_CONSTRAINT, PER_CONTEXT_TS, type CL
    assert flags >> 12 & 15 == 8
    assert flags & 0x200, "without NO_FAULT_TOLERANCE the kernel ends what takes 2 s, waits for the host included"
    assert qcom.context_flags == made[5]["flags"]


MISSING = ["KGSL_PROP_VERSION", "KGSL_PROP_GPU_MODEL", "KGSL_PROP_PWR_CONSTRAINT", "KGSL_PROP_GPU_RESET_STAT",
           "KGSL_PROP_CONTEXT_PROPERTY"]  # fmt: skip


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP])
def test_25_a_missing_optional_property_never_stops_the_open(adreno, number):
    """Field report 25: some kernels lack power constraint, priority and others."""
    for name in MISSING:
        adreno.inject("ioctl", name, errno=number, times=1000)
    with hcqrt.open_device("QCOM", adreno) as dev, dev.alloc(64) as buffer:
        buffer.fill(7)
        dev.synchronize()
        assert buffer.copyout() == b"\7" * 64


def test_a_kernel_without_them_opens_too(adreno_machine):
    system = adreno_machine(missing_properties=MISSING, missing_ioctls=["GET_FAULT_REPORT", "TIMESTAMP_EVENT"])
    with hcqrt.open_device("QCOM", system) as dev, dev.alloc(64) as buffer:
        buffer.fill(9)
        assert buffer.copyout() == b"\x09" * 64


def test_the_power_constraint_is_released_and_the_context_destroyed(adreno):
    hcqrt.open_device("QCOM", adreno).close()
    names = [entry[2] for entry in adreno.ioctl_log]
    assert names[-1] == "IOCTL_KGSL_DRAWCTXT_DESTROY"
    asked, released = entries(adreno, "SETPROPERTY")
    assert (asked[4]["type"], released[4]["type"]) == (1, 0)


NEEDED = ["DEVICE_GETPROPERTY", "DRAWCTXT_CREATE", "GPUOBJ_ALLOC", "GPUOBJ_INFO", "GPU_COMMAND"]


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("nth", [1, 2, 3, 5])
def test_an_open_that_fails_leaves_nothing_behind(adreno, name, nth):
    with hcqrt.open_device("QCOM", adreno):
        count = len(entries(adreno, name))
    adreno.inject("ioctl", f"IOCTL_KGSL_{name}", nth=nth, errno=errno.EIO)
    optional = name == "DEVICE_GETPROPERTY" and nth > 1
    if nth > count or optional:
        hcqrt.open_device("QCOM", adreno).close()
    else:
        with pytest.raises(DriverError, match=rf"{name}.*EIO"):
            hcqrt.open_device("QCOM", adreno)
    assert adreno.live_objects() == []


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_an_mmap_that_fails_leaves_nothing_behind(adreno, nth):
    adreno.inject("mmap", nth=nth, times=2, errno=errno.ENOMEM)  # the first is tried again after a clean-up
    with pytest.raises(hcqrt.OutOfMemory, match="mmap of object"):
        hcqrt.open_device("QCOM", adreno)
    assert adreno.live_objects() == []


def test_11_a_child_cannot_use_its_parent_s_device(qcom, adreno):
    """Field report 11: fork."""
    before = len(adreno.live_objects())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            qcom.alloc(64)
        except HCQError as error:
            code = 0 if str(qcom.pid) in str(error) and "after the fork" in str(error) else 2
        qcom.close()
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    with qcom.alloc(64) as buffer:
        buffer.fill(1)
        assert buffer.copyout() == b"\1" * 64
    assert len(adreno.live_objects()) >= before


def test_closing_twice_is_fine_and_later_calls_say_so(adreno):
    dev = hcqrt.open_device("QCOM", adreno)
    dev.close()
    dev.close()
    with pytest.raises(HCQError, match="QCOM:0 was closed"):
        dev.alloc(64)


def test_25_a_kernel_that_refuses_a_context_flag_gets_the_least_ones(adreno):
    """Field report 25: some kernels lack priority and others."""
    adreno.inject("ioctl", "IOCTL_KGSL_DRAWCTXT_CREATE", errno=errno.EINVAL)
    with hcqrt.open_device("QCOM", adreno) as dev:
        assert [entry[4]["flags"] & ~0x12 != 0 for entry in entries(adreno, "DRAWCTXT_CREATE")] == [True, False]
        dev.synchronize()


@pytest.mark.parametrize("chip", ["a730", "a740", "a750"])
def test_24_a_chip_of_an_experimental_generation_warns_once_and_works(adreno_machine, chip):
    """Field report 24, now that a7xx is supported: listing it does not warn, opening it does."""
    system = adreno_machine(chip)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        [info] = hcqrt.devices(system)
        assert (info.arch, info.usable) == (chip, True)
        assert not seen
        with hcqrt.open_device("QCOM", system) as dev, dev.alloc(64) as buffer:
            dev.compute_queue().memory_barrier().signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
            dev.synchronize()
            assert dev.timeline_signal.timestamp > 0
            buffer.fill(3)
            assert buffer.copyout() == b"\3" * 64
    assert len(seen) == 1 and "a7xx is experimental" in str(seen[0].message)
    assert system.refusals == []


@pytest.mark.filterwarnings("ignore:.*never tried")
def test_code_for_another_generation_is_refused_before_it_is_loaded(adreno_machine):
    with hcqrt.open_device("QCOM", adreno_machine("a750")) as dev, pytest.raises(BinaryError, match="for Adreno 6xx"):
        dev.program(shipped_kernel("a630", "fill"))
