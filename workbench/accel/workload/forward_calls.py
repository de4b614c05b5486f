"""Calls of a model: from which line, in which mode, and whether autograd recorded a graph for them."""

from __future__ import annotations

from typing import NamedTuple


class ForwardCall(NamedTuple):
    """One outermost call of a model; times as in the marks. `nodes` counts what autograd recorded: 0 under no_grad()."""

    begin_ns: int
    end_ns: int
    nodes: int
    is_training: bool
    filename: str
    line: int
    function: str
