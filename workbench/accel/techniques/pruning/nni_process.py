"""A process of the environment that has NNI: takes a model, prunes it there, and says what stays.

    python -m accel.techniques.pruning.nni_process <descriptor of its end of a socket pair> <pid of the kernel>

NNI's own tracer fails on torch from 2.8 on, so it is given the graph of torch.fx.
"""

from __future__ import annotations

import sys
from typing import Any

from accel.processes.child_main import begin, import_torch, say_hello
from accel.processes.failure import failure_of
from accel.techniques.pruning.nni_engine import Asked, Left, indices_of

PRUNERS = {"l1": "L1NormPruner", "l2": "L2NormPruner", "fpgm": "FPGMPruner"}


def main(descriptor: int, kernel_pid: int) -> None:
    channel = begin(descriptor, kernel_pid, Asked)
    import_torch(False)
    say_hello(channel)
    asked, blob, memory = channel.receive(None)
    sys.path += asked.import_path
    try:
        channel.send(_pruned(asked, blob, memory))
    except Exception as error:  # whatever NNI stumbles over in a model that it does not know
        channel.send(failure_of(error, ""))


def _pruned(asked: Asked, blob: bytes, descriptor: int | None) -> Left:
    import torch
    from nni.compression import pruning, speedup

    from accel.workload.memory_file import MemoryFile
    from accel.workload.shipping import load

    assert descriptor is not None
    model, args, _ = load(blob, MemoryFile(descriptor))
    shapes = {name: tuple(tensor.shape) for name, tensor in _tensors(model)}
    widths = {path: _widths(module) for path, module in model.named_modules()}
    chosen: dict[str, Any] = {"op_types": asked.kinds, "sparse_ratio": asked.sparsity}
    graph = torch.fx.symbolic_trace(model)
    if whole := [*asked.exclude, *_as_wide_as_the_output(graph, model)]:
        chosen["exclude_op_names"] = whole
    pruner = getattr(pruning, PRUNERS[asked.criterion])(model, [chosen])
    _, masks = pruner.compress()
    pruner.unwrap_model()
    smaller = _numbered(speedup.ModelSpeedup)(model, args, masks, graph_module=graph).speedup_model()
    kept = {
        name: indices_of(tensor, shapes[name])
        for name, tensor in _tensors(smaller)
        if tuple(tensor.shape) != shapes[name]
    }
    return Left(
        kept,
        {
            path: new
            for path, module in smaller.named_modules()
            if (new := _changed(module, widths.get(path, {})))
        },
    )


def _as_wide_as_the_output(graph: Any, model: Any) -> list[str]:
    """The layers whose width is the output's: those met first on the way back from it."""
    found, seen = [], set()
    left = [node for node in graph.graph.nodes if node.op == "output"]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        module = model.get_submodule(node.target) if node.op == "call_module" else None
        if module is not None and any(weight.dim() > 1 for weight in module.parameters(recurse=False)):
            found.append(str(node.target))
        else:  # what keeps the width: activation, normalisation, pooling, a sum
            left += node.all_input_nodes
    return found


def _changed(module: Any, before: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _widths(module).items() if value != before.get(name, value)}


def _numbered(kind: Any) -> Any:
    """NNI's speed-up as a class whose tensors hold the numbers of their positions from the moment that all is chosen."""
    import torch

    class Numbered(kind):  # type: ignore[misc]
        def replace_compressed_modules(self) -> None:
            with torch.no_grad():
                for tensor in (each for _, each in _tensors(self.module) if each.is_floating_point()):
                    tensor.data = torch.arange(tensor.numel(), dtype=torch.float32).view(tensor.shape)
            super().replace_compressed_modules()

    return Numbered


def _tensors(model: Any) -> list[tuple[str, Any]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _widths(module: Any) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(module).items()
        if type(value) is int or (type(value) is tuple and all(type(each) is int for each in value))
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
