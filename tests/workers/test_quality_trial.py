"""Time to quality from end to end, with real workers: what is reached, what is not, and training left undisturbed."""

from __future__ import annotations

import re
import time

import msgspec
import pytest
import torch

from accel.errors import AccelError
from accel.plans import Plan
from accel.workbench import Workbench
from accel.workbench.trial_start import load_for
from accel.workers.messages import Evaluate, Evaluated, QualityQuestion, StepsDone, StepToken
from accel.workers.pool import WorkerPool
from accel.workers.quality_run import QualityRun
from accel.workers.variant_worker import Variant
from accel.workload.shipping import pack
from tests.workers.conftest import worker_processes

SETUP = """
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

home = os.getpid()
torch.manual_seed(0)
x = torch.randn(400, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
loader = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=16, shuffle=True)
val_loader = DataLoader(TensorDataset(x[320:], y[320:]), batch_size=40, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()

def train():
    for a, b in loader:
        optimizer.zero_grad()
        criterion(model(a), b).backward()
        optimizer.step()
"""
BUILDING = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(4):
    for a, b in loader:
        opt.zero_grad()
        criterion(net(a), b).backward()
        opt.step()
"""


@pytest.fixture
def make(one_thread):
    """A workbench whose cell was profiled, which has trained its model."""
    benches = []

    def workbench(cell="train()", setup=""):
        namespace = {"__name__": "__main__"}
        exec(compile(SETUP + setup, "<setup>", "exec"), namespace)
        bench = Workbench(namespace, spare_workers=0)
        benches.append(bench)
        bench.profile(cell)
        return bench

    yield workbench
    for bench in benches:
        bench.close()
    assert worker_processes() == [], "a worker outlived its test"


def test_each_plan_is_trained_to_the_target_and_nothing_of_the_users_changes(make):
    bench = make()
    before = [p.clone() for p in bench.namespace["model"].parameters()]
    state = torch.get_rng_state()
    shown = bench.try_("fused_optimizer", until="accuracy>=0.8", seeds=2, budget_s=600)
    assert [row.plan for row in shown.rows] == ["baseline", "fused_optimizer"]
    for row in shown.rows:
        assert [curve.ending for curve in row.curves] == ["reached", "reached"]
        assert row.quality >= 0.8
        assert row.samples_per_s > 0
        for curve in row.curves:
            assert curve.samples == 16 * curve.steps
            assert curve.points[0].steps == 0
            assert curve.points[0].value < 0.8
    assert shown["fused_optimizer"].proofs[0][:2] == ("fused_optimizer", True)
    assert shown.epoch_samples == 320
    assert "too few for an interval" in shown.answer("fused_optimizer").sentence
    assert "unchanged" in shown.unchanged_line
    assert all(map(torch.equal, before, bench.namespace["model"].parameters()))
    assert torch.equal(state, torch.get_rng_state())
    assert bench.history().rows[0].asked == "accuracy>=0.8"
    assert re.match(r"done, \d+ s; Seconds of training until accuracy>=0.8", bench.status().last_trial)


def test_from_one_seed_an_exact_plan_passes_the_same_points_and_seeds_differ(make):
    bench = make()
    shown = bench.try_("loader_workers(n=1)", until="loss<=0.7", seeds=2, budget_s=600)
    base, same = (row.curves for row in shown.rows)
    for mine, theirs in zip(base, same, strict=True):
        common = {point.steps: point.value for point in mine.points}
        shared = [point for point in theirs.points if point.steps in common]
        assert len(shared) > 1
        assert all(point.value == common[point.steps] for point in shared)
    assert base[0].points[0].value != base[1].points[0].value


def test_a_plan_that_breaks_quality_does_not_reach_the_target(make):
    cell = """
for a, b in loader:
    optimizer.zero_grad()
    loss = criterion(model(a), b)
    if optimizer.param_groups[0]["fused"]:  # what a plan with a fault would do
        loss = -loss
    loss.backward()
    optimizer.step()
