"""What the loader reads from cubins of both ABI forms: registers, barriers, limits, parameters, banks, variables."""

from __future__ import annotations

import struct

import pytest
from cubins import ABIS, EXIT, cubin, kernel
from gen.cubin_writer import Module, Writer, attribute

from hcqrt.errors import BinaryError
from hcqrt.nv.loader import load

CODE_OF = {name: bytes([number]) * 128 for number, name in enumerate(("first", "second", "third"), 1)}


@pytest.mark.parametrize("abi", ABIS)
def test_several_kernels_each_have_their_own_values(abi):
    """The attributes of .nv.info are keyed by symbol: the last record in the file is not everybody's."""
    image = load(
        cubin(
            kernel("first", registers=10, params=(8, 4), barriers=1, shared=16, stack=32, constant2=b"one1"),
            kernel("second", registers=255, params=(), max_threads=(8, 4, 2)),
            kernel("third", registers=40, params=(2,), barriers=16, required_block=(32, 2, 1), constant2=b"three333"),
            abi=abi,
        )
    )
    first, second, third = (image.pick(name) for name in CODE_OF)
    assert (image.sm, image.variant) == (86, "")
    assert [k.registers for k in (first, second, third)] == [10, 255, 40]
    assert [k.barriers for k in (first, second, third)] == [1, 0, 16]
    assert [k.shared_static for k in (first, second, third)] == [16, 0, 0]
    assert [k.local_high for k in (first, second, third)] == [32 + 0x240, 0, 0]
    assert [k.local_low for k in (first, second, third)] == [0, 0, 0]
    assert [k.max_threads for k in (first, second, third)] == [1024, 64, 64]
    assert [k.required_block for k in (first, second, third)] == [None, None, (32, 2, 1)]
    assert [k.param_bytes for k in (first, second, third)] == [12, 0, 2]
    offset, nbytes = third.banks[2]
    assert image.data[offset : offset + nbytes] == b"three333"
    assert 2 not in second.banks


@pytest.mark.parametrize("abi", ABIS)
def test_the_entry_is_where_the_code_is(abi):
    kernels = [kernel(name, registers=8) for name in CODE_OF]
    for source in kernels:
        source.code = CODE_OF[source.name]
    image = load(cubin(*kernels, abi=abi, constant3=bytes(100), globals={"g": 72}))
    for name, code in CODE_OF.items():
        entry = image.pick(name).entry
        assert entry % 128 == 0
        assert image.data[entry : entry + 128] == code
    end = max(image.pick(name).entry for name in CODE_OF) + 128
    assert len(image.data) - end >= 4096  # the hardware fetches ahead


def test_barriers_come_from_the_flags_in_the_old_form_and_from_the_attribute_in_the_new():
    """Each form's other place is not read."""
    assert load(cubin(kernel(barriers=5, extra_info=attribute(2, 0x4C, 9)), abi=7)).pick("k").barriers == 5
    writer = Writer(Module(86, [kernel(barriers=5)], abi=8))
    binary = bytearray(writer.build())
    head = struct.unpack_from("<Q", binary, 40)[0] + 64 * writer.index[".text.k"]
    struct.pack_into("<Q", binary, head + 8, struct.unpack_from("<Q", binary, head + 8)[0] | 9 << 20)
    assert load(bytes(binary)).pick("k").barriers == 5


@pytest.mark.parametrize("abi", ABIS)
def test_more_barriers_than_there_are_is_damage(abi):
    with pytest.raises(BinaryError, match="17 barriers, there are 16"):
        load(cubin(kernel(barriers=17), abi=abi))


def test_registers_from_the_attribute_and_from_the_section_where_it_is_missing():
    """sm_90 and later leave the section's copy 0."""
    assert load(cubin(kernel(registers=33), sm=90)).pick("k").registers == 33
    binary = cubin(kernel(registers=33)).replace(struct.pack("<2BH", 4, 0x2F, 8), struct.pack("<2BH", 4, 0xF7, 8))
    assert load(binary).pick("k").registers == 33
    binary = cubin(kernel(registers=33), sm=90).replace(
        struct.pack("<2BH", 4, 0x2F, 8), struct.pack("<2BH", 4, 0xF7, 8)
    )
    with pytest.raises(BinaryError, match="kernel k: 0 registers"):
        load(binary)


@pytest.mark.parametrize("abi", ABIS)
def test_field_report_23_an_unknown_attribute_is_skipped_in_each_format(abi):
    unknown = b"".join(
        (
            attribute(1, 0xF7),
            attribute(2, 0xF7, 0x12),
            attribute(3, 0xF7, 0x1234),
            attribute(4, 0xF7),
            attribute(4, 0xF7, payload=b"abc"),
            attribute(4, 0xF7, payload=bytes(range(64))),
        )
    )
    behind = attribute(4, 0x05, payload=struct.pack("<3I", 96, 1, 1))
    found = load(cubin(kernel(extra_info=unknown + behind, params=(8, 4)), abi=abi)).pick("k")
    assert found.max_threads == 96
    assert [(p.offset, p.size) for p in found.params] == [(0, 8), (8, 4)]


