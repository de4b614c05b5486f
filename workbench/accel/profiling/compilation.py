"""What torch.compile did while the cell ran: graphs, recompilations with their reason, graph breaks with their line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphBreak:
    """Where one function fell apart into several graphs."""

    reason: str
    filename: str
    line: int
    count: int


@dataclass(frozen=True)
class Recompilation:
    """A function was compiled again because a guard no longer held."""

    function: str
    reason: str  # the guard that failed, as dynamo says it
    filename: str
    line: int
    count: int


@dataclass(frozen=True)
class Compilation:
    """All of it for one run of the cell; `compile_s` is the time spent compiling."""

    graphs: int
    compile_s: float
    recompilations: tuple[Recompilation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    reached_limit: bool = False  # dynamo gave up on a function and runs it eagerly
