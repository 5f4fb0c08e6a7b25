"""The packed launch and the straight line of queue methods: same words, same slot. Symbols, reuse, image kernels."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import numpy as np
import pytest
from clwriter import BUFFER, ClBinary
from ir3image import ir3_image

import hcqrt
from hcqrt import Variable
from hcqrt.core.buffer import HCQBuffer
from hcqrt.decode.pm4 import decode
from hcqrt.errors import HCQError, LaunchError

KERNELS = Path(hcqrt.__file__).parent / "kernels"
IMAGE_TYPES = {"f16": ("FMT6_16_16_16_16_FLOAT", np.float16), "f32": ("FMT6_32_32_32_32_FLOAT", np.float32)}
NOP, END = bytes(8), struct.pack("<Q", 0x0300_0000_0000_0000)  # ir3 facts 3, category 0
GROUPS, LOCAL = (5, 2, 1), (32, 4, 1)


def shipped(name):
    return (KERNELS / f"{name}.a630.ir3").read_bytes()


@pytest.fixture
def streams(qcom):
    """The words of every submission from here on."""
    qcom.synchronize()
    channel, kept = qcom.channel, []
    kick = channel._kick

    def keep(va, nwords):
        ring = channel._cmd
        kept.append(list(struct.unpack_from(f"<{nwords}I", ring.mv, va - ring.va)))
        kick(va, nwords)

    channel._kick = keep
    yield kept
    channel._kick = kick


@pytest.fixture
def alloc(qcom):
    made = []

    def make(*args, **options):
        made.append(qcom.alloc(*args, **options))
        return made[-1]

    yield make
    for buf in made:
        buf.close()


@pytest.fixture
def load(qcom):
    made = []

    def make(binary, name="k"):
        made.append(qcom.program(binary, name))
        return made[-1]

    yield make
    for program in made:
        program.close()


def straight_line(dev, prg, bufs, vals):
    args = prg.fill_kernargs(bufs, vals)
    value = dev.next_timeline()
    queue = dev.compute_queue().wait(dev.timeline_signal, value - 1).memory_barrier()
    queue.exec(prg, args, GROUPS, LOCAL).signal(dev.timeline_signal, value).submit(dev)
    dev.timeline_signal.wait(value)
    return args.va, bytes(args.mv[args.offset : args.offset + prg.slot_bytes])


def packed(dev, prg, bufs, vals):
    offset = dev.kernargs.cursor
    prg(*bufs, vals=vals, global_size=GROUPS, local_size=LOCAL)
    dev.synchronize()
    return dev.kernargs.va + offset, bytes(dev.kernargs.mv[offset : offset + prg.slot_bytes])


def shown(words, slot_va):
    """The stream as text, with slot addresses relative to it and without values that grow with each submission."""
    items = []
    for packet in decode(words):
        for item in packet.items:
            value = item.value
            if 0 <= value - (slot_va & 0xFFFFFFFF) < 4096:
                value -= slot_va & 0xFFFFFFFF
            growing = packet.name == "CP_EVENT_WRITE" or item.name == "REF"
            items.append((packet.name, item.name, None if growing and value < 1 << 20 else value))
    return items


def binaries():
    code = END.ljust(256, b"\0")
    pointers = [(0, BUFFER), (8, BUFFER), (16, BUFFER), (24, BUFFER)]
    return {
        "variable size": (shipped("vector_add"), False),
        "opencl": (ClBinary(END, "k", pointers, constants=[(5, 12, 1), (9, 9, 1)]).build(), False),
        "fixed constants": (ir3_image(code, immediates=[1, 2, 3], constlen=8), False),
        "images": (ir3_image(code, num_uavs=3, num_tex=2, tex_to_image=(1, 0)), True),
    }


@pytest.mark.parametrize("kind", list(binaries()))
def test_the_packed_launch_emits_what_the_queue_methods_emit(qcom, streams, alloc, load, kind):
    binary, with_images = binaries()[kind]
    prg = load(binary)
    bufs = [alloc(8192) for _ in range(3)]
    if with_images:
        images = [alloc(image=(8 + n, 4, "FMT6_32_FLOAT")) for n in range(3)]
        bufs = [bufs[0], images[0], bufs[1], images[1], images[2], bufs[2]]
    (va_a, slot_a), (va_b, slot_b) = packed(qcom, prg, bufs, (7,)), straight_line(qcom, prg, bufs, (7,))
    assert slot_a[: prg.param_base + len(prg.shader.block)] == slot_b[: prg.param_base + len(prg.shader.block)]
    assert slot_a[prg.images_offset :][: 64 * 3 * with_images] == slot_b[prg.images_offset :][: 64 * 3 * with_images]
    assert len(streams) == 2
    assert shown(streams[0], va_a) == shown(streams[1], va_b)


def test_dimensions_and_arguments_lie_where_the_shader_reads_them(qcom, alloc, load):
    prg = load(shipped("vector_add"))
    bufs = [alloc(8192) for _ in range(3)]
    _, slot = packed(qcom, prg, bufs, (0x12345678,))
    # qcom facts 5.2: groups, work dimensions, base group, subgroup size, local size, subgroup shift
    assert struct.unpack_from("<12I", slot) == (*GROUPS, 3, 0, 0, 0, 64, *LOCAL, 6)
    assert struct.unpack_from("<3QI", slot, 64) == (*(buf.va_addr for buf in bufs), 0x12345678)


def test_one_set_of_arguments_in_two_shapes_of_one_queue(qcom, alloc, load):
    """The dimensions in the slot belong to one launch: with the second one's, the first would miss items 40 to 63."""
    prg = load(shipped("fill"))
    buf = alloc(4 * 64)
    buf.fill(0)
    args = prg.fill_kernargs([buf], (7, 64))
    done = qcom.new_signal()
    queue = qcom.compute_queue().memory_barrier()
    queue.exec(prg, args, (4, 1, 1), (16, 1, 1)).exec(prg, args, (1, 1, 1), (8, 1, 1)).signal(done, 1).submit(qcom)
    done.wait(1)
    done.close()
    assert (np.frombuffer(bytes(buf.copyout()), np.uint32) == 7).all()


