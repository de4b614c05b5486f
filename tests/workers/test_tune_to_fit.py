"""`%accel tune --fit`: the fastest plan that memory has room for, with workers on a clock of their own; once with real ones."""

from __future__ import annotations

import pytest

from accel.errors import AccelError, OutOfMemory
from accel.plans.plan import Plan
from accel.workers.messages import EffectRead, StepsDone
from tests.workers.stand_ins import Costly
from tests.workers.test_tune import TRIED

GIB = 1 << 30
SMALLER = "activation_checkpointing"
DEEP = """
blocks = nn.Sequential(*[nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)) for _ in range(4)])
model = nn.Sequential(nn.Flatten(), *blocks, nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(4096, 1, 8, 8), torch.randint(0, 4, (4096,)))
loader = DataLoader(data, batch_size=1024)
"""
ON_DEEP = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""


@pytest.fixture
def deep(workbench):
    """The workbench, with a network whose memory is its activations."""
    exec(compile(DEEP, "<deep>", "exec"), workbench.namespace)
    return workbench


def test_where_the_cell_does_not_fit_the_fastest_that_does_is_the_answer_though_it_is_slower(
    deep, steps_take
):
    steps_take({"fused_optimizer": 0.8, SMALLER: 1.4}, memory={SMALLER: 0.5})
    tuning = deep.tune(
        exclude=["loader_workers", "intraop_threads", "compile_model"], budget_s=600, fit="2GiB"
    )
    assert set(tuning.best.plan.split("+")) == {"fused_optimizer", SMALLER}
    assert tuning.best.verdict == "slower"
    assert tuning.answer.startswith(
        f"{tuning.best.plan} fits 2 GiB (1.5 GiB at its peak, the cell as it is 3 GiB): slower"
    )
    assert tuning.keep_line == f"%accel keep {tuning.best.plan}"
    assert tuning.may_be_kept(tuning.best)


def test_several_that_save_memory_are_put_together_where_one_alone_is_too_large(workbench, steps_take):
    steps_take({"channels_last": 1.1, "fused_optimizer": 1.2, "loader_workers": 0.8},
               memory={"channels_last": 0.7, "fused_optimizer": 0.6})  # fmt: skip
    tuning = workbench.tune(include=TRIED, budget_s=900, fit=int(1.5 * GIB))
    assert set(Plan.parse(tuning.best.plan).names) == set(TRIED)


def test_of_those_that_fit_the_fastest_is_taken_and_not_the_smallest(workbench, steps_take):
    steps_take({"channels_last": 0.9, "fused_optimizer": 1.5, "loader_workers": 1.1},
               memory={"channels_last": 0.6, "fused_optimizer": 0.2, "loader_workers": 0.9})  # fmt: skip
    assert workbench.tune(include=TRIED, budget_s=600, fit="2 GiB").best.plan == "channels_last"


def test_what_makes_a_cell_that_fits_too_large_is_not_recommended(workbench, steps_take):
    steps_take({"channels_last": 0.5, "fused_optimizer": 0.9}, memory={"channels_last": 2.0})
    tuning = workbench.tune(include=TRIED, budget_s=600, fit="4GiB")
    assert tuning.best.plan == "fused_optimizer"
    assert tuning.best.verdict == "faster"


def test_nothing_that_fits_is_an_answer_with_the_least(workbench, steps_take):
    steps_take({}, memory={"channels_last": 0.9})
    tuning = workbench.tune(include=TRIED, budget_s=300, fit="1GiB")
    assert tuning.best is None
    assert tuning.answer.startswith("Nothing here fits 1 GiB; least: channels_last")
    assert "(2.7 GiB at its peak, the cell as it is 3 GiB)" in tuning.answer


def test_a_cell_that_fits_and_that_nothing_speeds_up_is_said_to_fit(workbench, steps_take):
    steps_take(dict.fromkeys(TRIED, 1.2), memory={"channels_last": 0.9})
    answer = workbench.tune(include=TRIED, budget_s=300, fit="4GiB").answer
    assert answer.startswith("Nothing here is faster than the cell as it is, which fits 4 GiB; ")


def test_smaller_batches_that_train_on_as_many_samples_take_part_where_training_may_change(deep, steps_take):
    steps_take(
        {SMALLER: 2.0, "batch_size": 1.2, "gradient_accumulation": 0.7},
        memory={SMALLER: 0.8, "batch_size": 0.6},
    )
    others = ["loader_workers", "intraop_threads", "compile_model", "prune", "bias_off"]
    tuning = deep.tune(exclude=others, changes_training=True, budget_s=900, fit="2GiB")
    assert "batch_size(factor=0.5)+gradient_accumulation" in [row.plan for row in tuning.searched]
    assert "gradient_accumulation" in tuning.best.plan


