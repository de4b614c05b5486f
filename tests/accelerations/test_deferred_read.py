"""The edit that spares a loop its waiting gives the numbers of before, and is not offered where the loop needs them."""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch

from accel.techniques.source.deferred_read import deferred_read

SUM = "total = 0.0\nfor x in data:\n    total += x.mean().item() * len(x)\n"
COUNT = "total = 0\nfor x in data:\n    total += (x > 0).sum().item()\n"
LIST = "total = []\nfor x in data:\n    total.append(x.mean().item())\n"


def edit(cell, line=3):
    return deferred_read(ast.parse(cell), line)


def run(cell):
    torch.manual_seed(0)
    names = {"torch": torch, "data": [torch.randn(7) for _ in range(200)]}
    exec(cell, names)
    return names["total"]


@pytest.mark.parametrize("cell", [SUM, COUNT, LIST], ids=["sum", "count", "list"])
def test_the_edited_cell_gives_exactly_the_numbers_of_before(cell):
    found = edit(cell)
    old = cell.splitlines()[2]
    assert run(cell.replace(old, f"    {found.line}") + found.after) == run(cell)
    assert "item" not in found.line


def test_a_sum_that_starts_anew_in_each_epoch_is_still_one():
    cell = "for epoch in range(3):\n" + textwrap.indent(SUM + "print(total / 200)\n", "    ")
    assert edit(cell, 4).line == "total += x.mean().detach().double() * len(x)"


@pytest.mark.parametrize(
    "line",
    ["    if total > 9: break", "    progress.set_postfix(loss=total)", "    best = max(best, total)"],
)
def test_a_number_that_the_loop_uses_meanwhile_is_left_alone(line):
    assert edit(SUM + line) is None


@pytest.mark.parametrize("line", ["last = x.item()", "total += 1", "total[0] += x.item()", "note(x.item())"])
def test_other_lines_have_no_such_edit(line):
    assert edit(f"total = 0.0\nfor x in data:\n    {line}\n") is None


def test_a_line_outside_any_loop_waits_only_once_as_it_is():
    assert edit("total = 0.0\nx = 1\ntotal += x.item()\n") is None
