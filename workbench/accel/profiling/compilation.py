"""What torch.compile did while the cell ran: graphs, recompilations with their reason, graph breaks with their line.

Reasons and lines are read from what dynamo says.
"""

from __future__ import annotations

import re
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


RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
GUARD_NUMBER = re.compile(r"^\s*\d+/\d+: ")
PLACE = re.compile(r"in user code at (?P<filename>.+):(?P<line>\d+)\s*$", re.MULTILINE)
STACK_LINE = re.compile(r'^\s*File "(?P<filename>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
LITERAL = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\b\d+(?:\.\d+)?\b")
# What stands before the reason proper, in messages of torch 2.13 and later.
PREAMBLE = (
    "Encountered graph break when",
    "Failed to handle graph break gracefully",
    "Graph break encountered",
)
LONGEST = 300


def read_graph_break(message: str) -> tuple[str, CodeLine] | None:
    """(reason, place) of one message of the graph break log; None when it tells of none.

    >>> read_graph_break("Graph break in user code at model.py:14\\nGraph Break Reason: Unsupported Tensor.item() call\\n")
    ('Unsupported Tensor.item() call', CodeLine(filename='model.py', line=14))
    """
    if not message.startswith("Graph break"):
        return None
    place = _place(message)
    reason = message.partition("Graph Break Reason:")[2] or message.partition("\n")[0].removeprefix(
        "Graph break:"
    )
    return _reason(reason.partition("User code traceback:")[0]), place


def read_guard(reason: str) -> tuple[str, CodeLine | None]:
    """(guard, place) of a recompilation's reason; the place is where the guard was made, None when unknown.

    >>> read_guard("0/0: tensor 'x' size mismatch at index 0. expected 2, actual 5")
    ("tensor 'x' size mismatch at index 0. expected 2, actual 5", None)
    """
    first = next((line for line in reason.splitlines() if line.strip()), "")
    guard = GUARD_NUMBER.sub("", first).partition("  # ")[0].strip()
    stack = list(STACK_LINE.finditer(reason))
    place = CodeLine(stack[-1]["filename"], int(stack[-1]["line"])) if stack else None
    return guard[:LONGEST] or "a guard that dynamo does not name", place


def kind_of_guard(guard: str) -> str:
    """The guard without its values: the same for every batch that fails it.

    >>> kind_of_guard("tensor 'x' size mismatch at index 0. expected 2, actual 5")
    "tensor … size mismatch at index …. expected …, actual …"
    """
    return LITERAL.sub("…", guard)


def function_name(name: str) -> str:
    """A function as its author calls it; what follows a graph break is a function of dynamo's own.

    >>> function_name("torch_dynamo_resume_in_forward_at_13")
    'forward (after line 13)'
    """
    found = RESUMED.match(name)
    return f"{found['function']} (after line {found['line']})" if found else name


def _place(message: str) -> CodeLine:
    head = PLACE.search(message.partition("Graph Break Reason:")[0])
    if head:
        return CodeLine(head["filename"], int(head["line"]))
    stack = list(STACK_LINE.finditer(message))
    return CodeLine(stack[-1]["filename"], int(stack[-1]["line"])) if stack else CodeLine("", 0)


def _reason(text: str) -> str:
    """The title of the graph break and its explanation, without hints and debug context."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(PREAMBLE)]
    title = lines[0] if lines else "not reported by dynamo"
    why = next(
        (line.partition("Explanation:")[2].strip() for line in lines if line.startswith("Explanation:")), ""
    )
    return (f"{title}: {why}" if why and why != title else title)[:LONGEST]
