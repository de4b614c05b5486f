"""Losses are kept with their graphs: each step's activations stay in memory, and a sum of losses makes one ever longer graph."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from accel.profiling.findings import Finding
from accel.workload.namespace_reads import attributes_of

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

FEWEST = 5  # fewer may be the terms of one loss, or the losses of several heads
OF_STEPS = 0.8  # of the steps of the cell have their loss in it
LONGEST = 50  # losses that are counted: a sum over more steps is long enough
PARTS = 32  # of a dict or an object that are looked at
SCALED = ("MulBackward0", "DivBackward0")  # as in 0.9 * average + 0.1 * loss


def graph_kept(evidence: Evidence) -> Finding | None:
    """A variable that the cell leaves behind holds losses of several steps together with their graphs."""
    if evidence.is_of_trace:
        return None
    name, steps = next(_kept(evidence), ("", 0))
    if not name:
        return None
    variable = name.partition("[")[0].partition(".")[0]
    line = evidence.line_where(lambda node: getattr(node, "id", "") == variable, in_loop=True)
    return Finding(
        kind="graph_kept",
        title=f"{name} keeps the graphs of {'at least ' if steps >= LONGEST else ''}{steps} losses",
        what="A loss with a graph holds what its backward pass needs; if losses are kept, memory grows with each step.",
        share=0.0,
        evidence=(f"{name}: values with a grad_fn from {steps} steps",),
        prediction=None,
        suggests=(),
        remedy=f"Put loss.item() into {name}, or loss.detach() where reading the loss would wait for a GPU.",
        wrong_when="a later backward pass uses all these graphs, as for a whole episode.",
        line=line,
        details={"losses": float(steps)},
    )


def _kept(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Variables that the cell writes or reads, and their parts, with how many graphs each holds."""
    workload = evidence.workload
    enough = max(FEWEST, OF_STEPS * min(workload.steps, LONGEST))
    for name in dict.fromkeys((*workload.writes, *workload.reads)):
        for label, value in _with_parts(name, workload.namespace.get(name)):
            if (count := _graphs(value)) >= enough:
                yield label, count


def _with_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if type(value) in (dict, defaultdict):
        yield from ((f"{name}[{key!r}]", part) for key, part in islice(value.items(), PARTS))
    else:
        yield from ((f"{name}.{key}", part) for key, part in islice(attributes_of(value).items(), PARTS))


def _graphs(value: Any) -> int:
    """Losses with a graph: in a list, or summed up one after another in a tensor."""
    import torch

    if type(value) in (list, tuple, deque):
        return sum(_has_graph(each) for each in islice(reversed(value), LONGEST))
    if not (issubclass(type(value), torch.Tensor) and _has_graph(value)):
        return 0
    return _addends(value.grad_fn)


def _addends(node: Any) -> int:
    """How many terms a sum has, on the longest way through its additions."""
    count, front = 1, [_unscaled(node)]
    while count < LONGEST and (sums := [each for each in front if type(each).__name__ == "AddBackward0"]):
        terms = [[term for term, _ in each.next_functions if term is not None] for each in sums]
        count += any(len(each) > 1 for each in terms)  # a plain number has no graph
        front = [_unscaled(term) for each in terms for term in each][:PARTS]
    return count


def _unscaled(node: Any) -> Any:
    """What a chain of products with plain numbers multiplies."""
    while type(node).__name__ in SCALED:
        factors = [each for each, _ in node.next_functions if each is not None]
        if len(factors) != 1:
            break
        node = factors[0]
    return node


def _has_graph(value: Any) -> bool:
    import torch

    return issubclass(type(value), torch.Tensor) and value.dim() == 0 and value.grad_fn is not None
