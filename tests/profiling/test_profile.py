"""From a cell as a user writes it to the Profile they read."""

from __future__ import annotations

import ast
import json
import math
import time
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from torch import nn

from accel.machine import read_machine
from accel.profiling.phase_words import phase_words
from accel.profiling.profile import build_profile
from accel.profiling.profiled_window import ProfiledWindow
from accel.profiling.step_timing import PhaseShare, _added_ms
from accel.workload.capture import CellCapture
from accel.workload.step_boundaries import Step
from tests.profiling.conftest import SmallCNN

TRAIN = """
for _ in range(steps):
    x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def machine():
    return read_machine()


@pytest.fixture
def profile_cell(machine):
    """Run a cell with small objects in its namespace; what it raises is for the profile to tell."""

    def profile_cell(cell, **names):
        torch.manual_seed(0)
        names.setdefault("model", SmallCNN())
        names.setdefault("optimizer", torch.optim.Adam(names["model"].parameters()))
        namespace = {"torch": torch, "criterion": nn.CrossEntropyLoss(), "steps": 12} | names
        capture = CellCapture(cell, cell, namespace)
        tree = capture.transform(ast.parse(cell))
        with suppress(KeyboardInterrupt, ZeroDivisionError), capture, ProfiledWindow(capture.marks) as window:
            exec(compile(tree, capture.filename, "exec"), namespace)
        workload, recording = capture.finish()
        return build_profile(recording, window, workload, machine)

    return profile_cell


def shares(profile):
    return {phase.name: phase.share for phase in profile.phases}


def test_times_come_from_steps_free_of_warm_up_and_profiler(profile_cell):
    profile = profile_cell(TRAIN)
    assert profile.steps == 12 - 7
    assert (profile.timing.warmup_steps, profile.timing.profiled_steps) == (1, 6)
    most_ms = profile.timing.cell_ms - profile.steps * profile.timing.spread_ms[0] / 2
    assert 0 <= profile.timing.added_ms < most_ms  # 0 where other work made the other steps as long
    assert profile.profiled_steps == 5
    assert not profile.timing.is_under_profiler
    low, high = profile.spread_ms
    assert 0 < low <= profile.step_ms <= high
    assert profile.samples_per_s == pytest.approx(4 * profile.steps / sum(profile.timing.times_ms) * 1e3)


def test_phases_add_up_to_one_and_so_do_operations(profile_cell):
    profile = profile_cell(TRAIN)
    assert sum(shares(profile).values()) == pytest.approx(1)
    assert {"data", "forward", "loss", "backward", "zero_grad", "optimizer"} <= set(shares(profile))
    for rows in (profile.rows, profile.ops, profile.by_phase, profile.by_module):
        assert sum(row.share for row in rows) == pytest.approx(1)


def test_gaps_have_the_same_names_in_the_trace_as_in_the_timing(profile_cell):
    profile = profile_cell(TRAIN)
    timed = {phase.name for phase in profile.phases if phase.is_gap}
    traced = {row.phase for row in profile.rows if "→" in row.phase}
    assert timed == traced
    assert timed


def test_a_short_cell_is_timed_under_the_profiler_and_says_so(profile_cell):
    profile = profile_cell(TRAIN, steps=3)
    assert profile.timing.is_under_profiler
    assert profile.steps == 2
    assert any("under torch.profiler, so their time includes its cost" in note for note in profile.notes)
    assert any(row.op == "aten::convolution_backward" for row in profile.ops)


def test_one_step_gives_timing_and_operations(profile_cell):
    profile = profile_cell(TRAIN, steps=1)
    assert (profile.steps, profile.profiled_steps) == (1, 1)
    assert "1 step" in str(profile)
    assert any("none dropped as warm-up" in note for note in profile.notes)


def test_forward_alone_is_timed_per_batch_and_has_operations(profile_cell):
    profile = profile_cell("with torch.no_grad():\n    for _ in range(3): model(torch.ones(4, 1, 8, 8))")
    assert profile.timing.unit == "batch"
    assert "a batch" in str(profile)
    assert any(row.op == "aten::mkldnn_convolution" for row in profile.ops)
    assert any("No training step was seen" in note for note in profile.notes)


def test_a_cell_without_a_model_still_gives_a_profile(profile_cell):
    profile = profile_cell("total = sum(range(100))")
    assert math.isnan(profile.step_ms)
    assert shares(profile) == {"the start of the cell → the end of the cell": 1.0}
    assert profile.to_dict()["timing"]["step_ms"] is None
    assert "No training step was seen" in str(profile)


@pytest.mark.parametrize(
    ("fault", "told"),
    [("raise KeyboardInterrupt", "The cell was interrupted"), ("1 / 0", "The cell raised ZeroDivisionError")],
)
def test_a_cell_that_does_not_come_to_its_end_gives_a_partial_profile(profile_cell, fault, told):
    profile = profile_cell(TRAIN + f"    if _ == 8: {fault}\n")
    assert profile.steps > 0
    assert profile.profiled_steps == 5
    assert profile.notes[0] == f"{told}: this is a partial profile, of what ran until then."
    assert told in str(profile)


def test_a_fault_in_the_middle_of_a_forward_leaves_the_steps_before_it(profile_cell):
    class Breaks(SmallCNN):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) if self.calls < 5 else 1 / 0

    profile = profile_cell(TRAIN, model=Breaks())
    assert profile.profiled_steps == 2
    assert sum(row.share for row in profile.rows) == pytest.approx(1)


def test_a_cell_that_profiles_itself_is_timed_all_the_same(profile_cell):
    inside = TRAIN.replace("\n", "\n    ")
    profile = profile_cell(f"with torch.autograd.profiler.profile(use_kineto=True) as own:{inside}")
    assert profile.steps > 0
    assert profile.rows == ()
    assert any("your cell runs torch.profiler itself".capitalize() in note for note in profile.notes)
    assert sum(shares(profile).values()) == pytest.approx(1)


def test_gradient_accumulation_is_told(profile_cell):
    cell = TRAIN.replace("optimizer.zero_grad()", "if _ % 3 == 0: optimizer.zero_grad()").replace(
        "    optimizer.step()", "    if _ % 3 == 2: optimizer.step()"
    )
    profile = profile_cell(cell, steps=33)
    assert profile.accumulation == 3
    assert "3 batches a step" in str(profile)
    assert profile.profiled_steps == 5
    (backward,) = [
        row for row in profile.rows if (row.module, row.op) == ("conv1", "aten::convolution_backward")
    ]
    assert backward.calls == 3


class TakesItsTime(torch.utils.data.TensorDataset):
    """Waits long enough for its share of a step to be shown, however busy the machine is."""

    def __getitem__(self, index):
        time.sleep(0.002)
        return super().__getitem__(index)


def test_waiting_for_data_is_told_with_the_operations_that_make_a_batch(profile_cell):
    images = TakesItsTime(torch.randn(48, 1, 8, 8), torch.randint(0, 10, (48,)))
    cell = TRAIN.replace("for _ in range(steps):", "for x, y in loader:").replace(
        "x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))", "pass"
    )
    profile = profile_cell(cell, loader=torch.utils.data.DataLoader(images, batch_size=4))
    assert "Waiting for data:" in str(profile)
    (stack,) = [row for row in profile.by_phase if (row.phase, row.op) == ("data", "aten::stack")]
    assert stack.calls == 2  # images and labels


def test_two_models_and_two_optimizers_are_one_step(profile_cell):
    cell = """
