"""A layer as one writes it, "Linear(512→256)", turned into a module; numbers and words only, nothing is evaluated."""

from __future__ import annotations

import ast
import difflib
import re
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError

if TYPE_CHECKING:
    import torch

WRITTEN = re.compile(
    r"\s*(?:torch\.)?(?:nn\.)?(?P<name>[A-Za-z]\w*)\s*(?:\((?P<arguments>.*)\))?\s*", re.DOTALL
)
ARROW = re.compile(r"\s*(?:→|->)\s*")
CHANNELS = re.compile(r"(?:Conv|BatchNorm|InstanceNorm)")
FIRST_IS_WIDTH = re.compile(r"(?:Linear|(?:Conv|ConvTranspose|BatchNorm|InstanceNorm)[123]d|LayerNorm)$")
EXAMPLES = (
    "Write for example Linear(512→256), Linear(256), ReLU, Dropout(0.5) or Conv2d(64→64, 3, padding=1)."
)


def layer_of(written: str, output: torch.Tensor) -> torch.nn.Module:
    """The layer of that text, to be put after something that gives `output`.

    >>> import torch
    >>> layer_of("Linear(256)", torch.zeros(64, 512))
    Linear(in_features=512, out_features=256, bias=True)

    The number that `output` tells, inputs or channels, may be left out: Linear(256), Conv2d(→32, 3), BatchNorm2d. Raises
    AccelError for what is not a layer of torch.nn.
    """
    name, positional, keywords, is_open = read(written)
    kind = _class_named(name)
    if FIRST_IS_WIDTH.match(name) and (is_open or _leaves_width_out(name, positional, keywords)):
        positional = [_width(name, output), *positional]
    try:
        layer: torch.nn.Module = kind(*positional, **keywords)
    except (TypeError, ValueError, RuntimeError) as error:
        message = str(error).splitlines()[0]
        raise AccelError(
            f"The layer {written}", because=f"torch.nn.{name} refuses: {message}", do=EXAMPLES
        ) from error
    return layer


def read(written: str) -> tuple[str, list[Any], dict[str, Any], bool]:
    """Name, positional and keyword arguments, and whether an arrow begins them (the first number is left open).

    >>> read("Conv2d(→32, 3, padding=1)")
    ('Conv2d', [32, 3], {'padding': 1}, True)
    """
    found = WRITTEN.fullmatch(written)
    if found is None:
        raise AccelError(f"The layer {written!r}", because="it does not read as a layer", do=EXAMPLES)
    arguments = (found["arguments"] or "").strip()
    is_open = ARROW.match(arguments) is not None
    plain = ARROW.sub(", ", ARROW.sub("", arguments, count=1) if is_open else arguments)
    try:
        call = ast.parse(f"f({plain}\n)", mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError("these are not the arguments of one call")
        positional = [ast.literal_eval(argument) for argument in call.args]
        keywords = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise AccelError(
            f"The layer {written!r}",
            because="its arguments are not just numbers, words in quotes, True, False or None",
            do=EXAMPLES,
        ) from error
    return found["name"], positional, keywords, is_open


def _class_named(name: str) -> type[torch.nn.Module]:
    from torch import nn

    layers = {
        known: kind
        for known, kind in vars(nn).items()
        if isinstance(kind, type) and issubclass(kind, nn.Module)
    }
    if name not in layers:
        near = difflib.get_close_matches(name, layers, n=1, cutoff=0.5)
        suggestion = f"Did you mean {near[0]}? " if near else ""
        raise AccelError(f"The layer {name}", because=f"torch.nn has no {name}", do=suggestion + EXAMPLES)
    return layers[name]


def _leaves_width_out(name: str, positional: list[Any], keywords: dict[str, Any]) -> bool:
    if {"in_features", "in_channels", "num_features", "normalized_shape"} & set(keywords):
        return False
    return (
        not positional
        if "Norm" in name
        else name == "Linear" and len(positional) == 1 and "out_features" not in keywords
    )


def _width(name: str, output: torch.Tensor) -> int:
    return int(output.shape[1] if CHANNELS.match(name) else output.shape[-1])
