"""Keep what was predicted and what was measured: each profile's predictions as it ends, each trial's plans as it ends."""

from __future__ import annotations

import hashlib
import math
import threading
import uuid
import warnings
import weakref
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from accel.history import HistoryStore, PastPredictions, PastTrials, PredictionRecord, TrialRecord
from accel.history.cell_over_time import cell_over_time, in_a_sentence
from accel.history.records import AS_THE_NOTEBOOK_RUNS, ENDED, INTERRUPTED, RUNNING, SEARCH, STEADY
from accel.history.runs import run_name
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.tuning import Tuning
from accel.plans.plan import Plan

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.measuring.comparison import Comparison
    from accel.measuring.ladder import Ladder
    from accel.measuring.training_curve import QualityRow
    from accel.profiling.findings import Finding
    from accel.profiling.profile import Profile
    from accel.workers.any_trial import AnyTrial
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
        self._live: weakref.WeakKeyDictionary[AnyTrial, str] = weakref.WeakKeyDictionary()
        self._written: weakref.WeakSet[AnyTrial] = weakref.WeakSet()
        self._runs: weakref.WeakKeyDictionary[AnyTrial, _Run] = weakref.WeakKeyDictionary()
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

    def follow(self, trial: AnyTrial, workload: Workload, machine: Machine, *, kept: Plan) -> None:
        """Write the trial's rows when it is over, whoever waits for it.

        Of `kept`, live as the trial began, its baseline has what belongs to the whole process.
        """
        of_process = Plan(tuple(entry for entry in kept.entries if entry.needs_own_process))
        self._live[trial] = str(of_process) if of_process else ""
        self._runs[trial] = _Run()
        trial.on_change(lambda: self.keep_trial(trial, workload, machine))
        self.keep_trial(trial, workload, machine)  # it may have ended before anybody listened

    def keep_begin(self, trial: AnyTrial, workload: Workload, machine: Machine) -> None:
        """Write that it is being measured: all there is of it where the kernel is killed before it is over."""
        about, run = self._about(trial, workload, machine), self._runs.setdefault(trial, _Run())
        self.store.add(replace(row, run=run.name) for row in _begun(trial, about))

    def keep_trial(self, trial: AnyTrial, workload: Workload, machine: Machine) -> None:
        """Write the trial's rows if it is over and they are not written yet."""
        with self._lock:
            if trial in self._written or not (trial.is_over or trial.is_written_as_it_goes):
                return
            is_over, records = trial.is_over, records_of(trial, self._about(trial, workload, machine))
            run = self._runs.setdefault(trial, _Run())
            records = run.new(records, only_known=trial.is_written_as_it_goes)
            if not records or self.store.add(records):  # else once more, when it is asked for the next time
                run.keep_in_mind(records)
                if is_over:
                    self._written.add(trial)
                    self._close(trial, workload, machine)
        if problem := self.store.take_problem():
            warnings.warn(problem, stacklevel=2)

    def _close(self, trial: AnyTrial, workload: Workload, machine: Machine) -> None:
        """What began and has no figure, as a plan that could not be applied, does not go on for ever."""
        about = {**self._about(trial, workload, machine), "run": self._runs[trial].name}
        measured = {row.plan for row in records_of(trial, about)}
        self.store.add(
            replace(row, verdict=ENDED) for row in _begun(trial, about) if row.plan not in measured
        )

    def _about(self, trial: AnyTrial, workload: Workload, machine: Machine) -> dict[str, Any]:
        return {
            "profile": self._profiles.get(workload, ""), "workload": _hash(workload), "time": _now(),
            "described": str(workload), "live": self._live.get(trial, ""), **_where(machine),
        }  # fmt: skip

    def of_workload(self, workload: Workload, machine: Machine) -> list[TrialRecord]:
        """What was measured of this cell on this machine with these versions, oldest first."""
        where = _where(machine)
        return [
            row for row in self.store.trials()
            if row.workload == _hash(workload) and row.machine == where["machine"] and row.versions == where["versions"]
            and row.verdict not in (RUNNING, INTERRUPTED)
        ]  # fmt: skip

    def past_trials(self, workload: Workload | None = None, machine: Machine | None = None) -> PastTrials:
        """All trials on record, newest first; with how long the steps of this cell took before."""
        trials = self.store.trials()
        cell = ""
        if workload is not None and machine is not None:
            cell = in_a_sentence(cell_over_time(trials, workload=_hash(workload), machine=machine.line))
        return PastTrials(tuple(reversed(trials)), self._file, self.store.problem, cell)

    def is_of(self, row: TrialRecord, workload: Workload) -> bool:
        """Whether the row is of this cell."""
        return row.workload == _hash(workload)

    def past_predictions(self) -> PastPredictions:
        """All predictions on record, newest first, each with what was measured."""
        predictions, trials = self.store.predictions(), self.store.trials()
        return PastPredictions.of(predictions, trials, file=self._file, problem=self.store.problem)

    @property
    def _file(self) -> str:
        return "" if self.store.path is None else str(self.store.path)


