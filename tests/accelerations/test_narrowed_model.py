"""A model is cut down wholly or not at all, wherever an interrupt comes."""

from __future__ import annotations

import pytest
import torch
from small_training import bits, training, wiring

from accel.techniques.pruning import narrowed_model
from accel.techniques.pruning.choosing_filters import plan_pruning
from accel.techniques.pruning.narrowed_model import NarrowedModel


def interrupts(monkeypatch, after, is_half_done):
    """Let the `after`th replacement of a tensor raise."""
    plainly, count = narrowed_model._replace, iter(range(1000))

    def interrupted(tensor, data):
        if next(count) == after:
            if is_half_done:
                tensor.data = torch.empty(0, dtype=torch.float64)
            raise KeyboardInterrupt
        plainly(tensor, data)

    monkeypatch.setattr(narrowed_model, "_replace", interrupted)


each_moment = pytest.mark.parametrize(
    ("after", "is_half_done"), [(after, is_half) for after in (0, 1, 4, 9) for is_half in (False, True)]
)


@each_moment
def test_an_interrupt_while_it_is_cut_down_leaves_it_whole(after, is_half_done, monkeypatch):
    made = training(steps_before=1)
    before = bits(made), wiring(made)
    plan = plan_pruning(made.model, (torch.zeros(4, 3, 8, 8),), sparsity=0.5)
    narrowed = NarrowedModel(made.model)
    interrupts(monkeypatch, after, is_half_done)
    with pytest.raises(KeyboardInterrupt):
        narrowed.narrow(plan)
    narrowed.widen()
    assert (bits(made), wiring(made)) == before
    narrowed.narrow(plan)
    assert made.model[0].out_channels == 2
    narrowed.widen()
    assert (bits(made), wiring(made)) == before


@each_moment
def test_an_interrupt_while_it_is_widened_leaves_it_whole(after, is_half_done, monkeypatch):
    made = training(steps_before=1)
    before = bits(made), wiring(made)
    narrowed = NarrowedModel(made.model)
    narrowed.narrow(plan_pruning(made.model, (torch.zeros(4, 3, 8, 8),), sparsity=0.5))
    interrupts(monkeypatch, after, is_half_done)
    with pytest.raises(KeyboardInterrupt):
        narrowed.widen()
    assert (bits(made), wiring(made)) == before