def test_an_unknown_attribute_format_is_refused_with_its_number():
    with pytest.raises(BinaryError, match="attribute 0xf7 has unknown format 5"):
        load(cubin(kernel(extra_info=attribute(5, 0xF7))))


@pytest.mark.parametrize(("sm", "base"), [(86, 0x160), (90, 0x210), (100, 0x380), (120, 0x380), (80, 0x160)])
@pytest.mark.parametrize("abi", ABIS)
def test_field_report_23_parameters_start_where_the_file_says(abi, sm, base):
    image = load(cubin(kernel(params=(8, 4, 8)), sm=sm, abi=abi))
    found = image.pick("k")
    assert (image.sm, found.param_base, found.param_bytes) == (sm, base, 24)
    assert [(p.offset, p.size) for p in found.params] == [(0, 8), (8, 4), (16, 8)]


def test_a_base_that_no_table_knows_is_taken_as_well():
    assert load(cubin(kernel(params=(8,)), param_base=0x440)).pick("k").param_base == 0x440


def test_parameters_of_every_size():
    sizes = (1, 2, 4, 8, 84, 1, 4000, 8)
    found = load(cubin(kernel(params=sizes))).pick("k")
    assert [p.size for p in found.params] == list(sizes)
    assert [p.offset for p in found.params] == [0, 2, 4, 8, 16, 100, 104, 4104]


def info_of(ordinal: int, offset: int, size: int) -> bytes:
    return attribute(4, 0x17, payload=struct.pack("<I2HI", 0, ordinal, offset, size << 18))


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (info_of(2, 8, 4), "parameters .0, 2. have gaps"),
        (info_of(0, 6, 4), "parameter 0, 4 bytes at 6, .*leaves the 8 parameter bytes"),
        (info_of(0, 0, 0), "parameter 0, 0 bytes at 0, is empty"),
        (info_of(0, 0, 8) + info_of(1, 4, 4), "parameter 1, 4 bytes at 4, .*overlaps"),
    ],
)
def test_parameters_that_cannot_be(records, text):
    with pytest.raises(BinaryError, match=text):
        load(cubin(kernel(params=(8,), extra_info=records)))


def test_parameters_beyond_the_bank_are_damage():
    with pytest.raises(BinaryError, match="beyond the 65536 bytes"):
        load(cubin(kernel(params=(8,)), param_base=0xFFFC))


def test_a_file_that_lists_no_parameters_but_has_some_leaves_them_unknown():
    place = attribute(4, 0x0A, payload=struct.pack("<I2H", 1, 0x160, 24))
    found = load(cubin(kernel(extra_info=place))).pick("k")
    assert (found.params, found.param_bytes) == (None, 24)


@pytest.mark.parametrize("abi", ABIS)
def test_constant_banks_of_kernel_and_module(abi):
    image = load(
        cubin(
            kernel("first", constant2=b"own-bank"),
            kernel("second"),
            abi=abi,
            constant3=b"user constants!!",
            constant4=bytes(8),
        )
    )
    first, second = image.pick("first").banks, image.pick("second").banks
    assert (sorted(first), sorted(second)) == ([2, 3, 4], [3, 4])
    assert first[3] == second[3]
    assert [image.data[at : at + size] for _, (at, size) in sorted(first.items())] == [
        b"own-bank",
        b"user constants!!",
        bytes(8),
    ]
    assert all(at % 256 == 0 for at, _ in first.values())


def test_a_bank_of_more_than_64_kib_is_damage():
    with pytest.raises(BinaryError, match="constant3 of 65540 bytes"):
        load(cubin(constant3=bytes(65540)))


@pytest.mark.parametrize("abi", ABIS)
def test_shared_memory_of_sm_90_contains_the_reserve(abi):
    assert load(cubin(kernel(shared=16), sm=90, abi=abi)).pick("k").shared_static == 16
    assert load(cubin(kernel(), sm=90, abi=abi)).pick("k").shared_static == 0
    assert load(cubin(kernel(shared=16), sm=86, abi=abi)).pick("k").shared_static == 16


def test_the_stack_is_the_frame_where_the_minimum_is_zero():
    assert load(cubin(kernel(stack=0, frame=40))).pick("k").local_high == 624  # 40 + 0x240, in steps of 16
    assert load(cubin(kernel(stack=256, frame=8))).pick("k").local_high == 256 + 0x240


def test_recursion_gets_the_default_stack():
    """A private function of the same section has a frame that the kernel's minimum does not cover."""
    writer = Writer(Module(86, [kernel()]))
    write_infos = writer._infos

    def with_callee() -> None:
        callee = writer.symbol("$k$callee", 2, 0, writer.index[".text.k"], 0)
        write_infos()
        info = writer.sections[writer.index[".nv.info"]]
        info["data"] += attribute(4, 0x11, payload=struct.pack("<2I", callee, 72))

    writer._infos = with_callee
    assert load(writer.build()).pick("k").local_high == 1024 + 0x240


