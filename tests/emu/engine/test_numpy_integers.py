"""The integer kernels of the NumPy core against Python integers, and its global memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hcqrt.emu.engine.core_numpy import integers
from hcqrt.emu.engine.core_numpy.memory import RangeTable

MASK = (1 << 32) - 1


def words(count, seed):
    draw = random.Random(seed)
    values = [0, 1, MASK, 1 << 31, (1 << 31) - 1, 0x80, 0xFF00]
    values += [draw.getrandbits(draw.randrange(1, 33)) for _ in range(count)]
    draw.shuffle(values)
    return np.array(values, np.uint32)


@pytest.mark.parametrize("lut", range(256))
def test_every_logic_table_on_words_and_on_truth_values(lut):
    a, b, c = np.uint32(0xF0F0F0F0), np.uint32(0xCCCCCCCC), np.uint32(0xAAAAAAAA)
    got = integers.logic(lut, *(np.array([v]) for v in (a, b, c)))
    assert got.dtype == np.uint32 and int(got[0]) == lut * 0x01010101
    index = np.arange(8)
    bits = integers.logic(lut, (index & 4) != 0, (index & 2) != 0, (index & 1) != 0)
    assert bits.dtype == np.bool_ and bits.tolist() == [bool(lut >> i & 1) for i in range(8)]


def test_permute_picks_bytes_and_spreads_signs():
    def reference(a, selector, c):
        pair = (a | c << 32).to_bytes(8, "little")
        result = 0
        for k in range(4):
            nibble = selector >> 4 * k & 15
            byte = pair[nibble & 7]
            result |= (byte if nibble < 8 else 0xFF if byte & 0x80 else 0) << 8 * k
        return result

    a, s, c = words(300, 1), words(300, 2), words(300, 3)
    want = [reference(*map(int, row)) for row in zip(a, s, c, strict=True)]
    assert integers.permute(a, s, c).tolist() == want
    for selector in (0xBBBB, 0x5410, 0x7632, 0xF0F0, 0x4321):
        fixed = np.full(a.shape, selector, np.uint32)
        want = [reference(int(x), selector, int(y)) for x, y in zip(a, c, strict=True)]
        assert integers.permute(a, fixed, c).tolist() == want


def test_bit_counts_and_positions():
    values = words(500, 4)
    assert integers.population(values).tolist() == [bin(v).count("1") for v in values]
    assert integers.reverse(values).tolist() == [int(f"{v:032b}"[::-1], 2) for v in values]
    assert integers.leading(values, False).tolist() == [(int(v).bit_length() - 1) & MASK for v in values]
    folded = [v ^ MASK if v >> 31 else v for v in map(int, values)]
    assert integers.leading(values, True).tolist() == [(v.bit_length() - 1) & MASK for v in folded]


def test_products_sums_and_shifts_are_exact():
    a, b = words(300, 5), words(300, 6)
    rows = [tuple(map(int, row)) for row in zip(a, b, strict=True)]
    assert integers.product(a, b, False).tolist() == [x * y for x, y in rows]
    signed = [(x - (x >> 31 << 32), y - (y >> 31 << 32)) for x, y in rows]
    assert integers.product(a, b, True).tolist() == [x * y & (1 << 64) - 1 for x, y in signed]
    assert integers.wide_sum(a, b, a, b > 5).tolist() == [2 * x + y + (y > 5) for x, y in rows]
    count = words(300, 7) % np.uint32(130)
    pair = integers.join(a, b)
    triples = [(x | y << 32, int(n)) for (x, y), n in zip(rows, count, strict=True)]
    assert integers.shift_left(pair, count).tolist() == [v << n & (1 << 64) - 1 for v, n in triples]
    assert integers.shift_right(pair, count, False).tolist() == [v >> n for v, n in triples]
    arithmetic = [(v - (v >> 63 << 64)) >> n & (1 << 64) - 1 for v, n in triples]
    assert integers.shift_right(pair, count, True).tolist() == arithmetic


def test_comparisons_of_floats_with_nans():
    a = np.array([1, 2, 1, np.nan, np.nan])
    b = np.array([2, 1, 1, 1, np.nan])
    ordered = {1: "10000", 2: "00100", 3: "10100", 4: "01000", 5: "11000", 6: "01100"}
    for code, row in ordered.items():
        assert "".join(str(int(v)) for v in integers.compare_floats(code, a, b)) == row
        assert "".join(str(int(v)) for v in integers.compare_floats(code + 8, a, b)) == row[:3] + "11"
    rows = {0: "00000", 7: "11100", 8: "00011", 15: "11111"}
    for code, row in rows.items():
        assert "".join(str(int(v)) for v in integers.compare_floats(code, a, b)) == row


@pytest.mark.parametrize("nbytes", (1, 2, 4, 8, 16))
@pytest.mark.parametrize("order", ("run", "one", "mixed"))
def test_global_memory_loads_what_it_stored(nbytes, order):
    host = np.arange(4096, dtype=np.uint64).view(np.uint8)[:4096].copy()
    table = RangeTable([(0x10000, 4096, host.ctypes.data, True, True)])
    slots = {"run": np.arange(40), "one": np.array([5]), "mixed": np.array([3, 9, 1, 30, 2, 2])}[order]
    address = (0x10000 + 64 + slots * nbytes).astype(np.uint64)
    assert table.single(int(address.min()), int(address.max()), nbytes) == 0
    before = host.copy()
    draw = random.Random(1)
    data = [np.array([draw.getrandbits(32) for _ in slots], np.uint32) for _ in range(max(nbytes // 4, 1))]
    table.place(0, address, nbytes).store(nbytes, data)
    for lane, slot in enumerate(slots):
        at = 64 + slot * nbytes
        before[at : at + nbytes] = np.frombuffer(b"".join(int(w[lane]).to_bytes(4, "little") for w in data), np.uint8)[
            :nbytes
        ]
    assert host.tobytes() == before.tobytes()
    loaded = table.place(0, address, nbytes).load(nbytes)
    for lane, slot in enumerate(slots):
        at = 64 + slot * nbytes
        got = b"".join(int(w[lane]).to_bytes(4, "little") for w in loaded)
        assert got == before[at : at + nbytes].tobytes().ljust(4, b"\0")


def test_an_access_is_found_only_if_it_lies_wholly_in_one_mapping():
    a, b = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    table = RangeTable([(0x2000, 64, b.ctypes.data, False, False), (0x1000, 64, a.ctypes.data, True, True)])
    where = np.array([0xFFF, 0x1000, 0x103C, 0x103D, 0x1040, 0x2000, 0x203C, 0x2040, (1 << 64) - 2], np.uint64)
    assert table.find(where, 4).tolist() == [-1, 0, 0, -1, -1, 1, 1, -1, -1]
    assert table.single(0x1000, 0x103C, 4) == 0
    assert table.single(0x1000, 0x103D, 4) == -1
    assert table.single(0x1000, 0x2000, 4) == -1
    assert table.single(0x10, 0x10, 4) == -1
    assert RangeTable([]).find(where, 4).tolist() == [-1] * 9
