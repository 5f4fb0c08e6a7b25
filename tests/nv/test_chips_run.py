"""Every chip opened and launched on: queues, chains, releases, constant bank 0, limits, scratch memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from chip_kernels import Code, cubin_of, dump_bank0, dump_parameters, nothing, store_value, use_scratch, words

import hcqrt
from hcqrt.errors import BinaryError, DeviceFault, LaunchError
from hcqrt.nv.arch import CHIPS

KIB = 1024
LARGEST_BLOCK = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99, 121: 99}  # KiB
ONE = 0x3F80_0000  # 1.0 as float32


@pytest.fixture(params=CHIPS)
def dev(request, machine) -> Iterator[Any]:
    with hcqrt.open_device("NV:0", machine((request.param,))) as device:
        yield device


@pytest.fixture
def sm(dev) -> int:
    return int(dev.arch[3:])


COMPUTE_CLASS = {
    75: 0xC5C0, 80: 0xC6C0, 86: 0xC7C0, 87: 0xC7C0, 89: 0xC9C0, 90: 0xCBC0, 100: 0xCDC0, 103: 0xCDC0, 120: 0xCEC0,
    121: 0xCEC0,
}  # fmt: skip
COPY_CLASS = {
    75: 0xC5B5, 80: 0xC6B5, 86: 0xC7B5, 87: 0xC7B5, 89: 0xC7B5, 90: 0xC8B5, 100: 0xC9B5, 103: 0xC9B5, 120: 0xCAB5,
    121: 0xCAB5,
}  # fmt: skip


def test_command_words(dev, sm):
    """Headers are the golden encodings of nv-engine facts 1.3; the launch's second is an immediate method."""
    windows = dict(shared_window_va=dev.shared_window_va, local_window_va=dev.local_window_va)
    assert dev.compute_queue().setup(**windows).words == [
        0x2001_2000, COMPUTE_CLASS[sm], 0x2002_20A8, 0x7294, 0, 0x2002_21EC, 0x7293, 0,
    ]  # fmt: skip
    assert dev.copy_queue().setup().words == [0x2001_8000, COPY_CLASS[sm]]
    schedule = 0x8003_20AF if sm == 75 else 0x8003_20B0
    assert dev.compute_queue().launch(0x12_3456_7800).words == [0x2001_20AD, 0x1234_5678, schedule]
    assert dev.compute_queue().memory_barrier().words == [0x2001_25A6, 0x1011]
    assert dev.compute_queue().local_memory(0x12_3456_0000, 0x18000, 0x1FF).words == [
        0x2002_21E4, 0x12, 0x3456_0000, 0x2003_20B9, 0, 0x18000, 0x1FF,
    ]  # fmt: skip
    copy = dev.copy_queue().copy(0x1_0000_1000, 0x2_0000_2000, 0x300).words
    assert copy == [0x2004_8100, 2, 0x2000, 1, 0x1000, 0x2001_8106, 0x300, 0x2001_80C0, 0x186]


def test_a_kernel_gets_its_arguments(dev, sm):
    sizes = (8, 4, 1, 2, 8)
    prg = dev.program(dump_parameters(sm, sizes))
    assert [(param.offset, param.size) for param in prg.params] == [(0, 8), (8, 4), (12, 1), (14, 2), (16, 8)]
    other, out = dev.alloc(64), dev.alloc(64)
    prg(other, vals=(0x1234_5678, 0x9A, 0xBCDE, out.va_addr))
    dev.synchronize()
    found = out.copyout()
    assert struct.unpack_from("<QIBxHQ", found) == (other.va_addr, 0x1234_5678, 0x9A, 0xBCDE, out.va_addr)


def test_many_launches_in_order(dev, sm):
    prg, out = dev.program(store_value(sm)), dev.alloc(64)
    first = dev.timeline_value
    for value in range(20):
        prg(out, vals=(value,))
    dev.synchronize()
    assert dev.timeline_signal.value == first + 19
    assert words(out.copyout(), 1) == (19,)
    assert prg(out, vals=(7,), wait=True) > 0