for _ in range(12):
    for player in (first, second):
        player.zero_grad()
        player(torch.randn(4, 6)).sum().backward()
    optimizer_1.step(); optimizer_2.step()
"""
    first, second = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 2))
    optimizers = {f"optimizer_{i}": torch.optim.SGD(m.parameters()) for i, m in ((1, first), (2, second))}
    profile = profile_cell(cell, first=first, second=second, **optimizers)
    assert profile.profiled_steps == 5
    calls = {row.module: row.calls for row in profile.rows if row.op == "aten::addmm"}
    assert calls == {"(Linear)": 1, "0 (Linear)": 1}
    assert sum(shares(profile).values()) == pytest.approx(1)


def test_names_of_the_users_are_escaped(profile_cell):
    evil = "<img src=x>"
    model = nn.Sequential()
    model.add_module(evil, SmallCNN())
    profile = profile_cell(TRAIN, model=model)
    assert any(evil in row.module for row in profile.rows)
    html = profile._repr_mimebundle_()["text/html"]
    assert "<img" not in html
    assert "&lt;img src=x&gt;" in html
    assert "<style" not in html
    assert "<script" not in html
    assert evil not in "".join(profile.figure().data[0].labels)


def test_html_is_well_formed_and_folds_long_tables(profile_cell):
    from html.parser import HTMLParser

    open_tags = []

    class Balanced(HTMLParser):
        def handle_starttag(self, tag, attrs):
            open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    html = profile_cell(TRAIN)._repr_mimebundle_()["text/html"]
    Balanced().feed(html)
    assert open_tags == []
    assert "<details>" in html


def test_everything_survives_json_and_becomes_a_table(profile_cell):
    profile = profile_cell(TRAIN)
    told = json.loads(json.dumps(profile.to_dict()))
    assert told["timing"]["step_ms"] == profile.step_ms
    assert len(told["rows"]) == len(profile.rows) == len(profile.to_dataframe())
    assert told["versions"]["torch"] == torch.__version__


def test_the_sunburst_holds_each_name_once_under_its_parent(profile_cell):
    (burst,) = profile_cell(TRAIN).figure().data
    assert len(set(burst.ids)) == len(burst.ids)
    assert set(burst.parents) <= set(burst.ids) | {""}


def test_text_says_in_plain_words_where_time_goes(profile_cell):
    profile = profile_cell(
        TRAIN.replace("    loss.backward()", "    time.sleep(0.01)\n    loss.backward()"), time=time
    )
    phases = (PhaseShare("backward", 0.3, 3.0), PhaseShare("loss → backward", 0.7, 7.0))
    assert {phase.name for phase in phases} <= set(shares(profile))
    text = str(replace(profile, timing=replace(profile.timing, phases=phases)))
    assert "Backward:" in text
    assert "Between loss and backward:" in text
    assert profile.ops[0].op in text  # which one costs most depends on what else the machine does


@pytest.mark.parametrize(
    ("phase", "words"),
    [("data", "Waiting for data"), ("zero_grad", "Clearing gradients"), ("a → b", "Between a and b")],
)
def test_phases_are_named_in_plain_words(phase, words):
    assert phase_words(phase) == words


def test_the_rate_of_samples_is_that_of_all_timed_steps_where_they_differ(profile_cell):
    cell = TRAIN.replace("optimizer.step()", "optimizer.step()\n    time.sleep(0.2 * (_ % 4 == 0))")
    profile = profile_cell(cell, steps=19, time=time)
    mean_ms = sum(profile.timing.times_ms) / profile.steps
    assert profile.step_ms < mean_ms / 2  # the median sees one of the two kinds of step
    assert profile.samples_per_s == pytest.approx(4 / mean_ms * 1e3)


def test_what_the_profiler_added_is_how_much_longer_its_steps_were():
    usual, profiled = Step(0, 1_000_000, {}), Step(0, 3_000_000, {}, is_profiled=True)
    assert _added_ms([profiled] * 5 + [usual] * 4, [usual] * 4) == 10.0
    assert _added_ms([usual] * 4, [usual] * 4) == 0.0
