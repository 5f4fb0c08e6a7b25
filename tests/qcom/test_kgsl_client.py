"""The KGSL client: what it asks of the driver, and what it makes of the answers."""

from __future__ import annotations

import errno
import os
import select

import pytest
from words import entries

from hcqrt.autogen.qcom import kgsl_consts as consts
from hcqrt.errors import IoctlError, OutOfMemory
from hcqrt.qcom.kgsl import KgslClient

MANDATORY = 0x10 | 0x2  # PREAMBLE, NO_GMEM_ALLOC


@pytest.fixture
def client(adreno):
    with_node = KgslClient(adreno)
    yield with_node
    with_node.close()


def test_the_driver_s_errors_say_which_call_on_which_node_and_what_was_asked(client):
    with pytest.raises(IoctlError, match=r"DRAWCTXT_CREATE on /dev/kgsl-3d0: Invalid argument \[EINVAL\]; flags 0x40"):
        client.create_context(0x40, 0x40)
    with pytest.raises(IoctlError, match=r"GPUOBJ_INFO.*\[EINVAL\]; object 77"):
        client.info(77)


def test_the_context_s_flags_are_read_back(client):
    context, flags = client.create_context(MANDATORY, MANDATORY)
    assert flags & MANDATORY == MANDATORY
    assert flags & 0x40, "PER_CONTEXT_TS is always forced on"
    assert (flags >> 12) & 0xF == 8, "the driver picks a priority where none is asked"
    client.destroy_context(context)


def test_an_object_is_mapped_by_its_id_as_a_page_offset(adreno):
    system = adreno
    client = KgslClient(system)
    made = client.alloc(8192, 0)
    mapped = client.fd.mmap
    offsets = []

    def recording(length, offset=0, **options):
        offsets.append((length, offset))
        return mapped(length, offset, **options)

    client.fd.mmap = recording
    view = client.mmap(made.id, made.mmapsize)
    assert offsets == [(8192, made.id << 12)]
    system.unmap(view.addr, 8192)
    client.free(made.id)
    client.free(made.id)  # twice is fine
    assert len(entries(system, "GPUOBJ_FREE")) == 1
    client.close()


@pytest.mark.parametrize("nbytes", [0, 1 << 32])
def test_sizes_that_no_object_has_are_refused_before_the_driver(client, adreno, nbytes):
    with pytest.raises(OutOfMemory, match=str(nbytes)):
        client.alloc(nbytes, 0)
    assert not entries(adreno, "GPUOBJ_ALLOC")


def test_a_failed_mmap_names_the_object_and_the_errno(client, adreno):
    made = client.alloc(4096, 0)
    adreno.inject("mmap", errno=errno.ENOMEM)
    with pytest.raises(OutOfMemory, match=rf"mmap of object {made.id} on /dev/kgsl-3d0.*ENOMEM.*4096 bytes"):
        client.mmap(made.id, 4096)
    with pytest.raises(IoctlError, match="ERANGE"):
        client.mmap(made.id, 4096 * 3)
    client.free(made.id)


def test_cache_operations_go_128_at_a_time_with_ranges(client, adreno):
    made = client.alloc(1 << 20, 3 << 26)
    client.sync((made.id, 1, 64 * index, 64) for index in range(300))
    calls = entries(adreno, "GPUOBJ_SYNC")
    assert [call[4]["count"] for call in calls] == [128, 128, 44]
    assert all(call[4]["obj_len"] == 24 for call in calls)
    client.sync([])
    assert len(entries(adreno, "GPUOBJ_SYNC")) == 3
    client.free(made.id)


def test_a_freed_id_never_reaches_the_driver(client, adreno):
    """The kernel would drop every entry behind it without a word."""
    kept, freed = client.alloc(4096, 3 << 26), client.alloc(4096, 3 << 26)
    client.free(freed.id)
    with pytest.raises(AssertionError, match="freed"):
        client.sync([(freed.id, 1, 0, 64), (kept.id, 1, 0, 64)])
    assert not entries(adreno, "GPUOBJ_SYNC")
    client.free(kept.id)


@pytest.mark.parametrize("timeout", [0, -1, 1 << 31, 1 << 32])
def test_no_wait_is_forever(client, timeout):
    with pytest.raises(ValueError, match="forever"):
        client.wait_timestamp(1, 1, timeout)


@pytest.mark.parametrize(("number", "answer"), [(errno.ETIMEDOUT, False), (errno.EINTR, False), (errno.EAGAIN, False)])
def test_a_wait_that_is_not_over_is_no_error(client, adreno, number, answer):
    context, _ = client.create_context(MANDATORY, MANDATORY)
    adreno.inject("ioctl", "IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID", errno=number)
    assert client.wait_timestamp(context, 0, 1) is answer
    client.destroy_context(context)


def test_a_timestamp_that_was_not_handed_out_is_an_error(client):
    context, _ = client.create_context(MANDATORY, MANDATORY)
    with pytest.raises(IoctlError, match=rf"WAITTIMESTAMP.*EINVAL.*context {context}, timestamp 5"):
        client.wait_timestamp(context, 5, 1)
    client.destroy_context(context)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENODEV, errno.ENOTTY, errno.EOPNOTSUPP])
def test_an_optional_property_may_fail_in_any_way(client, adreno, number):
    adreno.inject("ioctl", "KGSL_PROP_GPU_MODEL", errno=number)
    assert client.gpu_model(), "sysfs says it too"
    adreno.inject("ioctl", "KGSL_PROP_VERSION", errno=number)
    assert client.driver_version() == "unknown"
    assert client.driver_version() == "3.14"


def test_the_power_constraint_is_asked_and_taken_back(client, adreno):
    context, _ = client.create_context(MANDATORY | consts.KGSL_CONTEXT_PWR_CONSTRAINT, MANDATORY)
    client.constrain_power(context, 1)
    client.constrain_power(context, None)
    first, second = (entry[4] for entry in entries(adreno, "SETPROPERTY"))
    assert (first["type"], first["context_id"], first["size"], first["sizebytes"]) == (1, context, 4, 24)
    assert (second["type"], second["size"], second["data"]) == (0, 0, 0)
    client.destroy_context(context)


def test_reset_status_of_a_live_context_is_zero_and_of_an_old_kernel_none(client, adreno):
    context, _ = client.create_context(MANDATORY, MANDATORY)
    assert client.reset_status(context) == 0
    adreno.inject("ioctl", "KGSL_PROP_GPU_RESET_STAT", errno=errno.EINVAL)
    assert client.reset_status(context) is None
    client.destroy_context(context)


def test_a_fence_is_a_file_that_becomes_readable(qcom, adreno):
    done = qcom.new_signal()
    qcom.compute_queue().wait(done, 1).submit(qcom)
    fence = qcom.fence_fd()
    poll = select.poll()
    poll.register(fence, select.POLLIN)
    assert poll.poll(0) == [] and not os.get_inheritable(fence)
    done.value = 1
    qcom.channel.wait_progress(qcom.channel.submitted)
    adreno.run_gpus()
    assert poll.poll(1000) == [(fence, select.POLLIN)]
    os.close(fence)
