"""The operations of a model, each joined to its module: by torch.export, without data; or as they ran on one batch.

Recording them is for models whose Python depends on the data, which export refuses.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from accel.opgraph.graph_builder import GraphBuilder, Value
from accel.opgraph.op_arithmetic import bytes_of, flops_of
from accel.workload.model_copy import out_of_sight

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from accel.opgraph.costed_parts import OpNode

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


def recorded_ops(
    double: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[OpNode, ...]:
    """Run the copy once and write down what it dispatches; raises whatever the model raises.

    These are the operations below autograd, so that some are named otherwise than in an exported graph: a linear layer is
    an addmm. Shapes and cost are of this batch; with other data the model may take another way.
    """
    from torch import Tensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.weak import WeakIdKeyDictionary

    values: Any = WeakIdKeyDictionary()  # ids are used again once an activation is gone
    builder = GraphBuilder(parameter_sizes(double))
    running: list[tuple[str, str]] = [("", type(double).__name__)]

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            sources = [values[leaf] for leaf in tree_leaves((args, kwargs)) if leaf_is_known(leaf)]
            out = func(*args, **kwargs)
            value = builder.add(
                func, args, kwargs, out, sources=sources, module=running[-1],
                flops=flops_of(func, args, kwargs, out, may_run=False), bytes_moved=bytes_of(func, args, kwargs, out),
            )  # fmt: skip
            values.update({leaf: value for leaf in tree_leaves(out) if isinstance(leaf, Tensor)})
            return out

    def leaf_is_known(leaf: Any) -> bool:
        return isinstance(leaf, Tensor) and leaf in values

    for name, parameter in double.named_parameters():
        values[parameter] = Value((), frozenset([name]), True)
    for buffer in double.buffers():
        values[buffer] = Value((), frozenset(), True)
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, Tensor):
            values[leaf] = Value()
    _follow_modules(double, running)
    with out_of_sight(), Recorder():  # type: ignore[no-untyped-call]
        double(*args, **kwargs)
    return tuple(builder.nodes)


def _follow_modules(double: torch.nn.Module, running: list[tuple[str, str]]) -> None:
    """Hooks on the copy that keep the innermost running module on top of `running`."""

    def enter(where: tuple[str, str], module: Any, inputs: Any) -> None:
        running.append(where)

    def leave(module: Any, inputs: Any, output: Any) -> None:
        running.pop()

    for name, module in double.named_modules():
        module.register_forward_pre_hook(partial(enter, (name, type(module).__name__)))
        module.register_forward_hook(leave, always_call=True)
