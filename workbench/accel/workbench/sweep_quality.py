"""The metric and held-out data of a sweep: those that a trial by quality would take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accel.errors import AccelError
from accel.workbench.held_out_data import find_held_out
from accel.workbench.quality_metric import find_metric
from accel.workbench.quality_request import QualityRequest
from accel.workers.messages import QualityQuestion
from accel.workload.cell_names import names_read
from accel.workload.workload import Workload


@dataclass(frozen=True)
class SweepQuality:
    """The question that rank 0 answers and what it reads, or why nothing can be asked; `label` is the column's heading."""

    question: QualityQuestion | None = None
    reads: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    line: str = ""
    reason: str = ""


def find_quality(
    workload: Workload,
    training: str | None,
    *,
    held_out: Any = None,
    metric: Any = None,
    was_profiled: bool = True,
) -> SweepQuality:
    """What was named, or what is found by the rules of `try --until`; raises AccelError where what was named cannot be.

    >>> find_quality(workload, "train_loader").line
    'accuracy: share of right answers on val_loader, by rank 0 after the training, outside of its time.'
    """
    request = QualityRequest(
        None, None, held_out=held_out, metric=metric, better="higher"
    )  # no row is judged by it
    try:
        found = find_metric(request, workload)
        loader = (
            find_held_out(workload, training, held_out, was_profiled=was_profiled)
            if found.needs_loader
            else ""
        )
    except AccelError as error:
        if held_out is not None or metric is not None:
            raise
        return SweepQuality(reason=f"Times only, no quality: {error.because}. {error.do}")
    model = next((role for role in workload.roles if role.kind == "models" and _trains(role, workload)), None)
    wanted = filter(None, [loader, found.criterion, "" if found.is_built_in else found.name])
    names = [name for name in names_read("\n".join(wanted), workload.namespace) if name not in workload.reads]
    question = QualityQuestion(
        metric=found.name, is_built_in=found.is_built_in, arguments=found.arguments, held_out=loader,
        model=model.name if model else "", model_class=model.class_name if model else "", criterion=found.criterion,
        training_loader=training or "", seed=0, start="same", repeats=False,
    )  # fmt: skip
    how = found.described(question.model or "model", loader).partition(", with the model")[0]
    line = f"{how}, by rank 0 after the training, outside of its time."
    reads = {name: workload.namespace[name] for name in names}
    return SweepQuality(question, reads, found.label, line)


def _trains(role: Any, workload: Workload) -> bool:
    model = role.current(workload.namespace)
    return model is None or any(parameter.requires_grad for parameter in model.parameters())
