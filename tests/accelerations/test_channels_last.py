"""Layouts that a model's forward or its memory do not allow are refused before anything is changed."""

from __future__ import annotations

import copy

import pytest
import torch
from small_training import training, workload_of
from torch import nn

from accel.accelerations.channels_last import ChannelsLast
from accel.machine import read_machine
from accel.workload import Replica
from accel.workload.call_inputs import CallInputs


class Viewing(nn.Module):
    def __init__(self, flattened):
        super().__init__()
        self.conv, self.linear, self.flattened = nn.Conv2d(3, 4, 3), nn.Linear(4 * 6 * 6, 5), flattened

    def forward(self, images):
        return self.linear(self.flattened(self.conv(images).relu()))


def reasons_against(model, inputs):
    made = workload_of(Replica(models={"model": model}), {"model": model}, inputs=inputs)
    return ChannelsLast().why_not(made, read_machine())


IMAGES = CallInputs.of_call(torch.ones(2, 3, 8, 8))


def test_a_view_of_a_convolution_is_refused_with_its_line_as_it_would_raise():
    model = Viewing(lambda features: features.view(features.size(0), -1))
    with ChannelsLast().apply(Replica(models={"model": model})), pytest.raises(RuntimeError, match="view"):
        model(torch.ones(2, 3, 8, 8))
    (reason,) = reasons_against(model, IMAGES)
    assert "test_channels_last.py" in str(reason)
    assert reason.do.endswith("Write .flatten(1) or .reshape() instead of .view() there.")


@pytest.mark.parametrize(
    "flattened",
    [
        lambda features: features.flatten(1),
        lambda features: features.reshape(features.size(0), -1),
        lambda features: features.contiguous().view(features.size(0), -1),
        lambda features: features.flatten(1 if features.sum() > 1e9 else -3),
    ],
    ids=["flatten", "reshape", "contiguous", "what the data decide"],
)
def test_a_forward_that_runs_in_this_layout_is_not_refused(flattened):
    assert reasons_against(Viewing(flattened), IMAGES) == []


def test_a_forward_that_was_mended_meanwhile_is_asked_again():
    model = Viewing(lambda features: features.view(features.size(0), -1))
    assert reasons_against(model, IMAGES)
    model.forward = lambda images: model.linear(model.conv(images).flatten(1))
    assert reasons_against(model, IMAGES) == []


def test_asking_leaves_the_model_its_buffers_and_the_random_numbers_alone():
    made = training()
    made.model.insert(2, nn.Dropout(0.5))
    before, random_state = copy.deepcopy(made.model.state_dict()), torch.get_rng_state()
    assert ChannelsLast().why_not(made.workload(), read_machine()) == []
    assert all(torch.equal(before[name], now) for name, now in made.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)


def of_one_buffer(model):
    """Its weights as views of one flat tensor, as some optimizers and sharded trainings have them."""
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    start = 0
    for parameter in model.parameters():
        parameter.data = flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    return flat


def test_weights_that_share_their_memory_are_refused_and_left_alone():
    flat_model, shared_model = Viewing(lambda f: f.flatten(1)), Viewing(lambda f: f.flatten(1)).share_memory()
    flat = of_one_buffer(flat_model)
    for model, words in ((flat_model, "parts of a larger tensor"), (shared_model, "shared memory")):
        (reason,) = reasons_against(model, IMAGES)
        assert words in str(reason)
        with ChannelsLast().apply(Replica(models={"model": model})):  # as for one that the cell builds
            model.conv.weight.data.fill_(3)
            assert not ChannelsLast().took_effect(Replica(models={"model": model})).took_effect
    assert (flat[: 4 * 3 * 9] == 3).all()
    assert shared_model.conv.weight.is_shared()


def test_a_model_that_a_cell_builds_channels_last_is_said_to_be_so_already():
    made = training()
    made.model.to(memory_format=torch.channels_last)
    with ChannelsLast().apply(made.replica()):
        made.epochs()
        proof = ChannelsLast().took_effect(made.replica())
    assert not proof.took_effect
    assert "already" in proof.evidence
