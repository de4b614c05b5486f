"""Objects are noticed when the cell uses them first, and not when somebody else does."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader

from accel.workload.discovery import Discovery


def test_what_is_used_while_it_is_paused_is_noticed_when_the_cell_uses_it():
    found = []
    judge, net = nn.Linear(2, 2), nn.Linear(2, 2)
    held_out, loader = DataLoader(torch.ones(4, 2)), DataLoader(torch.ones(4, 2))

    def use(model, batches):
        for batch in batches:
            model(batch)

    with Discovery(
        lambda replica: found.append([*replica.models.values(), *replica.loaders.values()][0]), known=[]
    ) as watch:
        with watch.paused():
            use(judge, held_out)
        assert found == []
        use(net, loader)
        assert found == [loader, net]
        use(net, held_out)  # the cell validates with it as well
    assert found == [loader, net, held_out]
