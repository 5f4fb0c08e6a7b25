"""Every rule of a dispatch (qcom.md §3): broken alone, it is refused with the register's offset and value."""

from __future__ import annotations

import pytest
from adreno_bench import CODE_VA, CONST_VA, DATA_VA, SIGNAL_VA, UNMAPPED_VA, Bench, dispatch, lo_hi, type4, type7

from hcqrt.emu.qcom.trouble import PAGE_FAULT
from hcqrt.emu.refusal import EmulatorRefusal

PER_SP = 512 * 2048
PRIVATE = {0xA9B6: 1, 0xA9B7: 0x0400_0000, 0xA9B8: 0x10, 0xA9B9: PER_SP >> 12, 0xA9BD: PER_SP >> 11}
# What is changed -> what the refusal must say
RULES: dict[str, tuple[dict[int, int], str]] = {
    "isam mode of the SP": ({0xAB00: 1}, "SP_MODE_CONTROL (0xab00) = 0x1: ISAMMODE 0"),
    "isam mode 3": ({0xAB00: 7, 0xB309: 3}, "ISAMMODE 3"),
    "isam modes differ": ({0xB309: 1}, "SP_TP_MODE_CNTL (0xb309) = 0x1: ISAMMODE 1, but 2"),
    "shared constants": ({0xAB00: 0xD}, "SHARED_CONSTS_ENABLE"),
    "shared constants, HLSQ": ({0xBB11: 1}, "HLSQ_SHARED_CONSTS (0xbb11) = 0x1"),
    "half floats without infinity": ({0xAE04: 8}, "F16_NO_INF"),
    "another chip's magic": ({0xB600: 0x00008000}, "TPL1_DBG_ECO_CNTL (0xb600) = 0x8000: an a630 takes 0 or 0x108000"),
    "a newer chip's magic": ({0xB600: 0x05008000}, "TPL1_DBG_ECO_CNTL (0xb600) = 0x5008000: an a630 takes 0"),
    "constants not enabled": ({0xB987: 1}, "HLSQ_CS_CNTL (0xb987) = 0x1: ENABLED"),
    "constlen over the file": ({0xB987: 0x100 | 65}, "CONSTLEN 260 vec4, the file has 256"),
    "constlen over the RAM mode": ({0xB987: 0x100 | 33}, "SP_CS_CTRL_REG1 (0xa9b1) = 0x1: constant RAM mode 0 holds"),
    "constlen over RAM mode 1": ({0xB987: 0x100 | 49, 0xA9B1: 0x21}, "mode 1 holds 192 vec4, CONSTLEN is 196"),
    "RAM mode over the file": ({0xA9B1: 0x61}, "constant RAM mode 3: the file has 256 vec4"),
    "constlen zero": ({0xB987: 0x100}, "constants up to c0 were loaded, CONSTLEN is 0 vec4"),
    "config not enabled": ({0xA9BB: 0}, "SP_CS_CONFIG (0xa9bb) = 0x0: ENABLED"),
    "bindless textures": ({0xA9BB: 0x101}, "BINDLESS_TEX"),
    "bindless samplers": ({0xA9BB: 0x102}, "BINDLESS_SAMP"),
    "bindless images": ({0xA9BB: 0x104}, "BINDLESS_IBO"),
    "bindless UBOs": ({0xA9BB: 0x108}, "BINDLESS_UBO"),
    "texture count": ({0xA9BA: 0x80}, "SP_CS_TEX_COUNT (0xa9ba) = 0x80: SP_CS_CONFIG says 0"),
    "image count": ({0xAA00: 0x40}, "SP_CS_IBO_COUNT (0xaa00) = 0x40: SP_CS_CONFIG says 0"),
    "no code": ({0xA9BC: 0}, "SP_CS_INSTRLEN (0xa9bc) = 0x0"),
    "code off its alignment": ({0xA9B4: 0x10020}, "SP_CS_OBJ_START (0xa9b4) = 0x1000010020"),
    "first instruction outside": ({0xA9B3: 0x80}, "SP_CS_OBJ_FIRST_EXEC_OFFSET (0xa9b3) = 0x80"),
    "first instruction between two": ({0xA9B3: 4}, "SP_CS_OBJ_FIRST_EXEC_OFFSET (0xa9b3) = 0x4"),
    "code loaded from elsewhere": ({0xA9B4: 0x10080}, "not the code at 0x1000010080"),
    "branch condition": ({0xA9B2: 1}, "SP_CS_BRANCH_COND (0xa9b2) = 0x1"),
    "thread mode": ({0xA9B0: 0x181}, "THREADMODE"),
    "early preamble": ({0xA9B0: 0x180 | 1 << 23}, "EARLYPREAMBLE"),
    "unnamed bit 13": ({0xA9B0: 0x180 | 1 << 13}, "UNK13"),
    "unnamed bit 21": ({0xA9B0: 0x180 | 1 << 21}, "UNK21"),
    "branch stack not halved": ({0xA9B0: 0x180 | 33 << 14}, "branch stack 33, over 32"),
    "full footprint": ({0xA9B0: 49 << 7}, "footprints 49 and 0 vec4, the files have 48"),
    "half footprint": ({0xA9B0: 0x180 | 49 << 1}, "footprints 3 and 49"),
    "thread sizes differ": ({0xA9B0: 0x180 | 1 << 20}, "HLSQ_CS_CNTL_1 (0xb998) = 0xfc: THREADSIZE 0, but 1"),
    "thread sizes differ, HLSQ": ({0xB998: 0xFC | 1 << 9}, "THREADSIZE 1, but 0"),
    "single SP core": ({0xB998: 0xFC | 1 << 8}, "SINGLE_SP_CORE"),
    "scalar threads": ({0xB998: 0xFC | 1 << 10}, "THREADSIZE_SCALAR"),
    "register file": (
        {0xA9B0: 48 << 7, 0xB990: 3 | 319 << 2, 0xB991: 640},
        "SP_CS_CTRL_REG0 (0xa9b0) = 0x1800: 5 waves of 48 full and 0 half vec4, 4 fit on an a630",
    ),
    "local size": ({0xB990: 3 | 1023 << 2 | 1 << 12}, "local size (1024, 2, 1) has 2048 fibers, over 1024"),
    "no dimensions": ({0xB990: 63 << 2}, "in 0 dimensions"),
    "local size in a missing dimension": ({0xB990: 1 | 31 << 2 | 1 << 12}, "local size (32, 2, 1) in 1 dimensions"),
    "global size": ({0xB991: 100}, "HLSQ_CS_NDRANGE_1 (0xb991) = 0x64: 2 groups of 64 in X are 0x80"),
    "global size y": ({0xB993: 2}, "HLSQ_CS_NDRANGE_3 (0xb993) = 0x2: 1 groups of 1 in Y"),
    "global size z": ({0xB995: 0}, "HLSQ_CS_NDRANGE_5 (0xb995) = 0x0: 1 groups of 1 in Z"),
    "global offset": ({0xB992: 64}, "HLSQ_CS_NDRANGE_2 (0xb992) = 0x40: offsets"),
    "global offset z": ({0xB996: 1}, "HLSQ_CS_NDRANGE_6 (0xb996) = 0x1: offsets"),
    "group id in a low register": ({0xB997: 0x00FCFC10}, "HLSQ_CS_CNTL_0 (0xb997) = 0xfcfc10: group id in register"),
    "group id past r55": ({0xB997: 0x00FCFCDE}, "group id in register 0xde"),
    "group id and size overlap": ({0xB997: 0x00FCC2C0}, "group size in register 0xc2"),
    "group offset overlaps": ({0xB997: 0x00CDFCCF}, "group offset in register 0xcd"),
    "local id past the footprint": ({0xB997: 0x0AFCFCC0}, "local id in register 0xa: three leave the footprint of 3"),
    "linear id past the footprint": ({0xB998: 0x0C}, "HLSQ_CS_CNTL_1 (0xb998) = 0xc: linear id in register 0xc"),
    "linear id on the local id": ({0xB998: 0x02}, "linear id in register 0x2"),
    "private memory per SP": (
        PRIVATE | {0xA9B9: (PER_SP >> 12) - 1},
        "SP_CS_PVT_MEM_SIZE (0xa9b9) = 0xff: 0xff000 bytes for an SP, 2048 fibers of 0x200 need 0x100000",
    ),
    "private memory, no power of two": (PRIVATE | {0xA9B6: 3}, "SP_CS_PVT_MEM_PARAM (0xa9b6) = 0x3: 0x600 bytes"),
    "hardware stack size": (PRIVATE | {0xA9B6: 1 | 1 << 24}, "HWSTACKSIZEPERTHREAD"),
    "stack offset not shifted": (
        PRIVATE | {0xA9BD: 0x1000},
        "SP_CS_PVT_MEM_HW_STACK_OFFSET (0xa9bd) = 0x1000: offset 0x800000, an SP's private memory has 0x100000",
    ),
    "stack offset without memory": ({0xA9BD: 2}, "offset 0x1000, an SP's private memory has 0x0"),
    "private base": (PRIVATE | {0xA9B7: 0x0400_0010}, "SP_CS_PVT_MEM_ADDR (0xa9b7) = 0x1004000010"),
}  # fmt: skip


