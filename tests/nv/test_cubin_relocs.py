"""Every relocation that linked cubins hold, against bytes worked out by hand; every other kind refused by number."""

from __future__ import annotations

import pytest
from cubins import cubin, kernel
from gen.cubin_writer import Module, Reloc, Writer

from hcqrt.errors import BinaryError
from hcqrt.nv.cubin_relocs import KINDS
from hcqrt.nv.loader import load

VA, ADDEND = 0x71_2340_0000, 0x14
LOW_VA = 0x2340_0000
# The file has two variables of 8 bytes in .nv.global, which is first in the image; the second one is meant:
# S = 0x71_2340_0000 + 8 + 0x14 = 0x71_2340_001c. The patched instruction is 16 bytes of ff.
BY_HAND = {
    2: "1c004023 71000000 ffffffff ffffffff",
    4: "1c004023 71000000 ffffffff ffffffff",
    35: "1c004023 71000000 ffffffff ffffffff",
    56: "ffffffff 1c004023 ffffffff ffffffff",
    62: "ffffffff 1c004023 ffffffff ffffffff",
    57: "ffffffff 71000000 ffffffff ffffffff",
    63: "ffffffff 71000000 ffffffff ffffffff",
    70: "1c004023 ffffffff ffffffff ffffffff",
    71: "71000000 ffffffff ffffffff ffffffff",
    72: "00000000 ffffffff ffffffff ffffffff",
    73: "00000000 00000000 ffffffff ffffffff",
    # bits 80:34 = S / 4: the low two bits of byte 4 and the high seven of byte 10 stay
    58: "ffffffff 1f004023 7100feff ffffffff",
    # bits 23:16 = (S / 4) & ff = 07, bits 80:34 = S / 1024 = 0x1c48d000
    75: "ffff07ff 03402371 0000feff ffffffff",
    76: "1cffffff ffffffff ffffffff ffffffff",
    77: "00ffffff ffffffff ffffffff ffffffff",
    78: "40ffffff ffffffff ffffffff ffffffff",
    79: "23ffffff ffffffff ffffffff ffffffff",
    80: "71ffffff ffffffff ffffffff ffffffff",
    81: "00ffffff ffffffff ffffffff ffffffff",
    82: "00ffffff ffffffff ffffffff ffffffff",
    83: "00ffffff ffffffff ffffffff ffffffff",
}
# 32-bit places take the whole address, so it must be low: S = 0x2340_0000 + 8 + 0x14
BY_HAND_LOW = {
    1: "1c004023 ffffffff ffffffff ffffffff",
    3: "1c004023 ffffffff ffffffff ffffffff",
    34: "1c004023 ffffffff ffffffff ffffffff",
    55: "ffffffff 1c004023 ffffffff ffffffff",
}


def with_relocation(
    kind: int, *, offset: int = 16, symbol: str = "second", section: str = ".text.k", **fields
) -> bytes:
    source = kernel()
    source.code = b"\xff" * 128
    addend = fields.pop("addend", ADDEND)
    reloc = Reloc(section, offset, kind, symbol, addend)
    return cubin(source, globals={"first": 8, "second": 8}, relocs=[reloc], **fields)


def patched(binary: bytes, va: int) -> bytes:
    image = load(binary)
    entry = image.pick("k").entry
    code = image.at(va)[entry : entry + 128]
    assert code[:16] + code[32:] == b"\xff" * 112
    return code[16:32]


@pytest.mark.parametrize("sm", [86, 90])
@pytest.mark.parametrize("kind", sorted(BY_HAND))
def test_a_relocation_patches_what_the_linker_patches(kind, sm):
    assert patched(with_relocation(kind, sm=sm), VA) == bytes.fromhex(BY_HAND[kind])


@pytest.mark.parametrize("kind", sorted(BY_HAND_LOW))
def test_a_relocation_of_32_bits_holds_a_whole_address_or_raises(kind):
    binary = with_relocation(kind)
    assert patched(binary, LOW_VA) == bytes.fromhex(BY_HAND_LOW[kind])
    with pytest.raises(BinaryError, match="0x712340001c does not fit 32 bits"):
        patched(binary, VA)


def test_every_kind_has_an_expectation():
    assert set(KINDS) == BY_HAND.keys() | BY_HAND_LOW.keys()


def test_a_branch_address_that_is_no_multiple_of_4_or_too_large_raises():
    for kind in (58, 75):
        with pytest.raises(BinaryError, match="does not fit"):
            load(with_relocation(kind, addend=1)).at(VA)
    with pytest.raises(BinaryError, match="47-bit"):
        load(with_relocation(58)).at(1 << 49)


@pytest.mark.parametrize("kind", [0, 5, 6, 9, 19, 23, 24, 29, 36, 42, 50, 64, 65, 66, 74, 84, 102, 112, 114, 115, 999])
def test_any_other_kind_is_refused_with_its_number_and_place(kind):
    with pytest.raises(BinaryError, match=rf"\.text\.k\+0x10: relocation {kind}: "):
        load(with_relocation(kind))