def test_a_chain_of_launches_with_signals(dev, sm):
    """Two launches in a row are chained; two signals behind a launch are its descriptor's, a third is the host's."""
    prg = dev.program(store_value(sm))
    bufs, signals = [dev.alloc(64) for _ in range(4)], [dev.new_signal() for _ in range(4)]
    queue = dev.compute_queue()
    for index, buf in enumerate(bufs):
        queue.exec(prg, prg.fill_kernargs((buf,), (index + 10,)), (1, 1, 1), (32, 1, 1))
        if index in (1, 3):
            for signal in signals[:3] if index == 1 else signals[3:]:
                queue.signal(signal, 1 << 40 | index)
    queue.submit(dev)
    signals[3].wait(1 << 40 | 3, 10_000)
    assert [words(buf.copyout(), 1)[0] for buf in bufs] == [10, 11, 12, 13]
    assert [signal.value for signal in signals] == [1 << 40 | 1] * 3 + [1 << 40 | 3]
    times = [signal.timestamp for signal in signals]
    assert times == sorted(times)
    assert times[0] > 0


def test_sizes_and_arguments_that_are_symbols(dev, sm):
    offset = 0x360 if sm >= 100 else 0
    grid = 0x370 if sm >= 100 else 0xC
    prg, out = dev.program(dump_bank0(sm, [offset, grid, grid + 4])), dev.alloc(64)
    n = hcqrt.Variable("n", 1, 100)
    queue = dev.compute_queue().exec(prg, prg.fill_kernargs((out,)), (n, n + 1, 1), (2 * n, 1, 1))
    done = dev.new_signal()
    queue.signal(done, 1)
    for value in (3, 50):
        done.value = 0
        queue.submit(dev, {n: value})
        done.wait(1, 10_000)
        assert words(out.copyout(), 3) == (2 * value, value, value + 1)


def test_field_report_23_bank_0_holds_what_the_toolkits_code_expects(dev, sm):
    """Offsets as nv-engine facts 7 measured them."""
    shared, reserve = 640, 0 if sm == 75 else KIB
    total = shared + reserve + (128 if sm == 75 else 0)  # Turing counts in 256 bytes
    if sm >= 100:
        wanted = {
            0x360: (6, 5, 4), 0x370: (3, 2, 1), 0x2F0: (0, 0x7294), 0x2F8: (0, 0x7293), 0x37C: (0xFFFDC0,),
            0x2AC: (shared,), 0x20C: (shared,), 0x16C: (reserve,), 0x278: (reserve,), 0x1D8: (reserve,),
            0x2BC: (total,), 0x2A0: (1, 1, 1), 0x200: (1, 1, 1), 0x2B0: (ONE, ONE, ONE), 0x210: (ONE, ONE, ONE),
            0x2C0: (3, 2, 1), 0x220: (3, 2, 1), 0x2CC: (1,), 0x22C: (1,), 0x140: (0, 0), 0x120: (0, 0), 0x358: (0, 0),
        }  # fmt: skip
    else:
        wanted = {
            0x00: (6, 5, 4), 0x0C: (3, 2, 1), 0x18: (0, 0x7294), 0x20: (0, 0x7293), 0x28: (0xFFFDC0, shared),
            0x30: (0, 0),
        }  # fmt: skip
        if sm >= 80:
            wanted[0x114] = (reserve,)
        if sm == 90:
            wanted |= {
                0x68: (reserve,), 0x13C: (total,), 0x144: (1, 1, 1), 0x150: (ONE, ONE, ONE), 0x15C: (3, 2, 1),
                0x188: (1,), 0xD0: (0, 0), 0x208: (0, 0),
            }  # fmt: skip
        elif sm >= 80:
            wanted |= {0x120: (total,), 0x50: (0, 0), 0x118: (0, 0)}
    places = [offset + 4 * i for offset, values in wanted.items() for i in range(len(values))]
    with dev.alloc(4 * len(places)) as out:
        prg = dev.program(dump_bank0(sm, places))
        prg(out, global_size=(3, 2, 1), local_size=(6, 5, 4), dynamic_shared=shared)
        dev.synchronize()
        found = dict(zip(places, words(out.copyout(), len(places)), strict=True))
    assert found == {offset + 4 * i: value for offset, values in wanted.items() for i, value in enumerate(values)}


