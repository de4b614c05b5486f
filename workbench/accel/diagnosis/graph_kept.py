"""Stored tensors keep their graphs in memory, step after step; a running sum of losses builds one ever longer graph."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any

from accel.profiling.findings import Finding
from accel.workload.namespace_reads import LEAVES, attributes_of, is_a

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

FEWEST_STEPS, ENOUGH_STEPS = 3, 5  # a loss over two steps may need fewer
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
        what="A stored tensor keeps its graph alive, and its activations if no backward pass freed them. Memory grows step by "
        "step.",
        share=0.0,
        evidence=(f"{name}: graphs of at least {steps} of the last {len(ends) - 1} steps",),
        prediction=None,
        suggests=(),
        remedy=f"Store value.item() in {name}; store value.detach() instead if .item() would wait for the GPU.",
        wrong_when="a later backward pass uses all these graphs, for example over a whole RL episode.",
        line=evidence.line_where(lambda node: getattr(node, "id", "") == variable, in_loop=True),
        details={"steps": float(steps)},
    )


def _kept(evidence: Evidence, ends: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Variables that the cell writes or reads, and their parts, with how many steps' graphs each holds."""
    workload, steps = evidence.workload, len(ends) - 1
    for name in dict.fromkeys((*workload.writes, *workload.reads)):
        value = workload.namespace.get(name)
        if (count := _steps_of(_nodes(value), ends)) >= min(steps, ENOUGH_STEPS):
            parts = ((label, _steps_of(_nodes(part), ends)) for label, part in _parts(name, value))
            yield next(
                ((label, min(own, steps)) for label, own in parts if own >= count), (name, min(count, steps))
            )


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a dict or an object, with what the notebook calls them."""
    if is_a(value, dict):
        for key, part in islice(reversed(dict.items(value)), PARTS):
            yield f"{name}[{key!r}]" if type(key) in (str, int) else f"{name}[…]", part
    else:
        yield from ((f"{name}.{key}", part) for key, part in islice(attributes_of(value).items(), PARTS))


def _nodes(value: Any) -> list[Any]:
    """The grad_fn nodes of tensors in a value, its containers and its attributes; of a long list, only the last items."""
    import torch

    found, seen, waiting = [], dict[int, Any](), deque([value])
    while waiting and len(seen) < MOST_OBJECTS:
        each = waiting.popleft()
        if id(each) in seen or is_a(each, (*LEAVES, type, FunctionType)):
            continue
        seen[id(each)] = each
        if is_a(each, torch.Tensor):
            with suppress(Exception):  # a view of what was changed in place since
                found += [each.grad_fn] if each.grad_fn is not None else []
        else:
            waiting.extend(_last_items(each))
            waiting.extend(islice(attributes_of(each).values(), PARTS))
    return found


def _last_items(value: Any) -> Iterable[Any]:
    """Up to PARTS items of a container, the last ones if it is ordered, read without running the user's code."""
    for kind in (list, tuple):
        if is_a(value, kind):
            return kind.__getitem__(value, slice(-PARTS, None))
    if is_a(value, deque):
        return islice(deque.__reversed__(value), PARTS)
    if is_a(value, (set, frozenset)):
        return islice((set if is_a(value, set) else frozenset).__iter__(value), PARTS)
    if is_a(value, dict):
        return islice(reversed(dict.values(value)), PARTS)
    return ()


def _steps_of(nodes: Iterable[Any], ends: Sequence[int]) -> int:
    """In how many of the last steps these nodes, and the nodes that they lead to, were recorded.

    Oldest node first: a sum over all steps then leads to the first step without visiting the graphs in between.
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
