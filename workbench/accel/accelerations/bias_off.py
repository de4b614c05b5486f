"""Layers without biases: fewer parameters, and one addition less in each."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.model_call import distinct
from accel.accelerations.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload

Scope = Literal["before norm", "all"]


@dataclass(frozen=True)
class BiasOff:
    """Take the biases out of linear and convolution layers.

    What it does
        Sets `bias` of the layers to None, in place. The optimizer keeps the parameters that are gone from the
        model; they get no gradient and stay as they are. Undo puts the same parameters back. With
        `scope="before norm"` only layers whose output goes into a BatchNorm and nowhere else.
    When it helps
        A layer before a BatchNorm: its bias is subtracted again with the mean of the batch, so that the model
        computes the same without it (the running mean is moved along, for evaluation). Elsewhere it spares the
        optimizer a small tensor a layer, and the backward a sum. Not measured here yet.
    When it hurts
        Everywhere but before a BatchNorm the model becomes another one: take the biases out before training, not
        after. The gain is small: the course CNN has 618 biases among 1,630,090 parameters. Which layers stand
        before a BatchNorm is read by torch.fx, which cannot follow a forward that branches on its data. Layers
        inside nn.MultiheadAttention and nn.TransformerEncoderLayer, whose fast paths insist on a bias, and layers
        with a forward of their own keep theirs. While it is on, state_dict has no entries for the biases.
    In plain PyTorch
        self.conv = torch.nn.Conv2d(3, 64, kernel_size=3, bias=False)
    References
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html (bias before a BatchNorm)
        https://arxiv.org/abs/1502.03167 (Batch Normalization, section 3.2)
    """

    scope: Scope = "all"

    name: ClassVar[str] = "bias_off"
    layer: ClassVar[Layer] = "model"
    effect: ClassVar[Effect] = "changes training"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No model, no bias to take out, or a forward that cannot be followed to the BatchNorms."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        return [reason for name, model in distinct(replica.models) for reason in self._why_not(name, model)]

    def _why_not(self, name: str, model: torch.nn.Module) -> list[str]:
        if "_orig_mod" in vars(model).get("_modules", {}):
            return [
                f"{name} is wrapped by torch.compile(…), which hides its layers. "
                f"Write {name}.compile() instead, which keeps them."
            ]
        if biased_layers(model, self.scope) or any(module in _taken for module in model.modules()):
            return []
        if not biased_layers(model, "all"):
            return [f"{name} has no linear or convolution layer with a bias. Nothing needs to be done."]
        if isinstance(norms := _followed(model), str):
            return [
                f"torch.fx cannot follow the forward of {name} ({norms}). "
                'Use bias_off(scope="all"), which changes the model, or leave this off.'
            ]
        return [
            f"No layer of {name} with a bias goes straight into a BatchNorm. "
            'Use bias_off(scope="all"), which changes the model, or leave this off.'
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Take the biases out of each model's layers."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                for layer, norm in biased_layers(model, self.scope).values():
                    stack.enter_context(_without_bias(layer, norm))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether the layers have no bias, and no gradient came to those that were taken out."""
        layers = [
            module for _, model in distinct(replica.models) for module in model.modules() if module in _taken
        ]
        biases = [_taken[layer] for layer in layers]
        back = sum(
            layer.bias is not None or bias.grad is not None
            for layer, bias in zip(layers, biases, strict=True)
        )
        if not layers or back:
            return Proof(False, f"{back} biases are in use again" if back else "no bias was taken out")
        numbers = sum(bias.numel() for bias in {id(bias): bias for bias in biases}.values())
        return Proof(True, f"{len(layers)} layers ran without bias: {numbers:,} parameters fewer")

    def as_code(self, workload: Workload) -> str:
        """`layer.bias = None` for the layers by their names."""
        models = workload.objects().models
        parts = []
        for name in names_of(workload, "models"):
            if name not in models:
                parts += _GENERAL_CODE.format(model=name).splitlines()
                continue
            found = biased_layers(models[name], self.scope)
            names = {id(module): path for path, module in models[name].named_modules()}
            before_norm = {path: names[id(norm)] for path, (_, norm) in found.items() if norm is not None}
            if before_norm:
                parts += _MEAN_CODE.format(model=name, pairs=before_norm).splitlines()
            parts += _NAMED_CODE.format(model=name, layers=list(found)).splitlines()
        return "\n".join(parts) + "\n"


