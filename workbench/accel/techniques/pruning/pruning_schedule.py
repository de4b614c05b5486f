"""How much of a model is to go, by which criterion, and at which of its training calls: the knobs of `prune`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.techniques.pruning.choosing_filters import plan_pruning
from accel.techniques.pruning.pruning_plan import Criterion, Engine, PruningPlan, Types

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class PruningSchedule:
    """The share of filters that goes, in how many stages, and after how many training calls of the model.

    >>> PruningSchedule(sparsity=0.5, stages=2, steps_between=3).last_call
    3
    """

    sparsity: float = 0.5
    types: Types = "conv"
    exclude: str = ""
    criterion: Criterion = "l1"
    warm_up_steps: int = 0
    stages: int = 1
    steps_between: int = 100
    engine: Engine = "torch_pruning"

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity <= 0.95:
            raise AccelError(
                f"prune(sparsity={self.sparsity})",
                because="sparsity is the share of filters that go, from 0 to 0.95",
                do="Write for example prune(sparsity=0.5).",
            )
        for knob, least in (("warm_up_steps", 0), ("stages", 1), ("steps_between", 1)):
            if getattr(self, knob) < least:
                raise AccelError(
                    f"prune({knob}={getattr(self, knob)})",
                    because=f"{knob} is at least {least}",
                    do=f"Write {knob}={least} or more.",
                )

    @property
    def excluded(self) -> tuple[str, ...]:
        """The names in `exclude`."""
        return tuple(name.strip() for name in self.exclude.split(",") if name.strip())

    def ratio_at(self, calls: int) -> float:
        """The share of what a model has by then that goes at its training call number `calls`, from 0; mostly 0.

        >>> [round(PruningSchedule(sparsity=0.5, stages=2, steps_between=3).ratio_at(call), 3) for call in range(5)]
        [0.25, 0.0, 0.0, 0.333, 0.0]
        """
        first = max(self.warm_up_steps, 1 if self.criterion == "taylor" else 0)
        stage, rest = divmod(calls - first, self.steps_between)
        if rest or not 0 <= stage < self.stages:
            return 0.0
        done, goal = (self.sparsity * part / self.stages for part in (stage, stage + 1))
        return 1 - (1 - goal) / (1 - done) if done else goal

    @property
    def last_call(self) -> int:
        """The number of the training call at which nothing is left to be taken out."""
        first = max(self.warm_up_steps, 1 if self.criterion == "taylor" else 0)
        return first + (self.stages - 1) * self.steps_between

    def plan(
        self,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        ratio: float | None = None,
        gradients: dict[str, torch.Tensor] | None = None,
    ) -> PruningPlan:
        """What would be taken out of a model, from a call's inputs."""
        return plan_pruning(
            model,
            args,
            kwargs,
            sparsity=self.sparsity if ratio is None else ratio,
            types=self.types,
            exclude=self.excluded,
            criterion=self.criterion,
            gradients=gradients,
            engine=self.engine,
        )
