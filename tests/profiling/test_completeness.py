"""The stamp: kernels that were dropped and clocks that were shifted are told; a sound trace is complete."""

from __future__ import annotations

import pytest

from accel.profiling.completeness import NOTHING, Completeness, check_completeness
from accel.profiling.kineto_columns import read_columns
from accel.profiling.profiled_events import read_events
from tests.profiling.gpu_trace import GEMM, US, training_on_gpu


def stamp(trace, **options):
    return check_completeness(read_events(read_columns(trace.events)), **options)


def on_device(trace):
    return [event for event in trace.events if event.on_device]


def shift(trace, by_us):
    for event in on_device(trace):
        event.start += by_us * US
    return trace


def test_a_sound_trace_is_complete():
    assert stamp(training_on_gpu(), uses_gpu=True) == Completeness()
    assert str(stamp(training_on_gpu())) == "Complete"


def test_kernels_that_were_dropped_are_counted():
    trace = training_on_gpu()
    for event in on_device(trace)[-3:]:
        trace.events.remove(event)
    found = stamp(trace)
    assert not found.is_complete
    assert found.reasons == ("3 of 20 launched kernels and copies are missing",)
    assert str(found) == "Incomplete: 3 of 20 launched kernels and copies are missing"


def test_kernels_dropped_in_the_warm_up_take_nothing_from_the_figures():
    trace = training_on_gpu()
    for event in on_device(trace)[:4]:
        trace.events.remove(event)
    assert stamp(trace).is_complete


@pytest.mark.parametrize("by_us", [-20, -5, 5, 20])
def test_the_clocks_of_a_healthy_machine_are_a_few_microseconds_apart(by_us):
    assert stamp(shift(training_on_gpu(), by_us)).is_complete


def test_rows_that_begin_before_their_launch_are_told_with_how_far_they_are_off():
    found = stamp(shift(training_on_gpu(), -3000))
    assert not found.is_complete
    (reason,) = found.reasons
    assert "28 of 28 kernels and copies begin before they were launched, by up to 2.99 ms" in reason


def test_a_few_rows_with_a_clock_of_their_own_are_enough():
    trace = training_on_gpu()
    on_device(trace)[-1].start -= 10**14
    (reason,) = stamp(trace).reasons
    assert "1 of 28" in reason


def test_rows_shifted_to_the_right_end_after_the_closing_synchronisation():
    found = stamp(shift(training_on_gpu(), 4000))
    (reason,) = found.reasons
    assert "end after a synchronisation that waited for them" in reason
    assert "by up to 3.69 ms" in reason  # the last kernel ends at 740 + 4000, the synchronisation at 1050


def test_a_synchronisation_does_not_wait_for_what_is_launched_after_it():
    trace = training_on_gpu()
    trace.launch("aten::mm", 100, GEMM, 110, 9000)
    assert stamp(trace).is_complete


def test_a_synchronisation_of_one_gpu_says_nothing_about_another():
    trace = training_on_gpu()
    on_device(trace)[-1].index = 1
    assert stamp(shift(trace, 4000)).is_complete


def test_launches_that_a_graph_captured_need_no_rows_of_their_own():
    trace = training_on_gpu()
    for number, name in [(-480, "cudaStreamBeginCapture"), (-10, "cudaStreamEndCapture")]:
        trace.add(name, number, number + 5, on_thread=4242, kind="cuda_runtime")
    for event in [each for each in on_device(trace) if each.start > trace.at - 480 * US]:
        trace.events.remove(event)
    assert stamp(trace).is_complete


def test_kernels_of_a_graph_belong_to_its_launch():
    trace = training_on_gpu()
    graph = trace.launch("cudaGraphLaunch", 100, GEMM, 120, 140)
    (launch,) = [event for event in trace.events if event.number == graph.number and not event.on_device]
    launch.named = "cudaGraphLaunch"
    trace.add(GEMM, 140, 150, number=graph.number, linked=graph.linked, on_device=1)
    assert stamp(trace).is_complete


def test_a_gpu_at_work_of_which_nothing_was_recorded_is_told():
    trace = training_on_gpu()
    trace.events = [
        event for event in trace.events if not event.on_device and event.activity_type() != "cuda_runtime"
    ]
    assert stamp(trace, uses_gpu=True).reasons == (NOTHING,)
    assert check_completeness(None, uses_gpu=True).reasons == (NOTHING,)


def test_a_trace_of_the_cpu_is_complete(loop, profiled):
    events = read_events(read_columns(profiled(lambda: loop.run(3)).events))
    assert check_completeness(events) == check_completeness(None) == Completeness()


def test_each_of_several_profiles_in_one_process_gets_its_own_stamp():
    first, second, third = training_on_gpu(), shift(training_on_gpu(), 2000), training_on_gpu()
    for event in third.events:
        event.number += 5000 * bool(event.number)
        event.linked += 5000 * bool(event.linked)
    assert [stamp(each).is_complete for each in (first, second, third)] == [True, False, True]
