"""What a search leaves out because compiling it would take most of its time."""

from __future__ import annotations

import pytest

from accel.plans.plan import Plan
from accel.workbench.time_for_parts import TimeForParts
from accel.workers.relaunch_estimate import compiling_s
from tests.workers.conftest import CELL


def why_not(workbench, part, *, search_s, is_asked=False):
    if workbench.workload is None:
        workbench.profile(CELL)
    time = TimeForParts(workbench, workbench.workload, steps=10**9, search_s=search_s)
    return time.too_short_for(Plan.parse(part), is_asked=is_asked)


def test_a_model_that_compiles_for_most_of_a_search_is_left_out_with_the_budget_that_takes_it_in(workbench):
    assert "the search has 12 s: --budget-s 60 takes it in" in why_not(
        workbench, "compile_model", search_s=12
    )
    assert why_not(workbench, "compile_model", search_s=36) == ""
    assert why_not(workbench, "channels_last", search_s=12) == ""


def test_who_asks_for_it_by_name_gets_it(workbench):
    assert why_not(workbench, "compile_model", search_s=12, is_asked=True) == ""


@pytest.mark.parametrize(
    ("name", "calls", "took_s"),
    [
        ("compile_model", 58, 11.9), ("compile_model", 313, 15.8), ("compile_model", 563, 23.1),
        ("compile_model", 3832, 116.3), ("compile_optimizer", 2549, 37.0),
    ],
)  # fmt: skip
def test_the_estimate_is_near_what_compiling_took(name, calls, took_s):
    assert compiling_s(name, calls) == pytest.approx(took_s, rel=0.2)
