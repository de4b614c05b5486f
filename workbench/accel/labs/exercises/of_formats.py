"""Checks of mixed precision: the format for given values, a step under autocast, and a scaler for gradients in float16."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from accel.labs.exercises.seen import Figure, Seen, function_of, outcome, wrong_work
from accel.units import percent

STEPS, FOLLOWS = (
    12,
    0.05,
)  # steps that are compared; how far the loss may end from float32's, as a share of its fall
# Gradients of a training through a scaler: small ones, then some that grow until one overflows, and one that is no number.
SLOPES = (3e-9, 3e-9, 3e-9, 0.4, 40.0, 1e-3, 1e-3, math.nan, 1e-3, 1e-3, 1e-3, 3e-7)
SCALE, PATIENCE, CLOSE, LARGEST = 2.0**16, 3, 0.01, 65504.0


def narrow_format(function: object) -> Seen:
    """Whether function(values, most) gives the format of two bytes that errs less, and float32 where both err more than most.

    >>> narrow_format(lambda values, most: torch.bfloat16).passed
    False
    """
    asked = "The format of two bytes whose worst relative error is smaller; float32 where that is more than allowed."
    call, cases = function_of(function), _cases_of_values()
    for what, values, most in cases:
        errors = {dtype: _worst(values, dtype) for dtype in (torch.float16, torch.bfloat16)}
        best = min(errors, key=errors.__getitem__)
        right = best if errors[best] <= most else torch.float32
        given = outcome(call, values.clone(), most)
        if given != right:
            told = ", ".join(f"{_name(dtype)} errs by {100 * error:.2g} %" for dtype, error in errors.items())
            saw = f"For {what}, and at most {percent(most)}, your function gives {_name(given)}; {told}."
            hint = "Round to each format and back, and take the largest of |rounded − value| / |value|."
            if bool((values == 0).any()):
                hint = "0 / 0 is not a number, and no comparison with it holds. Leave zeros out."
            elif right is torch.float32:
                hint = "The better of both is not good enough here: compare its error with `most`."
            return Seen(False, saw, asked, {"case": what}, hint)
    return Seen(True, f"Right for {len(cases)} sets of values.", asked, {"cases": float(len(cases))})


def _cases_of_values() -> list[tuple[str, torch.Tensor, float]]:
    draw = torch.Generator().manual_seed(0)
    moderate = torch.rand(500, generator=draw) * 100 + 0.01
    tiny = 10 ** (-20 * torch.rand(500, generator=draw) - 8)
    return [
        ("values from 0.01 to 100", moderate, 0.01),
        ("values from 0.01 to 100", -moderate, 0.001),
        ("values from 1e-28 to 1e-8", tiny, 0.01),
        ("values from 1e-28 to 1e-8", tiny, 0.001),
        ("values up to 82,000", moderate * 820, 0.01),
        ("values with zeros among them", torch.cat([torch.zeros(3), moderate]), 0.001),
        ("1 and 1e-7", torch.tensor([1.0, 1.05e-7]), 0.01),
    ]


def _worst(values: torch.Tensor, dtype: torch.dtype) -> float:
    known = values[values != 0].double()
    return float(((known.to(dtype).double() - known) / known).abs().max())


def mixed_step(function: object) -> Seen:
    """Whether function(model, images, labels, optimizer, criterion) → loss computes in bfloat16, on float32 weights, and learns.

    >>> mixed_step(lambda model, images, labels, optimizer, criterion: criterion(model(images), labels)).passed
    False
    """
    asked = "Layers that compute in bfloat16; weights, gradients and loss in float32; a loss that follows float32."
    work = function_of(function)
    with torch.random.fork_rng(devices=[]):
        plain, _, _ = _train(_plain_step)
        trained = outcome(_train, work)
    if isinstance(trained, str):
        return Seen(False, f"Your step raises {trained}.", asked)
    mixed, formats, is_on = trained
    apart = abs(mixed[-1] - plain[-1]) / (plain[0] - plain[-1])
    figures: dict[str, Figure] = {what: ", ".join(sorted(each)) for what, each in formats.items()}
    figures |= {"loss": mixed[-1], "float32": plain[-1]}
    saw = f"Layers in {figures['layers']}, weights in {figures['weights']}, loss in {figures['loss in']}"
    hint = ""
    if formats["weights"] != {"float32"}:
        hint = "Leave the model as it is: a bfloat16 weight loses updates below 1/256 of it. autocast converts copies."
    elif formats["layers"] != {"bfloat16"}:
        hint = 'Put torch.autocast("cpu", torch.bfloat16) round the forward pass and the loss.'
    elif formats["loss in"] != {"float32"}:
        hint = "The loss is computed in bfloat16: take the criterion into the block too."
    elif is_on:
        saw, hint = f"{saw}; autocast is on in {' and '.join(sorted(is_on))}", "End the block after the loss."
    elif not apart <= FOLLOWS:
        saw = f"{saw}; after {STEPS} steps the loss is {mixed[-1]:.3f}, and {plain[-1]:.3f} in float32"
        hint = "Do all parts of a step, once each: clear the gradients, forward, loss, backward, update."
    return Seen(not hint, f"{saw}.", asked, figures, hint)


def _train(step: Callable[..., Any]) -> tuple[list[float], dict[str, set[str]], set[str]]:
    """Losses of some steps; the formats of layers, loss and weights; and where else autocast was on."""
    torch.manual_seed(0)
    first, last = nn.Linear(16, 64), nn.Linear(64, 4)
    model = nn.Sequential(first, nn.ReLU(), last)
    images = torch.randn(256, 16)
    labels = images[:, :4].argmax(1)
    optimizer, inner = torch.optim.SGD(model.parameters(), lr=0.5), nn.CrossEntropyLoss()
    formats: dict[str, set[str]] = {"layers": set(), "loss in": set(), "weights": set()}
    is_on: set[str] = set()

    def note(phase: str) -> None:
        if torch.is_autocast_enabled("cpu"):
            is_on.add(phase)

    for layer in (first, last):
        layer.register_forward_hook(lambda _, __, out: formats["layers"].add(_name(out.dtype)))
    first.weight.register_hook(lambda _: note("the backward pass"))  # type: ignore[no-untyped-call]

    def look(*_: object) -> None:
        note("the update")
        for each in model.parameters():
            formats["weights"] |= {_name(kept.dtype) for kept in (each, each.grad) if kept is not None}

    optimizer.register_step_pre_hook(look)

    def criterion(outputs: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = inner(outputs, wanted)
        formats["loss in"].add(_name(loss.dtype))
        return loss

    losses = [float(step(model, images, labels, optimizer, criterion).detach()) for _ in range(STEPS)]
    formats["weights"] |= {_name(each.dtype) for each in model.parameters()}
    return losses, formats, is_on


def _plain_step(model: Any, images: Any, labels: Any, optimizer: Any, criterion: Any) -> Any:
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


class _ThroughHalf(torch.autograd.Function):
    """Hands numbers on, and gradients back in float16, as a layer under autocast does."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.half().float()


