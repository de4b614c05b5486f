"""When each variant trains and when it is evaluated, until it is good enough or has used up what it was given.

All variants are trained in turns of about a second of training, in an order drawn anew each round, so that drift of the
machine hits all alike; a turn is long enough that the cold caches at its start are nothing to it. All are evaluated after
equal numbers of samples, so that a time is read equally finely for each: each time training is a tenth longer, where
evaluating is cheap enough, so that even a short one has ten evaluations before its target. Nothing here knows workers: a
`Trainee` is whatever can train some steps and say how good it is then.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from accel.errors import AccelError
from accel.measuring.quality_target import QualityTarget
from accel.measuring.training_curve import Ending, QualityPoint, TrainingCurve
from accel.workers.messages import Evaluated

TURN_S = 1.0
EVALUATIONS_APART_S = 1.0  # at most, where evaluating is cheap
LEAST_POINTS = 10  # of a curve up to any moment
TRAINING_PER_EVALUATION = 1.0  # so that evaluating takes at most half of the time
PATIENCE, LEAST_PATIENCE_S = 5.0, 10.0  # so much longer than the fastest is the slowest waited for
_SETTLED = 3  # steps after which the time of a step is known


@dataclass(frozen=True)
class StepsTaken:
    """What a trainee did: seconds of each step, samples in all (None: not known), and whether its cell is over for good."""

    seconds: list[float]
    samples: int | None = None
    cell_ended: bool = False


class Trainee(Protocol):
    """One variant: it can take steps, and say how good it is. One that `compiles` does so in its first step."""

    compiles: bool

    def train(self, steps: int) -> StepsTaken: ...

    def evaluate(self) -> Evaluated: ...


@dataclass(frozen=True)
class Goal:
    """What ends a training: the target, or so many seconds. Those of the first step, which may compile, count or not."""

    target: QualityTarget | None = None
    train_s: float | None = None
    counts_first_step: bool = True


@dataclass
class _Progress:
    seconds: float = 0.0
    steps: int = 0
    samples: int | None = 0
    first_step_s: float = 0.0
    step_s: float = 0.0
    turn: int = 0
    evaluation_s: float = math.inf  # the shortest so far: the first may compile
    points: list[QualityPoint] = field(default_factory=list)
    ending: Ending = "running"
    error: AccelError | None = None

    @property
    def samples_per_step(self) -> float | None:
        return self.samples / self.steps if self.samples and self.steps else None

    @property
    def evaluated_at(self) -> int:
        return self.points[-1].steps if self.points else 0


class QualitySchedule:
    """Trains all variants from one seed; the first one is the baseline. `curves` is what is known at any time.

    >>> QualitySchedule(trainees, Goal(target), seed=0, deadline=time.monotonic() + 60, stop=threading.Event()).run()

    What goes wrong with the baseline is raised; what goes wrong with another variant is in `errors`.
    """

    def __init__(
        self, trainees: Mapping[str, Trainee], goal: Goal, *, seed: int, deadline: float, stop: threading.Event,
        clock: Callable[[], float] = time.monotonic, on_change: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._trainees, self._goal, self.seed = trainees, goal, seed
        self._deadline, self._stop, self._clock, self._on_change = deadline, stop, clock, on_change
        self._progress = {label: _Progress() for label in trainees}
        self._baseline = next(iter(trainees))
        self._places: list[float] = []  # where all are evaluated, in steps of the baseline
        self._randomness = random.Random()  # never the notebook's own generator
        self.met_at_once = False

    @property
    def curves(self) -> dict[str, TrainingCurve]:
        """A snapshot of every variant's training."""
        return {
            label: TrainingCurve(
                self.seed,
                tuple(own.points),
                own.seconds,
                own.steps,
                own.samples or None,
                own.first_step_s,
                own.ending,
            )
            for label, own in self._progress.items()
        }

    @property
    def errors(self) -> dict[str, AccelError]:
        """What went wrong, by variant."""
        return {label: own.error for label, own in self._progress.items() if own.error is not None}

    @property
    def _running(self) -> list[str]:
        return [label for label, own in self._progress.items() if own.ending == "running"]

    def run(self) -> None:
        """Evaluate once before the first step, then train in turns until every variant has ended."""
        for label in self._running:
            self._guarded(label, self._begin)
        if self.met_at_once:
            return
        try:
            while self._running and not self._stop.is_set():
                order = self._running
                self._randomness.shuffle(order)
                for label in order:
                    if not self._stop.is_set():
                        self._guarded(label, self._turn)
        finally:
            for label in self._running:
                self._progress[label].ending = self._cut_off

    @property
    def _cut_off(self) -> Ending:
        return "out of time" if self._clock() >= self._deadline else "stopped"

    def _guarded(self, label: str, action: Callable[[str], None]) -> None:
        """A variant that fails leaves the others to go on; the baseline takes everything with it."""
        if self.met_at_once:
            return
        own = self._progress[label]
        try:
            action(label)
        except AccelError as error:
            own.ending, own.error = self._cut_off if self._stop.is_set() else "failed", error
            if label == self._baseline or self._stop.is_set():
                raise

    def _begin(self, label: str) -> None:
        own, is_baseline = self._progress[label], label == self._baseline
        if self._trainees[label].compiles and not is_baseline:
            return  # evaluating would start the compiler up, off the clock of the first step
        first = self._trainees[label].evaluate()
        if not first.has_model:  # the cell makes it
            return
        if first.value is None and is_baseline:
            raise AccelError(
                "The metric before the first step", because="its value is not a number (NaN)",
                do="Let the metric return a number before training too, or name another with --metric.",
            )  # fmt: skip
        self._note(own, first)
        self.met_at_once = is_baseline and own.ending == "reached"

    def _turn(self, label: str) -> None:
        own = self._progress[label]
        taken = self._trainees[label].train(self._steps_of_turn(own))
        self._add(own, taken)
        ending = self._ending(own, taken)
        if own.steps > own.evaluated_at and (ending is not None or self._is_due(own)):
            self._note(own, self._trainees[label].evaluate())
        if own.ending == "running" and ending is not None:
            own.ending = ending
        if own.ending != "running" or own.evaluated_at == own.steps:
            self._on_change()

    def _steps_of_turn(self, own: _Progress) -> int:
        """One step at first, which may compile; then more, up to what fills the turn, the next evaluation or the budget."""
        if own.steps < _SETTLED:
            return 1 if not own.steps else _SETTLED - own.steps
        step_s = max(own.step_s, 1e-6)
        steps = min(math.ceil(TURN_S / step_s), 4 * own.turn)
        if (due := self._next_evaluation(own)) is not None:
            steps = min(steps, due - own.steps)
        if (
            self._goal.train_s is not None
        ):  # nearer and nearer, so that a few slow steps do not lead past the end
            steps = min(steps, int(0.7 * (self._goal.train_s - own.seconds) / step_s))
        return max(steps, 1)

    def _add(self, own: _Progress, taken: StepsTaken) -> None:
        seconds = taken.seconds
        if not own.steps and seconds and self._goal.counts_first_step:
            own.first_step_s = seconds[0]
        elif not own.steps:
            seconds = seconds[1:]
        elif own.steps == 1 and not self._goal.counts_first_step:
            # What the first one learnt counts, so it takes as long as these.
            own.seconds += sum(seconds) / len(seconds)
        own.seconds += sum(seconds)
        own.steps += len(taken.seconds)
        own.turn = max(len(taken.seconds), 1)
        own.samples = (
            own.samples + taken.samples if own.samples is not None and taken.samples is not None else None
        )
        if seconds:
            own.step_s = sum(seconds) / len(seconds)

    def _ending(self, own: _Progress, taken: StepsTaken) -> Ending | None:
        """Why this variant trains no further, if so; whether the target is met is known only after an evaluation."""
        if taken.cell_ended:
            return "cell over"
        if self._goal.train_s is not None and own.seconds + own.step_s / 2 >= self._goal.train_s:
            return "budget spent"
        reached = [each.seconds for each in self._progress.values() if each.ending == "reached"]
        if reached and own.seconds > max(PATIENCE * min(reached), LEAST_PATIENCE_S):
            return "given up"
        return "out of time" if self._clock() > self._deadline else None

    def _note(self, own: _Progress, found: Evaluated) -> None:
        own.points.append(QualityPoint(own.seconds, own.steps, found.value))
        own.evaluation_s = min(own.evaluation_s, found.seconds)
        if found.value is None:
            own.ending = "diverged"
        elif self._goal.target is not None and self._goal.target.is_met(found.value):
            own.ending = "reached"

    def _is_due(self, own: _Progress) -> bool:
        due = self._next_evaluation(own)
        return due is not None and own.steps >= due

    def _next_evaluation(self, own: _Progress) -> int | None:
        """The step of this variant at which it is evaluated next; None while steps are too few to tell.

        All variants are evaluated at the same places: whoever comes to the end of them first sets the next one.
        """
        if own.steps < _SETTLED:
            return None
        size = self._size(own)
        places = (round(place / size) for place in self._places)
        if (due := next((step for step in places if step > own.evaluated_at), None)) is not None:
            return due
        largest = max(map(self._size, self._progress.values()))  # places are where the largest steps end, too
        taken = max(max(each.steps, _SETTLED) * self._size(each) for each in self._progress.values())
        wanted = self._places[-1] + self._apart(self._places[-1]) if self._places else taken
        self._places.append(math.ceil(wanted / largest - 1e-6) * largest)
        return max(round(self._places[-1] / size), own.steps)

    def _apart(self, place: float) -> float:
        """How many steps of the baseline, or as many samples, lie between an evaluation at this place and the next."""
        known = [each for each in self._progress.values() if each.steps >= _SETTLED]
        fastest_s = max(min(each.step_s / self._size(each) for each in known), 1e-6)
        dear_s = max((each.evaluation_s for each in known if each.evaluation_s < math.inf), default=0.0)
        wanted = min(EVALUATIONS_APART_S / fastest_s, place / LEAST_POINTS)
        return max(math.ceil(wanted), math.ceil(TRAINING_PER_EVALUATION * dear_s / fastest_s), 1)

    def _size(self, own: _Progress) -> float:
        """How many steps of the baseline one of this variant's is worth, by samples."""
        theirs, mine = self._progress[self._baseline].samples_per_step, own.samples_per_step
        return mine / theirs if theirs and mine else 1.0
