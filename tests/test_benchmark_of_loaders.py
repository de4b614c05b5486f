"""The cells that wait for their loader, and what the benchmarks of clock and verdicts make of their rows."""

from __future__ import annotations

import pytest
from benchmarks import clock, verdicts
from benchmarks.clock_cells import CASES
from benchmarks.loader_cells import LOADER_CASES, loader_case


def test_each_kind_tries_one_two_and_four_workers_and_once_none():
    assert len(LOADER_CASES) == 12
    assert {case.name.partition("_")[0] for case in LOADER_CASES} == {"memory", "decode", "sleep"}
    for kind in ("memory", "decode", "sleep"):
        plans = [case.plan for case in LOADER_CASES if case.name.startswith(kind)]
        assert plans == [f"loader_workers(n={n})" for n in (1, 2, 4, 0)]
    names = [case.name for case in (*CASES, *LOADER_CASES)]
    assert len(set(names)) == len(names)


def notebook(text):
    namespace = {"__name__": "__main__"}
    exec(compile(text, "<setup>", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("kind", ["memory", "decode", "sleep"])
def test_a_cell_has_its_workers_and_trains_on_what_the_loader_gives(kind):
    namespace = notebook(loader_case(kind, had=1, gets=0).setup)
    assert namespace["loader"].num_workers == 1
    vars(namespace["loader"]).update(num_workers=0, prefetch_factor=None)
    x, y = next(iter(namespace["loader"]))
    assert namespace["criterion"](namespace["model"](x), y).isfinite()


def test_the_cell_of_verdicts_takes_another_number_of_workers_back():
    case = loader_case("memory", had=2, gets=0)
    namespace = notebook(case.setup + "is_slower, extra = [False], 0.05\n")
    exec(verdicts.LOADER_CELL.format(workers=0, prefetch=None), namespace)
    assert namespace["number"] == len(namespace["loader"])
    assert namespace["loader"].num_workers == 0


def row(verdict, claimed, notebook, fresh):
    low, high = claimed
    return {
        "plan": "loader_workers(n=2)", "verdict": verdict, "claimed": [(low * high) ** 0.5, low, high], "undone": 1.0,
        "claimed_here": [low, high], "notebook": [notebook] * 3, "fresh": [fresh] * 3,
    }  # fmt: skip


def test_every_interval_of_a_tried_plan_is_a_claim_and_only_faster_has_to_be_faster():
    cells = {
        "a": row("faster", (1.5, 2.0), 1.6, 1.4), "b": row("undecided", (0.8, 1.2), 0.9, 1.1),
        "c": row("slower", (0.5, 0.7), 0.6, 0.6), "d": {"plan": "", "verdict": ""},
    }  # fmt: skip
    figures = clock.figures_of(cells, "loaders_")
    assert (figures["loaders_cells"], figures["loaders_with_a_plan"], figures["loaders_called_faster"]) == (
        4,
        3,
        1,
    )
    assert (figures["loaders_inside_notebook_share"], figures["loaders_inside_fresh_share"]) == (1, 2 / 3)
    assert (figures["loaders_faster_notebook_share"], figures["loaders_faster_fresh_share"]) == (1, 1)


def test_a_plan_called_faster_that_is_slower_shows():
    cells = {"a": row("faster", (1.1, 2.0), 0.8, 0.9), "b": row("faster", (1.1, 2.0), 1.2, 1.3)}
    figures = clock.figures_of(cells, "loaders_")
    assert (figures["loaders_faster_notebook_share"], figures["loaders_faster_fresh_share"]) == (0.5, 0.5)
    assert clock.figures_of({}, "loaders_") == {}


def test_what_tune_chose_counts_as_called_faster_without_a_word_of_it():
    found = {key: value for key, value in row("", (1.1, 2.0), 1.2, 0.9).items() if key != "verdict"}
    figures = clock.figures_of({"cnn": found})
    assert (figures["faster_notebook_share"], figures["faster_fresh_share"]) == (1, 0)
    assert "called_faster" not in figures


def test_verdicts_on_loaders_have_rates_without_the_other_ways():
    answer = {"verdict": "no difference", "ratio": 1.01}
    asked = [
        {"cell": "a", "same": [answer], "slower": [{"verdict": "slower", "ratio": 0.95}], "seconds": 40, "busy": False},
        {"cell": "b", "same": [{**answer, "verdict": "faster"}], "slower": [answer], "seconds": 50, "busy": False},
    ]  # fmt: skip
    figures = verdicts.figures_of("loaders", asked)
    assert figures["loaders/questions"] == 2
    assert (figures["loaders/false_verdict_rate"], figures["loaders/detection_5pct"]) == (0.5, 0.5)
    assert not any("sequential" in name for name in figures)
