"""One long-lived notebook that all cells go through, one after the other: profile, try, keep and undo, keep, export, ranks."""

from __future__ import annotations

import atexit
import io
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import torch
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from accel.current import current_workbench
from accel.errors import AccelError
from accel.exporting.whole_script import without_magics
from tests.cells.cell import COMMANDS, EARLIER, Cell
from tests.cells.plain_process import PlainProcess, numbers_of
from tests.cells.quick_trial import try_quickly

Numbers = list[list[float]]


class Wrong(Exception):
    """A command that answered, and did not answer the truth."""


class QuietShell(InteractiveShell):
    """IPython that prints no tracebacks."""

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        pass


class CellNotebook:
    """Runs cells of the corpus and says what became of each command.

    >>> with a_notebook() as notebook:
    ...     notebook.outcomes(cell)
    {'profile': 'ok', 'try': 'ok', 'undo': 'ok', 'keep': 'ok', 'export': 'ok', 'ddp': 'refused: …'}
    """

    def __init__(self, shell: QuietShell, plain: PlainProcess, whole_trials: bool) -> None:
        self._shell, self._plain, self._whole_trials = shell, plain, whole_trials

    def outcomes(self, cell: Cell) -> dict[str, str]:
        """What became of each command, in the order in which a user gives them."""
        self._cell = cell
        self.told: dict[str, str] = {}  # tracebacks of what should raise nothing, by command
        return {command: self._outcome(command) for command in COMMANDS}

    def _outcome(self, command: str) -> str:
        wanted = self._cell.refused.get(command)
        try:
            getattr(self, f"_{command}")(self._cell)
        except AccelError as refusal:
            fits = wanted is not None and wanted in str(refusal)
            return f"refused: {refusal}" if fits else f"WRONG: refused: {refusal}"
        except Wrong as wrong:
            return f"WRONG: {wrong}"
        except Exception as error:
            self.told[command] = traceback.format_exc()
            return f"WRONG: {type(error).__name__}: {error}"
        return "ok" if wanted is None else f"WRONG: was not refused for {wanted!r}"

    # --- what a user types ------------------------------------------------------------------------------------------

    def run(self, text: str) -> Any:
        """What a cell gives."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            result = self._shell.run_cell(text, store_history=True)
        result.raise_error()
        return result.result

    def begin(self) -> None:
        """A notebook in which nothing ran."""
        self.run("%accel undo")
        self._shell.reset(new_session=False)
        del self._shell.history_manager.input_hist_parsed[1:]
        torch.set_num_threads(1)

    @property
    def names(self) -> dict[str, Any]:
        """The notebook's namespace."""
        return self._shell.user_ns

    def _start(self, cell: Cell) -> None:
        self.begin()
        self.run(EARLIER + cell.earlier)

    def _weights(self) -> Numbers:
        return numbers_of(self._shell.user_ns, self._cell.weights)

    def _profile(self, cell: Cell) -> None:
        self._start(cell)
        self.run(f"%%accel profile\n{cell.cell}")
        truth = self._truth([cell.plain])[0]
        _equal("weights after the profile", self._weights(), truth)
        workbench = current_workbench()
        profile, workload = workbench.profile_result, workbench.workload
        assert profile is not None
        assert workload is not None
        seen: dict[str, set[str]] = {}
        for role in workload.roles:
            seen.setdefault(role.kind, set()).add(role.name)
        phases = {phase.name for phase in profile.phases if not phase.is_gap}
        _same("steps", workload.steps, cell.steps)
        _same("samples", workload.samples_per_step, cell.samples)
        _same("phases", phases, set(cell.phases.split()))
        _same("roles", seen, cell.role_names)

    def _try(self, cell: Cell) -> None:
        if self._whole_trials:
            ladder = self.run(f"%accel try '{cell.plan}' --budget-s 5")
            if "unchanged" not in ladder.unchanged_line:
                raise Wrong(ladder.unchanged_line)
            proofs = ladder.rows[0].proofs
        else:
            samples = try_quickly(current_workbench(), cell.plan)
            proofs = samples[cell.plan].proofs
            counted = samples["baseline"].every_step_samples
            _same("samples of a step in a worker", max(counted), cell.samples or max(counted))
        _took_effect(proofs)

    def _undo(self, cell: Cell) -> None:
        self.run(f"%accel keep '{cell.plan}'")
        status = self.run("%accel undo")
        _same("kept after undo", status.kept, "nothing")
        self.run(cell.cell)
        _equal("weights after keep, undo and a run", self._weights(), self._truth([cell.plain] * 2)[1])

    def _keep(self, cell: Cell) -> None:
        self.run(f"%accel keep '{cell.plan}'")
        self.run(cell.cell)
        _took_effect(self.run("%accel status").proofs)

    def _export(self, cell: Cell) -> None:
        export = self.run("%accel export")
        if not export.is_complete:
            raise AccelError("%accel export", because=export.notes[0].reason, do=export.notes[0].lines)
        code = "\n".join(line for line in export.code.splitlines() if not line.startswith("%"))
        truth = self._truth([cell.plain, cell.plain, code])[2]
        _equal("weights of the exported cell", self._weights(), truth)

    def _script(self, cell: Cell) -> None:
        export, made = self.run("%accel export"), self.run("%accel export --to script")
        code = without_magics(export.code)
        truth = self._truth([code])[0]
        (own,) = self._plain.run(["pass", made.code], cell.weights)[1:]
        _equal("weights of the program", own, truth)

    def _ddp(self, cell: Cell) -> None:
        self._start(cell)
        result = self.run(f"%%accel ddp -n 2 --timeout-s 60 {cell.ddp}\n{cell.cell}")
        if "global" in cell.ddp and "optimizer" in cell.phases:
            _same("steps of ranks", result.steps, cell.steps)
        truth, own = self._truth([cell.plain])[0], self._weights()
        self.check = result.first_step
        if self.check is not None and self.check.verdict == "different" and not cell.differs:
            raise Wrong(f"a false alarm: {self.check.line}")
        if cell.differs:
            _trained(own, self._truth(["pass"])[0])
        else:
            _near("weights after ddp", own, truth, cell.near)

    def _truth(self, sources: list[str]) -> list[Numbers]:
        return self._plain.run([EARLIER + self._cell.earlier, *sources], self._cell.weights)[1:]


