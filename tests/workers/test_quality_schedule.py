"""The schedule of a trial by quality, with trainees and a clock made by hand: no process, no waiting."""

from __future__ import annotations

import math
import threading
from itertools import pairwise

import pytest

from accel.errors import AccelError
from accel.measuring.quality_target import QualityTarget
from accel.workers.messages import Evaluated
from accel.workers.quality_schedule import Goal, QualitySchedule, StepsTaken

TARGET = QualityTarget.parse("accuracy>=0.9")


class Clock:
    """Time that passes only while somebody trains or is evaluated."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Learner:
    """A trainee whose quality rises with the samples it has seen, up to a ceiling."""

    compiles = False

    def __init__(
        self, clock, *, step_s, first_s=None, samples=16, per_sample=1e-4, ceiling=1.0, evaluation_s=0.01, ends_after=None
    ):  # fmt: skip
        self.clock, self.step_s, self.first_s = clock, step_s, step_s if first_s is None else first_s
        self.samples, self.per_sample, self.ceiling = samples, per_sample, ceiling
        self.evaluation_s, self.ends_after = evaluation_s, ends_after
        self.steps, self.evaluated, self.log = 0, [], []

    def train(self, steps):
        if self.ends_after is not None:
            steps = min(steps, self.ends_after - self.steps)
        seconds = [self.step_s if self.steps + i else self.first_s for i in range(steps)]
        self.steps += steps
        self.clock.now += sum(seconds)
        return StepsTaken(seconds, self.samples * steps, cell_ended=self.steps == self.ends_after)

    def evaluate(self):
        self.clock.now += self.evaluation_s
        self.evaluated.append(self.steps)
        return Evaluated(min(self.steps * self.samples * self.per_sample, self.ceiling), self.evaluation_s)


def scheduled(goal, deadline=1000.0, stop=None, seed=0, **learners):
    """The schedule after its run, with learners given by label as keyword arguments of `Learner`."""
    clock = Clock()
    trainees = {
        label: Learner(clock, **own) if isinstance(own, dict) else own(clock)
        for label, own in learners.items()
    }
    schedule = QualitySchedule(
        trainees, goal, seed=seed, deadline=deadline, stop=stop or threading.Event(), clock=clock
    )
    schedule.run()
    return schedule, trainees


def test_a_plan_with_shorter_steps_reaches_the_target_in_as_many_steps_and_fewer_seconds():
    schedule, _ = scheduled(Goal(TARGET), baseline={"step_s": 0.02}, quick={"step_s": 0.01})
    base, quick = (schedule.curves[label].reached(TARGET) for label in ("baseline", "quick"))
    assert base.steps == quick.steps
    assert base.seconds == pytest.approx(2 * quick.seconds)
    assert {curve.ending for curve in schedule.curves.values()} == {"reached"}


def test_evaluating_is_not_in_the_seconds_and_takes_at_most_half_of_the_time():
    schedule, trainees = scheduled(
        Goal(TARGET), baseline={"step_s": 0.01, "evaluation_s": 3.0, "per_sample": 1e-5}
    )
    curve, learner = schedule.curves["baseline"], trainees["baseline"]
    assert curve.seconds == pytest.approx(0.01 * learner.steps)
    evaluating = 3.0 * (len(learner.evaluated) - 1)  # the first is before training
    assert evaluating <= 0.5 * (evaluating + curve.seconds) + 3.0


def test_the_first_step_is_in_the_seconds_and_shown_apart():
    schedule, _ = scheduled(Goal(TARGET), baseline={"step_s": 0.01, "first_s": 7.0})
    curve = schedule.curves["baseline"]
    assert curve.first_step_s == 7.0
    assert curve.seconds == pytest.approx(7.0 + 0.01 * (curve.steps - 1))


def test_where_the_first_step_is_not_timed_all_train_for_equal_seconds():
    goal = Goal(train_s=2.0, counts_first_step=False)
    schedule, trainees = scheduled(
        goal, baseline={"step_s": 0.01}, compiling={"step_s": 0.005, "first_s": 30.0}
    )
    for label, curve in schedule.curves.items():
        assert curve.ending == "budget spent"
        assert curve.first_step_s == 0
        assert curve.seconds == pytest.approx(trainees[label].step_s * curve.steps)  # it counts as any other
        assert curve.seconds == pytest.approx(2.0, rel=0.05)


def test_steps_of_other_sizes_are_evaluated_after_equal_numbers_of_samples():
    large = {"step_s": 0.02, "samples": 64}
    schedule, trainees = scheduled(Goal(TARGET), baseline={"step_s": 0.01}, large=large)
    seen = {
        label: [steps * learner.samples for steps in learner.evaluated] for label, learner in trainees.items()
    }
    assert seen["baseline"] == seen["large"]
    assert len(seen["large"]) > 3
    base, big = (schedule.curves[label].reached(TARGET) for label in ("baseline", "large"))
    assert base.seconds == pytest.approx(2 * big.seconds)


@pytest.mark.parametrize("per_sample", [2e-4, 1e-5, 4e-6])
def test_there_are_ten_evaluations_before_the_target_however_soon_it_is_met(per_sample):
    """Trainings of 3 s, 56 s and 140 s."""
    schedule, trainees = scheduled(
        Goal(TARGET),
        baseline={"step_s": 0.01, "evaluation_s": 0.02, "per_sample": per_sample},
        other={"step_s": 0.03, "per_sample": per_sample},
    )
    for label, learner in trainees.items():
        met = schedule.curves[label].crossed(TARGET)
        assert len(learner.evaluated) > 10
        assert met.apart_s <= max(met.seconds / 9, 0.1)


def test_who_never_reaches_the_target_is_given_up_after_several_times_the_fastest():
    schedule, _ = scheduled(Goal(TARGET), baseline={"step_s": 0.01}, broken={"step_s": 0.01, "ceiling": 0.5})
    broken = schedule.curves["broken"]
    assert broken.ending == "given up"
    assert broken.best(is_higher_better=True) == 0.5
    fastest = schedule.curves["baseline"].reached(TARGET).seconds
    assert 5 * fastest <= broken.seconds <= 5 * fastest + 2


def test_when_nobody_reaches_the_target_the_trial_ends_with_its_time():
    schedule, _ = scheduled(
        Goal(TARGET), deadline=20.0, baseline={"step_s": 0.01, "ceiling": 0.5}, other={"step_s": 0.01}
    )
    assert schedule.curves["baseline"].ending in ("out of time", "given up")
    slow, _ = scheduled(Goal(TARGET), deadline=20.0, baseline={"step_s": 1.0}, other={"step_s": 1.0})
    for curve in slow.curves.values():
        assert curve.ending == "out of time"
        assert curve.points[-1].steps == curve.steps  # the last word on its quality is of its end
    trained = [curve.seconds for curve in slow.curves.values()]
    assert max(trained) - min(trained) <= 4  # turn by turn, so that both had as much of it


def test_with_a_budget_all_train_for_equal_seconds_and_are_evaluated_at_the_end():
    schedule, trainees = scheduled(
        Goal(train_s=5.0), baseline={"step_s": 0.02}, quick={"step_s": 0.009, "first_s": 1.0}
    )
    for label, curve in schedule.curves.items():
        assert curve.ending == "budget spent"
        assert curve.seconds == pytest.approx(5.0, abs=0.03)
        assert trainees[label].evaluated[-1] == curve.steps
        assert len(curve.points) > 5
    assert schedule.curves["quick"].last > schedule.curves["baseline"].last


def test_a_target_and_a_budget_together_end_with_whichever_comes_first():
    schedule, _ = scheduled(Goal(TARGET, train_s=2.0), baseline={"step_s": 0.1}, quick={"step_s": 0.001})
    assert schedule.curves["quick"].ending == "reached"
    assert schedule.curves["baseline"].ending == "budget spent"


def test_a_cell_that_is_over_ends_its_training_with_an_evaluation():
    schedule, _ = scheduled(
        Goal(TARGET), baseline={"step_s": 0.01, "ends_after": 100}, other={"step_s": 0.01}
    )
    curve = schedule.curves["baseline"]
    assert (curve.ending, curve.steps, curve.points[-1].steps) == ("cell over", 100, 100)
    assert schedule.curves["other"].ending == "reached"


def test_a_model_that_meets_the_target_before_its_first_step_is_not_trained():
    def trained(clock):
        learner = Learner(clock, step_s=0.01)
        learner.evaluate = lambda: Evaluated(0.97, 0.01)
        return learner

    schedule, trainees = scheduled(Goal(TARGET), baseline=trained, other=trained)
    assert schedule.met_at_once
    assert [learner.steps for learner in trainees.values()] == [0, 0]


class NotANumber(Learner):
    """Diverges after so many steps."""

    def __init__(self, clock, after):
        super().__init__(clock, step_s=0.01)
        self.after = after

    def evaluate(self):
        found = super().evaluate()
        return found if self.steps < self.after else Evaluated(None, 0.01)


def test_a_plan_that_diverges_ends_and_the_others_go_on():
    schedule, _ = scheduled(
        Goal(TARGET), baseline={"step_s": 0.01}, other=lambda clock: NotANumber(clock, after=150)
    )
    assert schedule.curves["other"].ending == "diverged"
    assert schedule.curves["other"].last is None
    assert schedule.curves["baseline"].ending == "reached"


def test_a_metric_that_is_no_number_before_the_first_step_is_an_error_that_says_what_to_do():
    with pytest.raises(AccelError, match="not a number") as raised:
        scheduled(Goal(TARGET), baseline=lambda clock: NotANumber(clock, after=0))
    assert "--metric" in raised.value.do


class Failing(Learner):
    def train(self, steps):
        raise AccelError("The worker", because="it fell over", do="Look at it.")


def test_a_plan_that_fails_leaves_the_others_to_go_on_and_the_baseline_takes_all_with_it():
    schedule, _ = scheduled(
        Goal(TARGET), baseline={"step_s": 0.01}, other=lambda clock: Failing(clock, step_s=0.01)
    )
    assert schedule.curves["baseline"].ending == "reached"
    assert schedule.curves["other"].ending == "failed"
    assert "fell over" in str(schedule.errors["other"])
    with pytest.raises(AccelError, match="fell over"):
        scheduled(Goal(TARGET), baseline=lambda clock: Failing(clock, step_s=0.01), other={"step_s": 0.01})


def test_a_model_that_the_cell_builds_is_first_evaluated_once_there_is_one():
    class Unborn(Learner):
        def evaluate(self):
            return super().evaluate() if self.steps else Evaluated(None, 0.0, has_model=False)

    schedule, _ = scheduled(Goal(TARGET), baseline=lambda clock: Unborn(clock, step_s=0.01))
    curve = schedule.curves["baseline"]
    assert curve.ending == "reached"
    assert curve.points[0].steps > 0


def test_a_plan_that_compiles_does_so_in_its_first_step_and_not_while_it_is_evaluated():
    class Compiling(Learner):
        compiles = True

    schedule, trainees = scheduled(
        Goal(TARGET),
        baseline={"step_s": 0.01},
        other=lambda clock: Compiling(clock, step_s=0.01, first_s=9.0),
    )
    assert trainees["baseline"].evaluated[0] == 0
    assert trainees["other"].evaluated[0] > 0
    assert schedule.curves["other"].first_step_s == 9.0


def test_stop_ends_everything_and_keeps_what_was_seen():
    stop = threading.Event()

    class Stopping(Learner):
        def evaluate(self):
            if self.steps > 200:
                stop.set()
            return super().evaluate()

    schedule, _ = scheduled(
        Goal(TARGET),
        stop=stop,
        baseline=lambda clock: Stopping(clock, step_s=0.01),
        other={"step_s": 0.01, "ceiling": 0.1},
    )
    assert {curve.ending for curve in schedule.curves.values()} == {"stopped"}
    assert len(schedule.curves["baseline"].points) > 1


def test_turns_are_short_so_that_drift_hits_all_alike():
    clock, order = Clock(), []

    class Logged(Learner):
        def train(self, steps):
            order.append((self.clock.now, self))
            return super().train(steps)

    trainees = {label: Logged(clock, step_s=0.01, per_sample=1e-5) for label in ("baseline", "other")}
    QualitySchedule(
        trainees, Goal(TARGET), seed=0, deadline=math.inf, stop=threading.Event(), clock=clock
    ).run()
    spans = [after - before for (before, _), (after, _) in pairwise(order)]
    assert max(spans) <= 1.1
