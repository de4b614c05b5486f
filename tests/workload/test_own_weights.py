"""From which models new weights may be drawn by torch's own initialisation, as far as their code tells."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accel.labs.models import CNN
from accel.workload.new_weights import why_weights_are_own


class Gpt(nn.Module):
    """Sets the weights of all its layers itself."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.apply(self._set)

    def _set(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, 0.02)


class Noisy(nn.Module):
    """Draws noise in its forward, and its first weights by torch's own initialisation."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x + torch.empty_like(x).normal_())


class Drawn(nn.Module):
    """A layer of the user's own that can be drawn anew."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4, 4))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.orthogonal_(self.weight)


@pytest.mark.parametrize(
    "model",
    [
        CNN(),
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)),
        nn.TransformerEncoderLayer(8, 2),
        Noisy(),
        Drawn(),
    ],
)
def test_models_of_torchs_own_layers_may_be_drawn_anew(model):
    assert why_weights_are_own([model], ["model = CNN()", "train(model)"]) == ""


def test_a_class_that_initialises_its_weights_is_named():
    assert why_weights_are_own([nn.Sequential(Gpt())]) == "Gpt initialises its weights itself"


def test_pretrained_models_of_torchvision_are_among_them():
    torchvision = pytest.importorskip("torchvision")
    assert "DenseNet initialises" in why_weights_are_own([torchvision.models.densenet121()])


def test_a_model_with_a_parameter_of_its_own_cannot_be_drawn_anew():
    model = nn.Linear(4, 4)
    model.register_parameter("scale", nn.Parameter(torch.ones(1)))
    assert why_weights_are_own([model]) == ""
    model = nn.Sequential(nn.Linear(4, 4))
    model.register_parameter("scale", nn.Parameter(torch.ones(1)))
    assert "Sequential" in why_weights_are_own([model])


def test_frozen_layers_do_not_matter_for_they_are_never_drawn_anew():
    assert why_weights_are_own([nn.Sequential(Gpt().requires_grad_(False), nn.Linear(4, 2))]) == ""


@pytest.mark.parametrize(
    "cell",
    [
        "model.load_state_dict(torch.load('weights.pt'))",
        "nn.init.normal_(model.weight)",
        "m.weight.data.normal_(0, 0.02)",
    ],
)
def test_a_cell_that_loads_or_sets_weights_is_a_reason(cell):
    assert why_weights_are_own([CNN()], ["import torch", cell]).startswith("a cell of your notebook has ")
