"""The operations of a model as they ran on one batch: for models whose Python depends on the data, which export refuses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from accel.opgraph.exported_ops import parameter_sizes
from accel.opgraph.graph_builder import GraphBuilder, Value
from accel.opgraph.op_arithmetic import bytes_of, flops_of
from accel.workload.model_copy import out_of_sight

if TYPE_CHECKING:
    import torch

    from accel.opgraph.op_node import OpNode


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
