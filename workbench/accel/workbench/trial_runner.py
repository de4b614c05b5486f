"""Start a trial and wait for it: one at a time, written to the history, and stopped by an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.workbench.notebook_state import NotebookState
from accel.workload.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from accel.workbench.kept_ranks import KeptRanks
    from accel.workers.any_trial import AnyTrial
    from accel.workload.workload import Workload


class TrialRunner(NotebookState):
    """A notebook's state that runs trials; the commands of `Workbench` prepare them."""

    @cached_property
    def ranks(self) -> KeptRanks:
        """Warm ranks, and the data-parallel runs on them."""
        from accel.workbench.kept_ranks import KeptRanks

        return KeptRanks(self)

    def workload_to_try(self, command: str) -> Workload:
        """The workload, when nothing else runs that would be in every time."""
        workload = self.workload_to_train(command)
        if self.running_trial is not None or self.ranks.is_running:
            what = (
                "a trial is running already" if self.running_trial is not None else "a run on ranks goes on"
            )
            raise AccelError(f"%accel {command}", because=what, do="Wait for it, or stop it first.")
        return workload

    def run_trial(
        self, trial: Any, workload: Workload, kept: Plan, *, wait: bool, watch: Callable[[Any], Any] | None
    ) -> Any:
        """Start it, and wait for it if that is wanted; an interrupt stops it."""
        if wait:
            self.awaited_trial = trial
        try:
            with uninterrupted():
                self._start(trial, workload, kept)
            # Outside: the history's file may be slow, or locked for a while.
            self.history_keeper.keep_begin(trial, workload, self.machine)
            if not wait:
                return trial
            return trial.wait() if watch is None else watch(trial)
        except BaseException:  # such as an interrupt: no trial goes on unseen
            trial.stop()
            raise

    def _start(self, trial: AnyTrial, workload: Workload, kept: Plan) -> None:
        trial.start()
        self.trials.append(trial)
        self.history_keeper.follow(trial, workload, self.machine, kept=kept)
        trial.on_change(lambda: self.tell("trial"))
        self.tell("trial")
