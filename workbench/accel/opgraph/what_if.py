"""What one more layer would cost: the graph with it beside the graph without, on a copy that has no weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel import html_parts as html
from accel.errors import AccelError, UnknownName
from accel.opgraph.fitting_layers import fit_while_running
from accel.opgraph.layer_text import layer_of
from accel.opgraph.op_graph import OpGraph, Origin
from accel.opgraph.read_graph import exported_graph, fake_inputs, mode_of
from accel.units import percent, scaled, size, table
from accel.workload.model_copy import out_of_sight, reason_of, without_weights

if TYPE_CHECKING:
    import pandas
    import torch

ADDED = "added"


@dataclass(frozen=True)
class WhatIf:
    """A model with one more layer, beside the model as it is.

    >>> print(accel.graph(model, images).what_if("Linear(512→256)", after="linear1"))

    `changes` says which layers that follow had to be made to fit.
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

    def _cells(self) -> list[tuple[str, str, str, str, str]]:
        return [
            (what, _count(what, before), _count(what, after), f"{after - before:+,}", _percent(before, after))
            for what, before, after in self.rows
        ]

    def __str__(self) -> str:
        lines = table([("", "now", "then", "difference", ""), *self._cells()], numeric=(1, 2, 3, 4))
        return "\n".join([self.title, *lines, *self.notes])

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

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        table = html.table(["", "now", "then", "difference", ""], self._cells(), numeric=(1, 2, 3, 4))
        shown = html.block(html.heading(self.title), table, *map(html.note, self.notes))
        return {"text/plain": str(self), "text/html": shown}


def what_if(graph: OpGraph, layer: str | torch.nn.Module, *, after: str) -> WhatIf:
    """Put the layer after the module called `after`, in a copy; layers that follow are made to fit.

    Raises AccelError when there is no such module, when the forward never calls it, or when the widths cannot be reconciled
    (a residual connection round it, for example).
    """
    asked = f"What if {_words(layer)} came after {after!r}"
    if graph.origin is None:
        raise AccelError(
            asked, because="this graph has no model to work on", do="Ask a graph that accel.graph gave."
        )
    double = without_weights(graph.origin.double, mode_of(graph.origin))
    place = _module_named(double, after)
    changes: list[str] = []
    origin = Origin(double, graph.origin.inputs, graph.origin.model)
    try:
        _insert(origin, place, layer, changes, asked)
        extended = exported_graph(origin)
    except AccelError:
        raise
    except Exception as error:  # torch and the user's forward raise what they like where shapes do not meet
        raise AccelError(
            asked,
            because=f"the model does not run with it: {reason_of(error)}",
            do="A layer inside a residual connection has to keep the width; elsewhere check the layer's own numbers.",
        ) from error
    return WhatIf(_words(layer), after, graph, extended, tuple(changes))


def _insert(
    origin: Origin, place: torch.nn.Module, layer: str | torch.nn.Module, changes: list[str], asked: str
) -> None:
    """Run the copy once with fake tensors: only then the width is known that comes out of `place`."""
    import torch
    from torch import nn

    mode, added = mode_of(origin), list[Any]()
    args, kwargs = fake_inputs(origin, mode)

    def then(module: Any, inputs: Any, output: Any) -> Any:
        result = output[0] if isinstance(output, tuple) else output
        if not added:
            with torch.device(result.device):
                added.append(_made(layer, result, mode))
        changed = added[0](result)
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    hooks = [*fit_while_running(origin.double, changes), place.register_forward_hook(then)]
    with out_of_sight(), mode:
        origin.double(*args, **kwargs)
    for hook in hooks[:-1]:
        hook.remove()
    if not added:
        raise AccelError(
            asked, because="the model's forward never calls that module, or only its parameters",
            do="Name a module that has a row in the graph.",
        )  # fmt: skip
    if isinstance(place, nn.Sequential):  # it calls whatever it holds
        hooks[-1].remove()
    place.add_module(ADDED, added[0])


def _made(layer: str | torch.nn.Module, output: torch.Tensor, mode: Any) -> torch.nn.Module:
    return layer_of(layer, output).eval() if isinstance(layer, str) else without_weights(layer, mode)


def _module_named(model: torch.nn.Module, name: str) -> torch.nn.Module:
    named: dict[str, torch.nn.Module] = dict(model.named_modules())
    if name not in named or not name:
        raise UnknownName("module", name, [known for known in named if known])
    return named[name]


def _words(layer: str | torch.nn.Module) -> str:
    return layer if isinstance(layer, str) else type(layer).__name__


def _count(what: str, value: int) -> str:
    return size(value) if "bytes" in what else scaled(value, "") if "of a" in what else f"{value:,}"


def _percent(before: int, after: int) -> str:
    sign = "+" if after >= before else ""
    return f"{sign}{percent(after / before - 1, 1)}" if before else ""
