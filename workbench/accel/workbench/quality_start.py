"""Start a trial by quality: the workload packed with the held-out data and the metric that tell how good it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from accel.accelerations.plan import Plan
from accel.accelerations.steady_allocator import notebook_allocator
from accel.errors import AccelError
from accel.workbench.held_out_data import find_held_out, training_loader
from accel.workbench.quality_metric import QualityMetric, find_metric
from accel.workbench.quality_request import QualityRequest
from accel.workbench.trial_start import load_for, names_by_kind, notes_on_copies, packed, unchanged_check
from accel.workers.messages import QualityQuestion
from accel.workers.quality_schedule import Goal
from accel.workers.quality_trial import QualitySetting, QualityTrial
from accel.workload.cell_names import names_read
from accel.workload.new_weights import layers_that_keep
from accel.workload.workload import Role, Workload

if TYPE_CHECKING:
    from accel.workbench.workbench import Workbench

BUDGET_S = 600.0


def start_quality_trial(
    workbench: Workbench, workload: Workload, plans: list[Plan], request: QualityRequest, *,
    refused: dict[str, str], budget_s: float | None, timeout_s: float,
) -> QualityTrial:  # fmt: skip
    """Find metric, data and model, pack, guard and go; returns the running trial."""
    metric = find_metric(request, workload)
    training = workbench.training_loader
    held_out = find_held_out(workload, training, request.held_out) if metric.needs_loader else ""
    role = _trained_model(workload)
    repeats = not role.is_built_by_cell and role.name in names_by_kind(workload).get("models", [])
    shipped = _with_reads(workload, metric, held_out)
    question = QualityQuestion(
        metric=metric.name, is_built_in=metric.is_built_in, arguments=metric.arguments, held_out=held_out,
        model=role.name, model_class=role.class_name, criterion=metric.criterion, training_loader=training or "",
        seed=0, repeats=repeats,
    )  # fmt: skip
    setting = _setting(workbench, workload, request, metric, held_out, role, repeats=repeats)
    enough_s = max(BUDGET_S, 2 * (request.train_s or 0) * request.seeds * (len(plans) + 1))
    setting = replace(setting, timeout_s=timeout_s, budget_s=enough_s if budget_s is None else budget_s)
    parcel, while_packing = packed(workbench, shipped)
    try:
        load = msgspec.structs.replace(load_for(parcel, workload), quality=question)
        check = unchanged_check(workbench, workload, while_packing)
        return QualityTrial(plans, parcel, load, workbench.pool, setting, check=check, refused=refused)
    except BaseException:
        parcel.close()
        raise


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


def _setting(
    workbench: Workbench, workload: Workload, request: QualityRequest, metric: QualityMetric, held_out: str, role: Role, *,
    repeats: bool,
) -> QualitySetting:  # fmt: skip
    loader = training_loader(workload, workbench.training_loader)
    batches, samples = _length(loader), _length(getattr(loader, "sampler", None))
    if samples is None:
        samples = _length(getattr(loader, "dataset", None))
    return QualitySetting(
        goal=Goal(
            request.target, request.train_s, batches // max(workload.accumulation, 1) if batches else None
        ),
        seeds=request.seeds,
        metric=metric.label,
        metric_line=metric.described(role.name, held_out),
        is_higher_better=metric.is_higher_better(request),
        machine_line=workbench.machine.line,
        notes=tuple(_notes(workload, request, role, repeats=repeats)),
        allocator=notebook_allocator(),
        epoch_samples=samples,
    )


def _notes(workload: Workload, request: QualityRequest, role: Role, *, repeats: bool) -> list[str]:
    """What a reader must know of how the trainings differ from the notebook's own."""
    notes = list(notes_on_copies(workload))
    models = [each.name for each in workload.roles if each.kind == "models"]
    if len(models) > 1:
        notes.append(
            f"Quality is that of {role.name}; the cell also trains or calls {', '.join(models[1:])}."
        )
    if not repeats:
        notes.append("The cell builds its model itself, so each training is one run of the cell.")
    else:
        notes += _notes_on_repeating(workload)
    if request.seeds > 1:
        notes += _notes_on_seeds(workload, role, repeats=repeats)
    return notes


def _notes_on_repeating(workload: Workload) -> list[str]:
    notes = [
        f"One run of your cell is {workload.steps:,} steps; it is run again and again as long as training goes on."
    ]
    anew = [
        each for each in workload.roles if each.is_built_by_cell and each.kind in ("schedulers", "optimizers")
    ]
    if anew:
        names = ", ".join(each.name for each in anew)
        notes.append(f"{names}: made by the cell, so that it begins anew with each run of it, as at home.")
    return notes


def _notes_on_seeds(workload: Workload, role: Role, *, repeats: bool) -> list[str]:
    if not repeats:
        return [
            "Seed 0 goes on from your random numbers as they are; the others seed them anew before the cell runs."
        ]
    notes = [
        "Seed 0 starts from your weights as they are, the others from new ones (each layer's reset_parameters(), "
        "the optimizer's memory cleared; frozen layers stay)."
    ]
    model: Any = role.current(workload.namespace)  # there is one: it is shipped
    if kept := layers_that_keep(model):
        notes.append(
            f"Layers without reset_parameters() keep their weights in every seed: {', '.join(kept[:5])}."
        )
    if any(each.kind == "schedulers" and not each.is_built_by_cell for each in workload.roles):
        notes.append("The scheduler goes on from where it stands in your notebook, in every seed.")
    if "manual_seed" in workload.source:
        notes.append("The cell seeds its generators itself: seeds differ in their first weights only.")
    return notes


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except TypeError:  # none, or a stream
        return None
