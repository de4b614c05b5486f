"""Checks of smaller models: a model that was cut and trained on passes; masks, old optimizers and untrained cuts are named."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from accel.errors import AccelError
from accel.labs import load_dataset
from accel.labs.exercises.of_models import pays_off, shape_left, smaller_model

ASKED = {"most_parameters": 0.6, "most_points": 5.0}
DIGITS = load_dataset("digits", shape=(1, 8, 8))
HELD_OUT = load_dataset("digits", train=False, shape=(1, 8, 8))


class Small(nn.Module):
    """A convolution and a linear layer, so that tests train it in a moment."""

    def __init__(self, filters):
        super().__init__()
        self.conv = nn.Conv2d(1, filters, 3, padding=1)
        self.head = nn.Linear(filters * 16, 10)

    def forward(self, images):
        features = nn.functional.max_pool2d(torch.relu(self.conv(images)), 2)
        return self.head(features.flatten(1))


def train(model, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    images = (DIGITS.images.float() - DIGITS.mean) / DIGITS.deviation
    for _ in range(epochs):
        for start in range(0, len(images), 64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(
                model(images[start : start + 64]), DIGITS.labels[start : start + 64]
            )
            loss.backward()
            optimizer.step()
    return optimizer


def cut(model):
    """Half of the filters, those with the larger norms."""
    keep = model.conv.weight.detach().abs().sum((1, 2, 3)).topk(len(model.conv.weight) // 2).indices
    smaller = Small(len(keep))
    smaller.conv.weight.data = model.conv.weight.data[keep]
    smaller.conv.bias.data = model.conv.bias.data[keep]
    smaller.head.weight.data = model.head.weight.data.unflatten(1, (-1, 16))[:, keep].flatten(1)
    smaller.head.bias.data = model.head.bias.data.clone()
    return smaller


@pytest.fixture(scope="module")
def whole():
    torch.manual_seed(0)
    model = Small(32)
    model.optimizer = train(model, 4)
    return model


def test_a_model_that_was_cut_and_trained_on_passes(whole):
    mine = cut(whole)
    seen = smaller_model(whole, mine, train(mine, 3), HELD_OUT, **ASKED)
    assert seen.passed, seen
    assert seen.figures["parameters"] < 0.6 * seen.figures["before"]


def test_a_mask_is_told_from_a_cut(whole):
    mine = copy.deepcopy(whole)
    mine.head.weight.data[:, ::2] = 0
    seen = smaller_model(whole, mine, train(copy.deepcopy(mine), 0), HELD_OUT, **ASKED)
    assert not seen.passed
    assert "A mask leaves the tensors as large" in seen.hint


def test_a_small_cut_is_asked_for_more(whole):
    seen = smaller_model(whole, whole, whole.optimizer, HELD_OUT, **ASKED)
    assert not seen.passed
    assert "Take more filters out" in seen.hint


def test_a_cut_that_lost_what_was_learnt_has_to_train_on(whole):
    mine = Small(16)
    seen = smaller_model(whole, mine, torch.optim.Adam(mine.parameters()), HELD_OUT, **ASKED)
    assert not seen.passed
    assert "train on" in seen.hint


def test_an_optimizer_of_the_whole_model_is_found(whole):
    mine = cut(whole)
    train(mine, 3)
    seen = smaller_model(whole, mine, whole.optimizer, HELD_OUT, **ASKED)
    assert not seen.passed
    assert "holds 0 of its 4 tensors" in seen.saw
    assert "Build an optimizer" in seen.hint


def test_frozen_parameters_are_found(whole):
    mine = cut(whole)
    optimizer = train(mine, 3)
    mine.conv.weight.requires_grad_(False)
    seen = smaller_model(whole, mine, optimizer, HELD_OUT, **ASKED)
    assert not seen.passed
    assert "require gradients" in seen.hint


def test_a_whole_model_that_has_learnt_nothing_is_no_measure():
    torch.manual_seed(0)
    whole = Small(32)
    mine = cut(whole)
    seen = smaller_model(whole, mine, torch.optim.Adam(mine.parameters()), HELD_OUT, **ASKED)
    assert not seen.passed
    assert "Train it first" in seen.hint


def test_the_check_leaves_the_model_as_it_was(whole):
    mine = cut(whole)
    optimizer = train(mine, 3)
    optimizer.zero_grad()
    before = copy.deepcopy(mine.state_dict())
    smaller_model(whole, mine, optimizer, HELD_OUT, **ASKED)
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())
    assert all(each.grad is None for each in mine.parameters())
    assert mine.training


def test_other_work_than_models_is_refused(whole):
    with pytest.raises(AccelError, match="no model"):
        smaller_model(whole, 3, whole.optimizer, HELD_OUT, **ASKED)
    with pytest.raises(AccelError, match="no optimizer"):
        smaller_model(whole, whole, None, HELD_OUT, **ASKED)


def test_a_shape_without_empty_rows_and_columns_passes():
    assert shape_left(lambda mask: (int(mask.any(1).sum()), int(mask.any(0).sum()))).passed


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda mask: (int(mask.shape[0] * mask.mean()), mask.shape[1]), "nothing can go"),
        (lambda mask: (int(mask.any(1).sum()), mask.shape[1]), "an input that no output uses"),
        (lambda mask: (mask.shape[0], int(mask.any(0).sum())), "an output that is always zero"),
        (lambda mask: mask.no_such_thing, "nothing can go"),
    ],
    ids=["weights counted", "rows alone", "columns alone", "raises"],
)
def test_each_mistake_of_a_shape_has_its_hint(function, hint):
    seen = shape_left(function)
    assert not seen.passed
    assert hint in seen.hint


def epochs_until(cost, before, after):
    return math.ceil(cost / (before - after)) if before > after else None


def test_epochs_that_earn_the_cost_back_pass():
    assert pays_off(epochs_until).passed


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda cost, before, after: cost / before, "saves the difference"),
        (lambda cost, before, after: cost / (before - after) if before > after else None, "round up"),
        (lambda cost, before, after: round(cost / (before - after)) if before > after else None, "round up"),
        (lambda cost, before, after: math.ceil(cost / abs(before - after or 1)), "give None"),
    ],
    ids=["by the whole epoch", "not whole", "rounded down", "never"],
)
def test_each_mistake_of_a_break_even_has_its_hint(function, hint):
    seen = pays_off(function)
    assert not seen.passed
    assert hint in seen.hint


@pytest.mark.parametrize("check", [shape_left, pays_off])
def test_something_that_is_no_function_is_refused(check):
    with pytest.raises(AccelError, match="Pass the function itself"):
        check(3)
