"""The same run, read live and from the file that torch exports: the same times, operation for operation."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from accel.labs.models import CNN
from accel.profiling.kineto_columns import read_columns
from accel.profiling.op_table import read_op_table
from accel.profiling.profiled_events import read_events
from accel.traces.damage import Damage
from accel.traces.event_batches import EventBatches
from accel.traces.event_table import EventTable
from accel.traces.trace_bytes import read_pieces
from accel.traces.trace_columns import read_trace_columns
from accel.traces.trace_profile import read_trace
from accel.workload.phase_marks import PhaseMarks
from tests.profiling.gpu_trace import training_on_gpu
from tests.traces.writing import as_torch_writes, trace, write


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 10)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)).mean(1))


def resnet18():
    from torchvision.models import resnet18

    return resnet18(num_classes=10), torch.randn(2, 3, 32, 32)


MODELS = {
    "CNN": lambda: (CNN(), torch.randn(2, 1, 28, 28)),
    "resnet18": resnet18,
    "transformer": lambda: (Transformer(), torch.randint(0, 50, (2, 8))),
}


def training(model, batch, steps):
    model.train()
    optimizer, criterion = torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss()
    labels = torch.randint(0, 10, (len(batch),))
    for _ in range(steps):
        optimizer.zero_grad()
        criterion(model(batch), labels).backward()
        optimizer.step()


def self_time_by_op(columns):
    sums = Counter()
    for number, self_ns in zip(columns.name, columns.self_ns, strict=True):
        sums[columns.names[number]] += int(self_ns)
    return sums


def columns_of_file(path):
    damage = Damage()
    table = EventTable(damage)
    for events in EventBatches(read_pieces(path, damage), damage):
        table.add(events)
    columns = read_trace_columns(table.arrays(), damage)
    assert damage.sentences == ()
    return columns


@pytest.mark.parametrize("name", MODELS)
def test_self_times_of_file_and_live_run_and_key_averages_are_equal_op_for_op(tmp_path, name):
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    training(model, batch, 1)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        training(model, batch, 2)
    path = tmp_path / "trace.json.gz"
    profiler.export_chrome_trace(str(path))
    live = self_time_by_op(read_columns(profiler.profiler.kineto_results.events()))
    assert self_time_by_op(columns_of_file(path)) == live
    theirs = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    assert set(live) == set(theirs)
    assert len(live) > 40
    for op, self_us in theirs.items():
        assert live[op] / 1e3 == pytest.approx(self_us, abs=0.01), op


def test_stacks_shapes_and_memory_in_the_trace_change_no_operation(tmp_path):
    model, batch = MODELS["CNN"]()
    with profile(
        activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True, profile_memory=True
    ) as profiler:
        training(model, batch, 2)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    live = self_time_by_op(read_columns(profiler.profiler.kineto_results.events()))
    found = self_time_by_op(columns_of_file(path))
    assert {op: found[op] for op in live if op.startswith("aten::")} == {
        op: live[op] for op in live if op.startswith("aten::")
    }


def test_a_trace_with_our_ranges_gives_the_rows_of_the_live_profile(tmp_path):
    """Phases, modules (backward by its forward), steps and warm-up, Python code and gaps: the whole table."""
    model, batch = MODELS["CNN"]()
    training(model, batch, 1)
    with PhaseMarks(ranges="modules"), profile(activities=[ProfilerActivity.CPU]) as profiler:
        training(model, batch, 5)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    live = read_op_table(read_events(read_columns(profiler.profiler.kineto_results.events())))
    report = read_trace(path)
    assert report.rows == live.rows
    assert (report.profiled_steps, report.timing.warmup_steps) == (live.steps, live.dropped_steps) == (3, 2)
    assert {row.module for row in report.rows if row.op == "aten::convolution_backward"} >= {"conv1"}
    assert report.source.is_ours


def test_gpu_rows_are_those_of_the_live_profile(tmp_path):
    from accel.profiling.completeness import check_completeness
    from accel.profiling.reading_device_activity import read_device_activity

    events = training_on_gpu().events
    live = read_events(read_columns(events))
    report = read_trace(write(tmp_path / "gpu.json", trace(as_torch_writes(events))))
    assert report.rows == read_op_table(live).rows
    assert report.devices == read_device_activity(live)
    assert report.devices[0].copies[0].bytes > 0
    assert str(report.completeness) == str(check_completeness(live))