@pytest.mark.parametrize("abi", ABIS)
def test_architecture_variants(abi):
    image = load(cubin(sm=90, abi=abi, accelerated=True))
    assert (image.sm, image.variant) == (90, "a")
    assert load(cubin(sm=90, abi=abi)).variant == ""


# `.nv.compat` as ptxas 13.0.88 writes it. The first two of its records differ: for sm_NN or sm_NNf, for sm_NNa, and for
# code of sm_100a and of sm_100f that uses tensor memory.
REST = bytes.fromhex("02050500 03070101 02030000 02060100 040b0800 0900000000000000")
COMPAT = {
    "02090000 02020100": "", "02090100 02020100": "a", "02090100 02020200": "a", "02090000 02020200": "f",
}  # fmt: skip


@pytest.mark.parametrize("first", COMPAT)
def test_architecture_variants_of_cuda_13(first):
    """Their ELF flags are those of sm_100, whatever the variant."""
    image = load(cubin(sm=100, compat=bytes.fromhex(first) + REST))
    assert (image.sm, image.variant) == (100, COMPAT[first])


def test_an_object_file_is_refused():
    with pytest.raises(BinaryError, match=r"unlinked object \(ELF type 1\).*nvlink"):
        load(cubin(elf_type=1))


@pytest.mark.parametrize(("at", "value", "text"), [(7, 0, "ABI 0x0/8"), (8, 9, "ABI 0x41/9"), (7, 0x33, "ABI 0x33/8")])
def test_an_unknown_abi_is_refused_with_its_number(at, value, text):
    binary = bytearray(cubin())
    binary[at] = value
    with pytest.raises(BinaryError, match=text):
        load(bytes(binary))


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (attribute(4, 0x3D, payload=struct.pack("<3I", 2, 1, 1)), "clusters"),
        (attribute(1, 0x3E), "clusters"),
        (attribute(1, 0x5B), "clusters"),
        (attribute(4, 0x46, payload=struct.pack("<I", 0x120)), "vendor's driver"),
    ],
)
def test_what_a_launch_cannot_give_is_refused_for_that_kernel_only(info, text):
    image = load(cubin(kernel("plain"), kernel("odd", extra_info=info), sm=90))
    assert image.pick("plain").name == "plain"
    with pytest.raises(BinaryError, match=f"kernel odd: .*{text}"):
        image.pick("odd")


def test_clusters_of_one_block_are_no_clusters():
    one = attribute(4, 0x3D, payload=struct.pack("<3I", 1, 1, 1)) + attribute(4, 0x3F, payload=struct.pack("<I", 8))
    assert load(cubin(kernel(extra_info=one), sm=90)).pick("k").refusal == ""


def test_side_data_of_later_chips_is_ignored():
    writer = Writer(Module(100, [kernel()]))
    writer.add(".nv.capmerc.text.k", 0x70000016, b"\xff" * 24, flags=0x10000000, align=16)
    writer.add(".text.$__merc", 1, b"\xee" * 128, flags=0x10000000, align=128)
    image = load(writer.build())
    assert b"\xee" * 8 not in image.data
    assert EXIT in image.data


def test_a_file_without_kernels_says_so():
    writer = Writer(Module(86, [kernel()]))
    binary = bytearray(writer.build())
    place = binary.index(struct.pack("<2B", 1 << 4 | 2, 0x10))  # GLOBAL FUNC, STO_CUDA_ENTRY
    binary[place + 1] = 0
    with pytest.raises(BinaryError, match="no kernel"):
        load(bytes(binary))


def without_param_cbank(binary: bytes, size: int) -> bytes:
    """The attribute that places the parameters becomes an unknown one. `size`: of all parameters."""
    record = struct.pack("<2BH", 4, 0x0A, 8)
    place = binary.index(record)
    assert binary[place + 10 : place + 12] == size.to_bytes(2, "little")
    return binary.replace(record, struct.pack("<2BH", 4, 0xF7, 8))


@pytest.mark.parametrize(("sm", "base"), [(86, 0x160), (90, 0x210), (120, 0x380)])
def test_a_kernel_without_parameters_need_not_say_where_they_are(sm, base):
    """ptxas then leaves the attribute out; constant bank 0 ends where parameters would start."""
    kernels = load(without_param_cbank(cubin(sm=sm), 0)).kernels
    assert (kernels["k"].param_base, kernels["k"].param_bytes, kernels["k"].params) == (base, 0, ())
    with pytest.raises(BinaryError, match="has no PARAM_CBANK"):
        load(without_param_cbank(cubin(kernel(params=(8,)), sm=sm), 8))