def refused(bench: Bench, words: list[int]) -> str:
    with pytest.raises(EmulatorRefusal) as failure:
        bench.submit(*words)
    assert bench.launches == []
    assert bench.u32(SIGNAL_VA) == 0
    return str(failure.value)


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_refused_with_offset_and_value(bench: Bench, rule: str) -> None:
    change, text = RULES[rule]
    assert text in refused(bench, dispatch(change))


@pytest.mark.parametrize("packet", [2, 3, 5, 8, 9, 10, 11, 12])
def test_state_that_was_never_written_is_refused(bench: Bench, packet: int) -> None:
    """Each packet of the example that is not magic: without it the hardware would run with what others left."""
    assert "never written" in refused(bench, dispatch(drop=(packet,)))


@pytest.mark.parametrize("value", [0xA2, 0x0A])
def test_the_unnamed_texture_mode_is_free(bench: Bench, value: int) -> None:
    """Turnip writes 0xA0 and tinygrad 0.11 writes 8 beside the mode."""
    bench.submit(*dispatch({0xB309: value}))
    assert len(bench.launches) == 1


@pytest.mark.parametrize("packet", [4, 6, 14])
def test_magic_and_prefetch_may_be_left_out(bench: Bench, packet: int) -> None:
    bench.submit(*dispatch(drop=(packet,)))
    assert len(bench.launches) == 1


