"""`%accel tune`: what it recommends, and what not, with workers on a clock of their own; and once with real ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from accel.distributed.trials import trial_group
from accel.errors import AccelError, UnknownName
from accel.history import HistoryStore
from accel.workers import time_budget
from accel.workers.messages import StepsDone
from accel.workers.time_budget import TimeBudget
from tests.workers.conftest import CELL, trials_with
from tests.workers.stand_ins import Costly, Costs, MachineClock

GIB = 1 << 30
TRIED = ["channels_last", "fused_optimizer", "loader_workers"]


class Lossy(Costly):
    """A worker whose losses are other ones."""

    def receive(self, kind, *, timeout_s):
        done = super().receive(kind, timeout_s=timeout_s)
        if hasattr(done, "losses"):
            done.losses[:] = [2.0] * len(done.losses)
        return done


class Failing(Costly):
    """A worker whose first step fails."""

    def receive(self, kind, *, timeout_s):
        if kind is StepsDone:
            raise AccelError("a worker", because="it ran out of memory", do="Use less.")
        return super().receive(kind, timeout_s=timeout_s)


@pytest.fixture
def clock():
    return MachineClock()


@pytest.fixture
def steps_take(monkeypatch, workbench, clock):
    """Workers whose step takes a share of 50 ms: the product of the shares of their parts; `make` may give others."""

    def steps_take(shares, together=None, *, make=lambda plan: Costly, compiling=5.0, memory=None):
        clock.times_trials(monkeypatch)
        monkeypatch.setattr(time_budget, "TimeBudget", partial(TimeBudget, clock=clock))

        def stand_in(variant, load):
            share = 1.0
            for name in variant.plan.names:
                share *= shares.get(name, 1.0)
            for pair, more in (together or {}).items():
                share *= more if set(pair) <= set(variant.plan.names) else 1.0
            bytes_held = 3 * GIB if memory else 0
            for name in variant.plan.names:
                bytes_held *= (memory or {}).get(name, 1.0)
            costs = Costs(step=0.05 * share, noise=0.01, compiling=compiling, memory=int(bytes_held))
            return make(variant.plan)(clock, costs, variant.plan)

        monkeypatch.setattr(trial_group, "group_for", stand_in)
        workbench.profile(CELL)
        workbench.workload = replace(workbench.workload, step_ms=50.0)

    return steps_take


def test_parts_that_help_are_found_together_and_those_that_hurt_are_not_in(workbench, steps_take):
    steps_take({"channels_last": 0.8, "fused_optimizer": 0.9, "loader_workers": 1.3})
    tuning = workbench.tune(include=TRIED, budget_s=300)
    assert tuning.best.plan == "channels_last+fused_optimizer"
    assert tuning.best.verdict == "faster"
    assert tuning.best.headline.low < 1 / 0.72 < tuning.best.headline.high
    assert [each.part for each in tuning.parts] == ["channels_last", "fused_optimizer"]
    assert tuning.parts[1].added.ratio == pytest.approx(1 / 0.9, rel=0.03)
    assert tuning.keep_line == "%accel keep channels_last+fused_optimizer"
    assert tuning["loader_workers"].verdict == "slower"
    assert tuning["loader_workers"].shown.pairs < tuning["channels_last"].shown.pairs, (
        "it went on although it was slower"
    )


def test_the_answer_is_measured_anew_and_not_taken_from_the_search(workbench, steps_take):
    steps_take({"channels_last": 0.8})
    tuning = workbench.tune(include=TRIED, budget_s=300)
    assert tuning.best in tuning.confirmed
    assert tuning.best not in tuning.searched


def test_of_parts_that_take_from_each_other_one_is_recommended(workbench, steps_take):
    steps_take({"channels_last": 0.7, "fused_optimizer": 0.75}, {("channels_last", "fused_optimizer"): 1.5})
    assert workbench.tune(include=TRIED, budget_s=300).best.plan == "channels_last"


def test_nothing_faster_is_an_answer(workbench, steps_take):
    steps_take(dict.fromkeys(TRIED, 1.2))
    tuning = workbench.tune(include=TRIED, budget_s=300)
    assert tuning.best is None
    assert tuning.answer == "Nothing here is faster than the cell as it is; 3 plans measured."
    assert (tuning.keep_line, tuning.export_line) == ("", "")
    with pytest.raises(AccelError, match="faster"):
        workbench.keep()


def test_a_faster_plan_whose_loss_drifts_is_left_out_with_the_reason(workbench, steps_take):
    steps_take({"channels_last": 0.5, "fused_optimizer": 0.9},
               make=lambda plan: Lossy if "channels_last" in plan.names else Costly)  # fmt: skip
    tuning = workbench.tune(include=TRIED, budget_s=300)
    assert tuning.best.plan == "fused_optimizer"
    assert any(each.plan == "channels_last" and "DRIFTS" in each.why for each in tuning.left_out)


def test_a_plan_that_compiles_longer_than_it_saves_is_not_recommended(workbench, steps_take):
    steps_take({"compile_model": 0.5}, compiling=60.0)
    few = workbench.tune(include=["compile_model"], steps=1_000, budget_s=300)
    assert few.best is None
    many = workbench.tune(include=["compile_model"], steps=100_000, budget_s=300)
    assert many.best.plan.startswith("compile_model")  # whichever scope
    assert 2_000 < many.best.break_even_steps < 3_000


def test_a_training_shorter_than_any_compilation_leaves_compiling_out_at_once(workbench, steps_take):
    steps_take({"channels_last": 0.8})
    tuning = workbench.tune(include=["channels_last", "compile_model"], budget_s=300)
    assert any(each.plan == "compile_model" and "--steps" in each.why for each in tuning.left_out)
    assert "compile_model" not in [row.plan for row in tuning.rows]


def test_it_ends_within_its_budget_and_says_so(workbench, steps_take, clock):
    steps_take({"channels_last": 0.8, "fused_optimizer": 0.9})
    began = clock.now
    tuning = workbench.tune(include=TRIED, budget_s=40)
    assert clock.now - began <= 40
    assert tuning.took.budget_s == 40
    assert tuning.confirmed, "the winner was not measured anew"


def test_stopping_while_the_winner_is_confirmed_keeps_it(workbench, steps_take):
    steps_take({"channels_last": 0.5})
    trial = workbench.tune(include=TRIED, budget_s=3000, wait=False)

    def stop_when_confirmed():
        if any(row.headline for row in trial.result.confirmed):
            trial.stop()

    trial.on_change(stop_when_confirmed)
    stop_when_confirmed()
    tuning = trial.wait(60)
    assert tuning.best.plan == "channels_last"


def test_stopped_before_the_winner_ran_anew_it_says_what_was_ahead_and_claims_nothing(
    workbench, steps_take, clock
):
    steps_take({"channels_last": 0.5})
    trials = []

    def stop_before_confirming(trial):
        trials.append(trial)
        trial.on_change(lambda: trial.stop() if trial.state == "confirming" else None)
        return trial.wait(60)

    tuning = workbench.tune(include=TRIED, budget_s=3000, watch=stop_before_confirming)
    assert tuning.best is None
    assert tuning.answer.startswith("Not confirmed: channels_last")
    assert tuning.took.ended_by == "you stopped it"


def test_a_plan_whose_worker_fails_is_left_out_and_the_others_go_on(workbench, steps_take):
    steps_take(
        {"fused_optimizer": 0.8}, make=lambda plan: Failing if "channels_last" in plan.names else Costly
    )
    tuning = workbench.tune(include=TRIED, budget_s=300)
    assert tuning.best.plan == "fused_optimizer"
    assert any(each.plan == "channels_last" and "out of memory" in each.why for each in tuning.left_out)


def test_a_baseline_that_fails_fails_the_search(workbench, steps_take):
    steps_take({}, make=lambda plan: Costly if plan else Failing)
    with pytest.raises(AccelError, match="out of memory"):
        workbench.tune(include=TRIED, budget_s=300)


def test_a_steady_allocator_that_gains_nothing_is_not_recommended_with_what_does(
    workbench, steps_take, monkeypatch
):
    trials_with(monkeypatch, can_be_steady=True)
    steps_take({"channels_last": 0.7})
    tuning = workbench.tune(include=[*TRIED, "steady_allocator"], budget_s=900)
    assert "steady_allocator" in [row.plan for row in tuning.confirmed]
    assert tuning.best.plan == "channels_last"


def test_quality_that_was_given_up_allows_a_drift_and_no_more(workbench, steps_take):
    make = lambda plan: Lossy if "channels_last" in plan.names else Costly
    steps_take({"channels_last": 0.5}, make=make)
    kept = workbench.tune(include=TRIED, budget_s=300, keep_quality=0.005)
    assert kept.best is None or "channels_last" not in kept.best.plan
    assert any("0.5 % was allowed" in each.why for each in kept.left_out)


def test_what_is_measured_is_in_the_history_before_the_search_is_over(
    workbench, steps_take, monkeypatch, tmp_path
):
    steps_take({"channels_last": 0.8})
    monkeypatch.setattr(workbench.history_keeper, "store", HistoryStore(tmp_path / "history.sqlite"))
    trial = workbench.tune(include=TRIED, budget_s=300, wait=False)
    seen = []
    trial.on_change(lambda: seen.append((trial.is_over, len(workbench.history_keeper.store.trials()))))
    trial.wait(60)
    assert any(count >= 3 for is_over, count in seen if not is_over)
    rows = workbench.history_keeper.store.trials()
    assert len({(row.plan, row.where_measured) for row in rows}) == len(rows), "a plan is there twice"


def test_what_was_measured_here_before_is_where_the_next_search_begins(
    workbench, steps_take, monkeypatch, tmp_path
):
    steps_take({"channels_last": 0.8})
    monkeypatch.setattr(workbench.history_keeper, "store", HistoryStore(tmp_path / "history.sqlite"))
    workbench.tune(include=TRIED, budget_s=300)
    again = workbench.tune(include=TRIED, budget_s=300)
    by_part = {each.part: each for each in again.expectations}
    assert by_part["channels_last"].source == "this machine's history"
    assert by_part["channels_last"].expected.ratio == pytest.approx(1.25, rel=0.05)
    assert "Expected before" in str(again)


def test_names_that_do_not_exist_and_plans_in_place_of_names_are_refused(workbench):
    workbench.profile(CELL)
    with pytest.raises(UnknownName, match="channels_last"):
        workbench.tune(include="chanels_last")
    with pytest.raises(AccelError, match="one acceleration"):
        workbench.tune(exclude="channels_last+autocast")


def test_a_search_in_which_nothing_can_work_says_why(workbench):
    workbench.profile(CELL)
    with pytest.raises(AccelError, match=r"pin_memory: .*GPU"):
        workbench.tune(include="pin_memory")


def test_text_fits_on_a_screen_and_says_what_to_do_next(workbench, steps_take):
    steps_take({"channels_last": 0.8, "fused_optimizer": 0.9})
    tuning = workbench.tune(budget_s=600)
    assert str(tuning).count("\n") < 40
    assert "Next: %accel keep" in str(tuning)
    assert "<table" in tuning._repr_mimebundle_()["text/html"]
    assert list(tuning.figure().data[0].measure) == ["absolute", *["relative"] * len(tuning.parts), "total"]
    assert set(tuning.to_dataframe()["stage"]) == {"confirmed", "searched"}


def test_real_workers_find_what_saves_a_sleep_and_change_nothing(workbench):
    cell = """
for x, y in loader:
    if not optimizer.param_groups[0]["fused"]:
        time.sleep(0.02)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
    workbench.profile(cell)
    tuning = workbench.tune(include=["fused_optimizer", "set_to_none", "channels_last"], budget_s=25)
    assert "fused_optimizer" in tuning.best.plan
    assert tuning.best.headline.low > 1
    assert "unchanged" in tuning.unchanged_line
    assert all(row.peak_bytes for row in tuning.searched)
    assert not workbench.namespace["optimizer"].param_groups[0]["fused"]
    assert "fused_optimizer" in str(workbench.keep())
