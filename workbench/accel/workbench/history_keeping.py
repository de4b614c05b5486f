"""Keep what was predicted and what was measured: each profile's predictions as it ends, each trial's rows as it ends."""

from __future__ import annotations

import hashlib
import threading
import uuid
import warnings
import weakref
from datetime import datetime
from typing import TYPE_CHECKING

from accel.history import HistoryStore, PastPredictions, PastTrials, PredictionRecord
from accel.plans.plan import Plan
from accel.workbench.trial_records import records_of

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.profiling.findings import Finding
    from accel.profiling.profile import Profile
    from accel.workers.quality_trial import QualityTrial
    from accel.workers.trial import Trial
    from accel.workload.workload import Workload


class HistoryKeeper:
    """Writes the history of one workbench. A history that cannot be written is said once and hinders nothing.

    >>> keeper.keep_predictions(profile, workload, machine, kept=Plan(()))
    ''
    >>> keeper.follow(trial, workload, machine, kept=Plan(()))
    """

    def __init__(self, store: HistoryStore | None = None) -> None:
        self.store = HistoryStore() if store is None else store
        self._profiles: weakref.WeakKeyDictionary[Workload, str] = weakref.WeakKeyDictionary()
        self._live: weakref.WeakKeyDictionary[Trial | QualityTrial, str] = weakref.WeakKeyDictionary()
        self._written: weakref.WeakSet[Trial | QualityTrial] = weakref.WeakSet()
        self._lock = threading.Lock()

    def keep_predictions(self, profile: Profile, workload: Workload, machine: Machine, *, kept: Plan) -> str:
        """Write what the findings predict, one record a plan; returns what is wrong with the history, once.

        `kept` was live while the cell ran.
        """
        name = self._profiles[workload] = uuid.uuid4().hex
        about = {
            "profile": name, "workload": _hash(workload), "time": _now(), "live": str(kept) if kept else "", **_where(machine),
        }  # fmt: skip
        self.store.add(
            PredictionRecord(
                kind=finding.kind, plan=plan, share=finding.share, ratio=finding.prediction.ratio, low=finding.prediction.low,
                high=finding.prediction.high, basis=finding.prediction.basis, **about,
            )
            for finding in profile.findings
            if finding.prediction is not None
            for plan in _plans_measured(finding)
        )  # fmt: skip
        return self.store.take_problem()

    def follow(
        self, trial: Trial | QualityTrial, workload: Workload, machine: Machine, *, kept: Plan
    ) -> None:
        """Write the trial's rows when it is over, whoever waits for it.

        Of `kept`, live as the trial began, its baseline has what belongs to the whole process.
        """
        of_process = Plan(tuple(entry for entry in kept.entries if entry.needs_own_process))
        self._live[trial] = str(of_process) if of_process else ""
        trial.on_change(lambda: self.keep_trial(trial, workload, machine))
        self.keep_trial(trial, workload, machine)  # it may have ended before anybody listened

    def keep_trial(self, trial: Trial | QualityTrial, workload: Workload, machine: Machine) -> None:
        """Write the trial's rows if it is over and they are not written yet."""
        with self._lock:
            if not trial.is_over or trial in self._written:
                return
            self._written.add(trial)
            about = {
                "profile": self._profiles.get(workload, ""), "workload": _hash(workload), "time": _now(),
                "described": str(workload), "live": self._live.get(trial, ""), **_where(machine),
            }  # fmt: skip
            self.store.add(records_of(trial.result, about))
        if problem := self.store.take_problem():
            warnings.warn(problem, stacklevel=2)

    def past_trials(self) -> PastTrials:
        """All trials on record, newest first."""
        trials = self.store.trials()
        return PastTrials(tuple(reversed(trials)), self._file, self.store.problem)

    def past_predictions(self) -> PastPredictions:
        """All predictions on record, newest first, each with what was measured."""
        predictions, trials = self.store.predictions(), self.store.trials()
        return PastPredictions.of(predictions, trials, file=self._file, problem=self.store.problem)

    @property
    def _file(self) -> str:
        return "" if self.store.path is None else str(self.store.path)


def _plans_measured(finding: Finding) -> list[str]:
    """The plans by which a trial can score the prediction; [''] if no trial can score it."""
    is_of_step = finding.prediction is not None and finding.prediction.of == "step"
    return [str(Plan.parse(plan)) for plan in finding.suggests if is_of_step] or [""]


def _hash(workload: Workload) -> str:
    """The same for the same cell on objects of the same names and classes; of the code itself nothing is kept."""
    roles = sorted(f"{role.kind} {role.name} {role.class_name}" for role in workload.roles)
    return hashlib.sha256("\n".join([workload.source.strip(), *roles]).encode()).hexdigest()[:16]


def _where(machine: Machine) -> dict[str, str]:
    return {"machine": machine.line, "versions": f"python {machine.python}, torch {machine.torch}"}


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