def test_every_size_and_offset_of_the_grid_must_be_written(bench: Bench) -> None:
    packets = [*type4(0xB990, 0xFF, 0x80, 0, 1, 0, 1), *type4(0xB997, 0x00FCFCC0, 0xFC)]
    assert "HLSQ_CS_NDRANGE_5 and HLSQ_CS_NDRANGE_6 were never written" in refused(
        bench, dispatch(drop=(12,), before=packets)
    )


def test_a_dispatch_needs_the_compute_marker(bench: Bench) -> None:
    assert "marker mode is None" in refused(bench, dispatch(drop=(0,)))
    bench.context.kill()
    assert "marker mode is 1" in refused(bench, dispatch(before=(0x70E50001, 1)))


def test_no_groups_are_refused(bench: Bench) -> None:
    assert "no groups in Y" in refused(bench, dispatch(launch=(0x70B30004, 0, 2, 0, 1)))


def test_group_counts_must_make_the_global_size(bench: Bench) -> None:
    assert "3 groups of 64 in X are 0xc0" in refused(bench, dispatch(launch=(0x70B30004, 0, 3, 1, 1)))


def test_a_global_size_past_32_bits_is_refused(bench: Bench) -> None:
    assert "0x4000001 groups of 64 in X" in refused(bench, dispatch(launch=(0x70B30004, 0, 0x4000001, 1, 1)))