def test_symbols_for_sizes_addresses_and_scalars(qcom, alloc, load):
    """One queue, submitted with other values each time."""
    prg = load(shipped("vector_add"))
    count = 4096
    rng = np.random.default_rng(1)
    a, b = (rng.random(count, dtype=np.float32) for _ in range(2))
    bufs = [alloc(4 * count) for _ in range(3)]
    bufs[1].copyin(a)
    bufs[2].copyin(b)
    groups, local, n = Variable("groups", 1, 64), Variable("local", 1, 64), Variable("n", 1, count)
    done = qcom.new_signal()
    value = Variable("value")
    args = prg.fill_kernargs(bufs, (n,))
    for bound in (False, True):
        queue = qcom.compute_queue().memory_barrier().exec(prg, args, (groups, 1, 1), (local, 1, 1)).signal(done, value)
        if bound:
            queue.bind(qcom)
        for step, (g, length, size) in enumerate([(64, 64, 4096), (1, 64, 64), (10, 7, 65), (64, 64, 4095)], 1):
            bufs[0].fill(0)
            done.value = 0
            queue.submit(qcom, {groups: g, local: length, n: size, value: step})
            done.wait(step)
            result = np.frombuffer(bytes(bufs[0].copyout()), np.float32)
            written = min(size, g * length)
            assert (result[:written] == (a + b)[:written]).all()
            assert not result[written:].any()
        with pytest.raises(ValueError, match="local = 65"):
            queue.submit(qcom, {groups: 1, local: 65, n: 1, value: 9})
        queue.close()
    done.close()


def test_a_symbolic_image_address_is_refused(qcom, alloc, load):
    prg = load(shipped("image_copy_f32"))
    picture = alloc(image=(4, 4, IMAGE_TYPES["f32"][0]))
    moving = HCQBuffer(Variable("va"), picture.size, qcom, image=picture.image)
    for call in (lambda: prg(moving, picture), lambda: prg.fill_kernargs([moving, picture])):
        with pytest.raises(LaunchError, match="address of image 0 is a symbol"):
            call()


