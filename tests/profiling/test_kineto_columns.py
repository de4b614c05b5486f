"""Self time read from raw events is what torch's own, slower reading says."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.autograd.profiler import profile

from accel.profiling.kineto_columns import read_columns, with_metadata
from tests.profiling.recorded_event import RecordedEvent


def self_time_by_op(columns):
    sums = Counter()
    for number, self_ns in zip(columns.name, columns.self_ns, strict=True):
        sums[columns.names[number]] += int(self_ns)
    return sums


@pytest.mark.parametrize("which", ["loop", "residual_loop"])
def test_self_time_equals_key_averages_op_by_op(which, request):
    work = request.getfixturevalue(which)
    work.run(1)
    with profile(use_kineto=True) as profiler:
        work.run(3)
    ours = self_time_by_op(read_columns(profiler.kineto_results.events()))
    theirs = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    assert set(ours) == set(theirs)
    assert len(ours) > 20
    for op, self_us in theirs.items():
        assert ours[op] / 1e3 == pytest.approx(self_us, abs=0.01), op


def test_self_times_add_up_to_the_outermost_events():
    with profile(use_kineto=True) as profiler:
        torch.nn.functional.linear(torch.ones(3, 4), torch.ones(5, 4)).sum()
    columns = read_columns(profiler.kineto_results.events())
    assert columns.self_ns.sum() == columns.duration_ns[columns.parent < 0].sum()
    assert (columns.self_ns >= 0).all()


def test_children_come_after_their_parents_and_lie_within():
    with profile(use_kineto=True) as profiler:
        torch.nn.functional.conv2d(torch.ones(1, 1, 5, 5), torch.ones(1, 1, 3, 3))
    columns = read_columns(profiler.kineto_results.events())
    place = {int(row): i for i, row in enumerate(columns.order)}
    nested = [row for row in range(len(columns)) if columns.parent[row] >= 0]
    assert nested
    for row in nested:
        parent = int(columns.parent[row])
        assert place[parent] < place[row]
        assert columns.start_ns[parent] <= columns.start_ns[row]


def test_no_events_give_empty_columns():
    columns = read_columns([])
    assert len(columns) == 0
    assert len(columns.self_ns) == 0


def test_events_of_the_cpu_are_on_no_device_and_tell_their_kind():
    with profile(use_kineto=True) as profiler, torch.profiler.record_function("mine"):
        torch.ones(2).add(1)
    columns = read_columns(profiler.kineto_results.events())
    assert {columns.kinds[k] for k in columns.kind} == {"cpu_op", "user_annotation"}
    assert columns.kinds[columns.kind[columns.names.index("mine")]] == "user_annotation"
    for placed in (columns.device, columns.stream):
        assert (placed == -1).all()
    assert not columns.bytes.any()
    assert not columns.correlation.any()


def test_work_on_a_device_tells_where_it_ran_what_it_copied_and_which_call_began_it():
    columns = read_columns([
        RecordedEvent("aten::copy_", 0, 100, number=3),
        RecordedEvent("cudaMemcpyAsync", 10, 20, on_thread=77, number=50, linked=3),
        RecordedEvent(
            "Memcpy HtoD (Pinned -> Device)", 40, 50, number=50, linked=3, on_device=1, kind="gpu_memcpy",
            index=1, stream=9, bytes=4096,
        ),
        RecordedEvent("kernel", 95, 10, number=51, linked=3, on_device=1),
        RecordedEvent("Command Buffer Full", 5, 90, kind="overhead"),
    ])  # fmt: skip
    assert [columns.kinds[k] for k in columns.kind] == ["cpu_op", "cuda_runtime", "gpu_memcpy", "kernel"]
    assert columns.device.tolist() == [-1, -1, 1, 0]
    assert columns.stream.tolist() == [-1, -1, 9, 7]
    assert columns.bytes.tolist() == [0, 0, 4096, 0]
    assert columns.correlation.tolist() == [0, 50, 50, 51]
    assert columns.launcher.tolist() == [-1, 0, 0, 0]


def test_a_profiler_that_is_asked_for_metadata_gives_it_in_the_form_that_bytes_are_read_from():
    if with_metadata() is None:
        pytest.skip("this version of torch hands out no metadata")
    with profile(use_kineto=True, experimental_config=with_metadata()) as profiler:
        torch.ones(2).add(1)
    given = [event.metadata_json() for event in profiler.kineto_results.events()]
    assert all(said.startswith('"Ev Idx": ') for said in given)
    assert given


def test_a_call_outside_of_any_operation_is_not_taken_for_the_operation_of_the_same_number():
    columns = read_columns([
        RecordedEvent("aten::mm", 0, 100, number=57),
        RecordedEvent("cudaLaunchKernel", 10, 20, on_thread=77, number=60, linked=57),
        RecordedEvent("gemm", 40, 50, number=60, linked=57, on_device=1),
        RecordedEvent("cudaDeviceSynchronize", 200, 50, on_thread=77, number=57, kind="cuda_runtime"),
    ])  # fmt: skip
    assert columns.launcher.tolist() == [-1, 0, 0, -1]