_MEAN_CODE = """\
# What comes out of these goes into a BatchNorm, which takes the bias out again with the mean.
for _layer, _norm in {pairs}.items():
    _layer, _norm = {model}.get_submodule(_layer), {model}.get_submodule(_norm)
    if _norm.running_mean is not None and _layer.bias is not None:
        _norm.running_mean -= _layer.bias.detach()
"""
_NAMED_CODE = """\
for _name in {layers}:
    _layer = {model}.get_submodule(_name)
    if _layer.bias is not None:
        _layer.bias.grad = None  # the optimizer still holds it, and would go on with an old gradient
        _layer.bias = None
"""
_GENERAL_CODE = """\
import torch
for _layer in {model}.modules():
    if isinstance(_layer, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)) and _layer.bias is not None:
        _layer.bias.grad = None  # the optimizer still holds it, and would go on with an old gradient
        _layer.bias = None
"""

# Layers whose bias is out at the moment, each with the parameter that undo puts back.
_taken: weakref.WeakKeyDictionary[torch.nn.Module, torch.nn.Parameter] = weakref.WeakKeyDictionary()


def biased_layers(model: torch.nn.Module, scope: Scope) -> dict[str, tuple[Any, Any]]:
    """Layers that can do without their bias, by name, each with the BatchNorm right behind it, or None.

    >>> list(biased_layers(resnet, "before norm"))      # torchvision's are built without bias already
    []
    """
    from torch import nn

    closed = (nn.MultiheadAttention, nn.TransformerEncoderLayer)
    inside = {part for module in model.modules() if isinstance(module, closed) for part in module.modules()}
    norms = _followed(model)
    behind = norms if isinstance(norms, dict) else {}
    found = {}
    for name, module in model.named_modules():
        if module not in inside and _adds_a_plain_bias(module) and (scope == "all" or module in behind):
            found[name] = (module, behind.get(module))
    return found


def _adds_a_plain_bias(module: torch.nn.Module) -> bool:
    """Whether it is a layer of torch's own, or a subclass with torch's forward, whose bias is an ordinary parameter."""
    from torch import nn

    kinds: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    kinds += (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    own = isinstance(module, kinds) and type(module).forward in {kind.forward for kind in kinds}
    return own and module._parameters.get("bias") is not None


def _followed(model: torch.nn.Module) -> dict[torch.nn.Module, torch.nn.Module] | str:
    """Each layer whose output goes into a BatchNorm of its width and nowhere else, with that; or why it cannot be told."""
    import torch
    from torch import fx
    from torch.nn.modules.batchnorm import _BatchNorm

    with torch.random.fork_rng(devices=[]):
        try:
            graph = fx.Tracer().trace(model)
        except Exception as error:  # a forward can raise anything when it meets a symbol in place of numbers
            return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    modules = dict(model.named_modules())
    calls = [node for node in graph.nodes if node.op == "call_module"]
    found = {}
    for node in calls:
        layer, users = modules[node.target], list(node.users)
        is_called_once = sum(modules[other.target] is layer for other in calls) == 1
        follower = (
            modules.get(str(users[0].target)) if len(users) == 1 and users[0].op == "call_module" else None
        )
        if is_called_once and isinstance(follower, _BatchNorm) and follower.num_features == _width(layer):
            found[layer] = follower
    norms = list(found.values())
    return {layer: norm for layer, norm in found.items() if norms.count(norm) == 1}


def _width(layer: Any) -> int | None:
    width: int | None = getattr(layer, "out_channels", getattr(layer, "out_features", None))
    return width


@contextmanager
def _without_bias(layer: Any, norm: Any) -> Iterator[None]:
    bias, gradient = layer.bias, layer.bias.grad
    moved = (
        None if norm is None or norm.running_mean is None else _MovedMean(norm.running_mean, bias.detach())
    )
    bias.grad = None  # the optimizer still holds it, and would go on with an old gradient
    layer.bias = None
    _taken[layer] = bias
    try:
        yield
    finally:
        _taken.pop(layer, None)
        layer.bias = bias
        bias.grad = gradient
        if moved is not None:
            moved.move_back()


class _MovedMean:
    """A BatchNorm's running mean without the bias of the layer before."""

    def __init__(self, mean: torch.Tensor, bias: torch.Tensor) -> None:
        self.mean, self.bias, self.before = mean, bias, mean.clone()
        mean.sub_(bias)
        self.without = mean.clone()

    def move_back(self) -> None:
        """As it was, bit for bit; with the bias on top where batches moved it meanwhile, which did not hold it."""
        import torch

        if torch.equal(self.mean, self.without):  # its version does not tell: torch's kernel writes past it
            self.mean.copy_(self.before)
        else:
            self.mean.add_(self.bias)
