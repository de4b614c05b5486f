"""From which weights the seeds of a trial by quality start, and what else a reader of its answer must know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.workbench.held_out_data import shares_samples, training_loader
from accel.workbench.quality_request import QualityRequest
from accel.workbench.trial_start import notes_on_copies
from accel.workload.names_used import names_in_functions
from accel.workload.new_weights import Start, layers_that_keep, why_weights_are_own
from accel.workload.workload import Role, Workload, look_up

if TYPE_CHECKING:
    from accel.workbench.notebook_state import NotebookState

_SEEDS_ALL = re.compile(r"\b(torch\.manual_seed|seed_everything|set_seed|seed_all)\(")


@dataclass(frozen=True)
class Beginning:
    """The weights that all seeds of a trial start from alike, and the sentences that say so."""

    start: Start
    notes: tuple[str, ...]


def how_seeds_begin(workload: Workload, request: QualityRequest, *, repeats: bool) -> Beginning:
    """What was asked for, or new weights where torch's own initialisation made the first ones, as far as can be told.

    >>> how_seeds_begin(workload, request, repeats=True).start
    'new'

    Raises AccelError where every seed would be one and the same training.
    """
    if not repeats and request.start is not None:
        raise AccelError(
            f"--start {request.start}",
            because="the cell builds its model itself, so that each training starts from the weights that it makes",
            do="Leave --start out, or make the model in a cell of its own.",
        )
    models = [
        m for role in workload.roles if role.kind == "models" and (m := role.current(workload.namespace))
    ]
    cells = [cell for cell in workload.namespace.get("In", ()) if isinstance(cell, str)]
    why = why_weights_are_own(models, cells) if repeats else ""
    start: Start = request.start or ("same" if why or not repeats else "new")
    seeds_all = _seeds_all(workload)
    if start == "same" and request.seeds > 1 and seeds_all:
        raise AccelError(
            f"{request.seeds} seeds",
            because="the cell seeds its random numbers itself, so that all of them would be the same training",
            do="Seed in a cell of its own instead, or add --seeds 1"
            + (", or --start new." if repeats else "."),
        )
    if not repeats:
        says = ["The cell builds its model itself, so each training is one run of the cell."]
    elif start == "new":
        says = _notes_on_new_weights(models, seeds_all=seeds_all)
    else:
        because = f" ({why}; --start new draws new ones)" if why and request.start is None else ""
        says = [
            f"Each seed starts from your weights as they are now{because}; seeds differ in order of data and dropout."
        ]
    return Beginning(start, tuple(says))


def _notes_on_new_weights(models: list[Any], *, seeds_all: bool) -> list[str]:
    notes = [
        "Each seed starts from new weights (each layer's reset_parameters(), the optimizer's memory cleared)."
    ]
    if kept := [name for model in models for name in layers_that_keep(model)]:
        notes.append(
            f"Layers without reset_parameters() keep their weights in every seed: {', '.join(kept[:5])}."
        )
    if seeds_all:
        notes.append("The cell seeds its random numbers itself: seeds differ in their first weights only.")
    return notes


def quality_notes(
    workbench: NotebookState, workload: Workload, role: Role, held_out: str, *, repeats: bool
) -> list[str]:
    """What a reader must know of how the trainings differ from the notebook's own."""
    notes = list(notes_on_copies(workload))
    training = training_loader(workload, workbench.training_loader)
    if shares_samples(look_up(workload.namespace, held_out), training):
        notes.append(
            f"{held_out} has samples that the training sees too: this is no quality on held-out data."
        )
    models = [each.name for each in workload.roles if each.kind == "models"]
    if len(models) > 1:
        notes.append(
            f"Quality is that of {role.name}; the cell also trains or calls {', '.join(models[1:])}."
        )
    if repeats:
        notes += _notes_on_repeating(workload)
    return notes


def _notes_on_repeating(workload: Workload) -> list[str]:
    notes = [
        f"One run of your cell is {workload.steps:,} steps; it is run again and again as long as training goes on."
    ]
    tuning = [each for each in workload.roles if each.kind in ("schedulers", "optimizers")]
    if anew := [each.name for each in tuning if each.is_built_by_cell]:
        notes.append(
            f"{', '.join(anew)}: made by the cell, so that it begins anew with each run of it, as at home."
        )
    if any(each.kind == "schedulers" and not each.is_built_by_cell for each in tuning):
        notes.append("The scheduler goes on from where it stands in your notebook, in every seed.")
    return notes


def _seeds_all(workload: Workload) -> bool:
    """Whether the cell, or a function of the notebook that it calls, seeds torch; one for a generator of its own is another."""
    if _SEEDS_ALL.search(workload.source):
        return True
    names = names_in_functions(workload)
    return "manual_seed" in names and "Generator" not in names
