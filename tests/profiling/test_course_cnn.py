"""The course's network, as its first lab profiles it."""

from __future__ import annotations

from statistics import median

import pytest
import torch
from benchmarks.course_ops import CELL, REFERENCE, course_notebook, forward_shares

from accel.labs.models import CNN
from accel.profiling.kineto_columns import read_columns
from accel.profiling.op_table import add_up, read_op_table
from accel.profiling.profiled_events import read_events
from accel.workbench import Workbench


def test_one_forward_lists_the_operations_the_course_shows(profiled):
    torch.manual_seed(0)
    model, images = CNN(), torch.randn(64, 1, 28, 28)
    with torch.no_grad():
        model(images)
        table = read_op_table(read_events(read_columns(profiled(lambda: model(images)).events)))
    ops = add_up(table.rows, by=lambda row: (row.op, "", ""))
    top = {row.op for row in ops[:10]}
    assert {
        "aten::mkldnn_convolution",
        "aten::max_pool2d_with_indices",
        "aten::addmm",
        "aten::clamp_min",
    } <= top
    modules = {row.module for row in table.rows if row.op == "aten::mkldnn_convolution"}
    assert modules == {"conv1", "conv2"}


def test_the_four_operations_of_the_courses_list_are_the_most_expensive_of_a_forward():
    workbench = Workbench(course_notebook(batches=8), spare_workers=0)
    profiles = [forward_shares(workbench.profile(CELL)) for _ in range(5)]
    workbench.close()
    assert all(sum(shares.values()) == pytest.approx(1) for shares in profiles)
    # Of five: another process may run for a few ms in the middle of any operation.
    usual = {op: median(shares.get(op, 0.0) for shares in profiles) for op in profiles[0]}
    assert set(sorted(usual, key=usual.__getitem__)[-4:]) == set(REFERENCE)
