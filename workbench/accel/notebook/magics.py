"""`%accel` and `%%accel`: parse the line, call the engine, return its result."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from IPython.core.magic import Magics, line_cell_magic, magics_class

from accel.commands import COMMANDS, help_text, parse
from accel.commands.result_name import check_result_name, put_result
from accel.commands.running import run, run_without_notebook
from accel.errors import AccelError
from accel.machine.affinity import Affinity
from accel.machine.telemetry import Monitor, monitor
from accel.notebook.cell_runner import CellRunner, reject_line_profile
from accel.notebook.overview import Overview
from accel.notebook.profiled_cell import plain_python
from accel.notebook.waiting import search_with_progress, wait_with_progress
from accel.notebook.watched_cells import tell_cells
from accel.workload.generators import generators_kept

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.workbench import Workbench


@magics_class
class AccelMagics(Magics):  # type: ignore[misc]  # IPython is not followed
    def __init__(
        self, shell: InteractiveShell, workbench: Callable[[], Workbench], runner: CellRunner
    ) -> None:
        super().__init__(shell)
        self._workbench, self._runner = workbench, runner
        self._watching: Monitor | None = None
        self._stop_telling: Callable[[], None] = lambda: None

    def close(self) -> None:
        """End what goes on in the background."""
        if self._watching is not None:
            self._watching.close()
            self._stop_telling()
            self._watching = None

    @line_cell_magic  # type: ignore[untyped-decorator]
    def accel(self, line: str, cell: str | None = None) -> object:
        if cell is not None and line.split()[:1] == ["profile"] and not {"-h", "--help"} & set(line.split()):
            self._runner.begin(line, cell)
            return None
        with generators_kept():
            return self._answer(line, cell)

    def _python(self, cell: str) -> str:
        with suppress(SyntaxError):
            return plain_python(cell, self.shell.transform_cell)
        return ""  # a table, or what Python will refuse

    def _answer(self, line: str, cell: str | None) -> object:
        options = parse(line.rstrip().removesuffix(";"))
        if options.help:
            print(help_text(options.command))
            return None
        if cell is not None:
            _check_takes_cell(options.command)
            options.cell = cell
        if out := getattr(options, "out", None):  # help has none
            check_result_name(out, self.shell.user_ns, self._python(cell or ""))
        if cell is not None and options.command == "ddp":
            from accel.notebook.ddp_cell import run_ddp_cell  # loads what `%load_ext accel` must not

            result = run_ddp_cell(self.shell, self._workbench(), line, options, cell)
        elif options.command == "sweep":
            from accel.notebook.sweep_cell import run_sweep

            result = run_sweep(self.shell, self._workbench(), line, options, cell)
        else:
            result = self._result(options)
        if name := getattr(options, "out", None):
            put_result(name, self.shell.user_ns, result)
        if options.command == "ddp" and not options.wait and hasattr(self.shell, "kernel"):
            return result.panel()  # type: ignore[attr-defined]
        if isinstance(result, Affinity) and not result.told and hasattr(self.shell, "kernel"):
            return result.panel()  # live; a terminal shows the text
        return result

    def _result(self, options: argparse.Namespace) -> object:
        if options.command == "profile":
            reject_line_profile()
        if options.command == "panel":
            import accel_widgets

            return accel_widgets.panel_of(self._workbench())
        if options.command == "monitor" and hasattr(self.shell, "kernel"):
            return self._monitor(options)
        if options.command == "":
            return Overview.of(self._workbench())
        if options.command == "try":
            return wait_with_progress(self.shell, self._workbench(), options)
        if options.command == "batch":
            return search_with_progress(self.shell, self._workbench(), options)
        needs_workbench = next(known for known in COMMANDS if known.name == options.command).needs_notebook
        if needs_workbench or options.command in ("accelerations", "history"):
            return run(options, self._workbench())
        return run_without_notebook(options)

    def _monitor(self, options: argparse.Namespace) -> Monitor:
        """One is live at a time: a cell that is run again would otherwise leave a thread behind each time."""
        watching = monitor(options.seconds, every=options.every)
        self.close()
        self._watching, self._stop_telling = watching, tell_cells(self.shell, watching)
        return watching


AccelMagics.accel.__doc__ = "\n\n\n".join([help_text(), *(help_text(command.name) for command in COMMANDS)])


def _check_takes_cell(command: str) -> None:
    takers = [known.name for known in COMMANDS if known.takes_cell]
    if command not in takers:
        raise AccelError(
            f"%%accel {command}".rstrip(),
            because=f"only {', '.join(takers[:-1])} and {takers[-1]} take a cell",
            do=f"Write %accel {command}, with one %, on a line of its own.",
        )