@pytest.mark.parametrize(("kind", "why"), [(6, "textures"), (52, "textures"), (112, "nvlink")])
def test_the_refusal_says_what_it_is_about(kind, why):
    with pytest.raises(BinaryError, match=why):
        load(with_relocation(kind))


def test_a_place_that_leaves_its_section_is_damage():
    last = {2: 120, 56: 120, 58: 112, 76: 127, 72: 124}
    for kind, offset in last.items():
        load(with_relocation(kind, offset=offset))
        with pytest.raises(BinaryError, match="leaves the section"):
            load(with_relocation(kind, offset=offset + 1))


def test_relocations_without_addend_patch_the_same():
    """SHT_REL, which sm_89 and older have."""
    binary = with_relocation(2, addend=0)
    assert patched(binary, VA) == bytes.fromhex("08004023 71000000 ffffffff ffffffff")


def test_variables_are_zeroed_or_initialised_and_pointers_between_them_resolved():
    """`int array[4] = {1, 2, 3, 4}; int *second = &array[1]; int zeros[1000];` and bank 4's table of addresses."""
    array = b"".join(n.to_bytes(4, "little") for n in (1, 2, 3, 4))
    image = load(
        cubin(
            globals={"pad": 8, "zeros": 4000},
            initialised={"array": array, "pointer": bytes(8)},
            constant4=bytes(16),
            relocs=[
                Reloc(".nv.global.init", 16, 4, "array", 4),
                Reloc(".nv.constant4", 0, 2, "zeros"),
                Reloc(".nv.constant4", 8, 2, "pointer"),
            ],
        )
    )
    data = image.at(VA)
    table, _ = image.pick("k").banks[4]
    zeros, pointer = (int.from_bytes(data[table + at : table + at + 8], "little") - VA for at in (0, 8))
    assert data[zeros : zeros + 4000] == bytes(4000)
    target = int.from_bytes(data[pointer : pointer + 8], "little") - VA
    assert data[pointer - 16 : pointer] == array
    assert target == pointer - 12
    assert image.at(VA + 0x1000) != data


def test_shared_memory_symbols_are_offsets_not_addresses():
    writer = Writer(Module(86, [kernel(shared=64)], relocs=[Reloc(".text.k", 0, 56, "buffer")]))
    make = writer._data

    def with_symbol() -> None:
        make()
        writer.symbol("buffer", 1, 0, writer.index[".nv.shared.k"], 32, 4)

    writer._data = with_symbol
    image = load(writer.build())
    assert image.at(VA)[image.pick("k").entry + 4 :][:4] == bytes.fromhex("20000000")


def test_field_report_23_an_imported_function_is_refused_by_name_and_spares_the_other_kernels():
    image = load(
        cubin(
            kernel("plain"),
            kernel("prints", externs=("vprintf",)),
            kernel("calls"),
            undefined=("vprintf", "malloc", "__assertfail"),
            constant4=bytes(8),
            relocs=[Reloc(".nv.constant4", 0, 2, "vprintf"), Reloc(".text.calls", 0, 56, "malloc")],
        )
    )
    assert image.pick("plain").unresolved == ()
    with pytest.raises(BinaryError, match=r"kernel prints needs vprintf.*printf"):
        image.pick("prints")
    with pytest.raises(BinaryError, match="kernel calls needs malloc"):
        image.pick("calls")


def test_an_import_that_no_kernel_claims_refuses_the_file():
    with pytest.raises(BinaryError, match="needs somebody"):
        load(cubin(undefined=("somebody",), constant4=bytes(8), relocs=[Reloc(".nv.constant4", 0, 2, "somebody")]))


def test_the_weak_symbol_of_reserved_shared_memory_is_zero():
    name = ".nv.reservedSmem.offset0"
    writer = Writer(Module(90, [kernel()], undefined=(name,), relocs=[Reloc(".text.k", 0, 56, name)]))
    make = writer._texts

    def weaken() -> None:
        make()
        writer.symbols = [(n, 2 << 4 | info & 15 if n == name else info, *rest) for n, info, *rest in writer.symbols]

    writer._texts = weaken
    image = load(writer.build())
    assert image.at(VA)[image.pick("k").entry + 4 :][:4] == bytes(4)


def test_relocations_of_debug_sections_are_skipped_and_those_of_bank_0_refused():
    for section, fine in ((".debug_frame", True), (".nv.constant0.k", False)):
        writer = Writer(Module(86, [kernel()], relocs=[Reloc(section, 0, 999, "k")]))
        make = writer._data

        def with_debug(writer=writer, make=make) -> None:
            make()
            writer.add(".debug_frame", 1, bytes(64), align=1)

        writer._data = with_debug
        binary = writer.build()
        if fine:
            assert load(binary).relocations == ()
        else:
            with pytest.raises(BinaryError, match=r"\.rel\.nv\.constant0\.k changes constant bank 0"):
                load(binary)
