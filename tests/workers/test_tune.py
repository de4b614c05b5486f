"""`%accel tune`: what it recommends, and what not, with workers on a clock of their own; and once with real ones."""

from __future__ import annotations

import pytest

from accel.errors import AccelError, UnknownName
from accel.history import HistoryStore
from accel.measuring.interval import ProcessNoise
from accel.plans.plan import Plan
from accel.workers.messages import StepsDone
from tests.workers.conftest import CELL, trials_with
from tests.workers.stand_ins import Costly

TRIED = ["channels_last", "fused_optimizer", "loader_workers"]
THREE = [*TRIED[:2], "intraop_threads(n=2)"]


class Lossy(Costly):
    """A worker whose losses are other ones."""

    loss: float | None = 2.0

    def receive(self, kind, *, timeout_s):
        done = super().receive(kind, timeout_s=timeout_s)
        if hasattr(done, "losses"):
            done.losses[:] = [self.loss] * len(done.losses)
        return done


class SlightlyLossy(Lossy):
    loss = 1.25


class Exploding(Lossy):
    loss = None


class KilledOnce(Costly):
    """A worker that is killed in the third relaunch."""

    relaunches = 0

    def wait_until_ready(self):
        KilledOnce.relaunches += 1
        super().wait_until_ready()

    def receive(self, kind, *, timeout_s):
        if kind is StepsDone and KilledOnce.relaunches == 3:
            raise AccelError(
                "a worker", because="it was killed by SIGKILL", do="Close what else needs memory."
            )
        return super().receive(kind, timeout_s=timeout_s)


class Failing(Costly):
    """A worker whose first step fails."""

    def receive(self, kind, *, timeout_s):
        if kind is StepsDone:
            raise AccelError("a worker", because="it ran out of memory", do="Use less.")
        return super().receive(kind, timeout_s=timeout_s)


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


def test_plans_that_lead_to_the_answer_take_part_once_that_is_proven_and_show_what_each_part_adds(
    workbench, steps_take
):
    steps_take({"channels_last": 0.7, "fused_optimizer": 0.8, "intraop_threads": 0.9})
    tuning = workbench.tune(include=THREE, budget_s=900)
    assert [each.part for each in tuning.parts] == THREE
    relaunches = [row.headline.relaunches for row in (tuning["channels_last"], tuning.best)]
    assert 2 <= relaunches[0] < relaunches[1]


def test_where_the_answer_fails_when_it_is_measured_anew_the_plans_that_lead_to_it_are_measured(
    workbench, steps_take
):
    steps_take({"channels_last": 0.7, "fused_optimizer": 0.8, "intraop_threads": 0.9},
               make=lambda plan: Failing if len(plan.entries) == 3 else Costly)  # fmt: skip
    tuning = workbench.tune(include=THREE, budget_s=40)
    assert len(Plan.parse(tuning.best.plan).entries) == 2


def test_what_is_undecided_is_named_with_how_far_it_came(workbench, steps_take, monkeypatch):
    monkeypatch.setattr("accel.workers.tune_trial.STEADY_ALONE", ProcessNoise(sd=0.5, weight=50))
    steps_take({"channels_last": 0.9})
    tuning = workbench.tune(include=TRIED, budget_s=40)
    assert tuning.best is None
    assert tuning.answer.startswith("Undecided: channels_last")
    assert "looked best (1." in tuning.answer


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


@pytest.mark.parametrize("budget_s", [14, 18, 25])
def test_rounds_end_early_enough_for_the_noise_that_a_difference_of_losses_is_held_against(
    workbench, steps_take, budget_s
):
    steps_take({"channels_last": 0.8}, make=lambda plan: SlightlyLossy if plan.entries else Costly)
    tuning = workbench.tune(include=TRIED, budget_s=budget_s)
    assert tuning.searched
    assert not any("noise floor not measured" in str(row.quality) for row in tuning.searched)


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


def test_when_the_time_is_up_before_good_parts_ran_together_the_answer_has_them_together(
    workbench, steps_take
):
    steps_take({"channels_last": 0.8, "fused_optimizer": 0.9})
    tuning = workbench.tune(include=THREE, budget_s=40)
    assert sorted(row.plan for row in tuning.searched) == sorted(THREE)
    assert tuning.best.plan == "channels_last+fused_optimizer"


def test_of_parts_that_fail_only_together_the_best_alone_is_the_answer(workbench, steps_take):
    steps_take({"channels_last": 0.8, "fused_optimizer": 0.9},
               make=lambda plan: Failing if len(plan.entries) > 1 else Costly)  # fmt: skip
    assert workbench.tune(include=TRIED, budget_s=40).best.plan == "channels_last"


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
    assert tuning.took.ended_by == "you stopped the trial"


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


def test_a_loss_that_is_no_number_is_more_than_any_share_allows(workbench, steps_take):
    steps_take(
        {"channels_last": 0.5}, make=lambda plan: Exploding if "channels_last" in plan.names else Costly
    )
    tuning = workbench.tune(include=TRIED, budget_s=300, keep_quality=0.5)
    assert tuning.best is None or "channels_last" not in tuning.best.plan
    assert any(each.plan == "channels_last" and "no number any more" in each.why for each in tuning.left_out)


