"""A cluster as its ranks see it: hosts and their interfaces, all-reduces, and what more ranks would bring."""

from __future__ import annotations

from accel.distributed.scaling.cluster_view import ClusterView
from accel.html_parts import Markup, block, heading, note
from accel.html_parts import table as html_table
from accel.units import counted, gigabytes, milliseconds, percent, size, table

HOSTS = ("host", "ranks", "interface", "kind", "its speed", "RDMA")
SIZES = ("all-reduce of", "takes")
PREDICTED = ("ranks", "your cell's speed-up, predicted", "measured there")


def text(view: ClusterView) -> str:
    """For a terminal."""
    parts = [table([HOSTS, *_hosts(view)]), table([SIZES, *_sizes(view)]), [_link(view)]]
    if predicted := _predicted(view):
        parts.append(table([PREDICTED, *predicted]))
    return "\n\n".join([_line(view), *("\n".join(part) for part in parts)])


def html(view: ClusterView) -> Markup:
    """For a notebook."""
    predicted = _predicted(view)
    return block(
        heading(_line(view)), html_table(HOSTS, _hosts(view)), html_table(SIZES, _sizes(view)), note(_link(view)),
        *([html_table(PREDICTED, predicted)] if predicted else []),
    )  # fmt: skip


def _line(view: ClusterView) -> str:
    return f"{counted(view.ranks, 'rank')} on {counted(len(view.hosts), 'host')} ({view.where})."


def _hosts(view: ClusterView) -> list[tuple[str, ...]]:
    return [
        (
            host.name, ", ".join(map(str, host.ranks)), host.interface or "any", host.kind or "unknown",
            gigabytes(host.bytes_per_s) if host.bytes_per_s else "unknown", host.rdma or "no",
        )
        for host in view.hosts
    ]  # fmt: skip


def _sizes(view: ClusterView) -> list[tuple[str, str]]:
    return [(size(count), milliseconds(1e3 * seconds)) for count, seconds in view.all_reduce_s]


def _link(view: ClusterView) -> str:
    link = view.link
    pace = f" A rank computes {view.pace:.2f}× as long as this notebook." if view.work is not None else ""
    doubt = (
        " That is no pace of the same machine: your notebook, or its profile, was slowed down by other work. Profile and ask "
        "again when it is quiet; until then nothing is predicted."
        if view.work is not None and not view.is_believable
        else ""
    )
    return (
        f"As a ring over links of {milliseconds(1e3 * link.latency_s)} and {gigabytes(link.bytes_per_s)}; "
        f"off by {percent(view.error, 0)} at most.{pace}{doubt}"
    )


def _predicted(view: ClusterView) -> list[tuple[str, str, str]]:
    """Of the profiled cell: on these ranks, on more, and on as many as it has run on."""
    if not view.is_believable:
        return []
    measured = dict(view.measured)
    rows = []
    for ranks in sorted({view.ranks, 2 * view.ranks, 4 * view.ranks, *measured} - {1}):
        middle, low, high = view.speed_up(ranks)
        seen = f"{measured[ranks]:.2f}×" if ranks in measured else "not run yet"
        rows.append((str(ranks), f"{middle:.2f}× [{low:.2f}, {high:.2f}]", seen))
    return rows
