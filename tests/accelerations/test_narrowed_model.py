"""A model is cut down wholly or not at all, wherever an interrupt comes."""

from __future__ import annotations

import pytest
import torch
from small_training import bits, training, wiring

from accel.accelerations import narrowed_model
from accel.accelerations.narrowed_model import NarrowedModel
from accel.accelerations.pruning_plan import plan_pruning


@pytest.mark.parametrize("first_half", [False, True], ids=["between two tensors", "inside one"])
@pytest.mark.parametrize("after", [0, 1, 4, 9])
def test_an_interrupt_while_it_is_cut_down_leaves_it_whole(after, first_half, monkeypatch):
    made = training(steps_before=1)
    before = bits(made), wiring(made)
    plan = plan_pruning(made.model, (torch.zeros(4, 3, 8, 8),), sparsity=0.5)
    plainly, count = narrowed_model._replace, iter(range(1000))

    def interrupted(tensor, data):
        if next(count) == after:
            if first_half:
                tensor.data = torch.empty(0, dtype=torch.float64)
            raise KeyboardInterrupt
        plainly(tensor, data)

    narrowed = NarrowedModel(made.model)
    monkeypatch.setattr(narrowed_model, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        narrowed.narrow(plan)
    narrowed.widen()
    assert (bits(made), wiring(made)) == before
    narrowed.narrow(plan)
    assert made.model[0].out_channels == 2
    narrowed.widen()
    assert (bits(made), wiring(made)) == before
