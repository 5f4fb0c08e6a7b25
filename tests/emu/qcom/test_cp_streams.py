"""Streams of submissions: order, parking, several contexts, stalls, and what is left after a fault."""

from __future__ import annotations

import random

import pytest
from adreno_bench import DATA_VA, SIGNAL_VA, UNMAPPED_VA, Bench, dispatch, lo_hi, type4, type7

from hcqrt.emu.engine.launch import EngineFault, Launch, Result
from hcqrt.emu.qcom.gpu import Submission
from hcqrt.emu.qcom.trouble import BAD_SHADER, HANG, PAGE_FAULT, ShaderPlace
from hcqrt.emu.refusal import EmulatorRefusal


def wait(value: int, va: int = SIGNAL_VA) -> list[int]:
    return [0x70BC8006, 5 | 1 << 4, *lo_hi(va), value, 0xFFFFFFFF, 32]


def store(value: int, va: int = SIGNAL_VA) -> list[int]:
    return type7(0x3D, *lo_hi(va), value)


def test_submissions_retire_in_order_and_not_before_a_turn(bench: Bench) -> None:
    for value in range(3):
        bench.queue(*store(value))
    assert bench.retired == []
    assert bench.gpu.run()
    assert bench.retired == [1, 2, 3]
    assert not bench.gpu.run()


def test_a_submission_without_buffers_only_retires(bench: Bench) -> None:
    called: list[str] = []
    bench.context.submit(Submission(9, [], lambda: called.append("done"), started=lambda: called.append("started")))
    bench.gpu.run()
    assert called == ["started", "done"]


def test_several_buffers_run_one_after_the_other(bench: Bench) -> None:
    first, second = bench.store(*store(1)), bench.store(*type7(0x73, 0, *lo_hi(DATA_VA), *lo_hi(SIGNAL_VA)))
    bench.context.submit(Submission(1, [(first, 4), (second, 6)]))
    bench.gpu.run()
    assert bench.u32(DATA_VA) == 1


def test_a_wait_parks_only_its_context_until_memory_changes(bench: Bench) -> None:
    other = bench.new_context()
    bench.submit(*wait(5), *store(1, DATA_VA))
    bench.submit(*store(2, DATA_VA + 4), context=other)
    assert (bench.u32(DATA_VA), bench.u32(DATA_VA + 4)) == (0, 2)
    assert not bench.gpu.run()
    bench.space.write_u32(SIGNAL_VA, 5)
    assert bench.gpu.run()
    assert bench.u32(DATA_VA) == 1
    assert bench.retired == [2, 1]


def test_another_context_may_end_a_wait(bench: Bench) -> None:
    other = bench.new_context()
    bench.queue(*wait(5), *store(1, DATA_VA))
    bench.queue(*store(5), context=other)
    bench.gpu.run()
    assert bench.retired == [2, 1]


def test_buffers_are_read_when_their_turn_comes(bench: Bench) -> None:
    bench.submit(*wait(1))
    va = bench.queue(*store(7, DATA_VA))
    bench.space.write_u32(va + 12, 8)
    bench.space.write_u32(SIGNAL_VA, 1)
    bench.gpu.run()
    assert bench.u32(DATA_VA) == 8


@pytest.mark.parametrize("watched", [False, True])
def test_words_that_are_watched_must_not_change_before_they_run(bench: Bench, watched: bool) -> None:
    va = bench.store(*store(7, DATA_VA))
    bench.context.submit(Submission(1, [(va, 4)], watch=[(va, 4)] if watched else []))
    bench.space.write_u32(va + 12, 8)
    if watched:
        text = rf"{va + 12:#x} changed from 0x00000007 to 0x00000008 after they were submitted"
        with pytest.raises(EmulatorRefusal, match=text):
            bench.gpu.run()
    else:
        bench.gpu.run()
    assert bench.u32(DATA_VA) == (0 if watched else 8)


def test_watched_words_that_are_not_mapped_fault_when_they_run(bench: Bench) -> None:
    bench.context.submit(Submission(1, [(UNMAPPED_VA, 4)], watch=[(UNMAPPED_VA, 4)]))
    bench.gpu.run()
    assert (bench.faults[0].kind, bench.faults[0].address) == (PAGE_FAULT, UNMAPPED_VA)