def test_a_symbolic_address_cannot_be_launched_at_once(qcom, alloc, load):
    prg = load(shipped("vector_add"))
    real = alloc(256)
    moving = HCQBuffer(Variable("va"), 256, qcom)
    with pytest.raises(LaunchError, match="address is a symbol; build a queue"):
        prg(moving, real, real, vals=(1,), local_size=(64, 1, 1))


def test_an_image_of_another_device_is_refused(qcom, adreno_machine, alloc, load):
    prg = load(shipped("image_copy_f32"))
    here = alloc(image=(4, 4, IMAGE_TYPES["f32"][0]))
    size = dict(global_size=(1, 1, 1), local_size=(16, 4, 1))
    prg(here, here, **size)
    with (
        hcqrt.open_device("QCOM", adreno_machine()) as other,
        other.alloc(image=(4, 4, "FMT6_32_FLOAT")) as there,
        pytest.raises(LaunchError, match="a buffer of QCOM"),
    ):
        prg(here, there, **size)
    with pytest.raises(LaunchError, match="argument 1 is int, not a buffer"):
        prg(here, 7, **size)
    qcom.synchronize()


def test_a_refused_submission_leaves_the_timeline_as_it_was(qcom, adreno, alloc, load):
    prg = load(shipped("vector_add"))
    bufs = [alloc(4096) for _ in range(3)]
    for buf in bufs:
        buf.fill(0)
    launch = lambda: prg(*bufs, vals=(1024,), global_size=(4, 1, 1), local_size=(256, 1, 1))  # noqa: E731
    launch()
    qcom.synchronize()
    before = qcom.timeline_value
    adreno.inject("ioctl", "GPU_COMMAND", errno=errno.ENOMEM)
    with pytest.raises(HCQError):
        launch()
    assert qcom.timeline_value == before
    launch()
    qcom.synchronize()
    assert qcom.timeline_signal.value == before


def test_launches_go_on_where_the_gpus_32_bits_start_over(qcom, alloc, load):
    """The host counts on; the GPU never sees the value that would be 0."""
    prg = load(shipped("fill"))
    buf = alloc(256)
    qcom.synchronize()
    qcom.timeline_signal.value = (1 << 32) - 4
    qcom.timeline_value = (1 << 32) - 3
    for step in range(1, 8):
        prg(buf, vals=(step, 64), global_size=(1, 1, 1), local_size=(64, 1, 1))
        qcom.synchronize()
        assert set(np.frombuffer(bytes(buf.copyout()), np.uint32)) == {step}
    assert qcom.timeline_value == (1 << 32) + 5
    assert qcom.timeline_signal.value == (1 << 32) + 4


def test_more_shapes_than_are_kept(qcom, alloc, load):
    prg = load(shipped("fill"))
    buf = alloc(4 * 200)
    for size in (*range(1, 200), *range(1, 20)):
        prg(buf, vals=(size, size), global_size=(size, 1, 1), local_size=(1, 1, 1))
    assert len(prg.templates) <= 64
    result = np.frombuffer(bytes(buf.copyout()), np.uint32)
    assert (result[:19] == 19).all()
    assert (result[19:199] == 199).all()
    assert (prg.locate(prg._memory.va + 16), prg.locate(prg._memory.va - 1)) == ("k+0x10", None)