def test_a_drift_that_was_allowed_is_described_by_what_was_allowed(workbench, steps_take):
    steps_take(
        {"channels_last": 0.5}, make=lambda plan: SlightlyLossy if "channels_last" in plan.names else Costly
    )
    tuning = workbench.tune(include=TRIED, budget_s=300, keep_quality=0.3)
    assert tuning.best.plan == "channels_last"
    assert "losses are 25 % higher on average, and 30 % was allowed" in tuning.answer
    assert "DRIFTS" not in tuning.answer


def test_a_baseline_that_is_killed_once_costs_a_relaunch_and_not_the_search(
    workbench, steps_take, monkeypatch
):
    monkeypatch.setattr(KilledOnce, "relaunches", 0)
    steps_take({"channels_last": 0.8}, make=lambda plan: Costly if plan else KilledOnce)
    assert workbench.tune(include=TRIED, budget_s=300).best.plan == "channels_last"
    assert KilledOnce.relaunches > 3


def test_what_was_not_measured_is_named_and_no_word_is_said_of_it(workbench, steps_take):
    """A minute to compile: the one that does so does not fit, and the others are measured all the same."""
    steps_take({"channels_last": 1.2, "fused_optimizer": 1.2, "compile_model": 0.5}, compiling=60.0)
    tuning = workbench.tune(
        include=["channels_last", "fused_optimizer", "compile_model"], steps=1_000_000, budget_s=30
    )
    assert tuning.best is None
    assert {row.plan for row in tuning.searched} == {"channels_last", "fused_optimizer"}
    assert tuning.answer.startswith("None of 2 plans is faster than the cell as it is;")
    assert any(each.plan == "compile_model" and "--budget-s" in each.why for each in tuning.left_out)


def test_what_leads_stays_in_where_there_is_no_time_to_measure_it_again(
    workbench, steps_take, monkeypatch, tmp_path
):
    """Twenty seconds to compile, each time: there is one relaunch of the search, and one of the answer."""
    monkeypatch.setattr(workbench.history_keeper, "store", HistoryStore(tmp_path / "no hints.sqlite"))
    steps_take({"channels_last": 0.9, "compile_model": 0.5}, compiling=20.0)
    tuning = workbench.tune(include=["channels_last", "compile_model"], steps=1_000_000, budget_s=80)
    assert "compile_model" in tuning.best.plan
    assert [each for each in tuning.left_out if "compile_model" in each.plan] == []
    assert "Compiling takes 20 s: it is ahead from step " in str(tuning)


def test_a_setting_that_is_named_is_searched_or_left_out_by_itself(workbench, steps_take):
    steps_take({"loader_workers": 0.8})
    only = workbench.tune(include=["loader_workers(n=1)"], budget_s=300)
    assert {row.plan for row in only.searched} == {"loader_workers(n=1)"}
    without = workbench.tune(
        include=["loader_workers"], exclude=["loader_workers(persistent=True)"], budget_s=900
    )
    assert "loader_workers(persistent=True)" not in [row.plan for row in without.searched]
    assert len(without.searched) > 1, "no other setting was searched"
    with pytest.raises(AccelError, match="both name loader_workers"):
        workbench.tune(include="loader_workers", exclude="loader_workers")


READS = """
class Read(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.full((1, 8, 8), float(index)).sin(), index % 4
loader = DataLoader(Read(), batch_size=16)
"""


def test_what_is_kept_in_the_first_epoch_is_searched_where_there_is_a_second(workbench, steps_take):
    exec(READS, workbench.namespace)
    steps_take({"cache_dataset": 0.5})
    wanted = ["cache_dataset", "channels_last"]
    once = workbench.tune(include=wanted, budget_s=300)
    assert any(each.plan == "cache_dataset" and "second epoch" in each.why for each in once.left_out)
    assert workbench.tune(include=wanted, steps=10_000, budget_s=300).best.plan == "cache_dataset"


def test_the_line_of_progress_names_what_is_ahead(workbench, steps_take):
    steps_take({"channels_last": 0.5, "fused_optimizer": 0.9})
    trial = workbench.tune(include=TRIED, budget_s=300, wait=False)
    said = []
    trial.on_change(lambda: said.append(trial.goes_on))
    trial.wait(60)
    ahead = [line.split("ahead: ")[1] for line in said if "ahead: " in line]
    assert ahead
    assert all(line.startswith("channels_last") for line in ahead)


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
    assert "Compiling" not in str(tuning)
    shown = tuning._repr_mimebundle_()
    assert shown["text/plain"].startswith(f"Keep {tuning.best.plan}: ")
    assert shown["text/plain"].count("\n") < 24
    assert "border-left:1.5px dashed" in shown["text/html"]
    assert list(tuning.figure().data[0].measure) == ["absolute", *["relative"] * len(tuning.parts), "total"]
    assert set(tuning.to_dataframe()["stage"]) == {"confirmed", "searched"}


def test_real_workers_find_what_saves_a_sleep_and_change_nothing(workbench):
    cell = """
for x, y in loader:
    if not optimizer.param_groups[0]["fused"]:
        time.sleep(0.05)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
    workbench.profile(cell)
    tuning = workbench.tune(include=["fused_optimizer", "channels_last"], budget_s=400)
    assert "fused_optimizer" in tuning.best.plan
    assert tuning.best.headline.low > 1
    assert "unchanged" in tuning.unchanged_line
    assert all(row.peak_bytes for row in tuning.searched)
    assert not workbench.namespace["optimizer"].param_groups[0]["fused"]
    assert "fused_optimizer" in str(workbench.keep())