def test_field_report_19_a_block_can_have_all_the_shared_memory_of_the_chip(dev, sm):
    most = LARGEST_BLOCK[sm] * KIB
    prg = dev.program(nothing(sm, shared=16))
    for dynamic in (0, most // 2, most - 16):
        prg(local_size=(64, 1, 1), dynamic_shared=dynamic)
    dev.synchronize()
    launches = dev.timeline_value
    text = rf"k: needs {most + 1} bytes .*\(16 static \+ {most - 15} dynamic\), sm_{sm} has {most}"
    with pytest.raises(LaunchError, match=text):
        prg(local_size=(64, 1, 1), dynamic_shared=most - 15)
    assert dev.timeline_value == launches
    with pytest.raises(BinaryError, match=f"declares {most + 1} bytes of shared memory"):
        dev.program(nothing(sm, shared=most + 1))


def test_field_report_18_limits_are_the_same_on_every_chip(dev, sm):
    prg = dev.program(nothing(sm, registers=32))
    for grid, block in (((1, 65535, 1), (1, 1, 64)), ((2, 1, 65535), (1, 1, 1)), ((1, 1, 1), (32, 32, 1))):
        prg(global_size=grid, local_size=block) if grid[1] * grid[2] < 100 else prg.template(grid, block, 0)
    dev.synchronize()
    for grid, block in (((1, 65536, 1), (1, 1, 1)), ((1, 1, 65536), (1, 1, 1)), ((1, 1, 1), (1, 1, 65))):
        with pytest.raises(LaunchError, match="allowed are 1 to"):
            prg(global_size=grid, local_size=block)
    wide = dev.program(nothing(sm, registers=255))
    with pytest.raises(LaunchError, match=r"257 threads with 255 registers .* 256 threads would fit"):
        wide(local_size=(257, 1, 1))


def test_two_kernels_of_a_file_with_barriers_and_constants(dev, sm):
    other = Code(sm).kernel("other", barriers=3, constant2=bytes(64))
    image = cubin_of(sm, Code(sm).kernel("one", barriers=1), other, constant3=bytes(100))
    for name in ("one", "other"):
        dev.program(image, name)(local_size=(128, 1, 1))
    dev.synchronize()


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("warps", "tpcs"), [(48, 2), (64, 2), (64, 72)])
def test_field_report_21_scratch_fits_every_thread_of_the_chip(machine, chip, warps, tpcs):
    """The driver's numbers count, whatever the chip usually has; every SM is full once at least."""
    sm, threads = CHIPS[chip].sm, 1024
    blocks = tpcs * 2 * warps * 32 // threads
    with hcqrt.open_device("NV:0", machine([dict(chip=chip, warps_per_sm=warps, tpcs=tpcs)])) as dev:
        prg, out = dev.program(use_scratch(sm, threads)), dev.alloc(4 * blocks * threads)
        prg(out, global_size=(blocks, 1, 1), local_size=(threads, 1, 1))
        dev.synchronize()
        assert dev._local is not None
        assert dev._local.nbytes >= (0x800 + 0x240) * 32 * warps * 2 * tpcs
        found = np.frombuffer(out.copyout(), np.uint32)
    assert (found == 2 * np.arange(blocks * threads, dtype=np.uint32)).all()


def test_field_report_8_a_fault_names_address_and_kernel(dev, sm):
    """Also on chips with more SMs than one call about errors reads."""
    dev.program(store_value(sm))(vals=(0xDEAD_0000, 1))
    for _ in range(2):
        with pytest.raises(DeviceFault, match=r"0xdead0000.*last launch: k;"):
            dev.synchronize()
