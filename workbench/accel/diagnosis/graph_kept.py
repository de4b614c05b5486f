"""Losses are kept with their graphs: each step's activations stay in memory, and a sum of losses makes one ever longer graph."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from accel.profiling.findings import Finding
from accel.workload.namespace_reads import LEAVES, attributes_of

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

FEWEST_STEPS, ENOUGH_STEPS = 3, 5  # fewer may be what a loss over two steps needs
PARTS = 64  # of a dict, a list or an object that are looked at
MOST_OBJECTS, MOST_NODES = 5_000, 5_000
OF_LEAVES = 2**62  # nodes of parameters have the largest sequence number there is


def graph_kept(evidence: Evidence) -> Finding | None:
    """A variable that the cell leaves behind holds values of several steps together with their graphs."""
    conditions = evidence.profile.whole_run.conditions
    ends = conditions.step_nodes if conditions is not None else ()
    if evidence.is_of_trace or len(ends) <= FEWEST_STEPS:
        return None
    name, steps = next(_kept(evidence, ends), ("", 0))
    if not name:
        return None
    variable = name.partition("[")[0].partition(".")[0]
    return Finding(
        kind="graph_kept",
        title=f"{name} keeps the graphs of at least {steps} steps",
        what="A tensor with a graph keeps its step's activations alive; if each step keeps one, memory grows with every step.",
        share=0.0,
        evidence=(f"{name}: graphs of at least {steps} of the last {len(ends) - 1} steps",),
        prediction=None,
        suggests=(),
        remedy=f"Store value.item() in {name}; store value.detach() instead if .item() would wait for the GPU.",
        wrong_when="a later backward pass uses all these graphs, as for a whole episode.",
        line=evidence.line_where(lambda node: getattr(node, "id", "") == variable, in_loop=True),
        details={"steps": float(steps)},
    )


def _kept(evidence: Evidence, ends: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Variables that the cell writes or reads, and their parts, with how many steps' graphs each holds."""
    workload, steps = evidence.workload, len(ends) - 1
    for name in dict.fromkeys((*workload.writes, *workload.reads)):
        for label, value in _with_parts(name, workload.namespace.get(name)):
            nodes = [each.grad_fn for each in _tensors(value)]
            if nodes and (count := _steps_of(nodes, ends)) >= min(steps, ENOUGH_STEPS):
                yield label, min(count, steps)


def _with_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A variable; of a dict or an object each part first, so that the finding can name it."""
    if type(value) in (dict, defaultdict):
        yield from ((f"{name}[{key!r}]", part) for key, part in islice(value.items(), PARTS))
    elif not issubclass(type(value), ModuleType):
        yield from ((f"{name}.{key}", part) for key, part in islice(attributes_of(value).items(), PARTS))
    yield name, value


def _tensors(value: Any) -> list[Any]:
    """Tensors with a graph in a value: in containers and in attributes, of a long list the last ones."""
    import torch

    found, seen, waiting = [], dict[int, Any](), deque([value])
    while waiting and len(seen) < MOST_OBJECTS:
        each = waiting.popleft()
        kind = type(each)
        if id(each) in seen or issubclass(kind, (*LEAVES, type, FunctionType)):
            continue
        seen[id(each)] = each
        if issubclass(kind, torch.Tensor):
            found += [each] if each.grad_fn is not None else []
        elif kind in (list, tuple, deque):
            waiting.extend(islice(reversed(each), PARTS))
        elif issubclass(kind, dict):
            waiting.extend(islice(dict.values(each), PARTS))
        else:
            waiting.extend(islice(attributes_of(each).values(), PARTS))
    return found


def _steps_of(nodes: Iterable[Any], ends: Sequence[int]) -> int:
    """In how many of the last steps these nodes, and the nodes that they lead to, were recorded.

    Oldest first: a sum over all steps leads to the first step without a visit to the graphs of the others.
    """
    steps, seen = set[int](), dict[int, Any]()
    waiting: list[tuple[int, int, Any]] = []

    def add(node: Any) -> None:
        number = int(node._sequence_nr())
        if id(node) not in seen and ends[0] <= number < OF_LEAVES:
            seen[id(node)] = node
            steps.add(bisect_right(ends, number))
            heapq.heappush(waiting, (number, len(seen), node))

    for node in nodes:
        add(node)
    while waiting and len(steps) < len(ends) and len(seen) < MOST_NODES:
        _, _, oldest = heapq.heappop(waiting)
        for following, _ in oldest.next_functions:
            if following is not None:
                add(following)
    return len(steps)
