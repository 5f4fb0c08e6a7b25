"""The model of CPU caches: forgotten maintenance shows both ways, in whole lines; coherent memory needs none."""

from __future__ import annotations

import errno

import pytest
from kgsl_client import (
    CLEAN,
    INVALIDATE,
    IOCOHERENT,
    PAGE,
    RANGE,
    WRITEBACK,
    Kgsl,
    MakeKgsl,
    Stream,
)

from hcqrt.emu.refusal import EmulatorRefusal

LINE = 16  # words


@pytest.mark.parametrize("flags", [0, 1 << 26])
def test_uncached_memory_needs_no_maintenance(kgsl: Kgsl, flags: int) -> None:
    number, va, view = kgsl.memory(PAGE, flags)
    words, stream, context = view.view(fmt="I"), Stream(kgsl), kgsl.context()
    words[0] = 5
    kgsl.submit(context, stream.copy(va, va + 4))
    assert words[1] == 5
    kgsl.sync((number, CLEAN | INVALIDATE), (number, CLEAN, 8192, 1))  # even with a range that is not there
    assert words[1] == 5


@pytest.mark.parametrize("choice", [True, "always"])
def test_coherent_memory_needs_none(make_kgsl: MakeKgsl, choice: bool | str) -> None:
    kgsl = make_kgsl(iocoherent=choice)
    _, va, view = kgsl.memory(PAGE, WRITEBACK | IOCOHERENT)
    words, stream = view.view(fmt="I"), Stream(kgsl)
    words[0] = 5
    kgsl.submit(kgsl.context(), stream.copy(va, va + 4))
    assert words[1] == 5


def test_what_was_not_cleaned_the_gpu_does_not_see(kgsl: Kgsl) -> None:
    number, va, view = kgsl.memory(PAGE, WRITEBACK)
    words, stream, context = view.view(fmt="I"), Stream(kgsl), kgsl.context()
    words[0] = 5
    kgsl.submit(context, stream.copy(va, stream.data_va))
    assert stream.out[0] == 0
    kgsl.sync((number, CLEAN))
    kgsl.submit(context, stream.copy(va, stream.data_va))
    assert stream.out[0] == 5


def test_what_was_not_invalidated_the_cpu_does_not_see(kgsl: Kgsl) -> None:
    number, va, view = kgsl.memory(PAGE, WRITEBACK)
    words, stream = view.view(fmt="I"), Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.write(9, va=va))
    assert words[0] == 0
    kgsl.sync((number, INVALIDATE))
    assert words[0] == 9


def test_maintenance_moves_whole_lines(kgsl: Kgsl) -> None:
    number, va, view = kgsl.memory(PAGE, WRITEBACK)
    words, stream, context = view.view(fmt="I"), Stream(kgsl), kgsl.context()
    for line in range(4):
        words[LINE * line] = words[LINE * line + LINE - 1] = 10 + line
    kgsl.sync((number, CLEAN, 4 * LINE + 60, 8))  # the last word of line 1 and the first one of line 2
    for line in range(4):
        for word in (0, LINE - 1):
            kgsl.submit(context, stream.copy(va + 4 * (LINE * line + word), stream.data_va))
            assert stream.out[0] == (10 + line if line in (1, 2) else 0), (line, word)


def test_a_line_that_is_invalidated_takes_neighbours_with_it(kgsl: Kgsl) -> None:
    """What the CPU wrote beside what the GPU wrote is lost with the line: memory must not be shared below a line."""
    number, va, view = kgsl.memory(PAGE, WRITEBACK)
    words, stream = view.view(fmt="I"), Stream(kgsl)
    words[1], words[LINE] = 7, 8
    kgsl.submit(kgsl.context(), stream.write(9, va=va))
    kgsl.sync((number, INVALIDATE, 0, 4))
    assert (words[0], words[1], words[LINE]) == (9, 0, 8)