@pytest.mark.parametrize(
    ("packet", "text"),
    [
        ((0x70B30004, 1, 2, 1, 1), "CP_EXEC_CS: dword 0 is 0x1"),
        ((0x70310001, 2), "CP_RUN_OPENCL: dword 0 is 0x2"),
        (type7(0x33, 0, 2, 1), "CP_EXEC_CS: 3 dwords"),
        (type7(0x41, 0, 0, 0, 1), "bits 0x1 are not known"),
    ],
)
def test_launch_packets_have_one_form(bench: Bench, packet: tuple[int, ...], text: str) -> None:
    assert text in refused(bench, dispatch(launch=packet))


def load(first: int, kind: int, source: int, block: int, units: int) -> int:
    return first | kind << 14 | source << 16 | block << 18 | units << 22


CODE = lo_hi(CODE_VA)


@pytest.mark.parametrize(
    ("opcode", "payload", "text"),
    [
        (0x34, (load(0, 0, 2, 12, 1), *CODE), "block 12 with type 0"),
        (0x34, (load(0, 2, 2, 5, 1), *CODE), "block 5 with type 2"),
        (0x34, (load(0, 3, 2, 15, 1), *CODE), "block 15 with type 3"),
        (0x32, (load(0, 1, 2, 13, 1), *CODE), "block 13 is loaded by CP_LOAD_STATE6_FRAG"),
        (0x34, (load(0, 1, 1, 13, 1), *CODE), "source 1 (bindless)"),
        (0x34, (load(0, 1, 3, 13, 1), *CODE), "source 3 (UBO)"),
        (0x34, (load(0, 1, 2, 13, 0), *CODE), "a load of no units"),
        (0x34, (load(255, 1, 2, 13, 2), *CODE), "constants 255 to 256, the file has 256"),
        (0x34, (load(10, 1, 2, 5, 7), *CODE), "textures 10 to 16, there are 16"),
        (0x34, (load(0, 1, 2, 13, 1), CODE[0] + 8, CODE[1]), "0x1000010008 is not 16-byte aligned"),
        (0x34, (load(0, 1, 2, 13, 1), *CODE, 0), "4 dwords, 1 units take 3"),
        (0x34, (load(0, 1, 0, 13, 1), 0, 0, 1, 2, 3), "6 dwords, 1 units take 7"),
        (0x34, (load(0, 1, 0, 13, 1), 16, 0, 1, 2, 3, 4), "not 0 for inline data"),
        (0x34, (load(0, 1, 2, 13, 1), CODE[0]), "2 dwords, it takes at least 3"),
    ],
)
def test_loads_that_mean_nothing_are_refused(bench: Bench, opcode: int, payload: tuple[int, ...], text: str) -> None:
    assert text in refused(bench, type7(opcode, *payload))


def test_both_stages_may_be_loaded_by_one_packet(bench: Bench) -> None:
    bench.submit(*dispatch(before=type7(0x36, load(1, 1, 2, 13, 1), *lo_hi(CONST_VA))))
    assert len(bench.launches) == 1


def test_more_code_than_the_instruction_cache_holds_is_refused(bench: Bench) -> None:
    prefetch = type7(0x34, load(0, 0, 2, 13, 65), *CODE)
    text = refused(bench, dispatch({0xA9BC: 80}, before=prefetch))
    assert "65 code to 0x0 from 0x1000010000: the instruction cache of an a630 holds 64 units" in text


def test_more_code_than_the_program_has_is_refused(bench: Bench) -> None:
    prefetch = type7(0x34, load(0, 0, 2, 13, 2), *CODE)
    assert "SP_CS_INSTRLEN is 1" in refused(bench, dispatch(before=prefetch))


def test_constants_past_constlen_are_refused(bench: Bench) -> None:
    constants = type7(0x34, load(4, 1, 2, 13, 1), *lo_hi(CONST_VA))
    text = refused(bench, dispatch(before=constants))
    assert "HLSQ_CS_CNTL (0xb987) = 0x101: constants up to c4 were loaded, CONSTLEN is 4 vec4" in text