"""
    shown = make(cell).try_("fused_optimizer", until="accuracy>=0.8", seeds=1, budget_s=600)
    assert shown["baseline"].curves[0].ending == "reached"
    answer = shown.answer("fused_optimizer")
    assert answer.verdict == "not reached"
    assert "not reached within" in answer.sentence


def test_with_a_budget_quality_is_compared_after_equal_seconds(make):
    shown = make().try_("fused_optimizer", train_s=0.5, seeds=1)
    for row in shown.rows:
        assert row.curves[0].ending == "budget spent"
        assert row.curves[0].seconds >= 0.4
    assert shown.metric == "accuracy"
    assert shown.answer("fused_optimizer").difference is not None


def trained_further(bench):
    for _ in range(6):
        bench.namespace["train"]()
    return bench


def test_a_model_that_is_trained_already_is_made_anew_in_every_seed_and_the_seeds_have_an_interval(make):
    shown = trained_further(make()).try_("fused_optimizer", until="accuracy>=0.8", budget_s=600)
    for row in shown.rows:
        assert [(curve.seed, curve.ending) for curve in row.curves] == [
            (seed, "reached") for seed in range(3)
        ]
        assert max(curve.points[0].value for curve in row.curves) < 0.8
    assert shown.answer("fused_optimizer").ratio.is_interval
    assert "Each seed starts from new weights" in str(shown)


def test_from_the_same_weights_seeds_differ_in_their_batches(make):
    bench = make()
    shown = bench.try_("fused_optimizer", train_s=0.3, seeds=2, start="same", metric="loss")
    one, two = shown["baseline"].curves
    # Two processes: a sum over threads may differ in its last place.
    assert one.points[0].value == pytest.approx(two.points[0].value, rel=1e-5)
    values = {point.steps: point.value for point in one.points}
    common = [(point.value, values[point.steps]) for point in two.points[1:] if point.steps in values]
    assert common
    assert all(mine != theirs for mine, theirs in common)
    assert "Each seed starts from your weights as they are now" in str(shown)


def test_data_that_the_training_sees_are_said_not_to_be_held_out(make):
    shown = make().try_("fused_optimizer", train_s=0.2, seeds=1, held_out="loader")
    assert "loader has samples that the training sees too" in str(shown)
    assert "on loader" in shown.metric_line


def test_weights_that_meet_the_target_already_say_what_to_do(make):
    with pytest.raises(AccelError, match="reaches this target before its first step") as raised:
        trained_further(make()).try_("fused_optimizer", until="accuracy>=0.8", seeds=1, start="same")
    assert "--start new" in raised.value.do
    with pytest.raises(AccelError, match="reaches this target before its first step") as raised:
        make().try_("fused_optimizer", until="accuracy>=0.0", seeds=1)
    assert raised.value.do == "Set a harder target."


def test_a_seed_that_meets_the_target_by_chance_is_replaced_by_a_fresh_one(make):
    def first_weight(seed):
        torch.manual_seed(seed)
        return float(torch.nn.Linear(8, 32).weight[0, 0].detach())

    sign = 1 if first_weight(0) > 0 else -1
    lucky = f"""
def lucky(model):
    return float(model[0].weight[0, 0] * {sign} > 0 or model[1].num_batches_tracked > 0)
"""
    expected = [seed for seed in range(10) if first_weight(seed) * sign <= 0][:2]
    shown = make(setup=lucky).try_("fused_optimizer", until="lucky>=1", seeds=2, budget_s=600)
    assert [curve.seed for curve in shown["baseline"].curves] == expected
    assert any("Seed 0 is left out" in note for note in shown.notes)


def test_a_cell_that_seeds_itself_is_no_three_seeds(make):
    bench = make("torch.manual_seed(0)\ntrain()")
    with pytest.raises(AccelError, match="all of them would be the same training") as raised:
        bench.try_("fused_optimizer", until="accuracy>=0.8", start="same")
    assert "--start new" in raised.value.do


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_model_that_the_cell_builds_is_judged_and_trained_for_one_run_of_the_cell(make, seeds):
    shown = make(BUILDING).try_("fused_optimizer", until="accuracy>=1.1", seeds=seeds, budget_s=600)
    for row in shown.rows:
        for curve in row.curves:
            assert (curve.ending, curve.steps) == ("cell over", 80)
            assert curve.last > 0.5
    starts = {curve.points[0].value for curve in shown["baseline"].curves}
    assert len(starts) == seeds  # another seed is another model
    assert "one run of the cell" in shown.answer("fused_optimizer").sentence


def test_a_function_of_the_users_tells_quality_and_its_errors_have_the_users_lines(make):
    own = """
calls = []
def share(model, batches):
    model.train()          # as careless as can be
    calls.append(1)
    return sum((model(a).argmax(1) == b).sum() for a, b in batches) / len(batches.dataset)
def broken(model):
    return 1 / 0
def words(model):
    return "good"
