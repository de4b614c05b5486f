"""`%%accel ddp`: the cell's text goes to the ranks instead of the kernel; what rank 0 prints appears as if it had run here."""

from __future__ import annotations

import argparse
import ast
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel.distributed.ddp_run import DdpRun
from accel.distributed.lanes_view import LanesView
from accel.distributed.rank_page import RankLane
from accel.distributed.rank_prints import RankPrints
from accel.distributed.run_options import RunOptions
from accel.errors import AccelError
from accel.notebook.profiled_cell import WRAPPING_MAGIC, plain_python
from accel.notebook.waiting import SECONDS_BETWEEN_UPDATES
from accel.workbench.kept_ranks import DdpOptions, registered, write_out

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.workbench import Workbench


class RunInterrupted(KeyboardInterrupt):
    """The user stopped a run; the cell fails, but not with our frames."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class CellIsNotPython(Exception):
    """A mistake in the user's cell, told as Python tells it: without our frames."""

    def __init__(self, error: SyntaxError) -> None:
        super().__init__(f"{error.msg} (line {error.lineno} of the cell)")
        self.told = traceback.format_exception_only(SyntaxError(error.msg, ("<cell>", *error.args[1][1:])))

    def _render_traceback_(self) -> list[str]:
        return [line for part in self.told for line in part.rstrip().splitlines()]


def run_ddp_cell(
    shell: InteractiveShell, workbench: Workbench, line: str, options: argparse.Namespace, cell: str
) -> object:
    """Run a cell on ranks: its DdpResult when it is over, or the DdpRun at once with `--background`."""
    wanted = DdpOptions(
        n=options.n, threads=options.threads, backend=options.backend, gpus=options.gpus, all_output=options.all_output,
        run=RunOptions(**{name: value for name, value in vars(options).items() if name in RunOptions.__struct_fields__}),
    )  # fmt: skip
    source = _python(cell, shell.transform_cell)
    filename = registered(f"%%accel {line}\n{cell}", f"<cell {shell.execution_count} on ranks>")
    if not options.wait:
        return workbench.ranks.begin(source, wanted, filename=filename, on_over=_bring_home_when_idle(shell))
    prints = RankPrints(write_out, all_output=wanted.all_output)
    page = _LivePage(shell, wanted, is_warm=workbench.ranks.is_warm_for(wanted))

    def look(lanes: tuple[RankLane, ...]) -> None:
        prints.show()
        page.draw(lanes)

    try:
        result = workbench.ranks.run(source, wanted, filename=filename, on_print=prints.take, show=look)
    except KeyboardInterrupt:
        page.end("Interrupted")
        raise RunInterrupted("all ranks were ended; your objects are as they were.") from None
    except BaseException:
        page.end("Failed")
        raise
    finally:
        prints.end()
    page.end("Done")
    return result


def _python(cell: str, transform_cell: Callable[[str], str]) -> str:
    """The cell as Python; its first line is blank, so that lines keep their numbers."""
    first = next((line for line in cell.splitlines() if line.strip()), "")
    if first.lstrip().startswith("%%") and not WRAPPING_MAGIC.match(first):
        raise AccelError(
            "%%accel ddp",
            because=f"the cell below is one of {first.split()[0]}, and only Python can be trained on ranks",
            do="Take one of the two lines off.",
        )
    try:
        source = plain_python(cell, transform_cell)
        tree = ast.parse(source)
        compile(tree, "<cell>", "exec")
    except SyntaxError as error:
        raise CellIsNotPython(error) from None
    if not tree.body:
        raise AccelError(
            "%%accel ddp",
            because="the cell is empty",
            do="Put it on the first line of your training cell.",
        )
    return source


def _bring_home_when_idle(shell: InteractiveShell) -> Callable[[DdpRun], object]:
    """The trained state is put into the notebook's objects between two cells, never beside one that uses them."""

    def over(run: DdpRun) -> None:
        kernel: Any = getattr(shell, "kernel", None)
        if kernel is not None:
            kernel.io_loop.add_callback(run.bring_home)

    return over


class _LivePage:
    """The lanes, redrawn in place in a notebook; in a terminal one line at the beginning."""

    def __init__(self, shell: InteractiveShell, options: DdpOptions, *, is_warm: bool) -> None:
        self._is_notebook = hasattr(shell, "kernel")
        self._ranks = f"{options.n} rank{'s' if options.n > 1 else ''}"
        self._began = self._drawn = time.monotonic()
        self._screen: Any = None
        self._lanes: tuple[RankLane, ...] = ()
        begins = "Training on" if is_warm else "Starting"
        later = "" if is_warm else " They stay warm for the next run."
        self._show(LanesView(f"{begins} {self._ranks}. Interrupt stops it.{later}"))

    def draw(self, lanes: tuple[RankLane, ...]) -> None:
        """Draw, but not more than a few times a second."""
        self._lanes, now = lanes, time.monotonic()
        if self._is_notebook and now - self._drawn >= SECONDS_BETWEEN_UPDATES:
            self._drawn = now
            self._show(
                LanesView(f"Training on {self._ranks}, {now - self._began:.0f} s. Interrupt stops it.", lanes)
            )

    def end(self, how: str) -> None:
        """It is over; the result itself is the value of the cell."""
        if self._is_notebook:
            line = f"{how} on {self._ranks} after {time.monotonic() - self._began:.0f} s."
            self._show(LanesView(line, () if how == "Done" else self._lanes))

    def _show(self, view: LanesView) -> None:
        from IPython.display import display

        if not self._is_notebook:
            print(view.line)
        elif self._screen is None:
            self._screen = display(view, display_id=True)
        else:
            self._screen.update(view)
