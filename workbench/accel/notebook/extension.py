"""What `%load_ext accel` puts into a shell, and `%unload_ext accel` takes out again, without a trace."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.current import current_workbench, work_in
from accel.distributed.cells.run_pages import show_runs_in
from accel.notebook.cell_runner import CellRunner
from accel.notebook.completion import add_completion, remove_completion
from accel.notebook.live_runs import LiveRuns
from accel.notebook.magics import AccelMagics
from accel.notebook.profiled_cell import mark_profiled_cell
from accel.workload.user_code import number_cells_by

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_loaded: dict[int, CellRunner] = {}
_ends: dict[int, list[Callable[[], None]]] = {}


def load(shell: InteractiveShell) -> None:
    """Register the magics, their completion and the cell runner; a second call starts over."""
    unload(shell)
    _warn_when_shadowed()
    work_in(shell.user_ns)
    runner = _loaded[id(shell)] = CellRunner(shell, current_workbench)
    shell.register_magics(AccelMagics(shell, current_workbench, runner))
    # Before IPython's own transformer of cell magics, which would hand us the cell as a string.
    shell.input_transformer_manager.line_transforms.insert(0, mark_profiled_cell)
    shell.ast_transformers.append(runner)
    for event, callback in _events(runner).items():
        shell.events.register(event, callback)
    add_completion(shell)
    _ends[id(shell)] = [show_runs_in(LiveRuns(shell)), number_cells_by(partial(_number_of_cell, shell))]


def unload(shell: InteractiveShell) -> None:
    """Undo `load`: what is kept is taken back, trials are stopped, nothing of ours stays registered."""
    runner = _loaded.pop(id(shell), None)
    if runner is None:
        return
    remove_completion(shell)
    for end in _ends.pop(id(shell)):
        end()
    for event, callback in _events(runner).items():
        shell.events.unregister(event, callback)
    shell.ast_transformers[:] = [known for known in shell.ast_transformers if known is not runner]
    transforms = shell.input_transformer_manager.line_transforms
    transforms[:] = [known for known in transforms if known is not mark_profiled_cell]
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("accel", None)
    magics = shell.magics_manager.registry.pop(AccelMagics.__name__, None)
    if magics is not None:
        magics.close()
    runner.close()
    work_in(None)


def _number_of_cell(shell: InteractiveShell, filename: str) -> str:
    """The number that stands beside the cell whose code has that name; "" when it is not this notebook's."""
    named = shell.compile.format_code_name(filename)
    return named[1].removeprefix("In[").removesuffix("]") if named else ""


def _events(runner: CellRunner) -> dict[str, Any]:
    return {
        "pre_run_cell": runner.on_pre_run_cell,
        "post_execute": runner.on_post_execute,
        "post_run_cell": runner.on_post_run_cell,
    }


def _warn_when_shadowed() -> None:
    """The registry has another project's `accel`; installed over ours, half of either would be imported."""
    imported = Path(sys.modules["accel"].__file__ or "").resolve()
    ours = Path(__file__).resolve().parent.parent / "__init__.py"
    if imported != ours:
        warnings.warn(
            f"`import accel` gives {imported}, not accel-workbench's {ours}. Remove the other one: "
            "pip uninstall accel, then pip install -e '.' in your clone of accel-workbench.",
            stacklevel=2,
        )
