"""What torch.compile did while the cell ran: graphs, recompilations with their reason, graph breaks with their line."""

from __future__ import annotations

from dataclasses import dataclass

from accel.units import counted
from accel.workload.user_code import CodeLine


@dataclass(frozen=True)
class GraphBreak:
    """Where one function fell apart into several graphs."""

    reason: str
    filename: str
    line: int
    count: int

    @property
    def place(self) -> str:
        """The line as a reader finds it."""
        return str(CodeLine(self.filename, self.line))

    def __str__(self) -> str:
        return f"graph break, {self.place}: {self.reason}"


@dataclass(frozen=True)
class Recompilation:
    """A function was compiled again because a guard no longer held."""

    function: str
    reason: str  # the guard that failed, as dynamo says it
    filename: str
    line: int
    count: int

    @property
    def place(self) -> str:
        """The line as a reader finds it."""
        return str(CodeLine(self.filename, self.line))

    def __str__(self) -> str:
        often = f"{self.count} times " if self.count > 1 else ""
        return f"compiled again {often}{self.function}, {self.place}: {self.reason}"


@dataclass(frozen=True)
class Compilation:
    """All of it for one run of the cell; `compile_s` is the time spent compiling.

    >>> print(profile.compilation)
    torch.compile: 3 graphs, 4.2 s compiling, 2 recompilations, 1 graph break
      compiled again 2 times forward, model.py, line 12: tensor 'x' size mismatch at index 0. expected 64, actual 48
      graph break, model.py, line 14: Failed to trace builtin operator: Dynamo does not know how to trace `print`

    Source: dynamo's own counters, compilation metrics and log messages. `notes` say what could not be read.
    """

    graphs: int
    compile_s: float
    recompilations: tuple[Recompilation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    reached_limit: bool = False  # dynamo gave up on a function and runs it eagerly
    notes: tuple[str, ...] = ()
    from_cache: int = 0  # graphs whose code was on disk already: the first time took longer than `compile_s`

    @property
    def line(self) -> str:
        """The counts in one line."""
        again = sum(one.count for one in self.recompilations)
        breaks = sum(one.count for one in self.graph_breaks)
        counts = [
            counted(self.graphs, "graph"), f"{self.compile_s:.3g} s compiling", counted(again, "recompilation"),
            counted(breaks, "graph break"),
        ]  # fmt: skip
        limit = ["recompile limit reached: a function runs without being compiled"] * self.reached_limit
        return "torch.compile: " + ", ".join([*counts, *limit])

    def __str__(self) -> str:
        found = [*self.recompilations, *self.graph_breaks, *self.notes]
        return "\n".join([self.line, *(f"  {one}" for one in found)])