@pytest.mark.parametrize("kind", IMAGE_TYPES)
@pytest.mark.parametrize("height", [1, 2, 31, 33])
def test_26_rows_have_the_same_pitch_everywhere(qcom, alloc, load, kind, height):
    """Field report 26: host write, image copy kernel, read back, for widths around every alignment."""
    name, dtype = IMAGE_TYPES[kind]
    prg = load(shipped(f"image_copy_{kind}"))
    for width in (1, 3, 63, 64, 65, 127, 128, 129, 255, 257):
        data = np.random.default_rng(width).integers(0, 1 << 14, (height, width, 4)).astype(dtype)
        out, source = (alloc(image=(width, height, name)) for _ in range(2))
        source.copyin(data)
        out.fill(0xFF)
        prg(out, source, global_size=(-(-width // 16), -(-height // 4), 1), local_size=(16, 4, 1))
        assert bytes(out.copyout()) == data.tobytes()
        assert source.image.pitch % 64 == 0
        assert out.image.pitch == source.image.pitch


@pytest.mark.parametrize("image", [(7, 5, "FMT6_16_16_16_16_FLOAT"), (9, 3, "FMT6_32_32_32_32_FLOAT")])
def test_26_nothing_outside_the_texels_is_written(qcom, alloc, load, image):
    kind = "f16" if "16" in image[2] else "f32"
    prg = load(shipped(f"image_copy_{kind}"))
    out, source = (alloc(image=image, cpu_access=True) for _ in range(2))
    layout = out.image
    out.memory.host()[: layout.nbytes] = b"\xa5" * layout.nbytes
    out.memory.after_write(0, layout.nbytes)
    source.copyin(bytes(layout.tight_bytes))
    prg(out, source, global_size=(4, 4, 1), local_size=(16, 4, 1))
    qcom.synchronize()
    out.memory.before_read(0, layout.nbytes)
    memory = bytes(out.memory.host()[: layout.nbytes])
    for row in range(layout.height):
        start = row * layout.pitch
        assert memory[start : start + layout.row_bytes] == bytes(layout.row_bytes)
        assert set(memory[start + layout.row_bytes : start + layout.pitch]) <= {0xA5}


@pytest.mark.parametrize(("instructions", "units"), [(1, 1), (16, 1), (17, 2), (33, 3)])
@pytest.mark.parametrize("kind", ["opencl", "ir3"])
def test_28_the_instruction_length_counts_groups_of_sixteen(qcom, streams, load, kind, instructions, units):
    """Field report 28: from the code, in units of 128 bytes, whatever the file's size; and the kernel runs."""
    code = NOP * (instructions - 1) + END
    if kind == "opencl":
        binary = ClBinary(code=code, name="k").build() + bytes(5000)
    else:
        binary = ir3_image(code.ljust(128 * (units + 3), b"\0"), instrlen=units, ranges=(), allocations={0: (0, 0)})
    load(binary)(global_size=(2, 1, 1), local_size=(64, 1, 1))
    qcom.synchronize()
    items = [item for packet in decode(streams[-1]) for item in packet.items]
    assert [item.value for item in items if item.name == "SP_CS_INSTRLEN"] == [units]
    loads = [item for item in items if item.fields.get("STATE_BLOCK") == "SB6_CS_SHADER"]
    preload = [item for item in loads if "STATE_TYPE" not in item.fields]
    assert [item.fields["NUM_UNIT"] for item in preload] == [units]


@pytest.mark.parametrize(("chip", "cache"), [("a630", 64), ("a640", 64), ("a650", 127), ("a660", 127), ("a690", 127)])
def test_28_the_preload_is_capped_by_the_chips_instruction_cache(adreno_machine, chip, cache):
    """128 units hang an A650: qcom facts 3, item 10. INSTRLEN itself stays whole."""
    code = NOP * (16 * 130 - 1) + END
    with hcqrt.open_device("QCOM", adreno_machine(chip)) as dev:
        program = dev.program(ClBinary(code=code, name="k").build(), "k")
        args = program.fill_kernargs([])
        queue = dev.compute_queue().memory_barrier().exec(program, args, (1, 1, 1), (64, 1, 1))
        items = [item for packet in decode(queue.words) for item in packet.items]
        done = dev.new_signal()
        queue.signal(done, 1).submit(dev)
        done.wait(1)
        done.close()
        program.close()
    assert [item.value for item in items if item.name == "SP_CS_INSTRLEN"] == [130]
    assert [item.fields["NUM_UNIT"] for item in items if item.fields.get("STATE_SRC")][-1] == cache
