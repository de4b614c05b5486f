"""Checks of smaller models: filters that are gone, what a mask lets go, and when the work of pruning is earned back."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from accel.labs.exercises.seen import Figure, Seen, function_of, is_same, outcome, wrong_work
from accel.units import percent

MASKED = 0.2  # of a model's parameters: so many exact zeros come from masks, not from training
TRAINED = 0.25  # right of ten classes: below it there is nothing that a cut could lose
IMAGES = 2000
MASKS = 40


def smaller_model(
    whole: object,
    model: object,
    optimizer: object,
    held_out: Any,
    *,
    most_parameters: float,
    most_points: float,
) -> Seen:
    """Whether a model has so few of another's parameters, is nearly as often right, and is ready to train on.

    >>> smaller_model(whole, mine, my_optimizer, held_out, most_parameters=0.6, most_points=5).passed
    True
    """
    if not isinstance(whole, nn.Module) or not isinstance(model, nn.Module):
        raise wrong_work("a pruned model", "one of both is no model", "Pass the whole model, then yours.")
    if not isinstance(optimizer, Optimizer):
        raise wrong_work(
            "a pruned model", "the third value is no optimizer", "Pass the optimizer of your model."
        )
    before, count = _size(whole), _size(model)
    zeros = sum(int((each == 0).sum()) for each in model.parameters())
    reference, right = accuracy(whole, held_out), accuracy(model, held_out)
    asked = (
        f"At most {percent(most_parameters, 0)} of {before:,} parameters, at most {most_points:g} points of "
        "accuracy below the whole model, and an optimizer that trains what is left."
    )
    saw = (
        f"{count:,} parameters, {percent(count / before, 0)} of the whole model's; {percent(right)} of the held-out "
        f"images are right, {percent(reference)} with the whole model."
    )
    figures: dict[str, Figure] = {
        "parameters": float(count), "before": float(before), "accuracy": right, "accuracy_before": reference,
    }  # fmt: skip
    hint = ""
    if reference < TRAINED:
        hint = "The whole model has learnt next to nothing yet. Train it first."
    elif count > most_parameters * before:
        hint = "Take more filters out: the first linear layer has nearly all parameters, and loses inputs with them."
        if zeros > MASKED * count:
            saw += f" {zeros:,} parameters are zero."
            hint = "A mask leaves the tensors as large as before. Take the filters out."
    elif 100 * (reference - right) > most_points:
        hint = (
            "Filters that are left have to learn the part of those that are gone: train on for some epochs."
        )
    elif problem := _why_not_trainable(model, optimizer, held_out):
        saw, hint = f"{saw} {problem[0]}", problem[1]
    return Seen(not hint, saw, asked, figures, hint)


def accuracy(model: nn.Module, held_out: Any) -> float:
    """The share of held-out images that a model tells rightly, in evaluation mode.

    >>> accuracy(model, load_dataset("digits", train=False))
    0.92
    """
    images, labels = _batch(held_out, IMAGES)
    was_training = model.training
    try:
        with torch.no_grad():
            guessed = model.eval()(images).argmax(1)
    finally:
        model.train(was_training)
    return float((guessed == labels).double().mean())


def _size(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def _batch(held_out: Any, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    images = (held_out.images[:count].float() - held_out.mean) / held_out.deviation
    return images, held_out.labels[:count]


def _why_not_trainable(model: nn.Module, optimizer: Optimizer, held_out: Any) -> tuple[str, str] | None:
    """What was seen and what to do where the optimizer would not train the model; the model is left as it is."""
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    mine = list(model.parameters())
    of_mine = sum(id(each) in held for each in mine)
    if of_mine < len(mine):
        saw = f"The optimizer holds {of_mine} of its {len(mine)} tensors."
        return saw, "The cut made new parameters. Build an optimizer for them, and train with that."
    if not all(each.requires_grad for each in mine):
        return "Some of its parameters are frozen.", "Its parameters should require gradients."
    images, labels = _batch(held_out, 64)
    trained = copy.deepcopy(model)
    nn.functional.cross_entropy(trained(images), labels).backward()  # type: ignore[no-untyped-call]
    if not all(each.grad is not None for each in trained.parameters()):
        return "No gradient reaches some of its parameters.", "Every layer that is left should be in use."
    return None


def shape_left(function: object) -> Seen:
    """Whether function(mask) gives the shape that a masked weight of a linear layer has after compression.

    >>> shape_left(lambda mask: tuple(mask.shape)).passed
    False
    """
    work = function_of(function)
    asked = "The shape without the rows and the columns that are zero throughout, for any mask."
    for mask in _masks():
        right = (int(mask.any(1).sum()), int(mask.any(0).sum()))
        given = outcome(work, mask.clone())
        if not isinstance(given, (tuple, list, torch.Size)) or not is_same(tuple(given), right):
            picture = " / ".join("".join(str(int(each)) for each in row) for row in mask)
            saw = f"For the mask {picture} your function gives {given!r}."
            return Seen(False, saw, asked, {"mask": picture}, _hint_of_shape(mask, right))
    return Seen(True, f"Right for {MASKS} masks.", asked, {"masks": float(MASKS)})


def _masks() -> list[torch.Tensor]:
    """Some masks of different shapes: scattered zeros, corners, whole rows and columns."""
    scattered = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    corner = torch.ones(4, 4)
    corner[2:, 2:] = 0
    rows, columns = torch.ones(4, 4), torch.ones(4, 5)
    rows[1:3], columns[:, 3] = 0, 0
    found = [scattered, corner, rows, columns, torch.ones(4, 4).tril()]
    draw = torch.Generator().manual_seed(0)
    while len(found) < MASKS:
        high, wide = (int(torch.randint(2, 8, (), generator=draw)) for _ in range(2))
        mask = (torch.rand(high, wide, generator=draw) < 0.7).float()
        mask[torch.rand(high, generator=draw) < 0.3] = 0
        mask[:, torch.rand(wide, generator=draw) < 0.3] = 0
        found.append(mask)
    return found


def _hint_of_shape(mask: torch.Tensor, right: tuple[int, int]) -> str:
    if right == tuple(mask.shape):
        return "Each row and each column has a weight left here, so that nothing can go."
    if right[1] < mask.shape[1]:
        return "A column that is zero throughout belongs to an input that no output uses: it goes as well."
    return "A row that is zero throughout belongs to an output that is always zero: it goes."


def pays_off(function: object) -> Seen:
    """Whether function(cost, before, after) gives the number of epochs from which pruning is ahead; None where it never is.

    >>> pays_off(lambda cost, before, after: cost / (before - after)).passed
    False
    """
    work = function_of(function)
    asked = "The fewest whole pruned epochs that save at least the time that pruning took."
    draw = random.Random(0)
    cases = [(40.0, 12.0, 6.0), (12.0, 5.0, 4.0), (10.0, 5.0, 5.0), (10.0, 4.0, 5.0), (1.0, 10.0, 2.0)]
    cases += [(draw.uniform(1, 60), draw.uniform(5, 20), draw.uniform(1, 20)) for _ in range(20)]
    for cost, before, after in cases:
        right = math.ceil(cost / (before - after)) if before > after else None
        given = outcome(work, cost, before, after)
        if not is_same(given, right):
            times = f"Pruning takes {cost:.4g} s, an epoch {before:.4g} s before and {after:.4g} s after"
            hint = "Each pruned epoch saves the difference. Divide what pruning took by it, and round up."
            if right is None:
                hint = "Where an epoch is no shorter, nothing is ever earned back: give None."
            elif isinstance(given, float) and math.ceil(given) == right:
                hint = "Epochs come whole: round up."
            figures: dict[str, Figure] = {"cost": cost, "before": before, "after": after}
            return Seen(False, f"{times}: your function gives {given!r}.", asked, figures, hint)
    return Seen(True, f"Right for {len(cases)} cases.", asked, {"cases": float(len(cases))})
