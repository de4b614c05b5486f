"""The workbench of one notebook: profile, try, keep, undo, status, export. Magics, panel and functions all call this."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from accel.accelerations import CATALOGUE, Acceleration
from accel.bounds import check_seconds, check_share, check_steps, checked_size
from accel.errors import AccelError, Reason
from accel.plans.plan import Plan
from accel.private_disk import in_words
from accel.workbench.best_tried import best_plan
from accel.workbench.plan_sorting import sorted_out
from accel.workbench.status import Applicability, Status
from accel.workbench.trial_runner import TrialRunner

if TYPE_CHECKING:
    import torch

    from accel.exporting.cluster_scripts import ClusterScripts
    from accel.exporting.export import Export
    from accel.exporting.launcher import Launcher
    from accel.exporting.program import Program
    from accel.history import PastPredictions, PastTrials
    from accel.measuring.fastest_batch import FastestBatch
    from accel.measuring.ladder import Ladder
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.measuring.tuning import Tuning
    from accel.opgraph.op_graph import OpGraph, WhatIf
    from accel.profiling.findings import Findings
    from accel.profiling.profile import Profile
    from accel.workbench.batch_search import Watch
    from accel.workbench.kernelspec import KernelSpec
    from accel.workbench.profile_session import ProfileSession
    from accel.workbench.quality_request import Better
    from accel.workers.quality_trial import QualityTrial
    from accel.workers.trial import Trial
    from accel.workers.tune_trial import TuneTrial
    from accel.workload.new_weights import Start


class Workbench(TrialRunner):
    """The commands on one namespace: profile, try, keep, undo, export, and what they answer.

    The functions of `accel` call the workbench of the notebook or script; their pages say what arguments mean and what is raised.

    Args:
        namespace: The variables that training code reads and changes, such as `globals()`. It is used as it is, never copied.

    Examples:
        >>> workbench = accel.Workbench(globals())
        >>> workbench.profile("train(model, loader, criterion, optimizer)")
        >>> workbench.keep("channels_last")
        >>> print(workbench.export())
        >>> workbench.close()
    """

    # --- profile ----------------------------------------------------------------------------------------------------

    def begin_profile(
        self, cell: str, source: str, *, filename: str = "",
        steps: int = 5, shapes: bool = False, stacks: bool = False, memory: bool = False,
    ) -> ProfileSession:  # fmt: skip
        """Prepare to profile a cell that somebody else runs (IPython): a context manager with `transform` and `finish`.

        Raises:
            AccelError: A run on ranks goes on, or an option makes no sense.

        Examples:
            >>> import ast
            >>> session = workbench.begin_profile(cell := "train(model, loader, criterion, optimizer)", cell)
            >>> tree = session.transform(ast.parse(cell, session.filename))
            >>> with session:
            ...     exec(compile(tree, session.filename, "exec"), workbench.namespace)
            >>> profile = session.finish()
        """
        from accel.profiling.profile_options import ProfileOptions
        from accel.workbench.profile_session import ProfileSession

        if self.ranks.is_running:
            raise AccelError(
                "%%accel profile", because="a run on ranks goes on, and would be in every time that is measured",
                do="Wait for it, or stop it first.",
            )  # fmt: skip
        options = ProfileOptions(steps=steps, shapes=shapes, stacks=stacks, memory=memory)
        return ProfileSession(self, cell, source, filename=filename, options=options)

    def profile(
        self, cell: str | Callable[[], object], *,
        steps: int = 5, shapes: bool = False, stacks: bool = False, memory: bool = False,
    ) -> Profile:  # fmt: skip
        """Run source code, or a function of the namespace, and profile its training steps, as `accel.profile` does.

        What the code raises is raised here; what was profiled until then is in `profile_result`.

        Examples:
            >>> workbench.profile("train(model, loader, criterion, optimizer)").step_ms
        """
        from accel.workbench.profile_session import call_of

        source = cell if isinstance(cell, str) else call_of(cell, self.namespace)
        session = self.begin_profile(source, source, steps=steps, shapes=shapes, stacks=stacks, memory=memory)
        tree = session.transform(ast.parse(source, session.filename))
        code = compile(tree, session.filename, "exec")
        try:
            with session:
                exec(code, self.namespace)
        except BaseException:
            if session.is_entered:  # else nothing has run, and there is nothing to keep
                session.finish()
            raise
        return session.finish()

    def findings(self) -> Findings:
        """What the rules found in the last profile, the largest predicted gain first, as `accel.findings` gives it.

        Examples:
            >>> print(workbench.findings())
        """
        from accel.profiling.findings import Findings

        if self.profile_result is None:
            raise AccelError(
                "%accel findings",
                because="no cell was profiled yet",
                do="Put %%accel profile over your training cell and run it.",
            )
        return Findings(self.profile_result.findings, self.profile_result.machine_line)

    # --- try --------------------------------------------------------------------------------------------------------

    @in_words("%accel try")
    def try_(
        self, *plans: str | Plan, on: str | None = None, wait: bool = True,
        budget_s: float | None = None, timeout_s: float = 60.0, until: str | None = None,
        train_s: float | None = None, seeds: int | None = None, held_out: Any = None, metric: Any = None,
        better: Better | None = None, start: Start | None = None, watch: Callable[[Any], Any] | None = None,
    ) -> Trial | Ladder | QualityTrial | TimeToQuality:  # fmt: skip
        """Measure plans against the baseline on copies of the workload, interleaved, as `accel.try_` does.

        A plan that cannot work here keeps a row with its reasons. An interrupt stops the trial.

        Args:
            watch: Waits for the trial in place of `trial.wait()`, to show how far it is.

        Raises:
            NotApplicable: No plan can work here.
            NotShippable: The workload cannot be copied.
            WorkerError: A worker failed; with its traceback.
            AccelError: There is no workload, a trial or a run goes on, or an option makes no sense.

        Examples:
            >>> ladder = workbench.try_("channels_last", budget_s=30)
            >>> trial = workbench.try_("channels_last", wait=False); trial.stop()
        """
        from accel.workbench.quality_request import QualityRequest
        from accel.workbench.quality_start import prepared_quality_trial
        from accel.workbench.trial_start import prepared_trial
        from accel.workers.time_budget import TimeBudget

        check_seconds(f"try_(budget_s={budget_s})", budget_s)
        check_seconds(f"try_(timeout_s={timeout_s})", timeout_s)
        budget = TimeBudget(budget_s)
        workload = self.workload_to_try("try")
        request = QualityRequest.of(
            until=until, train_s=train_s, seeds=seeds, held_out=held_out, metric=metric, better=better, start=start
        )  # fmt: skip
        parsed, refused = sorted_out(self, plans, workload, on)
        trial: Trial | QualityTrial
        kept = self.kept
        if request is not None:
            trial = prepared_quality_trial(
                self, workload, parsed, request, refused=refused, budget=budget, timeout_s=timeout_s
            )
        else:
            trial = prepared_trial(
                self, workload, parsed, refused=refused, budget=budget, timeout_s=timeout_s
            )
        answer: Trial | Ladder | QualityTrial | TimeToQuality = self.run_trial(
            trial, workload, kept, wait=wait, watch=watch
        )
        return answer

    @in_words("%accel tune")
    def tune(
        self, *, budget_s: float = 120.0, keep_quality: float | None = None, include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (), changes_training: bool = False, steps: int | None = None, seed: int = 0,
        fit: int | str | None = None, wait: bool = True, timeout_s: float = 60.0,
        watch: Callable[[Any], Any] | None = None,
    ) -> TuneTrial | Tuning:  # fmt: skip
        """Search for the plan that trains this cell fastest, as `accel.tune` does.

        Args:
            watch: Waits for the search in place of `trial.wait()`, to show how far it is.

        Examples:
            >>> tuning = workbench.tune(budget_s=60)
        """
        from accel.workbench.tune_start import prepared_tuning
        from accel.workers.time_budget import TimeBudget
        from accel.workers.tune_search import Aim

        check_seconds(f"tune(budget_s={budget_s})", budget_s)
        check_seconds(f"tune(timeout_s={timeout_s})", timeout_s)
        check_share(f"tune(keep_quality={keep_quality})", keep_quality)
        if steps is not None:
            check_steps(f"tune(steps={steps})", steps)
        fit_bytes = checked_size(f"tune(fit={fit!r})", fit)
        budget = TimeBudget(budget_s)
        workload = self.workload_to_try("tune")
        trial = prepared_tuning(
            self, workload, include=_in_a_row(include), exclude=_in_a_row(exclude), changes_training=changes_training,
            aim=Aim(steps or workload.steps, keep_quality, seed, fit_bytes), budget=budget, timeout_s=timeout_s,
        )  # fmt: skip
        answer: TuneTrial | Tuning = self.run_trial(trial, workload, self.kept, wait=wait, watch=watch)
        return answer

    def fastest_batch(
        self, *, largest: int | None = None, budget_s: float | None = None, watch: Watch | None = None
    ) -> FastestBatch:
        """The batch that trains the most samples a second, by trials of other sizes, as `accel.fastest_batch` finds it.

        Args:
            watch: Waits for each of the trials in place of `trial.wait()`, to show how far it is.

        Examples:
            >>> print(workbench.fastest_batch(largest=64, budget_s=60))
        """
        from accel.workbench.batch_search import BatchSearch

        workload = self.workload_to_train("batch")
        search = BatchSearch(self, workload, self.try_, largest=largest, budget_s=budget_s, watch=watch)
        return search.run()

    def history(self, predictions: bool = False) -> PastTrials | PastPredictions:
        """The trials measured on this machine, newest first; or what was predicted, next to what was measured.

        Examples:
            >>> print(workbench.history(predictions=True))
        """
        if self.workload is not None:
            for trial in self.trials[self.first_trial :]:
                self.history_keeper.keep_trial(trial, self.workload, self.machine)
        keeper = self.history_keeper
        return keeper.past_predictions() if predictions else keeper.past_trials(self.workload, self.machine)

    # --- keep, undo, status, export ---------------------------------------------------------------------------------

    def keep(
        self, plan: str | Plan | None = None, *, on: str | None = None, as_kernel: str | None = None
    ) -> Status | KernelSpec:
        """Make a plan live in the notebook, by default the best of the last trial, as `accel.keep` does.

        Examples:
            >>> print(workbench.keep("channels_last", on="model"))
        """
        workload = self.workload_to_train("keep")
        if self.running_trial is not None:
            raise AccelError("%accel keep", because="a trial is running", do="Wait for it, or stop it first.")
        tried = self.trials[self.first_trial :]
        best = best_plan(tried, is_for_kernel=as_kernel is not None) if plan is None else plan
        wanted = self.checked(best, workload, on)
        if as_kernel is not None:
            from accel.workbench.kernelspec import install_kernel

            return install_kernel(wanted, as_kernel)
        self.live.keep(wanted)
        self.tell("kept")
        return Status.of(self, self.ranks.line)

    def undo(self, name: str | None = None) -> Status:
        """Take back one kept acceleration, or everything, bit for bit, as `accel.undo` does; the answer says what came back.

        Examples:
            >>> print(workbench.undo())
        """
        came_back: tuple[str, ...] = ()
        if self._live is not None:
            came_back = self._live.undo(name)
        elif name is not None:
            raise AccelError(f"%accel undo {name}", because="nothing is kept", do="See %accel status.")
        self.tell("kept")
        return Status.of(self, self.ranks.line, came_back)

    def status(self) -> Status:
        """What the workload is, what is kept and whether it took effect, what was tried, with the last ladder.

        Examples:
            >>> print(workbench.status())
        """
        return Status.of(self, self.ranks.line, shows_trial=True)

    def export(
        self, to: str = "cell", plan: str | Plan | None = None, *, n: int | None = None, **places: Any
    ) -> Export | Launcher | Program | ClusterScripts:  # fmt: skip
        """The workload's cell with the kept plan written in as plain PyTorch, as `accel.export` gives it.

        Examples:
            >>> print(workbench.export().code)
        """
        from accel.distributed.jobs.cluster import LAUNCHERS
        from accel.distributed.jobs.cluster_asked import cluster_asked
        from accel.exporting.export import export_cell
        from accel.workbench.cluster_export import cluster_export, program_export
        from accel.workbench.launching import launcher_for

        if to not in ("cell", "script", *LAUNCHERS):
            return launcher_for(to, plan)
        if plan is not None:
            wanted = Plan.parse(plan) if isinstance(plan, str) else plan
            raise AccelError(
                f"%accel export {wanted}", because="the cell is written with what is kept",
                do=f"Keep it first: %accel keep {wanted}. Or write --to shell.",
            )  # fmt: skip
        workload, kept = self.workload_to_train("export"), self.kept
        with self.live.suspended():  # entries read the objects as the cell will find them
            if to == "cell":
                return export_cell(workload, kept)
            if to == "script":
                return program_export(workload, kept)
            cluster = cluster_asked(n=n, launcher=to, **places)
            assert cluster is not None
            return cluster_export(workload, kept, cluster)

    def accelerations(self) -> list[Applicability]:
        """Every entry of the catalogue with the reasons why it cannot work here (none: it can) and whether it is kept.

        Examples:
            >>> [each.name for each in workbench.accelerations() if each.is_applicable]
        """
        kept = self.kept.names
        return [Applicability(entry, self.why_not(entry()), entry.name in kept) for entry in CATALOGUE]

    def why_not(self, entry: Acceleration) -> tuple[Reason, ...]:
        """Why an entry cannot work here, and on which objects alone it could; nothing where it can, or no cell is known.

        Args:
            entry: An acceleration with its knobs.

        Returns:
            Reasons that end in what to do, such as 'It can work on train_loader alone. Write cache_dataset(on="train_loader").'

        Examples:
            >>> workbench.why_not(accel.accelerations.by_name("cache_dataset")())
        """
        if self.workload is None:
            return ()
        refused = self.refusals.of(Plan((entry,)), self.workload, self.machine, kept=self.kept)
        return tuple(refused.get(entry.name, ()))

    def graph(
        self, model: torch.nn.Module | str | None = None, inputs: Any = None, *,
        add: str | None = None, after: str | None = None, onnx: str | None = None,
    ) -> OpGraph | WhatIf:  # fmt: skip
        """A model as a graph of operations with its cost: the workload's, or the one given, as `accel.graph` gives it.

        Examples:
            >>> workbench.graph().op_types
        """
        from accel.workbench.graph_reading import read_workbench_graph

        if (add is None) != (after is None):
            raise AccelError(
                "%accel graph", because="--add says what, --after says where: one of them is missing",
                do="For example: %accel graph --add Linear(256) --after linear1",
            )  # fmt: skip
        graph = read_workbench_graph(self, model, inputs)
        if onnx is not None:
            graph.to_onnx(onnx)
        return graph if add is None or after is None else graph.what_if(add, after=after)

    # --- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Undo what is kept, stop what runs, end the workers.

        Examples:
            >>> workbench.close()
        """
        if (trial := self.running_trial) is not None:
            trial.stop()
        self.drop_live()
        self.pool.close()
        self.ranks.close()


def _in_a_row(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names as a tuple, however they were given."""
    return (names,) if isinstance(names, str) else tuple(names)
