"""Layers that can do without their bias: which they are, and which of them stand before a BatchNorm.

Plain PyTorch, for exported code carries these lines where the notebook holds no model to name the layers of. Only
`bias_off` needs this file, and imports it when it does, for it loads torch.
"""

from __future__ import annotations

import contextlib
import inspect
import io
from typing import Any

import torch

from accel.techniques.model.bare_copy import bare_copy


def layers_with_bias(model: torch.nn.Module) -> dict[str, Any]:
    """Layers of torch's own, by name, whose bias is an ordinary parameter that their class does not insist on.

    >>> list(layers_with_bias(cnn))
    ['conv1', 'conv2', 'linear1', 'linear2']
    """
    from torch import nn

    kinds: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    kinds += (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    closed = (nn.MultiheadAttention, nn.TransformerEncoderLayer)  # their fast paths read it
    inside = {part for module in model.modules() if isinstance(module, closed) for part in module.modules()}
    forwards = {kind.forward for kind in kinds}
    found = {}
    for name, module in model.named_modules():
        is_torchs_own = isinstance(module, kinds) and type(module).forward in forwards
        if is_torchs_own and module not in inside and module._parameters.get("bias") is not None:
            found[name] = module
    return found


def norms_behind(model: torch.nn.Module) -> dict[str, str]:
    """Each layer whose output goes into a BatchNorm of its width and nowhere else, with that, by their names.

    A copy of the model is followed by torch.fx; raises whatever its forward raises when it meets symbols for numbers.

    >>> norms_behind(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)))
    {'0': '1'}
    """
    from torch import fx
    from torch.nn.modules.batchnorm import _BatchNorm

    copied = bare_copy(model)
    with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
        graph = fx.Tracer().trace(copied)
    calls = [node for node in graph.nodes if node.op == "call_module"]
    targets = [node.target for node in calls]
    found = {}
    for node in calls:
        layer, users = copied.get_submodule(node.target), list(node.users)
        if len(users) == 1 and users[0].op == "call_module" and targets.count(node.target) == 1:
            norm = copied.get_submodule(users[0].target)
            width = getattr(layer, "out_channels", getattr(layer, "out_features", None))
            if isinstance(norm, _BatchNorm) and norm.num_features == width:
                found[node.target] = users[0].target
    return {layer: norm for layer, norm in found.items() if list(found.values()).count(norm) == 1}


def biased_layers(model: torch.nn.Module, scope: str) -> dict[str, tuple[Any, Any]]:
    """Layers that can do without their bias, by name, each with the BatchNorm right behind it, or None.

    >>> list(biased_layers(resnet, "before norm"))      # torchvision's are built without bias already
    []
    """
    try:
        behind = norms_behind(model)
    except Exception:  # a forward can raise anything when it meets a symbol in place of numbers
        behind = {}
    norms = {name: model.get_submodule(norm) for name, norm in behind.items()}
    layers = layers_with_bias(model)
    return {
        name: (layer, norms.get(name)) for name, layer in layers.items() if scope == "all" or name in norms
    }


def biased_layers_code() -> str:
    """The same as statements for a cell."""
    functions = (bare_copy, layers_with_bias, norms_behind, biased_layers)
    imports = [
        "import contextlib",
        "import copy",
        "import io",
        "from typing import Any",
        "",
        "import torch",
        "",
    ]
    return "\n".join([*imports, *(inspect.getsource(function) for function in functions)])
