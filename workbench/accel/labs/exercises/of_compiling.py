"""Checks of compiled code: how many graphs a function makes, how many shapes are built, and when building is earned back."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from types import FunctionType
from typing import Any

from accel.labs.exercises.seen import Seen, function_of, is_same, outcome
from accel.units import counted

CLOSE = 1e-5
Epochs = tuple[float, float, float, float]
EPOCHS: tuple[Epochs, ...] = (
    (47, 45, 146, 26),
    (10, 10, 30, 12),
    (10, 10, 9, 9),
    (10, 10, 20, 10),
    (5, 5, 15, 0.5),
    (20, 10, 30, 8),
)


def one_graph(function: object) -> Seen:
    """Whether the function makes one graph and still gives what the lesson's `gate` gives.

    >>> one_graph(lambda x: torch.relu(x) - 1).passed
    False
    """
    import torch

    work = function_of(function)
    asked = "One graph, and the numbers of the old function for every input."
    for x, part in _inputs():
        given = outcome(work, x.clone())
        if not isinstance(given, torch.Tensor) or given.shape != x.shape or given.dtype != x.dtype:
            return Seen(False, f"It gave {_name(given)} and not a tensor like its input.", asked)
        if not torch.allclose(given, _gate(x), atol=CLOSE):
            hint = "Both branches have to be there: doubled where the mean of the whole ReLU is above 0.5, as it is elsewhere."
            return Seen(False, f"For inputs with {part} the numbers are others.", asked, {}, hint)
    x = torch.linspace(-1, 1, 100)
    try:
        seen = torch._dynamo.explain(_fresh(work))(x)
    except Exception as error:  # what the student's function does is the answer
        return Seen(False, f"The compiler cannot read it: {type(error).__name__}.", asked)
    graphs = seen.graph_count
    saw = f"The numbers are right, in {counted(graphs, 'graph')}."
    hint = "Something still goes back to Python. Choose between the two results with torch.where."
    return Seen(graphs == 1, saw, asked, {"graphs": float(graphs)}, hint)


def _inputs() -> list[tuple[Any, str]]:
    """Inputs whose ReLU has a mean on both sides of 0.5, near it too, and rows that lie on different sides."""
    import torch

    made, drawn = [], torch.Generator().manual_seed(0)
    for shape in ((100,), (3, 7)):
        x = torch.randn(shape, generator=drawn)
        made += [(x * mean / x.relu().mean(), f"a mean of {mean:g}") for mean in (0.05, 0.45, 0.55, 2.0)]
    return [*made, (torch.tensor([[0.1] * 7, [0.1] * 7, [1.0] * 7]), "unlike rows")]


def _gate(x: Any) -> Any:
    y = x.relu()
    return (y * 2 if y.mean() > 0.5 else y) - 1


def few_shapes(function: object, *, longest: int, compilations: int, padding: float) -> Seen:
    """Whether function(length) pads to so few lengths that at most so many compilations are needed, without too much padding.

    >>> few_shapes(lambda length: 200, longest=200, compilations=4, padding=1.5).passed
    False
    """
    work = function_of(function)
    asked = f"At most {counted(compilations, 'compilation')} for lengths 1 to {longest}, and {padding:g} times the numbers."
    lengths = []
    for length in range(1, longest + 1):
        given = _whole(outcome(work, length))
        if not isinstance(given, int) or given < length:
            hint = "A text cannot become shorter, and a length is a whole number."
            return Seen(False, f"A text of {length} would be padded to {given!r}.", asked, {}, hint)
        lengths.append(given)
    more = sum(lengths) / sum(range(1, longest + 1))
    if more > padding:  # first: a length without measure would fill the memory
        hint = "Short texts are padded too far. Spread the lengths that you pad to."
        return Seen(False, f"Padded texts have {more:.2f} times the numbers.", asked, {"padding": more}, hint)
    built = _built(sorted(set(lengths)), stop=compilations + 1)
    saw = f"{counted(built, 'compilation')}{' and more' if built > compilations else ''}, {more:.2f} times the numbers."
    figures = {"compilations": float(built), "padding": more}
    hint = "Every length that occurs is a shape, and every shape is built."
    return Seen(built <= compilations, saw, asked, figures, hint)


def _whole(given: object) -> object:
    """A whole number of any kind, such as NumPy's, as Python's; all else as it is."""
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return given


def _built(lengths: list[int], *, stop: int) -> int:
    """How often a function is compiled for these lengths, counted by a backend; no further than `stop`."""
    import torch

    built: list[int] = []

    def counting(graph: Any, inputs: Any) -> Any:
        built.append(1)
        return graph.forward

    compiled = torch.compile(_fresh(_double), backend=counting, dynamic=False)
    for length in lengths:
        if len(built) < stop:
            compiled(torch.ones(2, length))
    return len(built)


def _double(x: Any) -> Any:
    return x * 2


def _fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with a code object of its own: what is compiled for one is kept by its code."""
    if not isinstance(function, FunctionType):
        return function
    made = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def earned_back(function: object) -> Seen:
    """Whether function(eager first, later, compiled first, later) gives the epoch after which the compiled run is ahead.

    >>> earned_back(lambda eager_first, eager_later, compiled_first, compiled_later: 7).passed
    False
    """
    work = function_of(function)
    asked = "The number of epochs in all after which the compiled run is ahead; None if it never is."
    draw = random.Random(0)
    drawn = [
        (draw.randint(5, 50), draw.randint(5, 50), draw.randint(5, 400), draw.randint(5, 50))
        for _ in range(30)
    ]
    for times in (*EPOCHS, *drawn):
        right, given = _ahead_after(*times), outcome(work, *times)
        if not is_same(given, right):
            eager_first, eager_later, compiled_first, compiled_later = times
            runs = f"eager {eager_first:g} s, then {eager_later:g} s; compiled {compiled_first:g} s, then {compiled_later:g} s"
            hint = "Count the first epoch too, and ask after each one which run has used less time."
            if right is None:
                hint = "Where later epochs gain nothing, what the first one costs never comes back."
            return Seen(False, f"For {runs} your function gives {_name(given)}.", asked, {}, hint)
    return Seen(
        True,
        f"Right for {len(EPOCHS) + len(drawn)} pairs of runs.",
        asked,
        {"runs": float(len(EPOCHS) + len(drawn))},
    )


def _ahead_after(
    eager_first: float, eager_later: float, compiled_first: float, compiled_later: float
) -> int | None:
    eager, compiled, epochs = eager_first, compiled_first, 1
    while compiled >= eager:
        if compiled_later >= eager_later:
            return None
        eager, compiled, epochs = eager + eager_later, compiled + compiled_later, epochs + 1
    return epochs


def _name(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
