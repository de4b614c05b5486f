"""What another seed of a training starts from."""

from __future__ import annotations

import torch
from torch import nn

from accel.workload.new_weights import give_new_weights, layers_that_keep
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


def test_a_seed_gives_the_same_weights_again_and_another_seed_others():
    (one, _), (two, _), (three, _) = trained(), trained(), trained()
    give_new_weights(Replica(models={"model": one}), seed=1)
    give_new_weights(Replica(models={"model": two}), seed=1)
    give_new_weights(Replica(models={"model": three}), seed=2)
    weights = [model.body[0].weight for model in (one, two, three)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(one.attention.in_proj_weight, two.attention.in_proj_weight)


def test_averages_begin_anew_and_frozen_layers_stay():
    model, optimizer = trained()
    frozen = model.frozen.weight.clone()
    parameters, attention = list(model.parameters()), model.attention.in_proj_weight.clone()
    give_new_weights(Replica(models={"model": model}, optimizers={"optimizer": optimizer}), seed=1)
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