@contextmanager
def a_notebook(*, whole_trials: bool = False) -> Iterator[CellNotebook]:
    """A shell with the extension, and a process without it."""
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = QuietShell.instance(config=config)
    shell.display_pub = CapturingDisplayPublisher()
    threads = torch.get_num_threads()
    shell.run_line_magic("load_ext", "accel")
    try:
        with PlainProcess() as plain:
            yield CellNotebook(shell, plain, whole_trials)
    finally:
        shell.run_line_magic("unload_ext", "accel")
        torch.set_num_threads(threads)
        InteractiveShell.clear_instance()
        atexit.unregister(shell.atexit_operations)


def _same(what: str, seen: object, truth: object) -> None:
    if seen != truth:
        raise Wrong(f"{what}: {seen} instead of {truth}")


def _took_effect(proofs: tuple[tuple[str, bool, str], ...]) -> None:
    if not proofs or not all(took_effect for _, took_effect, _ in proofs):
        raise Wrong(f"no effect: {proofs}")


def _equal(what: str, seen: Numbers, truth: Numbers) -> None:
    if seen != truth:
        raise Wrong(f"{what}: {_distance(seen, truth):.1e} off")


def _near(what: str, seen: Numbers, truth: Numbers, near: float) -> None:
    distance = _distance(seen, truth)
    if not distance <= near:
        raise Wrong(f"{what}: {distance:.1e} off")


def _trained(seen: Numbers, before: Numbers) -> None:
    if not _distance(seen, before) > 0:
        raise Wrong("nothing was trained")


def _distance(seen: Numbers, truth: Numbers) -> float:
    pairs = zip(seen, truth, strict=True)
    return max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))
