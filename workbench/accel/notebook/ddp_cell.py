"""`%%accel ddp`: the cell's text goes to the ranks instead of the kernel; what rank 0 prints appears as if it had run here."""

from __future__ import annotations

import argparse
import ast
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.jobs.cluster_asked import ASKED, cluster_asked
from accel.errors import AccelError
from accel.notebook.live_runs import LiveLanes, LiveRuns
from accel.notebook.profiled_cell import WRAPPING_MAGIC, left_out, plain_python
from accel.workbench.ddp_options import DdpOptions
from accel.workbench.kept_ranks import registered
from accel.workload.cell_code import compiled

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.notebook.screen import Screen
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
    shell: InteractiveShell, workbench: Workbench, line: str, options: argparse.Namespace, cell: str,
    screen: Screen | None = None,
) -> object:  # fmt: skip
    """Run a cell on ranks: its DdpResult when it is over, or the DdpRun at once with `--background`."""
    cluster = cluster_asked(**{name: getattr(options, name) for name in ASKED})
    wanted = DdpOptions(
        n=cluster.ranks if cluster is not None else options.n or 2, cluster=cluster,
        threads=options.threads, backend=options.backend, gpus=options.gpus, all_output=options.all_output,
        run=RunOptions(**{name: value for name, value in vars(options).items() if name in RunOptions.__struct_fields__}),
    )  # fmt: skip
    source = cell_as_python(cell, shell.transform_cell)
    filename = registered(f"%%accel {line}\n{cell}", f"<cell {shell.execution_count} on ranks>")
    if not options.wait:
        return workbench.ranks.begin(source, wanted, filename=filename, on_over=LiveRuns(shell).when_over)
    try:
        return workbench.ranks.run_printing(
            source, wanted, filename=filename, page=LiveLanes(shell, screen=screen)
        )
    except KeyboardInterrupt as error:
        raise RunInterrupted(str(error) or "all ranks were ended; your objects are as they were.") from None


def cell_as_python(cell: str, transform_cell: Callable[[str], str], asked: str = "%%accel ddp") -> str:
    """The cell as Python; its first line is blank, so that lines keep their numbers."""
    first = next((line for line in cell.splitlines() if line.strip()), "")
    if first.lstrip().startswith("%%") and not WRAPPING_MAGIC.match(first):
        raise AccelError(
            asked,
            because=f"this is a {first.split()[0]} cell, and ranks run only Python",
            do="Remove one of the two lines.",
        )
    try:
        source, strange = plain_python(cell, transform_cell), left_out(cell, transform_cell)
        tree = ast.parse(source)
        compiled(tree, "<cell>")
    except SyntaxError as error:
        raise CellIsNotPython(error) from None
    if not tree.body:
        raise AccelError(
            asked,
            because="the cell is empty",
            do=f"Put {asked} on the first line of your training cell.",
        )
    _say_what_is_left_out(strange, asked)
    return source


def _say_what_is_left_out(strange: list[str], asked: str) -> None:
    for line in strange:
        if line.startswith("%accel"):
            raise AccelError(
                asked,
                because=f"ranks run plain Python, and {line} works only in the notebook",
                do="Move that line to a cell of its own.",
            )
    if strange:
        print(f"Left out, as ranks run plain Python: {', '.join(strange)}")
