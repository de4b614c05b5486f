from __future__ import annotations

import dataclasses
import json

import pytest

from accel.measuring.comparison import Comparison, Interval, Quality
from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.ladder_row import ladder_row

pytestmark = pytest.mark.browser

FASTER = Comparison(
    plan='channels_last+autocast(dtype="bf16")', verdict="faster", headline=Interval(1.93, 1.88, 1.99, 4, 120),
    steady=Interval(1.9, 1.88, 1.92, 1, 90), quality=Quality("follows", 1e-3, 2e-3, 40), effect="close",
    proofs=(("autocast", True, "forward ran in torch.bfloat16"),), baseline_ms=24.9, candidate_ms=12.9,
)  # fmt: skip
SLOWER = Comparison(
    plan="compile_model", verdict="slower", headline=Interval(0.8, 0.78, 0.82, 4, 120), steady=None,
    quality=Quality("drifts", 1e-1, 2e-3, 40), effect="close",
    proofs=(("compile_model", False, "0 graphs were compiled"),),
)  # fmt: skip
MEASURING = Comparison(
    plan="fused_optimizer", verdict="undecided", headline=None, steady=Interval(1.1, 0.9, 1.3, 1, 34),
    quality=Quality("unknown"), effect="exact", state="measuring",
)  # fmt: skip
CONFIRMING = dataclasses.replace(MEASURING, headline=Interval(1.1, 0.98, 1.22, 1, 12), state="confirming")
FAILED = Comparison(
    plan="loader_workers", verdict="undecided", headline=None, steady=None, quality=Quality("unknown"), effect="exact",
    state="failed", error="the worker was killed (SIGKILL). Lower the batch size.",
)  # fmt: skip


def trial(*comparisons: Comparison, state: str = "done", kept: str = "") -> dict[str, object]:
    rows = [ladder_row(one, row_id=f"t1-{i}", kept=kept) for i, one in enumerate(comparisons)]
    return {"id": "t1", "title": "Trial 1", "state": state, "is_running": state != "done", "facts": ["baseline 24.9 ms a step"],
            "notes": ["glibc malloc", "Xeon, 2 cores"], "rows": rows, "last_column": "Loss", "curves": None}  # fmt: skip


def row_of(view, plan: str):
    return view.page.locator(f"tr[data-plan='{plan}']")


def test_a_row_says_in_words_what_its_bar_shows(show):
    view = show(LadderPanel, trials=[trial(FASTER, SLOWER)])
    assert view.texts("sentence") == [
        "1.93× [1.88, 1.99] faster",
        "slower: 0.80× [0.78, 0.82] of the baseline's speed",
    ]
    assert "loss follows the baseline" in view.texts("quality")[0]
    assert "LOSS DRIFTS" in view.texts("quality")[1]
    assert "✓ autocast: forward ran in torch.bfloat16" in row_of(view, FASTER.plan).inner_text()
    assert "✗ NO EFFECT: compile_model: 0 graphs were compiled" in row_of(view, SLOWER.plan).inner_text()
    assert view.page.get_by_text("Xeon, 2 cores").is_visible()
    assert "120 pairs of step blocks over 4 relaunches" in view.texts("evidence")[0]


def test_bars_and_whiskers_lie_at_their_values(show):
    view = show(LadderPanel, trials=[trial(FASTER, SLOWER)])
    row = row_of(view, FASTER.plan)
    fill = row.locator(".accel-ladder-fill").bounding_box()
    unit = row.locator(".accel-ladder-unit").bounding_box()
    whisker = row.get_by_test_id("whisker").bounding_box()
    one = unit["x"] - fill["x"]
    assert fill["width"] / one == pytest.approx(1.93, rel=0.02)
    assert (whisker["x"] - fill["x"]) / one == pytest.approx(1.88, rel=0.02)
    assert (whisker["x"] + whisker["width"] - fill["x"]) / one == pytest.approx(1.99, rel=0.02)


def test_a_running_row_counts_pairs_and_gives_no_verdict_yet(show):
    view = show(LadderPanel, trials=[trial(MEASURING, state="running")], is_running=True)
    assert view.texts("progress") == ["measuring … 34 pairs"]
    assert view.texts("sentence") == [""]
    assert not view.page.get_by_test_id("keep").is_visible()
    view.set(trials=[trial(CONFIRMING, state="running")])
    assert view.texts("sentence") == ["1.10× [0.98, 1.22] so far"]


def test_one_wide_interval_leaves_the_other_bars_their_length_and_other_trials_their_axis(show):
    wide = dataclasses.replace(FASTER, plan="wide", headline=Interval(4.66, 1.17, 18.53, 1, 10))
    other = {
        **trial(dataclasses.replace(FASTER, plan="long", headline=Interval(9.0, 8.8, 9.2, 3, 90))),
        "id": "t2",
    }
    view = show(LadderPanel, trials=[other, trial(FASTER, wide)])
    bar = row_of(view, FASTER.plan).locator(".accel-ladder-bar").bounding_box()
    fill = row_of(view, FASTER.plan).locator(".accel-ladder-fill").bounding_box()
    whisker = row_of(view, "wide").get_by_test_id("whisker").bounding_box()
    assert fill["width"] > 0.5 * bar["width"]
    assert whisker["x"] + whisker["width"] <= bar["x"] + bar["width"] + 1
    assert view.texts("sentence")[2] == "at least 1.1× faster [1.17, 18.53]"


