"""The user's lines in the report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.html_parts import text
from accel.profiling.line_cost import LineCost
from accel.views.profile.lines import LINES

EVIL = "<img src=x>"


def cost(op, phase, line, self_ms, *, code="y = model(x)", filename="train.py"):
    return LineCost(op, phase, "layer", filename, line, code, self_ms, self_ms / 10, 1.0)


@pytest.fixture
def profile(real_profile):
    rows = (
        cost("aten::mm", "backward", 3, 4.0),
        cost("aten::addmm", "forward", 3, 2.0),
        cost("autograd::engine::evaluate_function: MmBackward0", "backward", 3, 5.0),
        cost("aten::add_", "optimizer", 7, 1.0, code="optimizer.step(" + "x" * 200 + ")"),
    )
    return replace(real_profile, lines=rows)


def html_of(profile):
    return "".join(text(part) for part in LINES.html(profile))


def test_a_line_is_told_with_all_its_time_and_its_most_expensive_operations(profile):
    title, first, ops, *_ = LINES.text(profile)
    assert title.startswith("Lines of your code")
    assert "11 ms" in first
    assert "train.py, line 3: y = model(x)" in first
    assert (
        ops.strip() == "aten::mm, aten::addmm"
    )  # what autograd does round each operation tells nobody anything


def test_long_lines_of_code_are_cut(profile):
    assert all(len(line) <= 110 for line in LINES.text(profile))
    assert "…" in html_of(profile)


def test_html_has_the_line_of_each_operation_too(profile):
    html = html_of(profile)
    assert "The line of each operation" in html
    assert html.index("aten::add_") < html.index("evaluate_function: MmBackward0")  # folded away, below


def test_code_and_names_are_escaped(profile):
    hostile = replace(profile, lines=(cost(EVIL, EVIL, 1, 1.0, code=EVIL, filename=EVIL),))
    assert EVIL not in html_of(hostile)
    assert "&lt;img" in html_of(hostile)
