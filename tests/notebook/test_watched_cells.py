"""`%accel monitor` in a notebook: one at a time, told of cells, and gone with the extension."""

from __future__ import annotations

import threading

import pytest

from accel.errors import AccelError


@pytest.fixture
def notebook(shell):
    """The shell as a kernel has it."""
    shell.kernel = object()
    yield shell
    shell.run("%unload_ext accel")
    del shell.kernel


def threads() -> int:
    return sum(each.name == "accel telemetry" for each in threading.enumerate())


def test_a_summary_can_be_of_one_cell(notebook):
    assert notebook.run("%accel monitor -o load").success
    notebook.run("total = sum(range(2_000_000))")
    number = notebook.execution_count - 1
    notebook.run("pass")
    load = notebook.user_ns["load"]
    assert list(load.cells)[-2:] == [number, number + 1]
    summary = load.summary(cell=number)
    began, ended = load.cells[number]
    assert summary.seconds == pytest.approx(ended - began)
    assert summary["process_cores"].mean > 0
    with pytest.raises(AccelError, match=rf"cell of that number.*{number}"):
        load.summary(cell=number + 100)


def test_a_cell_that_runs_another_is_told_from_its_own_beginning(notebook):
    assert notebook.run("%accel monitor -o load").success
    number = notebook.execution_count
    notebook.run("get_ipython().run_cell('began_s = __import__(\"time\").monotonic()', store_history=False)")
    began, ended = notebook.user_ns["load"].cells[number]
    assert began < notebook.user_ns["began_s"] < ended


def test_run_again_it_leaves_one_thread_and_unloading_leaves_none(notebook):
    callbacks = {event: list(known) for event, known in notebook.events.callbacks.items()}
    assert threads() == 0
    for _ in range(3):
        assert notebook.run("%accel monitor -o load").success
        assert threads() == 1
    notebook.run("%accel monitor --every 0")  # refused: the one that there is goes on
    assert threads() == 1
    first = notebook.user_ns["load"]
    assert notebook.run("%unload_ext accel").success
    assert threads() == 0
    assert first.summary().samples > 0
    left = {event: list(known) for event, known in notebook.events.callbacks.items()}
    assert all(set(map(id, left[event])) <= set(map(id, callbacks[event])) for event in left)
