"""Fresh workers, one a variant, that train from one seed: what the schedule's trainees are in truth."""

from __future__ import annotations

from accel.workers.messages import Evaluate, Evaluated, Load, StepsDone, StepToken
from accel.workers.pool import WorkerPool
from accel.workers.quality_schedule import StepsTaken, Trainee
from accel.workers.relaunch import COMPILING_TIMEOUT_S, Relaunch
from accel.workers.time_budget import PhaseClock
from accel.workers.variant_worker import GroupFactory, Variant, VariantWorker, no_groups
from accel.workload.shipping import Parcel

EVALUATING_TIMEOUT_S = 900.0  # held-out data may be many times a step's, and the first evaluation may compile


class QualityRun(Relaunch):
    """The workers of one seed, as a context; what a step takes and how good the model is comes from them.

    >>> with QualityRun(pool, parcel, variants, load=load, timeout_s=60) as run:
    ...     QualitySchedule(run.trainees, goal, seed=0, deadline=deadline, stop=stop).run()
    """

    def __init__(
        self, pool: WorkerPool, parcel: Parcel, variants: list[Variant], *, load: Load, timeout_s: float,
        groups: GroupFactory = no_groups, phases: PhaseClock | None = None,
    ) -> None:  # fmt: skip
        super().__init__(pool, parcel, variants, load=load, timeout_s=timeout_s, groups=groups, phases=phases)
        self._compiles_itself = "compile" in load.source

    @property
    def trainees(self) -> dict[str, Trainee]:
        """A trainee for each variant whose worker took the workload."""
        return {
            variant.label: _WorkerTrainee(
                self._workers[variant.label],
                self._timeout_s,
                compiles=self._compiles_itself or variant.plan.compiles,
            )
            for variant in self._running
        }

    def proofs(self, label: str) -> tuple[tuple[str, bool, str], ...]:
        """Whether the plan of a variant took effect, read back in its worker."""
        with self._isolated(label):
            self._read_effect(label)
        return self.samples[label].proofs


class _WorkerTrainee:
    def __init__(self, worker: VariantWorker, timeout_s: float, *, compiles: bool) -> None:
        self._worker, self._timeout_s, self.compiles = worker, timeout_s, compiles
        self._step_s = 0.0

    def train(self, steps: int) -> StepsTaken:
        is_first = not self._step_s
        self._worker.send(StepToken(steps))
        patience_s = COMPILING_TIMEOUT_S if is_first and self.compiles else self._timeout_s
        done = self._worker.receive(StepsDone, timeout_s=patience_s + 2 * steps * self._step_s)
        seconds = [(wall + apart) / 1e9 for wall, apart in zip(done.wall_ns, done.apart_ns, strict=True)]
        self._step_s = max(seconds, default=self._step_s)
        samples = sum(done.samples) if all(done.samples) else None
        return StepsTaken(seconds, samples, cell_ended=done.cell_ended)

    def evaluate(self) -> Evaluated:
        self._worker.send(Evaluate())
        return self._worker.receive(Evaluated, timeout_s=max(self._timeout_s, EVALUATING_TIMEOUT_S))
