"""Launch descriptors of Hopper and Blackwell, and what each chip's limits refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_bench import CODE_VA, CONST_VA, DATA_VA, LOCAL_WINDOW, QMD_VA, SHARED_WINDOW, Bench
from hypothesis import given, settings
from hypothesis import strategies as st
from qmd_words import qmd
from qmd_words_long import BITS, long_qmd

from hcqrt.emu.nv.qmd import decode_qmd
from hcqrt.emu.nv.qmd_layout import ARRAYS, SEMAPHORE_FIELDS, WITHOUT_EFFECT, layout
from hcqrt.emu.nv.trouble import Refused
from hcqrt.emu.refusal import EmulatorRefusal

FACTS = json.loads((Path(__file__).resolve().parents[2] / "facts" / "nv-qmd.json").read_text())
# chip -> compute class, major version of its descriptor, largest carve-out encoded, and its bytes
CHIPS = {
    "sm_90": (0xCBC0, 4, 0x3A, 228 << 10),
    "sm_100": (0xCDC0, 5, 0x3A, 228 << 10),
    "sm_103": (0xCDC0, 5, 0x3A, 228 << 10),
    "sm_120": (0xCEC0, 5, 0x1A, 100 << 10),
    "sm_121": (0xCEC0, 5, 0x1A, 100 << 10),
}
LAUNCH = [0x200120AD, QMD_VA >> 8, 0x800320B0]


def setup_words(number: int, shared: int = SHARED_WINDOW, local: int = LOCAL_WINDOW) -> list[int]:
    return [
        *(0x20012000, number),
        *(0x200220A8, shared >> 32, shared & 0xFFFFFFFF),
        *(0x200221EC, local >> 32, local & 0xFFFFFFFF),
    ]


@pytest.fixture(params=CHIPS)
def chip(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(chip: str) -> Iterator[Bench]:
    bench = Bench(chip)
    yield bench
    bench.close()


def launch(bench: Bench, raw: bytes, *, number: int | None = None, **windows: int) -> None:
    number = CHIPS[bench.gpu.chip.name][0] if number is None else number
    bench.space.write(QMD_VA, raw)
    channel = bench.channel(classes=(number,), channel_class=bench.gpu.chip.channel_classes[-1])
    bench.submit(channel, *setup_words(number, **windows), *LAUNCH)


def words(chip: str, **fields: object) -> bytes:
    _, major, largest, _ = CHIPS[chip]
    return long_qmd(major, **{"config": (5, 5, largest), **fields})  # type: ignore[arg-type]


def test_a_launch_hands_the_descriptor_to_the_executor(chip: str, made: Bench) -> None:
    high = 0x1234_5678_0000  # 48 bits, which no older descriptor's release can name
    made.map(high, 0x10000)
    release = {"va": high + 32, "payload": 0x1_2345_6789, "structure": 0, "payload64": 1}
    other = {"va": high + 64, "payload": 7, "structure": 1, "payload64": 0}
    fields = dict(
        grid=(5, 6, 7), block=(32, 2, 3), registers=40, barriers=2, shared=0x1400, local_low=0, local_high=0,
        constants={0: (CONST_VA, 0x3A0), 3: (DATA_VA, 64)}, releases={0: release, 2: other},
    )  # fmt: skip
    launch(made, words(chip, **fields))
    (job,) = made.launches
    assert (job.grid, job.block, job.registers, job.barriers) == ((5, 6, 7), (32, 2, 3), 40, 2)
    assert (job.shared_bytes, job.entry_va, job.sm) == (0x1400, CODE_VA, made.gpu.chip.sm)
    assert {bank: nbytes for bank, (_, nbytes) in job.constants.items()} == {0: 0x3A0, 3: 64}
    assert made.u64(high + 32) == 0x1_2345_6789 and made.u64(high + 40) > 0
    assert made.u64(high + 64) == 7


def test_chained_descriptors_run(chip: str, made: Bench) -> None:
    made.space.write(QMD_VA + 512, words(chip, grid=(2, 1, 1)))
    launch(made, words(chip, dependent=(QMD_VA + 512, 1)))
    assert [job.grid[0] for job in made.launches] == [1, 2]


def test_local_memory_comes_in_sixteens(chip: str, made: Bench) -> None:
    decoded = decode_qmd(words(chip, local_low=0x30, local_high=0x490), CHIPS[chip][0], QMD_VA)
    assert (decoded.local_low_bytes, decoded.local_high_bytes) == (0x30, 0x490)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"type": 0}, "QMD_TYPE = 0x0 is no plain grid"),
        ({"type": 3}, "QMD_TYPE = 0x3 is no plain grid"),
        ({"type": 7}, "QMD_TYPE = 0x7 is no known value"),
        ({"cga_width": 1}, "GPC_CGA_WIDTH = 0x1 is not supported"),
        ({"counter": 9}, "DEPENDENCE_COUNTER = 0x9 is not supported"),
        ({"dependent1_enable": 1}, r"(DEPENDENT_QMD1_ENABLE|DEPENDENT_QMD_ENABLE\(1\)) = 0x1 is not supported"),
        ({"dependent": (QMD_VA, 4)}, "dependent action 4"),
        ({"registers": 0}, "0 registers"),
        ({"barriers": 17}, "17 barriers"),
        ({"grid": (0, 1, 1)}, r"grid \(0, 1, 1\)"),
        ({"block": (1, 1, 65)}, "block z = 65"),
        ({"block": (32, 33, 1)}, "1056 threads"),
        ({"config": (4, 5, 0x1A)}, "MIN_SM_CONFIG_SHARED_MEM_SIZE = 0x4"),
        ({"shared": 0x4080}, "0x4080 is over the smallest carve-out 0x4000"),
        ({"sass": 0x86}, "SASS_VERSION 0x86 does not run on sm_"),
        ({"program": CODE_VA + 64}, f"{CODE_VA + 64:#x} is not a multiple of 128"),
        ({"constants": {1: (CONST_VA, 0x10010)}}, "size 0x10010"),
        ({"minor": 2}, r"version .*\.2.* is not one of class 0xc"),
    ],
)
def test_what_no_chip_runs_is_refused(chip: str, made: Bench, fields: dict[str, object], text: str) -> None:
    with pytest.raises(EmulatorRefusal, match=text):
        launch(made, words(chip, **fields))
    assert made.launches == []


def test_shared_memory_up_to_the_largest_carve_out(chip: str, made: Bench) -> None:
    _, _, largest, nbytes = CHIPS[chip]
    launch(made, words(chip, shared=nbytes, config=(largest, largest, largest)))
    assert made.launches[0].shared_bytes == nbytes
    with pytest.raises(EmulatorRefusal, match=f"{nbytes + 128:#x} is over {nbytes:#x}"):
        launch(made, words(chip, shared=nbytes + 128, config=(largest, largest, largest)))


def test_only_blackwell_wants_the_largest_maximum(chip: str, made: Bench) -> None:
    raw = words(chip, config=(5, 5, 0x11))
    if chip == "sm_90":
        launch(made, raw)
        assert len(made.launches) == 1
        return
    with pytest.raises(EmulatorRefusal, match="MAX_SM_CONFIG_SHARED_MEM_SIZE 0x10000 is not this chip's largest"):
        launch(made, raw)


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        ({"shared": 0xFE000000}, "shared window 0xfe000000 is not a multiple of 0x100000000"),
        ({"local": 0x7293_FF00_0000}, "local window 0x7293ff000000 is not a multiple of 0x100000000"),
        ({"shared": LOCAL_WINDOW}, "overlap"),
    ],
)
def test_windows_are_whole_four_gibibytes(made: Bench, chip: str, windows: dict[str, int], text: str) -> None:
    with pytest.raises(EmulatorRefusal, match=text):
        launch(made, words(chip), **windows)


def test_four_gibibytes_behind_the_shared_window_are_free(chip: str, made: Bench) -> None:
    made.map(SHARED_WINDOW + 0xFFFF_0000, 0x10000)
    with pytest.raises(EmulatorRefusal, match=r"memory at 0x7294ffff0000 lies in the shared window 0x729400000000"):
        launch(made, words(chip))


def test_ampere_windows_reach_sixteen_mebibytes() -> None:
    bench = Bench("sm_80")
    bench.map(0xFC000000, 0x1000)
    bench.space.write(QMD_VA, qmd(config=(5, 5, 0x2A)))
    words = setup_words(0xC6C0, 0xFE000000, 0xFF000000)
    bench.submit(bench.channel(classes=(0xC6C0,)), *words, *LAUNCH)
    assert len(bench.launches) == 1
    bench.close()


def test_hopper_takes_amperes_descriptor_too() -> None:
    bench = Bench("sm_90")
    launch(bench, qmd(config=(5, 5, 0x3A)))
    with pytest.raises(EmulatorRefusal, match="class 0xcbc0"):
        launch(bench, long_qmd(5))
    assert len(bench.launches) == 1
    bench.close()


@pytest.mark.parametrize("number", [0xCDC0, 0xCEC0])
def test_blackwell_takes_version_4_1_and_no_older_one(number: int) -> None:
    assert decode_qmd(long_qmd(4, minor=1), number, QMD_VA).version == "V04_01"
    for old in (long_qmd(4), qmd(), long_qmd(5, minor=1)):
        with pytest.raises(Refused, match=f"is not one of class {number:#x}"):
            decode_qmd(old, number, QMD_VA)


# class, chip, and the descriptor with a release: bits of CWD_MEMBAR_TYPE and of the release's own membar
MEMBARS = [
    (0xC7C0, "sm_86", (369, 368), 819),
    (0xCBC0, "sm_90", (1137, 1136), 323),
    (0xCDC0, "sm_100", (625, 624), 291),
]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(("grid", "own"), [(0, 0), (3, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize(("number", "chip", "grid_bits", "own_bit"), MEMBARS)
def test_a_release_wants_a_membar_before_it(
    number: int, chip: str, grid_bits: tuple[int, int], own_bit: int, grid: int, own: int, check: bool
) -> None:
    """0: none, 1: for the host, 3: for the GPU alone, which tells the host nothing."""
    bench = Bench(chip, check_caches=check)
    fields = {
        "releases": {0: {"va": DATA_VA, "payload": 5, "structure": 0, "payload64": 1}},
        "raw": ((*grid_bits, grid), (own_bit, own_bit, own)),
    }
    raw = qmd(**fields) if number == 0xC7C0 else words(chip, **fields)  # type: ignore[arg-type]
    if check and grid != 1 and not own:
        with pytest.raises(EmulatorRefusal, match="RELEASE0: no membar before it"):
            launch(bench, raw, number=number)
    else:
        launch(bench, raw, number=number)
    assert bench.u64(DATA_VA) == (0 if check and grid != 1 and not own else 5)
    bench.close()


def test_a_payload_that_looks_like_an_older_version_is_none() -> None:
    """Bits 583:576, where V04_01 has its number, belong to a payload in V05_00."""
    release = {"va": DATA_VA, "payload": 0x41 << 32, "structure": 0, "payload64": 1}
    decoded = decode_qmd(long_qmd(5, releases={0: release}), 0xCDC0, QMD_VA)
    assert (decoded.version, decoded.releases[0].payload) == ("V05_00", 0x41 << 32)


def test_windows_of_sixteen_mebibytes_overlap() -> None:
    bench = Bench("sm_80")
    bench.space.write(QMD_VA, qmd(config=(5, 5, 0x2A)))
    channel = bench.channel(classes=(0xC6C0,))
    with pytest.raises(EmulatorRefusal, match="shared window 0xff800000 and local window 0xff000000 overlap"):
        bench.submit(channel, *setup_words(0xC6C0, 0xFF800000, 0xFF000000), *LAUNCH)
    with pytest.raises(EmulatorRefusal, match="shared window 0xfe800000 and local window 0xff000000 overlap"):
        bench.submit(bench.channel(classes=(0xC6C0,)), *setup_words(0xC6C0, 0xFE800000, 0xFF000000), *LAUNCH)
    bench.close()


@settings(max_examples=200, deadline=None)
@given(
    raw=st.binary(min_size=384, max_size=384),
    sparse=st.integers(0, 3),
    version=st.sampled_from([(4, 0, 72), (4, 1, 72), (5, 0, 58), (5, 1, 58)]),
    number=st.sampled_from([0xCBC0, 0xCDC0, 0xCEC0]),
)
def test_random_descriptors_are_refused_or_understood(
    raw: bytes, sparse: int, version: tuple[int, int, int], number: int
) -> None:
    data = bytearray(byte if index % 4 < sparse else 0 for index, byte in enumerate(raw))
    major, minor, at = version
    data[at] = major << 4 | minor
    try:
        decoded = decode_qmd(bytes(data), number, QMD_VA)
    except Refused as refusal:
        assert refusal.code == 13 and "QMD" in refusal.detail
    else:
        assert decoded.version in ("V04_00", "V04_01", "V05_00")


# What an enabled thing is needed for: nothing reads these in the descriptor below
IDLE = {
    "DEPENDENT_QMD0_POINTER", "DEPENDENT_QMD_POINTER", "DEPENDENT_QMD0_ACTION", "DEPENDENT_QMD_ACTION",
    "PROGRAM_PREFETCH_TYPE", "RELEASE_MEMBAR_TYPE", "RELEASE_REDUCTION_OP", "RELEASE_REDUCTION_FORMAT",
}  # fmt: skip


@pytest.mark.parametrize(("major", "number"), [(4, 0xCBC0), (5, 0xCDC0)])
def test_no_bit_is_ignored_without_a_reason(major: int, number: int) -> None:
    """Flipping any bit changes the decoded descriptor, is refused, or hits a field listed as a hint or idle."""
    slots = {slot: {"va": DATA_VA + 64 * slot, "payload": 1, "structure": 0, "payload64": 1} for slot in (0, 1, 2)}
    raw = long_qmd(major, constants=dict.fromkeys(range(8), (CONST_VA, 64)), releases=slots)
    whole, place = int.from_bytes(raw, "little"), layout(f"V0{major}_00", number)
    base = decode_qmd(raw, number, QMD_VA)
    for bit in range(3072):
        try:
            same = decode_qmd((whole ^ 1 << bit).to_bytes(384, "little"), number, QMD_VA) == base
        except Refused:
            continue
        names = {
            name
            for name, (lsb, mask, stride) in place.spans.items()
            for index in range(next(n for start, n in ARRAYS.items() if name.startswith(start)) if stride else 1)
            if mask << lsb + index * stride >> bit & 1
        }
        assert not same or names <= WITHOUT_EFFECT | IDLE, (bit, names)
        assert same or not names & WITHOUT_EFFECT


@pytest.mark.parametrize("major", [4, 5])
def test_positions_of_the_hand_made_descriptor_agree_with_the_facts(major: int) -> None:
    facts = FACTS[f"V0{major}_00"]
    found = {tuple(place[:2]) for place in facts.values() if isinstance(place, list)}
    found |= {tuple(place["array"]) for place in facts.values() if isinstance(place, dict)}
    first_of_arrays = {"dependent1_enable"} if major == 4 else set()
    missing = {name for name, bits in BITS[major].items() if bits[:2] not in found} - first_of_arrays
    assert missing == set()
    assert {f"RELEASE_SEMAPHORE{slot}_{name}" for slot in range(3) for name in SEMAPHORE_FIELDS} <= facts.keys()
