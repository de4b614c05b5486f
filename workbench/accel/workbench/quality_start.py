"""Prepare a trial by quality: the workload packed with the held-out data and the metric that tell how good it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.accelerations.steady_allocator import notebook_allocator
from accel.errors import AccelError, Reason
from accel.plans.plan import Plan
from accel.workbench.held_out_data import find_held_out, training_loader
from accel.workbench.quality_metric import QualityMetric, find_metric
from accel.workbench.quality_notes import how_seeds_begin, quality_notes
from accel.workbench.quality_request import QualityRequest
from accel.workbench.trial_start import load_without_what_is_kept, names_by_kind, packed, unchanged_check
from accel.workers.messages import QualityQuestion
from accel.workers.quality_schedule import Goal
from accel.workers.quality_seeds import QualitySetting
from accel.workers.quality_trial import QualityTrial
from accel.workers.time_budget import TimeBudget
from accel.workload.cell_names import names_read
from accel.workload.workload import Role, Workload

if TYPE_CHECKING:
    from accel.workbench.notebook_state import NotebookState

BUDGET_S = 600.0


def prepared_quality_trial(
    workbench: NotebookState, workload: Workload, plans: list[Plan], request: QualityRequest, *,
    refused: dict[str, list[Reason]], budget: TimeBudget, timeout_s: float,
) -> QualityTrial:  # fmt: skip
    """Find metric, data and model, pack and guard; the trial is ready to start."""
    from accel.distributed.trials.trial_group import group_for

    budget.usual_s = max(BUDGET_S, 2 * (request.train_s or 0) * request.seeds * (len(plans) + 1))
    setting, shipped = asked_of_quality(workbench, workload, request, budget=budget, timeout_s=timeout_s)
    parcel, while_packing = packed(workbench, shipped)
    try:
        check = unchanged_check(workbench, workload, while_packing)
        return QualityTrial(
            plans, parcel, load_without_what_is_kept(workbench, parcel, workload), workbench.pool, setting,
            check=check, refused=refused, groups=group_for,
        )  # fmt: skip
    except BaseException:
        parcel.close()
        raise


def asked_of_quality(
    workbench: NotebookState, workload: Workload, request: QualityRequest, *, budget: TimeBudget, timeout_s: float
) -> tuple[QualitySetting, Workload]:  # fmt: skip
    """How quality is measured here, and the workload with all that has to be shipped for it."""
    metric = find_metric(request, workload)
    training = workbench.training_loader
    held_out = find_held_out(workload, training, request.held_out) if metric.needs_loader else ""
    role = _trained_model(workload)
    repeats = not role.is_built_by_cell and role.name in names_by_kind(workload).get("models", [])
    beginning = how_seeds_begin(workload, request, repeats=repeats)
    question = QualityQuestion(
        metric=metric.name, is_built_in=metric.is_built_in, arguments=metric.arguments, held_out=held_out,
        model=role.name, model_class=role.class_name, criterion=metric.criterion, training_loader=training or "",
        seed=0, start=beginning.start, repeats=repeats,
    )  # fmt: skip
    notes = (*beginning.notes, *quality_notes(workbench, workload, role, held_out, repeats=repeats))
    setting = QualitySetting(
        question=question, goal=Goal(request.target, request.train_s), seeds=request.seeds, start=beginning.start,
        notes=notes, metric=metric.label, metric_line=metric.described(role.name, held_out),
        is_higher_better=metric.is_higher_better, machine_line=workbench.machine.line, allocator=notebook_allocator(),
        epoch_samples=_samples_of_epoch(training_loader(workload, training)),
        timeout_s=timeout_s, budget=budget,
    )  # fmt: skip
    return setting, _with_reads(workload, metric, held_out)


def _with_reads(workload: Workload, metric: QualityMetric, held_out: str) -> Workload:
    """The workload, shipped with what the metric reads too."""
    wanted = [held_out, metric.criterion, "" if metric.is_built_in else metric.name]
    more = names_read("\n".join(filter(None, wanted)), workload.namespace)
    return replace(workload, reads=tuple(dict.fromkeys([*workload.reads, *more])))


def _trained_model(workload: Workload) -> Role:
    """The first model of the cell with a parameter to train."""
    models = [role for role in workload.roles if role.kind == "models"]
    for role in models:
        model = role.current(workload.namespace)
        if model is None or any(p.requires_grad for p in model.parameters()):
            return role
    raise AccelError(
        "A comparison by quality",
        because="no torch.nn.Module was seen in the cell",
        do="Profile a cell that calls a model.",
    )


def _samples_of_epoch(loader: Any) -> int | None:
    samples = _length(getattr(loader, "sampler", None))
    return _length(getattr(loader, "dataset", None)) if samples is None else samples


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except TypeError:  # none, or a stream
        return None
