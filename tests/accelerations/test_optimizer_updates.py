"""Updates of an optimizer are counted by form; whoever covers torch's function meanwhile keeps it."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import adam

from accel.techniques.steps.optimizer_updates import updates_seen, watched_updates


def stepped(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()


def test_a_cover_of_someone_else_stays_and_what_lies_below_counts_no_more(monkeypatch):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    torchs, passed = adam._fused_adam, []
    monkeypatch.setattr(adam, "_fused_adam", torchs)  # as it was, when the test is over
    with watched_updates(optimizer):
        ours = adam._fused_adam

        def cover(*args, **kwargs):
            passed.append(1)
            return ours(*args, **kwargs)

        adam._fused_adam = cover
        stepped(optimizer, model)
        assert updates_seen(optimizer) == {"fused": 1}
    assert adam._fused_adam is cover
    stepped(optimizer, model)
    assert len(passed) == 2
    assert not updates_seen(optimizer)
    with watched_updates(optimizer):
        stepped(optimizer, model)
        assert updates_seen(optimizer) == {"fused": 1}