def test_a_clean_writes_over_what_the_gpu_wrote(kgsl: Kgsl) -> None:
    number, va, view = kgsl.memory(PAGE, WRITEBACK)
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.write(9, va=va))
    kgsl.sync((number, CLEAN | INVALIDATE))
    kgsl.submit(context, stream.copy(va, stream.data_va))
    assert (view[0], stream.out[0]) == (0, 0)


def test_sync_arguments(kgsl: Kgsl) -> None:
    number = kgsl.alloc(2 * PAGE, WRITEBACK)

    def failed(*entry: int) -> int | None:
        with pytest.raises(OSError) as failure:
            kgsl.sync(entry)  # type: ignore[arg-type]  # two or four numbers
        return failure.value.errno

    assert failed(number, 0) == errno.EINVAL
    assert failed(number, CLEAN, 0, 0) == errno.EINVAL and failed(number, CLEAN, 0, 1 << 32) == errno.EINVAL
    assert failed(number, CLEAN, PAGE, PAGE + 1) == errno.ERANGE
    kgsl.sync((number, CLEAN, PAGE, PAGE), (number, INVALIDATE, 8191, 1))
    assert kgsl.error("sync", count=0, obj_len=24) == errno.EINVAL
    assert kgsl.error("sync", count=129, obj_len=24) == errno.EINVAL
    kgsl.sync(*[(number, CLEAN)] * 128)


def test_an_unknown_id_drops_the_rest_and_is_reported(make_kgsl: MakeKgsl) -> None:
    """qcom.md §1.6: the kernel says nothing, and does not step past the entry."""
    for strict in (True, False):
        kgsl = make_kgsl(options={"strict": strict})
        one, two = kgsl.memory(PAGE, WRITEBACK), kgsl.memory(PAGE, WRITEBACK)
        for _, _, view in (one, two):
            view.view(fmt="I")[0] = 5
        entries = ((one[0], CLEAN), (99, CLEAN), (two[0], CLEAN))
        if strict:
            with pytest.raises(EmulatorRefusal, match=r"entry 1 of 3.*object 99"):
                kgsl.sync(*entries)
        else:
            kgsl.sync(*entries)
        assert len(kgsl.system.refusals) == 1 and "99" in kgsl.system.refusals[0]
        stream, context = Stream(kgsl), kgsl.context()
        kgsl.submit(context, stream.copy(one[1], stream.data_va))
        kgsl.submit(context, stream.copy(two[1], stream.data_va + 4))
        assert (stream.out[0], stream.out[1]) == (5, 0)


def test_the_older_calls_of_maintenance(kgsl: Kgsl) -> None:
    one, va, view = kgsl.memory(PAGE, WRITEBACK)
    two = kgsl.alloc(PAGE, WRITEBACK)
    words, stream, context = view.view(fmt="I"), Stream(kgsl), kgsl.context()
    words[0], words[LINE] = 5, 6
    kgsl.call("sync_cache", gpuaddr=va, op=CLEAN | RANGE, offset=0, length=4)
    for word, expected in ((0, 5), (LINE, 0)):
        kgsl.submit(context, stream.copy(va + 4 * word, stream.data_va))
        assert stream.out[0] == expected
    assert kgsl.error("sync_cache", id=99, op=CLEAN) == errno.EINVAL
    ids = kgsl.pointer("5I", 0, one, 99, one, two)  # unknown ids and repeated ones do no harm here
    kgsl.call("sync_bulk", id_list=ids, count=5, op=CLEAN)
    kgsl.submit(context, stream.copy(va + 4 * LINE, stream.data_va))
    assert stream.out[0] == 6 and kgsl.system.refusals == []
    assert kgsl.error("sync_bulk", id_list=ids, count=0, op=CLEAN) == errno.EINVAL
    assert kgsl.error("sync_bulk", id_list=ids, count=1025, op=CLEAN) == errno.EINVAL


def test_cached_memory_counts_once(make_kgsl: MakeKgsl) -> None:
    """The second copy is the emulator's: it takes nothing from the machine's memory."""
    kgsl = make_kgsl(memory_bytes=1 << 20)
    kgsl.alloc(1 << 20, WRITEBACK)
