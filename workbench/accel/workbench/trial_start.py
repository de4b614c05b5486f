"""Prepare a trial: the workload packed as if nothing were kept, and the notebook's state under guard."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from accel.accelerations.steady_allocator import allocator_name, notebook_allocator, set_from_outside
from accel.doing import doing
from accel.errors import Reason
from accel.machine.peaks.other_work import threads_of_others
from accel.measuring.ladder import UNCHANGED
from accel.plans.plan import Plan
from accel.private_disk import current_folder
from accel.techniques.model.model_call import is_compiled_by_user
from accel.workbench.held_out_data import makes_ahead, steps_of_epoch, steps_of_pass, training_loader
from accel.workbench.hints import best_first, hints_for
from accel.workers.messages import Load
from accel.workers.relaunch_estimate import MachineLoad
from accel.workers.staged_trial import TrialSetting
from accel.workers.time_budget import TimeBudget
from accel.workers.trial import Trial
from accel.workload.shipping import Parcel, pack
from accel.workload.state_guard import StateGuard
from accel.workload.workload import Workload, look_up

if TYPE_CHECKING:
    from accel.workbench.notebook_state import NotebookState

TRIED_KINDS = ("models", "optimizers", "loaders")


def prepared_trial(
    workbench: NotebookState, workload: Workload, plans: list[Plan], *,
    refused: dict[str, list[Reason]], budget: TimeBudget, timeout_s: float,
) -> Trial:  # fmt: skip
    """Pack and guard; the trial is ready to start."""
    from accel.distributed.trials.trial_group import group_for

    setting = trial_setting(workbench, workload, budget=budget, timeout_s=timeout_s)
    if setting.load.others:  # it may have to leave out the last ones
        plans = best_first(plans, hints_for(workbench, workload))
    parcel, while_packing = packed(workbench, workload)
    try:
        load = load_without_what_is_kept(workbench, parcel, workload)
        check = unchanged_check(workbench, workload, while_packing)
        return Trial(
            plans, parcel, load, workbench.pool, setting, check=check, refused=refused, groups=group_for
        )
    except BaseException:
        parcel.close()
        raise


def trial_setting(
    workbench: NotebookState, workload: Workload, *, budget: TimeBudget, timeout_s: float
) -> TrialSetting:
    """What the notebook's allocator is, and how long things may take."""
    allocator, cores = notebook_allocator(), workbench.machine.usable_cores
    is_glibc = allocator_name() == "glibc"
    return TrialSetting(
        machine_line=workbench.machine.line,
        notes=notes_on_copies(workload),
        notebook_allocator=allocator,
        notebook_is_steady=allocator == "steady" or bool(set_from_outside()) or not is_glibc,
        can_be_steady=is_glibc,
        timeout_s=timeout_s,
        budget=budget,
        step_s=(workload.step_ms or 0.0) / 1e3 if workload.step_ms == workload.step_ms else 0.0,
        load=MachineLoad(threads_of_others(cores), cores),
    )


def packed(workbench: NotebookState, workload: Workload) -> tuple[Parcel, list[str]]:
    """The workload as if nothing were kept, and what packing it changed in the notebook."""
    with doing("packing the cell"), workbench.live.suspended():
        before = StateGuard.of(workload)
        parcel = pack(workload)
        return parcel, before.changes(workload)


def load_without_what_is_kept(workbench: NotebookState, parcel: Parcel, workload: Workload) -> Load:
    """The load message for the baseline: without the workers that a kept plan gave its loaders."""
    with workbench.live.suspended():
        return load_for(parcel, workload, workbench.training_loader)


def load_for(parcel: Parcel, workload: Workload, training: str | None = None) -> Load:
    """The message that hands the workload to a worker, for any plan; `training` names the loader that training reads."""
    objects = workload.objects()
    trains = training_loader(workload, training)
    loaders = list(objects.loaders.values()) if trains is None else [trains]
    is_gone = any(
        role.kind == "loaders" and role.current(workload.namespace) is None for role in workload.roles
    )
    seen = workload.conditions
    workers_gone = seen.loader_workers if is_gone and seen is not None else 0
    has_threads = seen is not None and seen.fetches_in_threads
    return Load(
        plan="",
        allocator="as the notebook",
        source=parcel.source,
        filename=parcel.filename,
        boundary=parcel.boundary,
        folder=current_folder(),
        import_path=list(sys.path),
        roles=names_by_kind(workload),
        finds_objects=builds_objects(workload),
        samples_per_batch=(workload.samples_per_step or 0) // max(workload.accumulation, 1),
        reads_back=[read for read in workload.reads_back or () if read.waits],
        trains_on=objects.device,
        epoch_steps=min(steps_of_epoch(workload, training), workload.steps),
        pass_steps=steps_of_pass(workload, training),
        makes_ahead=workers_gone > 0 or has_threads or any(map(makes_ahead, loaders)),
        has_threads=has_threads,
        loader_workers=max([workers_gone, *(getattr(loader, "num_workers", 0) for loader in loaders)]),
    )


def notes_on_copies(workload: Workload) -> tuple[str, ...]:
    """What a reader must know of the copies: pickling a model drops its own `model.compile()`."""
    compiled = [name for name, model in workload.objects().models.items() if is_compiled_by_user(model)]
    return tuple(
        f"{name} is compiled by {name}.compile(); the copies in this trial are not." for name in compiled
    )


def names_by_kind(workload: Workload) -> dict[str, list[str]]:
    """Names that a worker finds in its copy of the namespace before the cell runs."""
    names: dict[str, list[str]] = {}
    for role in workload.roles:
        is_shipped = (
            role.name.split(".")[0] in workload.reads and look_up(workload.namespace, role.name) is not None
        )
        if is_shipped:
            names.setdefault(role.kind, []).append(role.name)
    return names


def builds_objects(workload: Workload) -> bool:
    """Whether the cell makes a model, optimizer or loader itself, so that workers must find it when it is first used."""
    shipped = names_by_kind(workload)
    return any(
        role.kind in TRIED_KINDS and role.name not in shipped.get(role.kind, []) for role in workload.roles
    )


def unchanged_check(
    workbench: NotebookState, workload: Workload, while_packing: list[str]
) -> Callable[[], str]:
    """What the trial did to the notebook, to be asked when it is over. Cells that the user ran meanwhile are theirs."""
    guard, cells_run = StateGuard.of(workload), workbench.cells_run

    def unchanged_line() -> str:
        if workbench.cells_run != cells_run and not while_packing:
            return "You ran cells during the trial, so changes could be ruled out only up to its start."
        try:
            changes = [*while_packing, *guard.changes(workload)]
        except RuntimeError as error:  # the notebook's own code runs at this moment
            return f"Whether anything of yours changed could not be checked: {error}."
        if changes:
            return "YOUR NOTEBOOK CHANGED during the trial: " + "; ".join(changes[:5])
        return UNCHANGED

    return unchanged_line
