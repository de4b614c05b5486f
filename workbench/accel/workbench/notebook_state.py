"""What a workbench knows: the notebook's names, its workload, what was measured of it, and the plan that is live."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, NotApplicable, of_each
from accel.machine import Machine, read_machine
from accel.plans.chosen import read_names
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workbench.history_keeping import HistoryKeeper
from accel.workbench.refusals import Refusals
from accel.workers.pool import WorkerPool

if TYPE_CHECKING:
    from accel.profiling.profile import Profile
    from accel.workers.any_trial import AnyTrial
    from accel.workload.workload import Workload


class NotebookState:
    """Everything accel knows about one namespace: the workload, its profile, the trials, what is kept.

    The commands of a `Workbench` read and change it; their parts take it, and know no command.
    """

    def __init__(self, namespace: dict[str, Any], *, spare_workers: int = 2) -> None:
        self.namespace = namespace
        self.workload: Workload | None = None
        self.profile_result: Profile | None = None
        # Older than profile_result where the last cell profiled does not train.
        self.profile_of_workload: Profile | None = None
        self.profile_without: Profile | None = None  # of the present cell, the last with nothing kept
        self.profiled_with = Plan(())  # what was kept while the present cell was profiled
        self.trials: list[AnyTrial] = []  # by speed, by quality, or a search; oldest first
        self.training_loader: str | None = None  # that the workload's steps take batches from
        self.pool = WorkerPool(spare_workers)
        self.history_keeper = HistoryKeeper()
        self.refusals = Refusals()
        self.cells_run = 0  # by the notebook: one that runs during a trial may change the user's own objects
        self.first_trial = 0  # of the present workload
        self.awaited_trial: AnyTrial | None = None  # the last that a command waits for: an interrupt stops it
        self._live: LivePlan | None = None
        self._listeners: list[Callable[[str], None]] = []

    @cached_property
    def machine(self) -> Machine:
        """This machine, read once."""
        return read_machine()

    def remember(self, workload: Workload, profile: Profile) -> None:
        """A profile is over: its cell is the workload from now on, unless it does not train and an earlier one did.

        What is kept stays live when the new cell trains the same model: profiling again to see the gain must not take the
        gain back. Otherwise it is undone.
        """
        self.profile_result = profile
        if workload.has_training_step or self.workload is None or not self.workload.has_training_step:
            kept = self.kept_for(workload)
            goes_on = self._live is not None and bool(kept) and self._live.follow(workload)
            if not goes_on:
                self.drop_live()
            is_same_cell = self._is_same_cell(workload)
            if not kept or not is_same_cell:
                self.profile_without = None if kept else profile
            self.profiled_with = kept
            if not is_same_cell:
                self.first_trial = len(self.trials)
            self.workload = workload
            self.profile_of_workload = profile
            self.training_loader = profile.whole_run.step_loader
            if kept and not goes_on:
                self._keep_what_can_work(kept, workload)
        if workload.has_training_step:
            self.pool.refill()
        self.tell("profile")

    def _keep_what_can_work(self, plan: Plan, workload: Workload) -> None:
        for name in plan.why_not(workload, self.machine):
            plan = plan.without(name)
        if plan:
            self.live.keep(plan)

    def _is_same_cell(self, workload: Workload) -> bool:
        is_same_text = self.workload is not None and self.workload.source.strip() == workload.source.strip()
        return is_same_text and self._trains_the_same(workload)

    def _trains_the_same(self, workload: Workload) -> bool:
        before = self.workload.objects().models.values() if self.workload is not None else ()
        return bool(
            {id(model) for model in before} & {id(model) for model in workload.objects().models.values()}
        )

    def without_what_is_kept(self, workload: Workload) -> Workload:
        """The workload as it is without the kept plan, which hid something of it in the run that it was seen in."""
        kept, before = self.kept_for(workload), self.workload
        if not kept or before is None or before.source != workload.source:
            return workload
        changes_batches = any(entry.layer == "batch" for entry in kept.entries)
        return workload.seen_without_a_plan(before, changes_batches=changes_batches)

    def kept_for(self, workload: Workload) -> Plan:
        """What is kept, if this workload trains the same model; else the empty plan."""
        return self.kept if self._trains_the_same(workload) else Plan(())

    @property
    def running_trial(self) -> AnyTrial | None:
        """The trial that is under way, if any."""
        return next((trial for trial in self.trials[-1:] if not trial.is_over), None)

    def checked(self, plan: str | Plan, workload: Workload, on: str | None = None) -> Plan:
        """The plan that is meant; raises NotApplicable where it cannot work."""
        plan = Plan.parse(plan) if isinstance(plan, str) else plan
        plan = (plan.only_on(*read_names(on)) if on is not None else plan).resolved(workload)
        if not plan:
            raise AccelError(
                "The empty plan", because="it is the baseline itself", do="Name an acceleration."
            )
        if refusals := self.refusals.of(plan, workload, self.machine, kept=self.kept):
            several = len(refusals) > 1
            raise (
                NotApplicable(str(plan), of_each(refusals)) if several else NotApplicable(*refusals.popitem())
            )
        return plan

    @property
    def live(self) -> LivePlan:
        """What is kept for the present workload."""
        if self._live is None:
            self._live = LivePlan(self.workload_to_train("keep"))
        return self._live

    @property
    def kept(self) -> Plan:
        """The plan that is live; empty when nothing is kept."""
        return self._live.plan if self._live is not None else Plan(())

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with what changed, from any thread: "profile", "trial", "kept", "ranks" or "environments".

        Returns how to unsubscribe.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def tell(self, what: str) -> None:
        """Something changed: every listener hears it."""
        for listener in list(self._listeners):
            listener(what)

    def forget_what_is_kept(self) -> None:
        """Undo the kept plan as far as possible; from now on no plan is kept."""
        with suppress(Exception):  # undoing uses the user's objects
            self.drop_live()
        self._live = None

    def drop_live(self) -> None:
        if self._live is not None:
            self._live.undo()
            self._live = None

    def workload_to_train(self, command: str) -> Workload:
        if self.workload is None:
            raise AccelError(
                f"%accel {command}",
                because="no cell was profiled yet",
                do="Put %%accel profile over your training cell and run it.",
            )
        if self.workload.boundary == "none":
            raise AccelError(
                f"%accel {command}",
                because="the profiled cell has no training step: neither an optimizer step nor a backward pass was seen",
                do="Profile the cell that trains.",
            )
        return self.workload
