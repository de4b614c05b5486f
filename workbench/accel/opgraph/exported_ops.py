"""The operations of a model by torch.export: no data, no computation, each joined to its module."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from accel.opgraph.graph_builder import GraphBuilder, Value
from accel.opgraph.op_arithmetic import bytes_of, flops_of
from accel.workload.model_copy import out_of_sight

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from accel.opgraph.op_node import OpNode

PASSED_ON = "getitem"


def exported_ops(
    double: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], mode: FakeTensorMode
) -> tuple[OpNode, ...]:
    """The nodes of a model made of fake tensors, called with fake tensors; raises whatever torch.export raises.

    Non-strict: Python runs the forward as it is, so what it prints or counts happens, in the copy and out of sight.
    """
    import torch

    with out_of_sight():
        program = torch.export.export(double, args, kwargs, strict=False)
        return _nodes(program, double, mode)


def _nodes(program: Any, double: torch.nn.Module, mode: FakeTensorMode) -> tuple[OpNode, ...]:
    builder = GraphBuilder(parameter_sizes(double))
    parameter_of = program.graph_signature.inputs_to_parameters
    user_inputs = set(program.graph_signature.user_inputs)
    module_names = _first_module_names(double)
    values: dict[Any, Value] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            name = parameter_of.get(node.name)
            is_data = node.name in user_inputs
            values[node] = Value((), frozenset([first_name(double, name)] if name else ()), not is_data)
        elif node.op == "call_function":
            values[node] = _call(node, builder, values, mode, module_names)
            if str(getattr(node.target, "__name__", "")).partition(".")[0].endswith("_"):
                values[node.args[0]] = values[node]  # in place: who reads the argument later reads the result
    return tuple(builder.nodes)


def _call(
    node: Any,
    builder: GraphBuilder,
    values: dict[Any, Value],
    mode: FakeTensorMode,
    module_names: dict[str, str],
) -> Value:
    sources = [values.get(source, Value()) for source in node.all_input_nodes]
    if getattr(node.target, "__name__", "") == PASSED_ON:
        return sources[0]
    if not hasattr(node.target, "_schema"):  # arithmetic of Python on sizes
        return Value((), frozenset(), True)
    args, kwargs, out = _known_values(node.args), _known_values(node.kwargs), node.meta.get("val")
    return builder.add(
        node.target, args, kwargs, out, sources=sources, module=_module(node, module_names),
        flops=flops_of(node.target, args, kwargs, out, lambda: mode), bytes_moved=bytes_of(node.target, args, kwargs, out),
    )  # fmt: skip


def _known_values(arguments: Any) -> Any:
    """The fake tensors that stand for an operation's arguments."""
    from torch.fx.node import map_arg

    return map_arg(arguments, lambda source: source.meta.get("val"))


def _module(node: Any, module_names: dict[str, str]) -> tuple[str, str]:
    """Qualified name and class of the innermost module; torch numbers the later calls of one module: "relu@1"."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path, kind = stack[-1] if stack else ("", "")
    class_name = kind if isinstance(kind, str) else kind.__qualname__
    path = re.sub(r"@\d+", "", path)
    return module_names.get(path, path), class_name.rpartition(".")[2]


def _first_module_names(model: torch.nn.Module) -> dict[str, str]:
    """A module that hangs in two places goes by its first name, as in the table of modules."""
    first = {id(module): name for name, module in reversed(list(model.named_modules(remove_duplicate=False)))}
    return {name: first[id(module)] for name, module in model.named_modules(remove_duplicate=False)}


def parameter_sizes(model: torch.nn.Module) -> dict[str, int]:
    """Elements of each parameter by its first name."""
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def first_name(model: torch.nn.Module, name: str) -> str:
    """The name under which a tied parameter is counted."""
    named = dict(model.named_parameters(remove_duplicate=False))
    return next(first for first, parameter in model.named_parameters() if parameter is named[name])
