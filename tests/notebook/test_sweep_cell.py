"""`%%accel sweep` in a real shell: rows as they fill, the table as the cell's value, and Interrupt keeps what is there."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import SimpleNamespace

from accel.current import current_workbench
from accel.measuring.sweep import Sweep
from accel.notebook.screen import Screen
from accel.notebook.sweep_cell import _LiveTable

SETUP = """
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=8, shuffle=True)
"""
LOOP = "for x, y in loader:\n    step(x, y)\n"


def test_a_cell_is_swept_without_a_profile_and_the_notebook_stays_as_it_was(shell, capsys) -> None:
    assert shell.run(SETUP).success
    weights = shell.user_ns["model"][0].weight.detach().clone()
    shown = shell.run(f"%%accel sweep --processes 1 --threads 1,512 --steps 5 -o table\n{LOOP}")
    assert shown.success, shell.tracebacks
    assert isinstance(shown.result, Sweep)
    assert shell.user_ns["table"] is shown.result
    measured, refused = shown.result.rows
    assert measured.runs[0].steps == 5
    assert "512" in refused.reason
    assert shown.result.quality_reason.startswith("Times only, no quality")
    assert "Run 1 of 1: 1 process × 1 thread" in capsys.readouterr().out
    assert shell.user_ns["model"][0].weight.equal(weights)


def test_without_a_cell_and_without_a_profile_it_says_what_to_do(shell) -> None:
    assert not shell.run("%accel sweep").success
    assert "Put %%accel sweep over your training cell" in shell.tracebacks[0]


def test_interrupt_keeps_the_rows_that_are_there(shell) -> None:
    """The first configuration ends with its cell; the second never would."""
    assert shell.run(SETUP).success
    shell.run("import os, itertools")
    cell = "import torch.distributed as dist\nfor _ in (range(1) if dist.get_world_size() == 1 else itertools.count()):\n"
    cell += "".join(f"    {line}\n" for line in LOOP.splitlines())
    over = threading.Event()

    def interrupt() -> None:
        ranks = current_workbench().ranks
        while not over.wait(0.05):
            if len(ranks.lanes) == 2 and ranks.lanes[0].step > 3:
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    try:
        shown = shell.run(f"%%accel sweep --processes 1,2 --threads 1\n{cell}")
    finally:
        over.set()
        watcher.join()
    assert shown.success, shell.tracebacks
    one, two = shown.result.rows
    assert (len(one.runs), len(two.runs)) == (1, 0)
    assert "Interrupted after 1 of 2 runs" in str(shown.result)
    assert not current_workbench().ranks.is_running


def test_interrupt_before_the_first_row_is_told_without_our_frames_even_if_a_finalizer_swallows_it(
    shell, monkeypatch
) -> None:
    class Swallowing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def draw(table: _LiveTable, sweep: Sweep, now: str) -> None:
        if ", step" in now:
            Swallowing()

    monkeypatch.setattr(sys, "unraisablehook", lambda lost: None)
    monkeypatch.setattr(_LiveTable, "draw", draw)
    assert shell.run(SETUP).success
    loop = LOOP.replace("\n", "\n    ")
    shown = shell.run(
        f"%%accel sweep --processes 1 --threads 1\nimport itertools\nfor _ in itertools.count():\n    {loop}\n"
    )
    assert not shown.success
    assert shell.tracebacks[-1] == (
        "KeyboardInterrupt: no run was over yet; all ranks were ended, and your objects are as they were."
    )


def test_a_sweep_that_never_began_shows_nothing_of_its_own(shell, capsys) -> None:
    _LiveTable(Screen(SimpleNamespace(kernel=True))).end("The sweep failed")
    assert capsys.readouterr().out == ""
    assert not shell.run("%accel sweep --processes ²").success
    assert "is no number from 1 on" in shell.tracebacks[-1]
