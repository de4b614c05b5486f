"""What another seed of a training starts from."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader

from accel.workload.new_weights import give_new_weights, layers_that_keep, seed_generators
from accel.workload.replica import Replica


class Scaled(nn.Module):
    """A model with a parameter of its own, which nothing can initialise anew."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 8))
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        return self.frozen(self.body(x)) * self.scale


def trained():
    torch.manual_seed(3)
    model = Scaled()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 1, 8, 8)).sum().backward()
    optimizer.step()
    return model, optimizer


def begin_anew(model, seed):
    replica = Replica(models={"model": model})
    seed_generators(replica, seed)
    give_new_weights(replica)


def test_a_seed_gives_the_same_weights_again_and_another_seed_others():
    (one, _), (two, _), (three, _) = trained(), trained(), trained()
    begin_anew(one, seed=1)
    begin_anew(two, seed=1)
    begin_anew(three, seed=2)
    weights = [model.body[0].weight for model in (one, two, three)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(one.attention.in_proj_weight, two.attention.in_proj_weight)


def test_averages_begin_anew_and_frozen_layers_stay():
    model, optimizer = trained()
    frozen = model.frozen.weight.clone()
    parameters, attention = list(model.parameters()), model.attention.in_proj_weight.clone()
    give_new_weights(Replica(models={"model": model}, optimizers={"optimizer": optimizer}))
    assert torch.equal(model.frozen.weight, frozen)
    assert torch.equal(model.body[1].running_mean, torch.zeros(4))
    assert not torch.equal(model.attention.in_proj_weight, attention)
    assert len(optimizer.state) == 0
    assert all(map(lambda a, b: a is b, parameters, model.parameters()))


def test_layers_that_keep_their_weights_are_named():
    model, _ = trained()
    assert layers_that_keep(model) == ["Scaled"]
    nn.utils.parametrizations.weight_norm(model.body[3])
    assert "body.3" in layers_that_keep(model)


def test_a_seed_gives_the_batches_of_a_loader_with_its_own_generator_another_order():
    def order(seed):
        loader = DataLoader(
            range(50), batch_size=None, shuffle=True, generator=torch.Generator().manual_seed(9)
        )
        seed_generators(Replica(loaders={"loader": loader}), seed)
        return [int(sample) for sample in loader]

    assert order(1) == order(1) != order(2)