def test_watched_words_that_are_freed_before_they_run_fault(bench: Bench) -> None:
    va = bench.store(*store(7, DATA_VA))
    bench.context.submit(Submission(1, [(va, 4)], watch=[(va, 4)]))
    bench.space.unmap(va, 0x10000)
    bench.gpu.run()
    assert (bench.faults[0].kind, bench.faults[0].address) == (PAGE_FAULT, va)


def test_words_that_change_under_a_running_buffer_are_refused(bench: Bench) -> None:
    va = bench.submit(*wait(1), *store(7, DATA_VA))
    bench.space.write_u32(va + 4 * 10, 8)
    bench.space.write_u32(SIGNAL_VA, 1)
    with pytest.raises(EmulatorRefusal, match=rf"{va + 40:#x} changed from 0x00000007 to 0x00000008"):
        bench.gpu.run()


def test_words_that_have_run_may_change(bench: Bench) -> None:
    va = bench.submit(*store(7, DATA_VA), *wait(1))
    bench.space.write_u32(va + 12, 8)
    bench.space.write_u32(SIGNAL_VA, 1)
    bench.gpu.run()
    assert bench.retired == [1]


def test_a_stalled_gpu_does_nothing(bench: Bench) -> None:
    bench.gpu.stalled = True
    bench.submit(*store(1))
    assert bench.u32(SIGNAL_VA) == 0
    bench.gpu.stalled = False
    assert bench.gpu.run()
    assert bench.u32(SIGNAL_VA) == 1


def test_sync_points_hold_a_context_back(bench: Bench) -> None:
    ready = [False]
    va = bench.store(*store(1))
    bench.context.submit(Submission(1, [(va, 4)], ready=lambda: ready[0]))
    assert not bench.gpu.run()
    ready[0] = True
    assert bench.gpu.run()


def test_nothing_runs_after_a_fault_until_the_driver_goes_on(bench: Bench) -> None:
    bench.queue(*store(1, UNMAPPED_VA), *store(1))
    bench.queue(*store(2))
    bench.gpu.run()
    assert not bench.gpu.run()
    assert (bench.retired, bench.u32(SIGNAL_VA)) == ([], 0)
    bench.context.resume_after_fault()
    bench.gpu.run()
    assert (bench.retired, bench.u32(SIGNAL_VA)) == ([2], 2)


def test_a_killed_context_drops_everything_and_can_be_used_again(bench: Bench) -> None:
    bench.queue(*wait(1))
    bench.queue(*store(2))
    bench.gpu.run()
    bench.context.kill()
    assert not bench.context.pending
    bench.submit(*store(3))
    assert (bench.retired, bench.u32(SIGNAL_VA)) == ([3], 3)


def test_the_driver_may_answer_inside_the_call(bench: Bench) -> None:
    bench.context.on_fault = lambda fault: bench.context.resume_after_fault()
    bench.queue(*store(1, UNMAPPED_VA))
    bench.queue(*store(2))
    bench.gpu.run()
    assert bench.retired == [2]


def test_a_fault_of_one_context_leaves_others_alone(bench: Bench) -> None:
    other = bench.new_context()
    bench.queue(*store(1, UNMAPPED_VA))
    bench.queue(*store(2), context=other)
    bench.gpu.run()
    assert bench.retired == [2]


def test_a_shader_runs_only_when_something_waits_for_it(bench: Bench) -> None:
    """A store by the CP does not wait for shaders: the value is there before the shader ran."""
    seen: list[int] = []

    def look(launch: Launch) -> Result:
        seen.append(bench.u32(SIGNAL_VA))
        return Result(1)

    bench.on_launch = look
    until_launch = dispatch()[:-6]
    bench.submit(*until_launch, *store(1))
    bench.submit(*dispatch(), *store(2))
    assert seen == [1, 1]