class TestChips:
    """What differs by chip."""

    @pytest.mark.parametrize(("chip", "per_fiber_units", "fibers", "sps"), [
        ("a640", 1, 8192, 2), ("a650", 1, 4096, 3), ("a660", 1, 4096, 3), ("a690", 1, 4096, 8),
    ])  # fmt: skip
    def test_private_memory_follows_the_fibers_of_an_sp(
        self, chip: str, per_fiber_units: int, fibers: int, sps: int
    ) -> None:
        bench = Bench(chip)
        change = PRIVATE | {0xB600: 0} | MIRRORS
        with pytest.raises(EmulatorRefusal, match=f"{fibers} fibers of 0x200 need {512 * fibers:#x}"):
            bench.submit(*dispatch(change))
        bench.context.kill()
        per_sp = 512 * fibers
        bench.map(0x10_0400_0000, per_sp * sps)
        bench.submit(*dispatch(change | {0xA9B9: per_sp >> 12, 0xA9BD: per_sp >> 11}))
        assert len(bench.launches) == 1
        bench.close()

    @pytest.mark.parametrize(
        ("chip", "magic"),
        [("a640", 0x8000), ("a650", 0x01008000), ("a660", 0x05008000), ("a690", 0x04C00000)],
    )
    def test_every_chip_has_its_own_magic(self, chip: str, magic: int) -> None:
        bench = Bench(chip)
        bench.submit(*dispatch(MIRRORS | {0xB600: magic}))
        assert len(bench.launches) == 1
        bench.close()

    @pytest.mark.parametrize(("mirror", "name"), [(0xA9C2, "SP_CS_CNTL_0"), (0xA9C3, "SP_CS_CNTL_1"),
                                                  (0xB9D0, "HLSQ_CS_CTRL_REG1")])  # fmt: skip
    def test_lpac_needs_mirrors_that_agree(self, mirror: int, name: str) -> None:
        bench = Bench("a660")
        with pytest.raises(EmulatorRefusal, match=rf"{name} \({mirror:#x}\) = 0x7: an a660 needs the value of"):
            bench.submit(*dispatch({0xB600: 0} | MIRRORS | {mirror: 7}))
        bench.close()

    def test_a650_has_a_smaller_register_file_and_a_larger_instruction_cache(self) -> None:
        bench = Bench("a650")
        prefetch = type7(0x34, load(0, 0, 2, 13, 127), *CODE)
        bench.submit(*dispatch({0xB600: 0x01008000, 0xA9BC: 127}, before=prefetch))
        assert len(bench.launches) == 1
        with pytest.raises(EmulatorRefusal, match="3 waves of 48 full and 0 half vec4, 2 fit on an a650"):
            bench.submit(*dispatch({0xB600: 0, 0xA9B0: 48 << 7, 0xB990: 3 | 191 << 2, 0xB991: 384}))
        bench.close()


MIRRORS = {0xA9C2: 0x00FCFCC0, 0xA9C3: 0xFC, 0xB9D0: 1}


