"""An OpGraph as static HTML: operations and modules as tables, readable in a saved and untrusted notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import Markup, bar, block, heading, note, table, text
from accel.opgraph.graph_text import columns, head_lines, node_row, notes

if TYPE_CHECKING:
    from accel.opgraph.module_costs import ModuleCost
    from accel.opgraph.op_graph import OpGraph

SHOWN = 60
MOST = 1000


def graph_html(graph: OpGraph) -> str:
    """The head, one row an operation with its share of the FLOPs as a bar, and the modules below."""
    first, *rest = head_lines(graph)
    return block(
        heading(first),
        *(Markup(f"<div>{text(line)}</div>") for line in rest),
        _operations(graph),
        _folded(f"Parameters of {len(graph.modules)} modules", module_table(graph.modules)),
        *map(note, notes(graph)),
    )


def module_table(modules: tuple[ModuleCost, ...]) -> Markup:
    """One row a module, with its share of all parameters as a bar."""
    total = modules[0].parameters if modules else 0
    rows = [
        (
            row.label, row.class_name, f"{row.parameters:,}", f"{row.own:,}", f"{row.trainable:,}",
            f"{row.shared:,}" if row.shared else "", "" if row.self_ms is None else f"{row.self_ms:.3g}",
            bar(row.parameters / total if total else 0.0),
        )
        for row in modules[:MOST]
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
    return table(headings, rows, numeric=range(2, 7))


def _operations(graph: OpGraph) -> Markup:
    has_times = any(node.self_ms is not None for node in graph.nodes)
    total = graph.flops or 1
    rows = [
        (*node_row(node, has_times=has_times), bar((node.flops or 0) / total)) for node in graph.nodes[:MOST]
    ]
    headings = [*columns(has_times=has_times), "share of FLOPs"]
    numeric = (0, 5, 6, 7, 9) if has_times else (0, 5, 6, 7)
    shown = table(headings, rows[:SHOWN], numeric=numeric)
    if len(rows) <= SHOWN:
        return shown
    left_out = f" (and {len(graph.nodes) - MOST} in .to_dataframe())" if len(graph.nodes) > MOST else ""
    more = table(headings, rows[SHOWN:], numeric=numeric)
    return Markup(shown + _folded(f"{len(rows) - SHOWN} more operations{left_out}", more))


def _folded(summary: str, inside: Markup) -> Markup:
    return Markup(f'<details><summary style="cursor:pointer">{text(summary)}</summary>{inside}</details>')
