"""One profiled run of a cell: what has to happen before, around and after it, whoever runs it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, in_short
from accel.hooks.attribute_patches import repair_patches
from accel.plans.plan import Plan
from accel.private_disk import in_words
from accel.profiling.compile_watch import CompileWatch
from accel.profiling.loader_watch import LoaderWatch
from accel.profiling.profiled_window import ProfiledWindow
from accel.profiling.synchronisations import SynchronisationWatch
from accel.workload.capture import CellCapture
from accel.workload.training_code import as_changed
from accel.workload.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from accel.profiling.profile import Profile
    from accel.profiling.profile_options import ProfileOptions
    from accel.workbench.notebook_state import NotebookState


NEXT_TO_A_TRIAL = (
    "A trial was running when this cell began: steps may have taken longer than without the trial."
)


class ProfileSession:
    """Context manager round the run of a cell.

    >>> session = workbench.begin_profile(cell, source)
    >>> tree = session.transform(ast.parse(source))
    >>> with session:
    ...     exec(compile(tree, session.filename, "exec"), namespace)
    >>> profile = session.finish()
    """

    def __init__(
        self, workbench: NotebookState, cell: str, source: str, *, filename: str, options: ProfileOptions
    ) -> None:
        self._workbench = workbench
        self._capture = CellCapture(
            cell, source, workbench.namespace, **({"filename": filename} if filename else {})
        )
        self._window = ProfiledWindow(self._capture.marks, options)
        self._watch = SynchronisationWatch()
        self._loaders = LoaderWatch(self._capture.marks)
        self._compiling = CompileWatch()
        self._stack = ExitStack()
        self._raised, self._reading = False, ""
        self._next_to_a_trial = False
        self.is_entered = False

    @property
    def filename(self) -> str:
        """The name under which tracebacks know the cell."""
        return self._capture.filename

    @property
    def now(self) -> str:
        """What goes on, in words: how far the cell is, then what is read of it."""
        steps = self._capture.marks.boundaries
        return self._reading or (f"step {steps:,}" if steps else "your cell runs")

    def transform(self, tree: ast.Module) -> ast.Module:
        """What is kept changes the cell's code; then the probe that marks what `for` loops iterate over. Line numbers stay."""
        return self._capture.transform(as_changed(tree))

    def __enter__(self) -> ProfileSession:
        with uninterrupted(), ExitStack() as entering:
            repair_patches()
            entering.enter_context(self._capture)
            self._watch.install(self._capture.marks.patches)
            entering.enter_context(self._loaders)
            entering.enter_context(self._compiling)
            entering.enter_context(self._window)
            self._stack = entering.pop_all()
        self.is_entered, self._next_to_a_trial = True, self._workbench.running_trial is not None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._raised, self._reading = error is not None, "ending the profiler"
        with uninterrupted():
            self._stack.__exit__(kind, error, where)

    @in_words("%%accel profile")
    def finish(self) -> Profile:
        """Everything is restored; build the profile (partial if the cell raised) and remember the workload.

        A cell that raised before its first step is not remembered: the workload from before stays.
        """
        from accel.profiling.profile import build_profile
        from accel.workbench.profile_findings import with_findings

        self._stack.close()
        self._reading = "reading what the profiler saw"
        workload, recording = self._capture.finish()
        left_out = self._capture.left_out
        workload = replace(
            workload, reads_back=left_out.unless("Reads of tensor values", self._watch.read_backs, None)
        )
        machine = self._workbench.machine.now()
        profile = build_profile(
            recording, self._window, workload, machine,
            synchronisations=left_out.unless("Synchronisations", lambda: self._watch.found(recording.steps), ()),
            loaders=left_out.unless("Loader timings", lambda: self._loaders.found(workload.namespace), ()),
            compilation=left_out.unless("Compiled graphs", self._compiling.found, None),
        )  # fmt: skip
        self._reading = "looking for what costs time"
        seen = workload
        workload = left_out.unless(
            "Facts from the run without the kept plan",
            lambda: self._workbench.without_what_is_kept(seen),
            seen,
        )
        kept = left_out.unless("Kept plans", lambda: self._workbench.kept_for(workload), Plan(()))
        profile = left_out.unless(
            "Findings", lambda: with_findings(profile, workload, machine, kept=kept), profile
        )
        keeper = self._workbench.history_keeper
        problem = left_out.unless(
            "History records of the predictions",
            lambda: keeper.keep_predictions(profile, workload, machine, kept=kept),
            "",
        )
        said = [
            *dict.fromkeys(left_out.said),
            *filter(None, [problem, NEXT_TO_A_TRIAL * self._next_to_a_trial]),
        ]
        profile = replace(profile, notes=(*profile.notes, *said))
        if workload.has_training_step or not self._raised:
            try:
                self._workbench.remember(workload, profile)
            except Exception as error:  # a kept plan asks the user's objects
                self._workbench.forget_what_is_kept()
                note = (
                    f"Nothing is kept any more: accel could not apply the kept plan to this cell ({in_short(error)}). "
                    "Parts of the plan may still be in effect; restart the kernel to be sure that none is."
                )
                profile = replace(profile, notes=(*profile.notes, note))
                self._workbench.remember(workload, profile)
        return profile


def call_of(function: Callable[[], object], namespace: dict[str, Any]) -> str:
    """The source that calls a function of the namespace; raises AccelError where it has no name there."""
    for name, value in namespace.items():
        if value is function and name.isidentifier():
            return f"{name}()"
    raise AccelError(
        f"profile({getattr(function, '__name__', function)!r})", because="the function is not a variable of this namespace",
        do='Pass source code instead: profile("train(model, loader)").',
    )  # fmt: skip