def test_a_wait_for_what_a_shader_in_flight_writes_ends(bench: Bench) -> None:
    def write(launch: Launch) -> Result:
        bench.space.write_u32(SIGNAL_VA, 1)
        return Result(1)

    bench.on_launch = write
    bench.submit(*dispatch()[:-6], *wait(1))
    assert bench.retired == [1]


def test_shaders_in_flight_together_run_in_any_order() -> None:
    orders = set()
    for seed in range(8):
        bench = Bench(order=random.Random(seed))
        twice = [0x70B30004, 0, 2, 1, 1]
        bench.submit(*dispatch()[:-6], *twice, *twice)
        assert len(bench.launches) == 3
        orders.add(tuple(launch.clock_ns for launch in bench.launches))
        bench.close()
    assert len(orders) > 1


def faulting(bench: Bench, fault: EngineFault) -> None:
    bench.on_launch = lambda launch: Result(77, fault)
    bench.submit(*dispatch())


def test_a_shader_that_leaves_memory_is_a_page_fault_with_its_place(bench: Bench) -> None:
    faulting(bench, EngineFault("global", 0x10_0001_0040, UNMAPPED_VA, "write", (1, 0, 0), (3, 0, 0)))
    fault = bench.faults[0]
    assert (fault.kind, fault.address, fault.access, fault.reason) == (PAGE_FAULT, UNMAPPED_VA, "write", "PDE")
    assert (fault.timestamp, fault.launch) == (1, 1)
    assert fault.place == ShaderPlace(0x10_0001_0000, 0x10_0001_0040, (1, 0, 0), (3, 0, 0))
    assert "pc 0x1000010040, group (1, 0, 0), fiber (3, 0, 0)" in fault.text
    assert bench.u32(SIGNAL_VA) == 0
    assert bench.gpu.stats["instructions"] == 77


def test_an_access_across_the_end_of_memory_is_a_page_fault_too(bench: Bench) -> None:
    faulting(bench, EngineFault("global", 0x10_0001_0040, DATA_VA + 0x100000 - 2, "read"))
    assert (bench.faults[0].reason, bench.faults[0].access) == ("PTE", "read")


def test_a_shader_that_ends_with_its_submission_faults_between_buffers(bench: Bench) -> None:
    bench.on_launch = lambda launch: Result(1, EngineFault("budget", 0x10_0001_0040))
    bench.submit(*dispatch()[:-6])
    assert "between command buffers" in bench.faults[0].text


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("budget", HANG), ("deadlock", HANG), ("illegal_instruction", BAD_SHADER), ("misaligned", BAD_SHADER),
     ("shared", BAD_SHADER), ("local", BAD_SHADER), ("constant", BAD_SHADER), ("register", BAD_SHADER)],
)  # fmt: skip
def test_other_faults_of_shaders(bench: Bench, kind: str, expected: str) -> None:
    faulting(bench, EngineFault(kind, 0x10_0001_0040))
    assert bench.faults[0].kind == expected
    assert kind in bench.faults[0].text


def test_code_beyond_the_length_register_says_so(bench: Bench) -> None:
    faulting(bench, EngineFault("illegal_instruction", 0x10_0001_0080))
    assert "outside the 1 units of code that SP_CS_INSTRLEN says" in bench.faults[0].text


def test_the_next_launch_can_be_made_to_fault(bench: Bench) -> None:
    bench.gpu.fault_next = 1
    bench.submit(*dispatch())
    assert (bench.faults[0].kind, bench.launches) == (PAGE_FAULT, [])
    bench.context.resume_after_fault()
    bench.submit(*dispatch())
    assert len(bench.launches) == 1


def test_rules_of_the_machine_can_make_launches_fault(bench: Bench) -> None:
    asked: list[str] = []
    bench.gpu.injected_fault = lambda what: not asked.append(what)  # type: ignore[func-returns-value]
    bench.submit(*dispatch())
    assert asked == ["shader at 0x1000010000"]
    assert bench.faults[0].kind == PAGE_FAULT


def test_a_lenient_gpu_stops_the_context_and_raises_nothing(lenient: Bench) -> None:
    lenient.submit(*type4(0x12345, 1))
    assert [fault.kind for fault in lenient.faults] == ["bad_packet"]
    assert "0x12345" in lenient.refused[0]