def own_scaler(scaler: object) -> Seen:
    """Whether scaler(scale, patience).step(loss, optimizer) keeps small gradients, skips steps that overflow and finds its scale.

    >>> own_scaler(Scaler).passed
    False
    """
    asked = "True gradients in each update, none where one is infinite; half the scale then, twice after good steps."
    mine = outcome(function_of(scaler), SCALE, PATIENCE)
    if not hasattr(mine, "step") or not hasattr(mine, "scale"):
        because = mine if isinstance(mine, str) else "no step or no scale was found"
        raise wrong_work("a scaler", because, "Pass the class itself, with a method step and a value scale.")
    weights = [torch.zeros(4, requires_grad=True), torch.zeros(4, requires_grad=True)]
    optimizer, seen = torch.optim.SGD(weights, lr=1e-3), list[list[float]]()
    optimizer.register_step_pre_hook(lambda *_: seen.append([float(each.grad[0]) for each in weights]))  # type: ignore[index]
    scale, good = SCALE, 0
    for at, slope in enumerate(SLOPES, 1):
        slopes = (slope, 0.01 * slope)  # where the first gradient overflows, the second may be finite
        parts = [(_ThroughHalf.apply(w) * s).sum() for w, s in zip(weights, slopes, strict=True)]
        seen.clear()
        optimizer.zero_grad()
        raised = outcome(mine.step, parts[0] + parts[1], optimizer)
        good = good + 1 if slope * scale <= LARGEST else 0
        wanted = scale / 2 if good == 0 else 2 * scale if good % PATIENCE == 0 else scale
        saw, hint = _of_update(seen, slopes, is_good=good > 0)
        if isinstance(raised, str):
            saw, hint = f"your method raises {raised}", ""
        elif not saw and mine.scale != wanted:
            saw, hint = _of_scale(scale, wanted, mine.scale)
        if saw:
            return Seen(False, f"In step {at}, {saw}.", asked, {"slope": slope, "scale": scale}, hint)
        scale = wanted
    return Seen(True, f"Updates and scale are right in {at} steps.", asked, {"steps": float(at)})


def _of_update(seen: list[list[float]], slopes: tuple[float, float], *, is_good: bool) -> tuple[str, str]:
    """What is wrong with an update, and the hint for it; empty where nothing is."""
    if not is_good:
        hint = (
            "Look at all gradients before the optimizer does anything; if one is not finite, skip the update."
        )
        return ("a gradient was not finite, and the optimizer has stepped", hint) if seen else ("", "")
    if len(seen) != 1:
        return f"gradients are finite, and there were {len(seen)} updates", "A good step updates once."
    for found, slope in zip(seen[0], slopes, strict=True):
        if not abs(found / slope - 1) <= CLOSE:
            hint = "Divide by the scale that the loss was multiplied with, and before the optimizer steps."
            if found == 0:
                hint = "It was lost in float16. Multiply the loss by the scale before backward()."
            return f"the optimizer saw a gradient of {found:.3g}; the true one is {slope:.3g}", hint
    return "", ""


def _of_scale(before: float, wanted: float, found: object) -> tuple[str, str]:
    """What is wrong with the scale after a step, and the hint for it."""
    hint = f"Count good steps in a row. At {PATIENCE}, double the scale and count anew; one that is not finite ends the row."
    if wanted < before:
        hint = "A gradient was not finite: halve the scale for the next step."
    return f"the scale was {before:,.0f} and is {found} now; it has to be {wanted:,.0f}", hint


def _name(value: object) -> str:
    return str(value).removeprefix("torch.")