def test_stop_is_there_while_a_trial_runs_and_sends_stop(show):
    view = show(LadderPanel, trials=[trial(MEASURING, state="running")], is_running=True)
    view.page.get_by_test_id("stop").press("Enter")
    assert view.sent == [{"do": "stop"}]
    view.set(is_running=False)
    assert not view.page.get_by_test_id("stop").is_visible()


def test_keep_sends_the_rows_plan_and_a_kept_row_says_it_is_live(show):
    view = show(LadderPanel, trials=[trial(FASTER)])
    view.page.get_by_test_id("keep").click()
    assert view.sent == [{"do": "keep", "plan": FASTER.plan}]
    view.set(trials=[trial(FASTER, kept=FASTER.plan)])
    assert view.page.get_by_test_id("is-live").is_visible()
    assert not view.page.get_by_test_id("keep").is_visible()


def test_a_failed_row_shows_its_error(show):
    view = show(LadderPanel, trials=[trial(FAILED)])
    assert view.texts("sentence") == ["failed: the worker was killed (SIGKILL). Lower the batch size."]


def test_rows_update_in_place_so_that_focus_stays(show):
    view = show(LadderPanel, trials=[trial(FASTER, MEASURING, state="running")], is_running=True)
    view.page.get_by_test_id("keep").first.focus()
    view.set(trials=[trial(FASTER, SLOWER)])
    assert view.page.evaluate("document.activeElement.dataset.testid") == "keep"
    assert view.page.get_by_test_id("ladder-row").count() == 2


def test_rows_keep_their_places_while_it_runs_and_stand_best_first_in_the_end(show):
    view = show(LadderPanel, trials=[trial(SLOWER, FASTER, state="measuring")])
    plans = "rows => rows.map(row => row.dataset.plan)"

    def newly_sorted(state: str) -> dict[str, object]:
        shown = trial(SLOWER, FASTER, state=state)
        return {**shown, "rows": shown["rows"][::-1]}

    view.set(trials=[newly_sorted("measuring")])
    assert view.page.eval_on_selector_all("tbody tr", plans) == [SLOWER.plan, FASTER.plan]
    view.page.get_by_test_id("keep").last.focus()
    view.set(trials=[newly_sorted("done")])
    assert view.page.eval_on_selector_all("tbody tr", plans) == [FASTER.plan, SLOWER.plan]
    assert view.page.evaluate("document.activeElement.ariaLabel") == f"Keep {FASTER.plan}"


def test_a_newer_trial_comes_first_and_a_forgotten_one_goes(show):
    view = show(LadderPanel, trials=[trial(FASTER)])
    newer = {**trial(SLOWER), "id": "t2", "title": "Trial 2"}
    view.set(trials=[newer, trial(FASTER)])
    assert view.page.locator("h4").all_text_contents() == ["Trial 2", "Trial 1"]
    view.set(trials=[newer])
    assert view.page.locator("h4").all_text_contents() == ["Trial 2"]


def test_nothing_overflows_in_a_narrow_notebook(show):
    view = show(LadderPanel, trials=[trial(FASTER, SLOWER, MEASURING, FAILED)])
    view.page.set_viewport_size({"width": 640, "height": 700})
    assert view.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_rows_survive_strict_json():
    for comparison in (FASTER, SLOWER, MEASURING, FAILED):
        json.dumps(ladder_row(comparison, row_id="r"), allow_nan=False)


def test_an_unfinished_measurement_with_an_infinite_bound_has_no_whisker(show):
    wide = Comparison(plan="autocast", verdict="undecided", headline=None,
                      steady=Interval(1.0, 0.0, float("inf"), 1, 1),
                      quality=Quality("unknown"), effect="close", state="measuring")  # fmt: skip
    view = show(LadderPanel, trials=[trial(wide)])
    assert not view.page.get_by_test_id("whisker").is_visible()


def test_clicks_reach_what_the_panel_was_given():
    asked: list[object] = []
    panel = LadderPanel(on_stop=lambda: asked.append("stop"), on_keep=asked.append)
    panel._handle_custom_msg({"do": "stop"}, [])
    panel._handle_custom_msg({"do": "keep", "plan": "channels_last"}, [])
    assert asked == ["stop", "channels_last"]


def test_clean_up_stops_listening(show):
    view = show(LadderPanel, trials=[trial(FASTER)])
    view.page.evaluate("cleanup()")
    assert view.page.evaluate("model.listening()") == 0