def _begun(trial: AnyTrial, about: dict[str, Any]) -> list[TrialRecord]:
    """A row for each plan that is to be measured; one for a search, which does not know its plans yet."""
    result: Ladder | TimeToQuality | Tuning = trial.result
    if isinstance(result, Tuning):
        return [_not_measured(SEARCH, RUNNING, about)]
    asked = _asked(result) if isinstance(result, TimeToQuality) else ""
    return [
        _not_measured(str(plan), RUNNING, about, asked=asked, environment=plan.start.environment)
        for plan in getattr(trial, "plans", ())
        if plan
    ]


def _not_measured(
    plan: str, verdict: str, about: dict[str, Any], *, asked: str = "", environment: str = ""
) -> TrialRecord:
    nothing = math.nan
    return TrialRecord(
        plan=plan, verdict=verdict, ratio=nothing, low=nothing, high=nothing, where_measured=AS_THE_NOTEBOOK_RUNS,
        quality="", baseline_ms=nothing, asked=asked, environment=environment, **about,
    )  # fmt: skip


class _Run:
    """What of a trial is on record already: what a kernel that is killed has measured until then must not be lost."""

    def __init__(self) -> None:
        self.name = run_name()
        self._known: set[tuple[object, ...]] = set()

    def new(self, records: list[TrialRecord], *, only_known: bool) -> list[TrialRecord]:
        """The rows that say something new, under the trial's name; of a search that goes on, those with a figure."""
        named = [
            replace(row, run=self.name)
            for row in records
            if not only_known or not math.isnan(row.ratio) or row.verdict == "failed"
        ]
        return [row for row in named if _facts(row) not in self._known]

    def keep_in_mind(self, records: list[TrialRecord]) -> None:
        """These are written."""
        self._known |= {_facts(row) for row in records}


def _facts(row: TrialRecord) -> tuple[object, ...]:
    return row.plan, row.where_measured, row.verdict, row.ratio, row.low, row.high


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


def records_of(trial: AnyTrial, about: dict[str, Any]) -> list[TrialRecord]:
    """A record for each plan that was measured; `about` says of what workload, on what machine, and when.

    >>> records_of(trial, about)[0].plan
    'channels_last'
    """
    result: Ladder | TimeToQuality | Tuning = trial.result
    if isinstance(result, TimeToQuality):
        rows = [row for row in result.rows if row is not result.baseline and row.state != "not applicable"]
        return [_by_quality(row, result, about) for row in rows]
    if isinstance(result, Tuning) and result.against:
        return []  # speed-ups over a plan, and not over the cell
    measured = (*result.searched, *result.confirmed) if isinstance(result, Tuning) else result.rows
    return [
        _by_speed(row, about, compiles=Plan.parse(row.plan).compiles)
        for row in measured
        if row.state != "not applicable"
    ]


def _by_speed(row: Comparison, about: dict[str, Any], *, compiles: bool) -> TrialRecord:
    # First steps that compile cost what later ones earn back; with other plans they differ by chance.
    shown = row.shown
    return TrialRecord(
        plan=row.plan,
        verdict=row.state if row.state == "failed" else row.verdict,
        ratio=shown.ratio if shown else math.nan,
        low=shown.low if shown else math.nan,
        high=shown.high if shown else math.nan,
        where_measured=AS_THE_NOTEBOOK_RUNS if row.headline else STEADY,
        quality=row.quality.following,
        baseline_ms=row.baseline_ms,
        break_even_steps=_known(row.break_even_steps) if compiles else math.nan,
        environment=row.environment,
        **about,
    )


def _by_quality(row: QualityRow, result: TimeToQuality, about: dict[str, Any]) -> TrialRecord:
    answer = result.answer(row.plan)
    ratio, spread = answer.ratio, answer.ratio if answer.ratio and answer.ratio.is_interval else None
    reached = [
        f"{value:.4g}{where}"
        for value, where in ((row.quality, ""), (result.baseline.quality, " without"))
        if value is not None
    ]
    return TrialRecord(
        plan=row.plan,
        verdict=row.state if row.state == "failed" else answer.verdict,
        ratio=ratio.mean if ratio else math.nan,
        low=spread.low if spread else math.nan,
        high=spread.high if spread else math.nan,
        where_measured=AS_THE_NOTEBOOK_RUNS,
        quality=f"{result.metric} {', '.join(reached)}" if reached else "",
        baseline_ms=math.nan,
        asked=_asked(result),
        seconds=_known(row.seconds(result.target)),
        baseline_seconds=_known(result.baseline.seconds(result.target)),
        seeds=float(len(row.curves)),
        environment=row.environment,
        **about,
    )


def _asked(result: TimeToQuality) -> str:
    return str(result.target) if result.target else f"after {result.train_s:.3g} s of training"


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)
