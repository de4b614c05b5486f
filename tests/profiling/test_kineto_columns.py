"""Self time read from raw events is what torch's own, slower reading says."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.autograd.profiler import profile

from accel.profiling.kineto_columns import read_columns


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
