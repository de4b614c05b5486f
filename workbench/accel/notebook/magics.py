"""`%accel` and `%%accel`: parse the line, call the engine, return its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from IPython.core.magic import Magics, line_cell_magic, magics_class

from accel.commands import COMMANDS, command_named, help_on, parse
from accel.commands.line.result_name import check_result_name, put_result
from accel.commands.overview import Overview
from accel.errors import AccelError
from accel.notebook.cell_runner import CellRunner
from accel.notebook.notebook_place import NotebookPlace
from accel.notebook.page_news import toast_if_long
from accel.notebook.profiled_cell import plain_python
from accel.notebook.watched_cells import tell_cells
from accel.shown import in_full
from accel.workload.generators import generators_kept

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.machine.telemetry import Monitor
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
            print(help_on(options.command))
            return None
        if cell is not None:
            _check_takes_cell(options.command)
        if not options.command:
            return Overview.of(self._workbench())
        command, out = command_named(options.command), getattr(options, "out", None)  # help has none
        if out is not None:
            check_result_name(out, self.shell.user_ns, self._python(cell or ""))
        place = NotebookPlace(self.shell, self._workbench, line, cell, self._watch)
        began = time.monotonic()
        with place.beating(command.name) if command.beats else nullcontext():
            result = command.run(options, place)
        if command.beats:
            toast_if_long(self.shell, f"%accel {command.name}", result, time.monotonic() - began)
        if out is not None:
            put_result(out, self.shell.user_ns, result)
        if getattr(options, "full", False):
            result = in_full(result)
        return command.show(result, options) if command.show and hasattr(self.shell, "kernel") else result

    def _watch(self, watching: Monitor) -> None:
        """One is live at a time: a cell that is run again would otherwise leave a thread behind each time."""
        self.close()
        self._watching, self._stop_telling = watching, tell_cells(self.shell, watching)


AccelMagics.accel.__doc__ = "\n\n\n".join(
    str(help_on(topic)) for topic in (None, *(command.name for command in COMMANDS))
)


def _check_takes_cell(command: str) -> None:
    takers = [known.name for known in COMMANDS if known.takes_cell]
    if command not in takers:
        raise AccelError(
            f"%%accel {command}".rstrip(),
            because=f"only {', '.join(takers[:-1])} and {takers[-1]} take a cell",
            do=f"Write %accel {command}, with one %, on a line of its own.",
        )
