"""An OpGraph as text and as static HTML: a head, one line an operation, and on a page the modules below."""

from __future__ import annotations

from accel import html_parts
from accel.html_parts import Markup
from accel.opgraph.costed_parts import ModuleCost, OpNode
from accel.opgraph.op_graph import OpGraph
from accel.units import counted, scaled, size, table
from accel.views.op_graph_figure import figure as figure

COLUMNS = ("#", "operation", "module", "output", "type", "parameters", "FLOPs", "bytes", "from")
NUMERIC = (0, 5, 6, 7)
UNKNOWN = "?"
SHOWN = 200
SHOWN_ON_PAGE, MOST_ON_PAGE = 60, 1000


def text(graph: OpGraph) -> str:
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


def html(graph: OpGraph) -> Markup:
    """The head, one row an operation with its share of the FLOPs as a bar, and the modules below."""
    first, *rest = head_lines(graph)
    return html_parts.block(
        html_parts.heading(first),
        *(Markup(f"<div>{html_parts.text(line)}</div>") for line in rest),
        _operations(graph),
        html_parts.details(f"Parameters of {len(graph.modules)} modules", module_table(graph.modules)),
        *map(html_parts.note, notes(graph)),
    )


def module_table(modules: tuple[ModuleCost, ...]) -> Markup:
    """One row a module, with its share of all parameters as a bar."""
    total = modules[0].parameters if modules else 0
    rows = [
        (
            row.label, row.class_name, f"{row.parameters:,}", f"{row.own:,}", f"{row.trainable:,}",
            f"{row.shared:,}" if row.shared else "", "" if row.self_ms is None else f"{row.self_ms:.3g}",
            html_parts.bar(row.parameters / total if total else 0.0),
        )
        for row in modules[:MOST_ON_PAGE]
    ]  # fmt: skip
    headings = [
        "module",
        "class",
        "parameters",
        "its own",
        "trainable",
        "counted elsewhere",
        "self ms",
        "share",
    ]
    return html_parts.table(headings, rows, numeric=range(2, 7))


def _operations(graph: OpGraph) -> Markup:
    has_times = any(node.self_ms is not None for node in graph.nodes)
    total = graph.flops or 1
    rows = [
        (*node_row(node, has_times=has_times), html_parts.bar((node.flops or 0) / total))
        for node in graph.nodes[:MOST_ON_PAGE]
    ]
    headings = [*columns(has_times=has_times), "share of FLOPs"]
    numeric = (0, 5, 6, 7, 9) if has_times else (0, 5, 6, 7)
    shown = html_parts.table(headings, rows[:SHOWN_ON_PAGE], numeric=numeric)
    if len(rows) <= SHOWN_ON_PAGE:
        return shown
    left_out = (
        f" (and {len(graph.nodes) - MOST_ON_PAGE} in .to_dataframe())"
        if len(graph.nodes) > MOST_ON_PAGE
        else ""
    )
    more = html_parts.table(headings, rows[SHOWN_ON_PAGE:], numeric=numeric)
    return shown + html_parts.details(f"{len(rows) - SHOWN_ON_PAGE} more operations{left_out}", more)
