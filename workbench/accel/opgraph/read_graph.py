"""Read the graph of a model: by torch.export, or, where that cannot follow it, by running a copy once."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, first_line
from accel.opgraph.model_ops import recorded_ops
from accel.opgraph.op_graph import OpGraph
from accel.opgraph.origin import Call, Origin, device_of
from accel.workload.call_inputs import CallInputs, TensorShape
from accel.workload.model_copy import reason_of, unwrapped, with_weights, without_weights

if TYPE_CHECKING:
    import torch


def read_graph(model: torch.nn.Module, inputs: Any) -> OpGraph:
    """The graph of a model for these inputs; neither the model, its mode, its buffers nor a random number changes.

    >>> read_graph(CNN(), (64, 1, 28, 28)).op_types
    {'Conv': 2, 'Relu': 2, 'MaxPool': 2, 'Reshape': 1, 'Gemm': 2}

    `inputs` is what the model is called with: a tensor, a tuple of positional or a dict of keyword arguments; or a shape, or
    several, for floating-point inputs whose values do not matter; or `CallInputs`. Raises AccelError with the reason when
    the model cannot be followed.
    """
    model = unwrapped(model)
    described, given = describe_inputs(model, inputs)
    origin = origin_of(model, described)
    try:
        return OpGraph.exported(origin)
    except Exception as error:  # torch.export raises what it likes, and so does the user's forward
        if given is None:
            raise _cannot_follow(model, described, error) from error
        return _recorded_graph(model, given, origin, error)


def origin_of(model: torch.nn.Module, inputs: CallInputs) -> Origin:
    """A copy without weights of what the graph is to be read from."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    # Tensors that a forward reads from a global are real, and allowed.
    return Origin(
        without_weights(model, FakeTensorMode(allow_non_fake_inputs=True)), inputs, weakref.ref(model)
    )


def _recorded_graph(model: torch.nn.Module, given: Call, origin: Origin, refusal: Exception) -> OpGraph:
    from torch import Tensor
    from torch.utils._pytree import tree_map

    device = device_of(model)
    args, kwargs = tree_map(
        lambda value: value.detach().clone().to(device) if isinstance(value, Tensor) else value, given
    )
    try:
        nodes = recorded_ops(with_weights(model, shared=False), args, kwargs)
    except Exception as error:  # the user's forward may raise anything
        raise AccelError(
            f"The graph of {type(model).__name__} for {origin.inputs}",
            because=f"the model cannot be called with that: {type(error).__name__}: {first_line(error)}",
            do="Give what model(...) takes: a tensor, a tuple of positional arguments, or a dict of keyword arguments; "
            "of a batch with labels, only the images.",
        ) from error
    note = (
        f"Recorded while one batch ran, because torch.export could not follow the model: {reason_of(refusal)}. "
        "With other data it may take another way."
    )
    return OpGraph.of(origin, nodes, note)


def _cannot_follow(model: torch.nn.Module, inputs: CallInputs, error: Exception) -> AccelError:
    return AccelError(
        f"The graph of {type(model).__name__} for {inputs}",
        because=f"torch.export cannot follow it: {reason_of(error)}",
        do="Check that the model takes such inputs. If its Python code depends on the values in them (an `if` on a tensor), "
        "give a batch: accel.graph(model, batch) records the operations while a copy runs.",
    )


def describe_inputs(model: torch.nn.Module, inputs: Any) -> tuple[CallInputs, Call | None]:
    """The shapes of a call, and the call itself where there are values."""
    if isinstance(inputs, CallInputs):
        if inputs.strange:
            raise AccelError(
                f"The graph of {type(model).__name__}",
                because=f"it takes a {inputs.strange[0]}, which no example can be made of",
                do="Give a batch: accel.graph(model, batch).",
            )
        return inputs, None
    shapes = _shapes(inputs)
    if shapes:
        dtype = next(
            (each.dtype for each in model.parameters() if each.is_floating_point()), _default_dtype()
        )
        device = device_of(model) or "cpu"
        return CallInputs(tuple(TensorShape(shape, dtype, device) for shape in shapes)), None
    args, kwargs = _arguments(model, inputs)
    return CallInputs.of_call(*args, **kwargs), (args, kwargs)


def _default_dtype() -> torch.dtype:
    import torch

    return torch.get_default_dtype()


def _shapes(inputs: Any) -> list[tuple[int, ...]]:
    """One shape or several, if that is what was given."""
    if _is_shape(inputs):
        return [tuple(inputs)]
    if isinstance(inputs, (tuple, list)) and inputs and all(map(_is_shape, inputs)):
        return [tuple(shape) for shape in inputs]
    return []


def _is_shape(value: Any) -> bool:
    is_sequence = isinstance(value, (tuple, list)) and bool(value)
    return is_sequence and all(
        isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in value
    )


def _arguments(model: torch.nn.Module, inputs: Any) -> Call:
    """Positional and keyword arguments; a dict is keywords if `forward` takes all of them."""
    if isinstance(inputs, Mapping):
        if _takes(model, [str(name) for name in inputs]):
            return (), dict(inputs)
        return (inputs,), {}
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    return (inputs,), {}


def _takes(model: torch.nn.Module, names: list[str]) -> bool:
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return takes_any or all(name in parameters for name in names)
