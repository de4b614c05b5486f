"""`async_metrics` tried and kept as a user does; that the tensors lie on a GPU is all that is pretended."""

from __future__ import annotations

from dataclasses import replace

CELL = """
total = 0.0
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
"""


def as_on_a_gpu(workbench):
    found = workbench.workload
    workbench.workload = replace(
        found, reads_back=tuple(replace(read, device="cuda:0") for read in found.reads_back)
    )


def test_a_trial_runs_the_cell_without_waiting_and_its_losses_are_the_same(workbench):
    workbench.profile(CELL)
    (read,) = workbench.workload.reads_back
    assert (read.line, read.number, read.device) == (8, "float", "cpu")
    as_on_a_gpu(workbench)
    row = workbench.try_("async_metrics")["async_metrics"]
    assert str(row.quality).startswith("losses bit-equal")
    assert [(name, took) for name, took, _ in row.proofs] == [("async_metrics", True)]


def test_what_is_kept_changes_the_next_profiled_run_and_stays(workbench):
    workbench.profile(CELL)
    as_on_a_gpu(workbench)
    workbench.keep("async_metrics")
    workbench.profile(CELL)
    assert type(workbench.namespace["total"]) is float
    assert str(workbench.kept) == "async_metrics"
    assert "10 numbers" in str(workbench.status())
    workbench.undo()
    assert not workbench.kept
    workbench.namespace["seen"] = seen = []
    workbench.profile(CELL.replace("total +=", "seen.append(type(total)); total +="))
    assert set(seen) == {float}
