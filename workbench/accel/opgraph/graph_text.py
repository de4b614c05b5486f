"""An OpGraph as text: a head, and one line an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.units import counted, size, table

if TYPE_CHECKING:
    from accel.opgraph.op_graph import OpGraph
    from accel.opgraph.op_node import OpNode

COLUMNS = ("#", "operation", "module", "output", "type", "parameters", "FLOPs", "bytes", "from")
NUMERIC = (0, 5, 6, 7)
UNKNOWN = "?"
SHOWN = 200


def graph_text(graph: OpGraph) -> str:
    """What `print` shows."""
    has_times = any(node.self_ms is not None for node in graph.nodes)
    rows = [node_row(node, has_times=has_times) for node in graph.nodes[:SHOWN]]
    left_out = (
        [f"… and {len(graph.nodes) - SHOWN} more: see .to_dataframe()"] if len(graph.nodes) > SHOWN else []
    )
    lines = table([columns(has_times=has_times), *rows], numeric=(*NUMERIC, 9))
    return "\n".join([*head_lines(graph), "", *lines, *left_out, *notes(graph)])


def head_lines(graph: OpGraph) -> list[str]:
    """The model, its operations by type, and its totals."""
    types = ", ".join(f"{op} ×{count}" if count > 1 else op for op, count in graph.op_types.items())
    frozen = graph.parameters - graph.trainable
    return [
        f"{graph.model_name}, forward of {graph.inputs} in evaluation mode",
        f"{counted(len(graph.nodes), 'operation')} of {counted(len(graph.op_types), 'type')}: {types}",
        f"{graph.parameters:,} parameters ({size(graph.parameter_bytes)})"
        + (f", {frozen:,} of them frozen" if frozen else "")
        + f"; {scaled(graph.flops, 'FLOP')}, {size(graph.bytes)} read and written",
    ]


def notes(graph: OpGraph) -> list[str]:
    """What a reader has to know of the figures."""
    unknown = graph.without_formula
    no_formula = [
        f"{UNKNOWN}: no formula for the FLOPs; {unknown} of {len(graph.nodes)} operations are not in the total."
    ]
    return [*graph.notes, *(no_formula if unknown else [])]


def columns(*, has_times: bool) -> tuple[str, ...]:
    """Headings of the operations."""
    return (*COLUMNS, "self ms") if has_times else COLUMNS


def node_row(node: OpNode, *, has_times: bool) -> tuple[str, ...]:
    """One operation, cell by cell."""
    cells = (
        str(node.index + 1),
        node.op,
        node.module or f"({node.module_class})",
        node.size_text,
        node.dtype,
        f"{node.parameters:,}" if node.parameters else "",
        UNKNOWN if node.flops is None else scaled(node.flops, "") if node.flops else "",
        UNKNOWN if node.bytes is None else size(node.bytes) if node.bytes else "",
        ", ".join(str(index + 1) for index in node.inputs) or "input",
    )
    return (*cells, "" if node.self_ms is None else f"{node.self_ms:.3g}") if has_times else cells


def scaled(count: float, unit: str) -> str:
    """A count in thousands, millions …: 1.85 GFLOP; without a unit "1.85 G"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= factor:
            return f"{count / factor:.3g} {prefix}{unit}"
    return f"{count:.4g} {unit}".rstrip()
