"""The operations of a model and its modules, each with what it costs: parameters, FLOPs, measured time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class OpNode:
    """One primitive operation on one batch, forward.

    `op` is ONNX's name where one is known ("Conv"), `aten` is PyTorch's ("conv2d"). `module` is the qualified name of the
    module that ran it, "" for the model itself. `shape` and `dtype` are of the first result; a size that only the data
    tells is a name such as "u0". `parameters` are those that the operation reads. `flops` counts a multiply-add as two;
    `bytes` is each input read once and each output written once; None where no formula is known. `inputs` are the
    indices of the nodes it takes its data from. `self_ms` is measured: the forward self time a step of the node's
    module, where this node is the only one that computes in it.
    """

    index: int
    op: str
    aten: str
    module: str
    module_class: str
    shape: tuple[int | str, ...]
    dtype: str
    parameters: int
    parameter_names: tuple[str, ...]
    flops: int | None
    bytes: int | None
    inputs: tuple[int, ...]
    self_ms: float | None = None

    @property
    def size_text(self) -> str:
        """The shape as it is read: "64×32×28×28"."""
        return "×".join(map(str, self.shape)) or "scalar"


@dataclass(frozen=True)
class ModuleCost:
    """One module: `own` parameters hang on it directly, `parameters` are those of all modules in it too.

    A parameter that several modules share counts once, for the first; `shared` are those that this module uses and
    another one counts. `trainable` are those of `parameters` that take a gradient. `flops` are of the operations in it,
    None if one of them has no formula. `self_ms` is the measured forward self time of its own operations per step.
    """

    name: str
    class_name: str
    own: int
    parameters: int
    trainable: int
    shared: int
    flops: int | None = None
    self_ms: float | None = None

    @property
    def label(self) -> str:
        """The name; the model itself, which has none, goes by its class."""
        return self.name or f"({self.class_name})"


def module_costs(model: torch.nn.Module, nodes: Iterable[OpNode] = ()) -> tuple[ModuleCost, ...]:
    """One row a module, outer before inner.

    >>> module_costs(CNN())[0].parameters
    1630090
    """
    counted: set[int] = set()
    rows: dict[str, ModuleCost] = {}
    for name, module in model.named_modules():
        direct = {id(parameter): parameter for parameter in module.parameters(recurse=False)}
        new = [parameter for key, parameter in direct.items() if key not in counted]
        shared = sum(parameter.numel() for key, parameter in direct.items() if key in counted)
        counted |= set(direct)
        own = sum(parameter.numel() for parameter in new)
        trainable = sum(parameter.numel() for parameter in new if parameter.requires_grad)
        rows[name] = ModuleCost(name, type(module).__name__, own, 0, 0, shared, 0)
        for outer in _outwards(name, rows):
            row = rows[outer]
            rows[outer] = replace(row, parameters=row.parameters + own, trainable=row.trainable + trainable)
    for node in nodes:
        for outer in _outwards(node.module, rows):
            flops = rows[outer].flops
            total = None if flops is None or node.flops is None else flops + node.flops
            rows[outer] = replace(rows[outer], flops=total)
    return tuple(rows.values())


def _outwards(name: str, known: Mapping[str, ModuleCost]) -> Iterator[str]:
    """The module, the one that it is in, and so on to the model itself, whose name is ""."""
    while name:
        if name in known:
            yield name
        name = name.rpartition(".")[0]
    yield ""
