"""What the notebook changed while ranks trained is reported by name; what accel itself puts off and on round a run is not."""

from __future__ import annotations

import torch

from accel.distributed.cells.changed_during_run import ChangedDuringRun


def _home() -> dict[tuple[str, ...], torch.Tensor]:
    with torch.inference_mode():
        features = torch.ones(2)  # counts no changes
    return {("weight",): torch.zeros(2), ("mean",): torch.zeros(2), ("features",): features}


def test_what_the_notebook_changed_and_the_run_replaced_is_named() -> None:
    home = _home()
    changes = ChangedDuringRun(home)
    changes.begin()
    home["weight",].add_(1)  # by a cell that trains while the run goes on
    changes.look()
    home["weight",].fill_(5)  # the state comes home
    home["mean",].fill_(5)
    assert changes.note.startswith("weight changed in the notebook")


def test_what_is_put_off_while_a_run_is_packed_and_brought_home_is_no_change() -> None:
    home = _home()
    changes = ChangedDuringRun(home)
    home["mean",].sub_(1)  # what is kept is put on again
    changes.begin()
    changes.look()
    home["mean",].add_(1)  # and off
    changes.look()
    home["mean",].fill_(5)
    assert changes.note == ""
