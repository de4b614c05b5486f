"""What is kept changes the code of cells that IPython runs, profiled or not, until it is undone."""

from __future__ import annotations

import pytest

from accel.workload.read_backs import ReadBack

CELL = """
total, kinds = 0.0, []
for x, y in batches:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
    kinds.append({watched})
"""
PLAIN = CELL.replace("    kinds.append({watched})\n", "")


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(ReadBack, "waits", True)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_kept_change_is_in_every_run_of_the_cell_until_undo(shell, capsys):
    assert shell.run("%%accel profile" + PLAIN).success
    assert shell.run("%accel keep async_metrics").success, shell.tracebacks
    assert shell.run(PLAIN).success
    assert type(shell.user_ns["total"]) is float
    shell.run("%accel status")
    assert "10 numbers were left on cpu" in capsys.readouterr().out
    assert shell.run("%%accel profile" + PLAIN).success
    shell.run("%accel status")
    assert "20 numbers were left on cpu" in capsys.readouterr().out
    assert shell.run("%accel undo").success
    watching = CELL.format(watched="type(total).__name__")
    assert shell.run(watching).success
    assert set(shell.user_ns["kinds"]) == {"float"}


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_cell_that_fails_shows_the_line_as_it_was_typed(shell):
    assert shell.run("%%accel profile" + PLAIN).success
    assert shell.run("%accel keep async_metrics").success
    assert not shell.run(PLAIN.replace("criterion(model(x), y)", "criterion(model(x), None)")).success
    (traceback,) = shell.tracebacks
    assert "loss = criterion(model(x), None)" in traceback
    assert type(shell.user_ns["total"]) is float