@pytest.mark.parametrize("fit", ["much", "-1GB", 0, True, "0"])
def test_what_is_no_size_is_refused(workbench, fit):
    with pytest.raises(AccelError, match="2GiB"):
        workbench.tune(fit=fit)


def test_real_workers_find_a_plan_that_fits(deep):
    deep.profile(ON_DEEP)
    known = deep.try_("fused_optimizer").rows[0]
    assert known.peak_of == "tensors"
    assert known.peak_bytes[1] == pytest.approx(known.peak_bytes[0], rel=0.01)
    tuning = deep.tune(include=["fused_optimizer", SMALLER], budget_s=240, fit=int(0.8 * known.peak_bytes[0]))
    assert SMALLER in tuning.best.plan
    assert tuning.best.peak_bytes[1] < 0.8 * tuning.best.peak_bytes[0]


class TooLarge(Costly):
    """A worker that has too little memory."""

    def receive(self, kind, *, timeout_s):
        if kind is StepsDone:
            raise OutOfMemory("a worker", because="it raised OutOfMemoryError", do="Use less.")
        return super().receive(kind, timeout_s=timeout_s)


def too_large_without(*names):
    """Workers that have too little memory unless one of these is in the plan."""
    return lambda plan: Costly if set(names) & set(plan.names) else TooLarge


def test_where_the_cell_itself_runs_out_of_memory_plans_are_compared_with_the_first_that_runs(
    deep, steps_take
):
    steps_take({"fused_optimizer": 0.8, SMALLER: 1.4}, memory={SMALLER: 0.5}, make=too_large_without(SMALLER))
    tuning = deep.tune(include=["fused_optimizer", SMALLER], budget_s=600, fit="2GiB")
    assert tuning.against == SMALLER
    assert set(tuning.best.plan.split("+")) == {"fused_optimizer", SMALLER}
    assert tuning.best.headline.ratio == pytest.approx(1 / 0.8, rel=0.05)
    assert "(1.5 GiB at its peak, the cell as it is ran out of memory next to this notebook)" in tuning.answer
    assert f"all speed-ups are over {SMALLER}" in str(tuning)
    assert tuning.summary == tuning.answer
    assert any(each.plan == "fused_optimizer" and "OutOfMemoryError" in each.why for each in tuning.left_out)
    assert deep.keep() is not None


def test_where_only_what_saves_memory_runs_and_nothing_speeds_it_up_it_is_the_answer(deep, steps_take):
    steps_take({"fused_optimizer": 1.3}, memory={SMALLER: 0.5}, make=too_large_without(SMALLER))
    tuning = deep.tune(include=["fused_optimizer", SMALLER], budget_s=600, fit="2GiB")
    assert tuning.best.plan == tuning.against == SMALLER
    assert tuning.answer.endswith(
        "the cell as it is ran out of memory next to this notebook); nothing that fits is faster."
    )
    assert tuning.keep_line == f"%accel keep {SMALLER}"
    assert SMALLER not in [each.plan for each in tuning.left_out]
    assert "--budget-s" not in str(tuning.took)
    assert SMALLER in str(deep.keep())


def test_where_nothing_runs_the_search_says_so(deep, steps_take):
    steps_take({}, make=lambda plan: TooLarge)
    with pytest.raises(AccelError, match="each plan that saves some"):
        deep.tune(include=["fused_optimizer", SMALLER], budget_s=600, fit="2GiB")
    with pytest.raises(OutOfMemory):
        deep.tune(include=["fused_optimizer", SMALLER], budget_s=600)


def test_where_tensors_were_not_counted_resident_pages_are_compared_and_named(deep, steps_take):
    steps_take({SMALLER: 1.4}, memory={SMALLER: 0.5}, make=lambda plan: Uncounted)
    tuning = deep.tune(include=[SMALLER], budget_s=600, fit="2GiB")
    assert {row.peak_of for row in tuning.rows} == {"resident"}
    assert "(1.5 GiB of resident pages at its peak, the cell as it is 3 GiB)" in tuning.answer
    assert "resident memory 0.50×" in str(tuning)


class Uncounted(Costly):
    """A worker that knows its pages alone."""

    def receive(self, kind, *, timeout_s):
        said = super().receive(kind, timeout_s=timeout_s)
        return EffectRead([], resident_bytes=said.tensor_bytes) if kind is EffectRead else said


@pytest.mark.parametrize(
    ("more", "kind"), [("", "tensors"), ("# torch.profiler.profile() once ran here\n", "resident")]
)
def test_tensors_are_counted_unless_the_cell_may_run_the_profiler_itself(deep, more, kind):
    deep.profile(more + ON_DEEP)
    (row,) = deep.try_("fused_optimizer").rows
    assert row.peak_of == kind
    assert min(row.peak_bytes) > 0
