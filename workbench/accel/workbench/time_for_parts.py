"""Parts that a training, or the time for a search, is too short for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.measuring.took import nice
from accel.plans.plan import Plan
from accel.workbench.held_out_data import steps_of_epoch
from accel.workers.relaunch_estimate import COMPILING_S, compiling_s
from accel.workers.tune_trial import SEARCH_SHARE

if TYPE_CHECKING:
    from accel.workbench.notebook_state import NotebookState
    from accel.workload.workload import Workload

COMPILED = {"compile_model": "forward", "compile_optimizer": "optimizer"}  # each with the phase it compiles
COMPILING_SHARE = 1 / 3  # of a search at most: what is compiled longer leaves too little for all other plans


@dataclass(frozen=True)
class TimeForParts:
    """So many steps of training, and so many seconds of search.

    >>> TimeForParts(workbench, workload, steps=1_000, search_s=72.0).too_short_for(Plan.parse("compile_model"), is_asked=False)
    'compiling 3,832 operations takes about 117 s, and the search has 72 s: --budget-s 720 takes it in'
    """

    workbench: NotebookState
    workload: Workload
    steps: int
    search_s: float

    def too_short_for(self, part: Plan, *, is_asked: bool) -> str:
        """Why there is no time for it; empty where there is. What is asked for by name may take longer."""
        why = self._training_without_compiling(part) or self._training_without_a_second_epoch(part)
        return why or ("" if is_asked else self._search_without_compiling(part))

    def _training_without_compiling(self, part: Plan) -> str:
        whole_s = self.steps * (self.workload.step_ms or 0.0) / 1000
        if not part.compiles or not whole_s or whole_s > COMPILING_S:
            return ""
        return (
            f"all {self.steps:,} steps of this training take {whole_s:.2g} s, and compiling alone about {COMPILING_S:.0f} s: "
            "--steps says how many steps the real one has"
        )

    def _training_without_a_second_epoch(self, part: Plan) -> str:
        """What is kept in the first epoch helps from the second on."""
        if not part.gains_from_second_epoch:
            return ""
        epoch = steps_of_epoch(self.workload, self.workbench.training_loader)
        if self.steps > epoch:  # or nobody knows how long one is
            return ""
        return "it gains from the second epoch on, and this training has one: --steps says how many steps the real one has"

    def _search_without_compiling(self, part: Plan) -> str:
        """Known for processors alone: a GPU's code was compiled on no machine of ours often enough."""
        profile, name = self.workbench.profile_of_workload, part.names[0]
        if name not in COMPILED or profile is None or self.workload.objects().device_type != "cpu":
            return ""
        calls = sum(row.calls for row in profile.rows if row.phase == COMPILED[name])
        calls /= max(self.workload.accumulation, 1) if name == "compile_model" else 1
        needed_s = compiling_s(name, calls)
        if needed_s <= COMPILING_SHARE * self.search_s:
            return ""
        budget_s = nice(needed_s / COMPILING_SHARE / SEARCH_SHARE)
        return (
            f"compiling {calls:,.0f} operations takes about {needed_s:.0f} s, and the search has {self.search_s:.0f} s: "
            f"--budget-s {budget_s} takes it in"
        )
