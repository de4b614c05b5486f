"""OpGraph: a model as the operations that it runs, with parameters and cost on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from accel.opgraph.costed_parts import ModuleCost, OpNode, module_costs
from accel.opgraph.op_arithmetic import VIEWS
from accel.opgraph.origin import Origin, fake_inputs, mode_of
from accel.shown import Drawn, Shown

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    import torch


@dataclass(frozen=True)
class OpGraph(Drawn):
    """The forward of a model on one batch, in evaluation mode, as a graph of primitive operations.

    What only prepares weights and what does nothing in evaluation (dropout) is not shown. `parameters` counts a shared
    parameter once; `flops` and `bytes` add up the operations that have a formula, and `without_formula` says how many
    have none.

    Examples:
        >>> graph = accel.graph(model, images)
        >>> print(graph)     # one line an operation
        >>> graph.op_types
        {'Conv': 2, ...}
        >>> graph.what_if("Linear(512→256)", after="linear1")
        >>> graph.modules, graph.to_dataframe(), graph.figure()
    """

    model_name: str
    inputs: str
    nodes: tuple[OpNode, ...]
    modules: tuple[ModuleCost, ...]
    parameter_bytes: int
    notes: tuple[str, ...] = ()
    origin: Origin | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, origin: Origin, nodes: tuple[OpNode, ...], *notes: str) -> OpGraph:
        """The graph of these operations."""
        double = origin.double
        return cls(
            model_name=type(double).__name__,
            inputs=str(origin.inputs),
            nodes=nodes,
            modules=module_costs(double, nodes),
            parameter_bytes=sum(each.numel() * each.element_size() for each in double.parameters()),
            notes=notes,
            origin=origin,
        )

    @classmethod
    def exported(cls, origin: Origin) -> OpGraph:
        """The graph by torch.export; raises whatever that raises."""
        from accel.opgraph.model_ops import exported_ops

        mode = mode_of(origin)
        args, kwargs = fake_inputs(origin, mode)
        return cls.of(origin, exported_ops(origin.double, args, kwargs, mode))

    @property
    def op_types(self) -> dict[str, int]:
        """How often each type of operation occurs, in order of first use."""
        return dict(Counter(node.op for node in self.nodes))

    @property
    def parameters(self) -> int:
        """Elements of all parameters of the model, each counted once."""
        return self.modules[0].parameters if self.modules else 0

    @property
    def trainable(self) -> int:
        """Elements of the parameters that take a gradient."""
        return self.modules[0].trainable if self.modules else 0

    @property
    def flops(self) -> int:
        """Floating-point operations of one forward, a multiply-add counted as two."""
        return sum(node.flops or 0 for node in self.nodes)

    @property
    def bytes(self) -> int:
        """Bytes that the operations read and write at least, one by one."""
        return sum(node.bytes or 0 for node in self.nodes)

    @property
    def without_formula(self) -> int:
        """Operations whose FLOPs are not known."""
        return sum(node.flops is None for node in self.nodes)

    def what_if(self, layer: str | torch.nn.Module, *, after: str) -> WhatIf:
        """The graph with one more layer after the module of that name, next to this one; your model is not changed.

        Args:
            layer: A module or its text: "Linear(256)", "ReLU", "Conv2d(64→64, 3, padding=1)".
            after: The name of the module that it comes after.

        Returns:
            Both graphs and their difference. A layer that follows is made to fit the new width, and `.changes` says so.

        Raises:
            AccelError: There is no such module, the forward never calls it, or the widths cannot be reconciled (a residual
                connection round it, for example).

        Examples:
            >>> graph.what_if("Linear(512→256)", after="linear1").after.parameters
            1758858
        """
        from accel.opgraph.one_more_layer import with_layer, words_of_layer

        extended, changes = with_layer(self.origin, layer, after=after, read=OpGraph.exported)
        return WhatIf(words_of_layer(layer), after, self, extended, changes)

    def to_onnx(self, path: str | Path) -> Path:
        """Write the model, weights included, as an ONNX file; needs `pip install "accel-workbench[onnx]"`.

        Args:
            path: The file. Weights above torch's limit for one file lie next to it.

        Returns:
            The path.

        Raises:
            AccelError: A package is missing, the model is gone or cannot be written as ONNX, or the file cannot be written.

        Examples:
            >>> graph.to_onnx("model.onnx")
        """
        from accel.opgraph.onnx_file import write_onnx

        return write_onnx(self.origin, path)

    def with_times(self, measured_ms: Mapping[str, float]) -> OpGraph:
        """The same graph with the measured forward self time per step of each module's own operations."""
        computing = Counter(node.module for node in self.nodes if node.aten not in VIEWS)
        label = {row.name: row.label for row in self.modules}

        def time_of(node: OpNode) -> float | None:
            is_alone = computing[node.module] == 1 and node.aten not in VIEWS
            return measured_ms.get(label.get(node.module, node.module)) if is_alone else None

        return replace(
            self,
            nodes=tuple(replace(node, self_ms=time_of(node)) for node in self.nodes),
            modules=tuple(replace(row, self_ms=measured_ms.get(row.label)) for row in self.modules),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what is not known is None."""
        return {
            "model": self.model_name,
            "inputs": self.inputs,
            "op_types": self.op_types,
            "parameters": self.parameters,
            "trainable": self.trainable,
            "parameter_bytes": self.parameter_bytes,
            "flops": self.flops,
            "bytes": self.bytes,
            "without_formula": self.without_formula,
            "nodes": [asdict(node) for node in self.nodes],
            "modules": [asdict(row) for row in self.modules],
            "notes": list(self.notes),
        }

    def to_dataframe(self) -> pandas.DataFrame:
        """One row an operation, in the order they run."""
        import pandas

        return pandas.DataFrame(
            [asdict(node) for node in self.nodes], columns=list(OpNode.__dataclass_fields__)
        )


@dataclass(frozen=True)
class WhatIf(Shown):
    """A model with one more layer, next to the model as it is.

    `changes` says which layers that follow had to be made to fit.

    Examples:
        >>> print(accel.graph(model, images).what_if("Linear(512→256)", after="linear1"))
    """

    layer: str
    place: str
    before: OpGraph
    after: OpGraph
    changes: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[tuple[str, int, int], ...]:
        """(what, before, after): parameters, FLOPs, bytes read and written, operations."""
        totals = (("parameters", "parameters"), ("FLOPs of a forward", "flops"), ("bytes moved", "bytes"))
        rows = ((what, getattr(self.before, name), getattr(self.after, name)) for what, name in totals)
        return (*rows, ("operations", len(self.before.nodes), len(self.after.nodes)))

    @property
    def title(self) -> str:
        """The question."""
        return (
            f"{self.before.model_name} with {self.layer} after {self.place}, forward of {self.before.inputs}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to change, and that nothing of the user's did."""
        return (*self.changes, "Your model is unchanged; this was worked out on a copy without weights.")

    def to_dict(self) -> dict[str, Any]:
        """The four figures before and after, and both graphs."""
        return {
            "layer": self.layer, "after_module": self.place, "changes": list(self.changes),
            "figures": {what: {"before": before, "after": after} for what, before, after in self.rows},
            "before": self.before.to_dict(), "after": self.after.to_dict(),
        }  # fmt: skip

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a figure."""
        import pandas

        return pandas.DataFrame(self.rows, columns=["figure", "before", "after"])