class TestLenient:
    """The mistakes of the known client (qcom.md §9, item 4) pass, and only they."""

    def test_its_fields_pass(self, lenient: Bench) -> None:
        change = {0xB987: 0x100, 0xA9BD: 0x1000, 0xA9BA: 0x80, 0xAA00: 0x40, 0xA9B1: 0x41}
        lenient.submit(*dispatch(change, drop=(3,)))
        assert lenient.faults == []
        assert lenient.launches[0].constants[0][1] == 4096

    def test_its_constants_are_read_as_far_as_they_are_mapped(self, lenient: Bench) -> None:
        last = DATA_VA + 0x100000 - 32
        lenient.space.write(last, bytes(range(32)))
        whole = type7(0x34, load(0, 1, 2, 13, 256), *lo_hi(last))
        lenient.submit(*dispatch({0xB987: 0x100}, before=whole))
        assert lenient.faults == []
        assert bytes(lenient.context.cp.state.constants[:36]) == bytes(range(32)) + (0xFFC0DEAD).to_bytes(4, "little")

    def test_constants_of_which_nothing_is_mapped_are_a_page_fault(self, lenient: Bench) -> None:
        lenient.submit(*dispatch(before=type7(0x34, load(0, 1, 2, 13, 256), *lo_hi(UNMAPPED_VA))))
        assert (lenient.faults[0].kind, lenient.faults[0].address) == (PAGE_FAULT, UNMAPPED_VA)

    @pytest.mark.parametrize(("units", "offset"), [(1, 0x100000), (3, 0x400000)])
    def test_its_private_memory_passes(self, lenient: Bench, units: int, offset: int) -> None:
        """The offset of the stack is in bytes, past its field, of a power of two that the fiber's size need not be."""
        lenient.map(0x10_0400_0000, units * PER_SP * 2)
        lenient.submit(*dispatch(PRIVATE | {0xA9B6: units, 0xA9B9: units << 8, 0xA9BD: offset}))
        assert lenient.faults == []
        assert lenient.launches[0].local_low_bytes == units * 512

    def test_its_prefetch_may_be_longer_than_the_cache(self, lenient: Bench) -> None:
        lenient.submit(*dispatch({0xA9BC: 80}, before=type7(0x34, load(0, 0, 2, 13, 65), *CODE)))
        assert lenient.faults == [] and len(lenient.launches) == 1

    @pytest.mark.parametrize("change", [{0xA9BD: 0x1001}, {0xA9BD: 0x100001}, {0xA9BD: 0x100000},
                                        PRIVATE | {0xA9BD: 0x200000},
                                        {0xA9BA: 1}, {0xAA00: 1}, {0xB987: 0x100 | 65}])  # fmt: skip
    def test_other_values_do_not(self, lenient: Bench, change: dict[int, int]) -> None:
        lenient.submit(*dispatch(change))
        assert [fault.kind for fault in lenient.faults] == ["bad_packet"]


class TestStale:
    """With check=("caches",): contents that changed while they may be cached are refused with their address."""

    @pytest.fixture
    def checked(self) -> Bench:
        bench = Bench(check_caches=True)
        bench.submit(*dispatch())
        return bench

    def test_constants_need_a_cache_invalidate(self, checked: Bench) -> None:
        checked.space.write_u32(CONST_VA, 5)
        with pytest.raises(EmulatorRefusal, match=rf"constants at {CONST_VA:#x} changed .* no CACHE_INVALIDATE"):
            checked.submit(*dispatch())
        checked.context.kill()
        checked.close()

    def test_after_it_they_are_new(self, checked: Bench) -> None:
        checked.space.write_u32(CONST_VA, 5)
        checked.submit(0x70460001, 0x31, *dispatch())
        assert len(checked.launches) == 2
        checked.close()

    def test_code_needs_both_invalidates(self, checked: Bench) -> None:
        checked.space.write_u32(CODE_VA, 5)
        with pytest.raises(EmulatorRefusal, match=rf"code at {CODE_VA:#x} changed .* no CACHE_INVALIDATE"):
            checked.submit(*dispatch())
        checked.context.resume_after_fault()
        checked.close()

    def test_code_needs_the_state_invalidate(self, checked: Bench) -> None:
        checked.space.write_u32(CODE_VA, 5)
        with pytest.raises(EmulatorRefusal, match=rf"code at {CODE_VA:#x} changed .* no HLSQ_INVALIDATE_CMD"):
            checked.submit(0x70460001, 0x31, *dispatch(drop=(1,)))
        checked.context.resume_after_fault()
        checked.submit(0x70460001, 0x31, *dispatch())
        checked.close()


def test_the_shape_of_loads_is_the_facts(bench: Bench) -> None:
    """The two loads of the worked dispatch, word for word."""
    assert load(0, 1, 2, 13, 1) == 0x00764000
    assert load(0, 0, 2, 13, 1) == 0x00760000
    assert type4(0xA9BD, 0)[0] == 0x48A9BD01
