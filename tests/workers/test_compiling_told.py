"""The row of a plan that compiles tells what compiling did and when it pays off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.measuring.comparison import Interval
from accel.plans.plan import Plan
from accel.profiling.compilation import Compilation, GraphBreak, Recompilation
from accel.workers.samples import Samples
from accel.workers.stage import Standing
from accel.workers.trial_rows import comparison_of
from tests.workers.conftest import CELL

COLD = Compilation(
    graphs=3,
    compile_s=11.0,
    recompilations=(Recompilation("forward", "tensor 'x' size mismatch", "<cell>", 4, 2),),
    graph_breaks=(GraphBreak("Tensor.item()", "<cell>", 7, 1),),
)
WARM = replace(COLD, compile_s=1.0, from_cache=3)


def samples(step_ms, warm_up_s, compilation=None):
    return Samples(
        step_ns=[step_ms * 1e6] * 10, warm_up_s=warm_up_s, warm_up_steps=5, steps=10, compilation=compilation
    )


def standing(ratio, own, verdict):
    return Standing(
        samples=[samples(40.0 / ratio, setup_s + 0.2 / ratio, found) for setup_s, found in own],
        base_samples=[samples(40.0, 0.2) for _ in own],
        shown=Interval(ratio, ratio * 0.9, ratio * 1.1, len(own), 60),
        verdict=verdict,
    )


def row(plan, steady, notebook=None):
    return comparison_of(Plan.parse(plan), steady, notebook, floor=[])


def test_the_relaunch_that_compiled_without_a_cache_says_what_compiling_costs():
    found = row("compile_model", standing(2.0, [(12.0, COLD), (1.5, WARM)], "faster"))
    assert found.setup_s == pytest.approx(12.0)
    assert found.break_even_steps == 600
    assert "pays off after 600 steps" in found.notes[0]
    assert "3 graphs, 11 s compiling" in found.notes[1]
    assert any("2 times forward, cell, line 4: tensor 'x' size mismatch" in note for note in found.notes)
    assert any("cell, line 7: Tensor.item()" in note for note in found.notes)
    assert not any("on disk" in note for note in found.notes)


def test_the_cold_start_of_the_first_stage_counts_for_the_figure_of_the_second():
    found = row(
        "compile_model", standing(2.0, [(12.0, COLD)], "faster"), standing(4.0, [(1.5, WARM)], "faster")
    )
    assert found.setup_s == pytest.approx(12.0, rel=0.02)
    assert found.break_even_steps == pytest.approx(400, rel=0.02)  # 30 ms a step, as the notebook runs


def test_a_slower_plan_never_pays_off():
    found = row("compile_model", standing(0.6, [(12.0, COLD)], "slower"))
    assert found.break_even_steps is None
    assert found.notes[0].startswith("never pays off: it is slower")


def test_code_that_was_on_disk_is_said_to_be():
    assert "on disk" in row("compile_model", standing(2.0, [(1.0, WARM)], "faster")).notes[-1]


def test_plans_that_compile_nothing_have_no_word_on_it():
    assert row("channels_last", standing(2.0, [(0.0, None)], "faster")).notes == ()


@pytest.mark.compiles
def test_a_trial_of_a_compiled_model_tells_seconds_graphs_and_break_even(workbench):
    workbench.profile(CELL)
    found = workbench.try_("compile_model").rows[0]
    assert found.state == "done", found.error
    assert found.setup_s > 0
    assert any("s compiling" in note and "graph" in note for note in found.notes), found.notes
    assert any("pays off" in note for note in found.notes), found.notes
    assert found.notes[0] in str(workbench.trials[-1].ladder)


def test_a_compiled_criterion_is_no_backward_pass_while_it_is_traced(workbench):
    """torch traces loss and gradient together: what it differentiates then has no value to report."""
    workbench.profile(CELL)
    found = workbench.try_('compile_model(backend="aot_eager", scope="step")').rows[0]
    assert found.state == "done", found.error
    assert all(took for _, took, _ in found.proofs), found.proofs
    assert found.quality.following in ("same", "follows")
