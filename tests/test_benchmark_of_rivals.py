"""What the benchmark of rivals makes of its runs, and that the libraries train the same cell."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from benchmarks.clock import MARK, in_fresh_python
from benchmarks.clock_cells import ADAM, HEAD, LOOP, MLP, images
from benchmarks.rival_ways import RIVALS, Way
from benchmarks.rivals import FRESH, compared, figures_of, verdict

SETUP = HEAD + MLP.format(width=8) + ADAM + images(96, 16)
PLAIN = [
    {"step_ms": 10.0, "setup_s": 1.0, "loss": 2.0, "disturbed": False},
    {"step_ms": 20.0, "setup_s": 0.0, "loss": 2.0, "disturbed": True},
]
TWICE = [
    {"step_ms": 5.0, "setup_s": 9.0, "loss": 2.2, "disturbed": False},
    {"step_ms": 10.0, "setup_s": 0.0, "loss": 2.2, "disturbed": False},
]


def model(plan: str, **ways: list[dict[str, float]]) -> dict[str, object]:
    """A row, of which these ways were clocked."""
    runs = {"plain": PLAIN, **ways}
    compares = {name: compared(own, PLAIN) for name, own in runs.items()}
    claimed = [1.5, 1.4, 1.6] if plan else [1.0]
    return {
        "plan": plan,
        "claimed": claimed,
        "took_s": 60.0,
        "ways": compares,
        "verdict": verdict(plan, compares),
        "runs": runs,
    }


def test_a_way_is_compared_with_the_plain_cell_of_its_own_turn():
    twice = compared(TWICE, PLAIN)
    assert twice["ratio"] == [2.0, 2.0, 2.0]
    assert (twice["setup_s"], twice["loss"]) == (9.0, pytest.approx(1.1))
    assert twice["break_even_steps"] == pytest.approx(8.0 / 0.0075)
    assert "break_even_steps" not in compared(PLAIN, TWICE)  # slower: it never makes up for its setup


def test_the_best_of_all_rivals_decides_who_is_ahead():
    figures = figures_of(
        {
            "a": model("fused", exported=TWICE, compile=PLAIN),
            "b": model("fused", exported=PLAIN, lightning_fp32=TWICE),
        }
    )
    assert (figures["ahead/a"], figures["ahead/b"]) == (1.0, 0.0)
    assert (figures["tune/a"], figures["tune/a/low"], figures["tune/a/high"]) == (1.5, 1.4, 1.6)
    assert figures["disturbed_share/a"] == pytest.approx(2 / 6)
    assert all(type(value) is float for value in figures.values())


def test_a_cell_that_tune_leaves_as_it_is_counts_as_the_plain_one_and_says_so():
    row = model("", accelerate=TWICE)
    assert (
        row["verdict"]
        == "behind accelerate: 1.00 against 2.00; tune proved nothing faster, so its cell is the plain one"
    )
    figures = figures_of({"a": row})
    assert (figures["exported/a"], figures["tune/a"], figures["ahead/a"]) == (1.0, 1.0, 0.0)
    assert "tune/a/low" not in figures


@pytest.mark.fresh_interpreters
@pytest.mark.parametrize(
    ("library", "way"), [("lightning", "lightning_fp32"), ("accelerate", "accelerate_fp32")]
)
def test_a_library_without_mixed_precision_trains_as_the_plain_cell_does(library, way):
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    runs = [
        in_fresh_python(FRESH.format(mark=MARK, setup=SETUP, way=each, seconds=0.01))
        for each in (Way(cell=LOOP), RIVALS[way])
    ]
    assert runs[0]["loss"] == pytest.approx(runs[1]["loss"], rel=1e-6)
    assert all(run["step_ms"] > 0 for run in runs)