"""
    bench = make(setup=own)
    shown = bench.try_("fused_optimizer", until="quality>=0.8", metric="share", seeds=1, budget_s=600)
    assert "higher is better" in shown.metric_line
    assert shown["baseline"].curves[0].ending == "reached"
    assert "your function share(model, val_loader)" in shown.metric_line
    assert bench.namespace["calls"] == []
    with pytest.raises(AccelError, match="ZeroDivisionError") as raised:
        bench.try_("fused_optimizer", train_s=1.0, metric="broken", better="lower", seeds=1)
    assert "in broken" in raised.value.traceback_text
    assert "accel/workers" not in raised.value.traceback_text
    with pytest.raises(AccelError, match="it returned str instead of one number"):
        bench.try_("fused_optimizer", train_s=1.0, metric="words", better="lower", seeds=1)


def test_a_metric_that_is_never_a_number_is_an_error_before_any_training(make):
    bench = make(setup="def nothing(model):\n    return float('nan')\n")
    with pytest.raises(AccelError, match="not a number"):
        bench.try_("fused_optimizer", train_s=1.0, metric="nothing", better="higher", seeds=1)


def test_targets_that_are_no_classes_have_no_accuracy(make):
    bench = make(setup="val_loader = DataLoader(TensorDataset(x[320:], torch.randn(80, 3)), batch_size=40)\n")
    with pytest.raises(
        AccelError,
        match=r"class numbers, and outputs with a score for each class; here targets are float32 \(40, 3\)",
    ):
        bench.try_("fused_optimizer", train_s=1.0, seeds=1)


def test_a_failing_plan_has_its_error_and_the_others_their_curves(make):
    cell = 'if optimizer.param_groups[0]["fused"] and os.getpid() != home:\n    raise RuntimeError("not this one")\ntrain()'
    shown = make(cell).try_("fused_optimizer", "loader_workers(n=1)", train_s=0.3, seeds=1)
    assert "not this one" in shown["fused_optimizer"].error
    assert shown["loader_workers(n=1)"].curves[0].ending == "budget spent"


def test_in_the_background_it_can_be_watched_and_stopped(make):
    bench = make()
    trial = bench.try_("fused_optimizer", until="accuracy>=1.1", seeds=1, wait=False)
    assert bench.running_trial is trial
    with pytest.raises(AccelError, match="a trial is running already"):
        bench.try_("fused_optimizer")
    while not trial.result.rows[0].curves:
        time.sleep(0.05)
    assert "Trial: measuring" in str(trial)
    trial.stop()
    assert (trial.state, bench.running_trial) == ("stopped", None)
    assert trial.wait().rows[0].state == "stopped"


# --- evaluating leaves training as it is ------------------------------------------------------------------------------

CARELESS = """
generator = torch.Generator().manual_seed(5)
settings = {"shuffle": True, "generator": generator, "num_workers": WORKERS, "persistent_workers": PERSISTENT}
loader = DataLoader(loader.dataset, batch_size=16, **settings)
val_loader = DataLoader(val_loader.dataset, batch_size=40, **settings)
import random
import numpy
def careless(model, batches):
    model.train()
    random.random(), numpy.random.rand(), torch.rand(3)
    return sum(model(a).sum() for a, b in batches)
"""


def losses_in_a_worker(bench, *, evaluates):
    """Losses of 25 steps (more than an epoch) in a worker, with or without an evaluation after each."""
    question = QualityQuestion(
        "careless", False, 2, "val_loader", "model", "Sequential", "", "loader", 0, "same", True
    )
    reads = tuple(
        dict.fromkeys(
            [*bench.workload.reads, "careless", "val_loader", "random", "numpy", "torch", "generator"]
        )
    )
    object.__setattr__(bench.workload, "reads", reads)
    parcel = pack(bench.workload)
    load = msgspec.structs.replace(load_for(parcel, bench.workload), quality=question)
    losses, pool = [], WorkerPool(spares=0)
    with QualityRun(pool, parcel, [Variant(Plan(), "as the notebook")], load=load, timeout_s=60) as run:
        worker = run._workers["baseline"]
        for _ in range(25):
            if evaluates:
                worker.send(Evaluate())
                assert worker.receive(Evaluated, timeout_s=60).value is not None
            worker.send(StepToken(1))
            losses += worker.receive(StepsDone, timeout_s=60).losses
    parcel.close()
    return losses


@pytest.mark.parametrize(
    ("workers", "persistent"), [(0, False), pytest.param(1, False, marks=pytest.mark.whole), (1, True)]
)
def test_losses_are_bit_equal_with_and_without_evaluations_between_the_steps(make, workers, persistent):
    bench = make(setup=CARELESS.replace("WORKERS", str(workers)).replace("PERSISTENT", str(persistent)))
    assert losses_in_a_worker(bench, evaluates=True) == losses_in_a_worker(bench, evaluates=False)
