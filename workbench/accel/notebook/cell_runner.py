"""Run a `%%accel profile` cell through IPython's own machinery, with a profile session open exactly while it runs.

    text → mark_profiled_cell → marker line + the user's lines, numbers kept
    tree → visit              → the session is made and puts its probe into the tree; nothing is patched yet
    run  → begin              → the marker line runs first and opens the session
    end  → on_post_run_cell   → closes it, whatever happened, and shows the profile after the cell's own output

The user's statements are IPython's to compile, run, display and report, so all that behaves as without accel. A nested
`shell.run_cell` would show a failing cell's traceback twice and give it another cell's numbers.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel.commands import parse
from accel.commands.line.result_name import check_result_name, put_result
from accel.current import existing_workbench
from accel.errors import AccelError
from accel.hooks.attribute_patches import repair_patches
from accel.measuring.progress import Beat, Progress
from accel.notebook.first_write import before_the_first_write
from accel.notebook.notebook_place import make_ready
from accel.notebook.page_news import toast_if_long
from accel.notebook.profiled_cell import Marker, marker_of, plain_python, show_as_typed
from accel.notebook.screen import Screen
from accel.shown import in_full
from accel.workload.generators import generators_kept

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.workbench import Workbench
    from accel.workbench.profile_session import ProfileSession


READY_AFTER_S = 0.5  # the panel's imports: by then a cell that follows at once, as in Run All, has begun


@dataclass
class _Prepared:
    """A profiled cell that was parsed: a session that may begin, or what is wrong with the request."""

    marker: Marker
    options: argparse.Namespace | None = None
    session: ProfileSession | None = None
    error: AccelError | None = None
    is_quiet: bool = False  # the magic's line ends with ";": the report is kept, and not shown


@dataclass
class _Running:
    options: argparse.Namespace
    session: ProfileSession
    depth: int
    is_quiet: bool
    screen: Screen
    beat: ExitStack  # a line each second, until the profile is there
    began: float = field(default_factory=time.monotonic)


class CellRunner:
    """Between one shell and its workbench; `visit`, `on_…` are called by IPython, `begin` by the magic."""

    def __init__(self, shell: InteractiveShell, workbench: Callable[[], Workbench]) -> None:
        self._shell, self._workbench = shell, workbench
        self._depth = 0  # cells can nest: %%capture runs its body as a cell of its own
        self._prepared: _Prepared | None = None
        self._running: _Running | None = None

    def visit(self, tree: ast.Module) -> ast.AST:
        """IPython's hook for syntax trees; it must not raise, or IPython would take it off for good."""
        marker = marker_of(tree)
        if marker is not None:
            self._prepared = _Prepared(marker)
            if self._running is None:
                return self._prepare(tree, self._prepared, show_as_typed(marker))
        elif self._running is not None:  # the body of %time or %%capture inside the cell
            return self._watched(tree, self._running.session)
        return self._as_kept(tree)

    def _as_kept(self, tree: ast.Module) -> ast.Module:
        """The cell as what is kept changes it."""
        from accel.workload.training_code import as_changed

        try:
            return as_changed(tree)
        except Exception as error:  # for the same reason as below; the cell runs as it is written
            warnings.warn(f"what is kept does not change this cell: {error!r}", stacklevel=2)
            return tree

    def _prepare(self, tree: ast.Module, prepared: _Prepared, filename: str) -> ast.Module:
        marker = prepared.marker
        try:
            if not marker.has_code:
                raise AccelError(
                    "%%accel profile",
                    because="the cell is empty",
                    do="Put %%accel profile on the first line of your training cell.",
                )
            command = self._shell.var_expand(marker.command).rstrip()
            prepared.is_quiet = command.endswith(";")
            prepared.options = parse(command.removesuffix(";"))
            source = plain_python(marker.body, self._shell.transform_cell)
            check_result_name(prepared.options.out, self._shell.user_ns, source)
            wanted = _wanted(prepared.options)
            session = self._workbench().begin_profile("\n" + marker.body, source, filename=filename, **wanted)
            transformed = session.transform(tree)
        except AccelError as error:
            prepared.error = error
            return tree
        except (
            Exception
        ) as error:  # whatever it is: raised from `visit` it would end all later profiles; `begin` shows it
            prepared.error = _cannot_be_read(prepared.marker, error)
            return tree
        prepared.session = session
        return transformed

    def _watched(self, tree: ast.Module, session: ProfileSession) -> ast.Module:
        try:
            return session.transform(tree)
        except (
            Exception
        ) as error:  # for the same reason; the nested cell runs all the same, only its loops are not seen
            warnings.warn(f"the loops of a nested cell are not in the profile: {error!r}", stacklevel=2)
            return tree

    def begin(self, line: str, cell: str) -> None:
        """The marker line runs: open the session; or say what is wrong, so that the rest of the cell does not run."""
        if self._running is not None:
            raise AccelError(
                "%%accel profile",
                because="this cell is being profiled already",
                do="Remove one of the two %%accel profile lines.",
            )
        prepared, self._prepared = self._prepared, None
        if prepared is None or prepared.marker.body != cell:
            self._run_whole(line, cell)
        elif prepared.error is not None:
            raise prepared.error
        elif prepared.session is not None and prepared.options is not None:
            screen = Screen(self._shell, stream=None if hasattr(self._shell, "kernel") else sys.stdout)
            beat = self._beating(screen, prepared.session)
            try:
                prepared.session.__enter__()
            except BaseException:
                beat.close()
                raise
            self._running = _Running(
                prepared.options, prepared.session, self._depth, prepared.is_quiet, screen, beat
            )

    def _beating(self, screen: Screen, session: ProfileSession) -> ExitStack:
        """What goes on, each second, from now until the stack is closed."""
        began, beat = time.monotonic(), ExitStack()

        def now() -> Progress:
            return Progress(str(Beat("Profile", session.now, time.monotonic() - began)))

        beat.enter_context(screen.beating(now))
        if not hasattr(self._shell, "kernel"):  # in a terminal the cell writes where it beats
            beat.enter_context(before_the_first_write(screen.hush))
        return beat

    def _run_whole(self, line: str, cell: str) -> None:
        """Code called `run_cell_magic("accel", "profile", …)` itself, as a notebook saved as a script does."""
        self._shell.run_cell(f"%%accel {line}\n{cell}").raise_error()

    def on_pre_run_cell(self, info: Any) -> None:
        """A cell, or one nested in a cell, begins."""
        is_outermost = not self._depth
        self._depth += 1
        workbench = existing_workbench()
        if workbench is not None:
            workbench.cells_run += 1
            if is_outermost:
                workbench.ranks.bring_home()  # a terminal has no loop that does it between two cells

    def on_post_execute(self) -> None:
        """A cell ended; silent cells tell nothing else, so theirs is closed here."""
        if self._running is not None and self._running.depth == 0:
            self._close(None)

    def on_post_run_cell(self, result: Any) -> None:
        """A cell ended, well or not: if it is the profiled one, close the session and show the profile."""
        if result is not None and result.info is not None and not result.info.raw_cell.strip():
            return  # IPython announces the end of an empty cell, but not its beginning
        depth, self._depth = self._depth, max(0, self._depth - 1)
        if self._running is not None and depth <= self._running.depth:
            self._show(self._running, result)
        if not self._depth:
            repair_patches()  # what this cell may have put back of an earlier run

    def _show(self, running: _Running, result: Any) -> None:
        from IPython.display import display

        error = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
        running.screen.hush(False)
        try:
            with running.beat, generators_kept():
                self._end_session(error)
                profile = running.session.finish()
        except AccelError as reason:
            if error is None and result is not None:
                self._fail(result, reason)
            return  # after the user's own error, that there is no profile either is no news
        if error is not None and not profile.steps:
            return
        if running.options.out:
            put_result(running.options.out, self._shell.user_ns, profile)
        toast_if_long(self._shell, "The profile", profile, time.monotonic() - running.began)
        if not running.is_quiet:
            display(in_full(profile) if running.options.full else profile)
        if (kernel := getattr(self._shell, "kernel", None)) is not None:
            kernel.io_loop.call_later(READY_AFTER_S, make_ready)  # while its user reads the report

    def _fail(self, result: Any, reason: AccelError) -> None:
        """The cell ran well and cannot be profiled: let it count as failed, so that Run All stops here."""
        try:
            raise reason
        except AccelError:
            self._shell.showtraceback()
        result.error_in_exec = reason

    def _close(self, error: BaseException | None) -> None:
        running = self._running
        self._end_session(error)
        if running is not None:
            running.beat.close()

    def _end_session(self, error: BaseException | None) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.session.__exit__(
                type(error) if error else None, error, error.__traceback__ if error else None
            )

    def close(self) -> None:
        """Forget what is prepared and close what runs; the extension is being unloaded."""
        self._prepared = None
        self._close(None)


def _wanted(options: argparse.Namespace) -> dict[str, Any]:
    """What of a parsed line is the profile's; the rest is the magic's."""
    return {name: getattr(options, name) for name in ("steps", "shapes", "stacks", "memory")}


def _cannot_be_read(marker: Marker, error: Exception) -> AccelError:
    """A body that is not Python, such as one below %%bash; IPython has no quarrel with it."""
    magic = marker.body.split(maxsplit=1)[0]
    because = f"the cell cannot be read as Python ({error})"
    if magic.startswith("%%"):
        because = f"this is a {magic} cell, and only Python can be profiled"
    refusal = AccelError(
        "%%accel profile", because=because,
        do="Remove the line %%accel profile, or put it on the first line of the Python cell that trains.",
    )  # fmt: skip
    refusal.__cause__ = error
    return refusal
