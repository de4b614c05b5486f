"""Layers without biases: fewer parameters, and one addition less in each."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.model.fixed_tensors import why_fixed
from accel.techniques.model.model_call import distinct
from accel.techniques.source.user_names import names_of, nothing_seen

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
        optimizer a small tensor a layer, and the backward a sum. Measured on two cores of an EPYC under a steady
        allocator, course CNN: ×1.04 [1.01, 1.06] on 28×28 images, no difference on 3×32×32 (×0.99 [0.97, 1.02]).
    When it hurts
        Everywhere but before a BatchNorm the model becomes another one: take the biases out before training, not
        after. The gain is small: the course CNN has 618 biases among 1,630,090 parameters. Which layers stand
        before a BatchNorm is read by torch.fx from a copy; it cannot follow a forward that branches on its data. Layers
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
    after_undo: ClassVar[str] = (
        "the biases are back with the values of before, next to weights trained without them; what training would have made "
        "of them cannot come back"
    )

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No model, no bias to take out, or a forward that cannot be followed to the BatchNorms."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        return [reason for name, model in distinct(replica.models) for reason in self._why_not(name, model)]

    def _why_not(self, name: str, model: torch.nn.Module) -> list[Reason]:
        from accel.techniques.pruning.biased_layers import layers_with_bias, norms_behind

        if fixed := why_fixed(name, model):
            return [fixed]
        if any(module in _taken for module in model.modules()):
            return []
        layers = layers_with_bias(model)
        if not layers:
            return [
                Reason(f"{name} has no linear or convolution layer with a bias", "Nothing needs to be done.")
            ]
        try:
            if self.scope == "all" or layers.keys() & norms_behind(model).keys():
                return []
        except Exception as error:  # a forward can raise anything when it meets a symbol in place of numbers
            why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            return [
                Reason(
                    f"torch.fx cannot follow the forward of {name} ({why})",
                    'Use bias_off(scope="all"), which changes the model, or leave this off.',
                )
            ]
        return [
            Reason(
                f"No layer of {name} with a bias goes straight into a BatchNorm",
                'Use bias_off(scope="all"), which changes the model, or leave this off.',
            )
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Take the biases out of each model's layers."""
        from accel.techniques.pruning.biased_layers import biased_layers

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
        """`layer.bias = None` for the layers by their names; where there is no model to name them of, how to find them."""
        from accel.techniques.pruning.biased_layers import biased_layers, biased_layers_code

        models, wanted = workload.objects().models, names_of(workload, "models")
        parts = [] if set(wanted) <= set(models) else biased_layers_code().splitlines()
        for name in wanted:
            if name not in models:
                parts += _GENERAL_CODE.format(model=name, scope=self.scope).splitlines()
                continue
            found = biased_layers(models[name], self.scope)
            paths = {id(module): path for path, module in models[name].named_modules()}
            before_norm = {path: paths[id(norm)] for path, (_, norm) in found.items() if norm is not None}
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
for _layer, _norm in biased_layers({model}, "{scope}").values():
    if _norm is not None and _norm.running_mean is not None:
        _norm.running_mean -= _layer.bias.detach()
    _layer.bias.grad = None  # the optimizer still holds it, and would go on with an old gradient
    _layer.bias = None
"""

# Layers whose bias is out at the moment, each with the parameter that undo puts back.
_taken: weakref.WeakKeyDictionary[torch.nn.Module, torch.nn.Parameter] = weakref.WeakKeyDictionary()


@contextmanager
def _without_bias(layer: Any, norm: Any) -> Iterator[None]:
    bias, gradient = layer.bias, layer.bias.grad
    moved = None if norm is None or norm.running_mean is None else _MovedMean(norm, bias.detach())
    bias.grad = None  # the optimizer still holds it, and would go on with an old gradient
    layer.bias = None
    _taken[layer] = bias
    try:
        yield
    finally:
        _taken.pop(layer, None)
        bias.data = bias.data.to(layer.weight)  # where the model is by now, and in its number format
        bias.grad = None if gradient is None else gradient.to(bias)
        layer.bias = bias
        if moved is not None:
            moved.move_back()


class _MovedMean:
    """A BatchNorm's running mean without the bias of the layer before."""

    def __init__(self, norm: Any, bias: torch.Tensor) -> None:
        self.norm, self.bias, self.before = norm, bias, norm.running_mean.clone()
        norm.running_mean.sub_(bias)
        self.without = norm.running_mean.clone()

    def move_back(self) -> None:
        """As it was, bit for bit; with the bias on top where batches moved it meanwhile, which did not hold it."""
        import torch

        mean = self.norm.running_mean  # another tensor where the model was moved meanwhile
        if torch.equal(
            mean, self.without.to(mean)
        ):  # its version does not tell: torch's kernel writes past it
            mean.copy_(self.before)
        else:
            mean.add_(self.bias.to(mean))
