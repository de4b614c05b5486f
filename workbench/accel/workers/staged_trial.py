"""What trials of plans have in common: stages of relaunches, in which workers run plans and the baseline in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accel.measuring.comparison import Comparison, OpenBecause
from accel.workers.background_trial import BackgroundTrial, Result
from accel.workers.messages import Load
from accel.workers.pool import WorkerPool
from accel.workers.relaunch import Relaunch
from accel.workers.relaunch_estimate import QUIET, MachineLoad
from accel.workers.samples import Effort
from accel.workers.stage import Stage, StagePlan
from accel.workers.time_budget import TimeBudget
from accel.workers.variant_worker import GroupFactory, Variant, no_groups
from accel.workload.shipping import Parcel

MOST_RELAUNCHES = 60  # with a budget: more than fit into an hour
WHY_OPEN: dict[OpenBecause, str] = {
    "heap": "steps are faster in fresh processes, but may be slower in this notebook",
    "heap not measured": "steps are faster in fresh processes, but may be slower in a process that holds memory, as this "
    "notebook does; accel could not measure that",
    "starting": "steps are faster, but starting the workers may cost more time than the faster steps save",
    "first epoch": "the plan gains only from the second epoch on, and the trial ran fewer than two epochs",
}


@dataclass(frozen=True)
class TrialSetting:
    """Where a trial runs: what the notebook's allocator is, and how long things may take."""

    machine_line: str
    notes: tuple[str, ...]
    notebook_allocator: str  # what its processes are to use: "steady", "set back to …" or "as the notebook"
    notebook_is_steady: bool  # its allocator is steady already (kept live, by environment, or not glibc)
    can_be_steady: bool
    timeout_s: float = 60.0
    budget: TimeBudget = field(default_factory=TimeBudget)
    step_s: float = 0.0  # of the profile; 0 where it is not known
    load: MachineLoad = QUIET
    steady_relaunches: int = 4
    notebook_relaunches: int = 5
    effort: Effort = field(default_factory=Effort)


class StagedTrial(BackgroundTrial[Result]):
    """A trial whose stages share one pool of workers, one parcel, and one time budget."""

    def __init__(
        self, parcel: Parcel, load: Load, pool: WorkerPool, setting: TrialSetting, *,
        check: Callable[[], str] = lambda: "", groups: GroupFactory = no_groups,
    ) -> None:  # fmt: skip
        super().__init__(parcel, check, setting.budget)
        self._load, self._pool, self._setting, self._groups = load, pool, setting, groups

    def _stage(self, plan: StagePlan, *, deadline: float, give_up_at: float, measures_floor: bool) -> Stage:
        """A stage of these plans until the deadline; with a budget that the user set, relaunches end in the middle then."""
        return Stage(
            plan, self._open, stop=self._stop, on_change=self._changed, deadline=deadline, measures_floor=measures_floor,
            is_out_of_time=lambda: self.is_out_of_time, give_up_at=give_up_at if self.budget.is_strict else math.inf,
        )  # fmt: skip

    def _most_relaunches(self, usual: int) -> int:
        """With a budget that the user set it goes on until every plan is decided or the time is up."""
        return MOST_RELAUNCHES if self.budget.is_strict else usual

    def _open(self, variants: list[Variant]) -> Relaunch:
        relaunch = Relaunch(
            self._pool, self._parcel, variants, load=self._load, timeout_s=self._setting.timeout_s, groups=self._groups,
            phases=self.phases,
        )  # fmt: skip
        self._hold(relaunch)
        return relaunch

    def _undecided(self, rows: Sequence[Comparison], stage: Stage | None) -> str:
        """Text that says why plans are still undecided after the last stage; empty if none is."""
        open_rows = [
            row
            for row in rows
            if row.verdict == "undecided" and row.state == "done" and row.shown is not None
        ]
        if stage is None or not open_rows:
            return ""
        reasons = {WHY_OPEN.get(row.open_because, "") for row in open_rows}
        if "" not in reasons:
            return "; ".join(sorted(reasons))
        return f"{stage.relaunches} relaunch{'es' * (stage.relaunches != 1)} left at least one plan undecided"
