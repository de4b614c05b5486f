from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.took import Took
from accel.measuring.tuning import AddedPart, LeftOut, Tuning
from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.ladder_row import axis_shown, ladder_row
from accel_widgets.trial_view import trial_shown

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
    return {"id": "t1", "title": "Trial 1", "time": "14:02", "date": "2026-11-28 14:02:11",
            "state": state, "is_running": state != "done", "facts": ["baseline 24.9 ms a step"],
            "notes": ["glibc malloc", "Xeon, 2 cores"], "rows": rows, "axis": axis_shown(rows), "curves": None}  # fmt: skip


IN_FOCUS = "document.activeElement.querySelector('h4')?.textContent ?? document.activeElement.tagName"


def row_of(view, plan: str):
    return view.page.locator(f"tr[data-plan='{plan}']")


def test_a_row_says_in_words_what_its_bar_shows(show):
    view = show(LadderPanel, trials=[trial(FASTER, SLOWER)])
    assert view.texts("sentence") == [
        "1.8 to 2.0× faster · ✓ loss follows",
        "slower: 0.78 to 0.82× · ⚠ LOSS DRIFTS · ✗ NO EFFECT: compile_model",
    ]
    assert "Xeon, 2 cores" in view.texts("trial-notes")[0]  # folded away
    folded = view.texts("evidence")
    assert "1.93× [1.88, 1.99] faster" in folded[0]
    assert "120 pairs of step blocks over 4 relaunches" in folded[0]
    assert "close: loss follows the baseline" in folded[0]
    assert "took effect: autocast — forward ran in torch.bfloat16" in folded[0]
    assert "DID NOT TAKE EFFECT: compile_model — 0 graphs were compiled" in folded[1]


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
    view = show(LadderPanel, trials=[trial(MEASURING, state="running")])
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
    assert view.texts("sentence")[2] == "at least 1.1× faster · ✓ loss follows"


def test_keep_sends_the_rows_plan_and_a_kept_row_says_so(show):
    view = show(LadderPanel, trials=[trial(FASTER)])
    view.page.get_by_test_id("keep").click()
    assert view.sent == [{"do": "keep", "plan": FASTER.plan}]
    view.set(trials=[trial(FASTER, kept=FASTER.plan)])
    assert view.page.get_by_test_id("is-live").is_visible()
    assert not view.page.get_by_test_id("keep").is_visible()


def test_a_failed_row_shows_its_error_and_folds_a_long_one(show):
    long = dataclasses.replace(FAILED, plan="prune", error="it raised " * 30)
    view = show(LadderPanel, trials=[trial(FAILED, long)])
    first, second = view.texts("sentence")
    assert first == "failed: the worker was killed (SIGKILL). Lower the batch size."
    assert second.endswith("…")
    assert len(second) < 80
    assert long.error.strip() in view.texts("evidence")[1]


def test_rows_update_in_place_so_that_focus_stays(show):
    view = show(LadderPanel, trials=[trial(FASTER, MEASURING, state="running")])
    view.page.get_by_test_id("keep").first.focus()
    view.set(trials=[trial(FASTER, SLOWER)])
    assert view.page.evaluate("document.activeElement.dataset.testid") == "keep"
    assert view.page.get_by_test_id("ladder-row").count() == 2


def test_rows_keep_their_places_while_it_runs_and_stand_best_first_in_the_end(show):
    view = show(LadderPanel, trials=[trial(SLOWER, FASTER, state="measuring")])
    plans = "rows => rows.map(row => row.dataset.plan)"

    def newly_sorted(state: str) -> dict[str, object]:
        shown = trial(SLOWER, FASTER, state=state)
        return {**shown, "rows": shown["rows"][::-1]}  # the axis is the same

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


def test_trials_say_when_they_began_and_a_removed_one_can_be_shown_again(show):
    view = show(LadderPanel, trials=[{**trial(SLOWER), "id": "t2", "title": "Trial 2"}, trial(FASTER)])
    assert view.texts("trial-time") == ["14:02", "14:02"]
    assert view.page.get_by_test_id("trial-time").first.get_attribute("title") == "2026-11-28 14:02:11"
    assert not view.page.get_by_text("Removed").is_visible()
    for _ in range(2):
        view.page.locator("details.accel-ladder-trial").first.evaluate("node => { node.open = true; }")
        view.page.get_by_test_id("trial-remove").first.click()
    assert view.page.get_by_text("Removed: 2").is_visible()
    view.page.get_by_test_id("show-removed").click()
    assert view.page.locator("h4").all_text_contents() == ["Trial 2", "Trial 1"]
    assert not view.page.get_by_text("Removed").is_visible()
    assert view.page.evaluate("document.activeElement.tagName") == "SUMMARY"
    view.set(compared="Speed-ups of Trial 2 against Trial 1: autocast 1.10× [1.04, 1.17] as large.")
    assert view.page.get_by_text("Trial 2 against Trial 1").is_visible()


@pytest.mark.parametrize(
    ("ending", "in_focus", "name"),
    [
        ("Enter", "Rename", "half of it"),
        ("Escape", "Rename", "Trial 1"),
        ("Done", "Rename", "half of it"),
        ("Pin", "Unpin", "half of it"),
    ],
)
def test_a_trial_gets_a_name_that_may_have_spaces_and_the_focus_is_where_the_user_went(
    show, ending, in_focus, name
):
    view = show(LadderPanel, trials=[trial(FASTER)])
    view.page.get_by_test_id("trial-rename").press("Enter")
    view.page.keyboard.type("half of it")
    if ending in ("Done", "Pin"):
        view.page.get_by_role("button", name=ending, exact=True).click()
    else:
        view.page.keyboard.press(ending)
    assert view.page.get_by_test_id("trial-name").is_hidden()
    assert view.page.locator("h4").inner_text() == name
    assert view.page.evaluate("document.activeElement.textContent") == in_focus
    assert view.page.locator("details.accel-ladder-trial").get_attribute("open") is not None


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
    panel = LadderPanel(
        on_keep=asked.append,
        on_copy=lambda *given: asked.append(given),
        compare=lambda *given: f"{given}",
    )
    panel._handle_custom_msg({"do": "keep", "plan": "channels_last"}, [])
    panel._handle_custom_msg({"do": "copy", "trial": "trial-1", "form": "csv"}, [])
    assert asked == ["channels_last", ("trial-1", "csv", None)]
    panel.trials = [{**trial(SLOWER), "id": "t2", "title": "Trial 2"}, trial(FASTER)]
    panel.pinned, panel.names = ["t1", "t2"], {"t1": "before"}
    assert panel.compared == "('t2', 't1', ('Trial 2', 'before'))"
    panel.removed = ["t1"]
    assert panel.compared == ""
    panel.trials = [{**trial(SLOWER), "id": "t3"}, *panel.trials]
    panel.pinned, panel.removed = ["t1", "t2", "t3"], []
    assert panel.compared == "Pin two trials to compare them."


def test_clean_up_stops_listening(show):
    view = show(LadderPanel, trials=[trial(FASTER)])
    view.page.evaluate("cleanup()")
    assert view.page.evaluate("model.listening()") == 0


def tuning(*, is_over=True, searched=(), confirmed=(), **more):
    """A search as the panel shows it; its plans are compared by hand."""
    result = Tuning(
        best=None, parts=(), confirmed=confirmed, searched=searched, left_out=(), expectations=(), baseline_ms=24.9,
        steps=300, machine_line="Xeon, 2 cores", allocator_line="Allocator: steady.",
        took=Took(119.0, 120.0, (), "the time was up"), is_over=is_over,
    )  # fmt: skip
    trial = SimpleNamespace(
        began="2026-11-28T14:02:11+01:00", result=dataclasses.replace(result, **more), is_over=is_over,
        state="done" if is_over else "measuring",
        phases=SimpleNamespace(now="measuring, round 3 of 24 at most"), budget=SimpleNamespace(left_s=83.7, seconds=120.0),
    )  # fmt: skip
    told = trial_shown(trial, 2, kept="")
    json.dumps(told, allow_nan=False)  # a browser takes nothing else
    return told


def searched(plan, ratio, verdict="faster", **more):
    """A row of a search: under a steady allocator only."""
    interval = Interval(ratio, ratio - 0.03, ratio + 0.03, 1, 24)
    row = dataclasses.replace(FASTER, plan=plan, verdict=verdict, headline=None, steady=interval, proofs=())
    return dataclasses.replace(row, **more)


CHANNELS = dataclasses.replace(
    FASTER, plan="channels_last", headline=Interval(1.4, 1.37, 1.43, 3, 60), proofs=()
)
TOGETHER = dataclasses.replace(CHANNELS, plan="channels_last+autocast", headline=FASTER.headline)
PARTS = (
    AddedPart("channels_last", CHANNELS.headline, CHANNELS.headline),
    AddedPart("autocast", TOGETHER.headline, Interval(1.38, 1.33, 1.43, 3, 60)),
)


def test_a_search_says_while_it_runs_how_far_it_is_and_offers_no_plan_to_keep(show):
    now = tuning(
        is_over=False, searched=(searched("autocast", 1.35), searched("compile_model", 0.8, "slower"))
    )
    view = show(LadderPanel, trials=[now])
    assert view.page.locator("h4").all_text_contents() == ["Tuning 2"]
    assert view.page.get_by_text("measuring, round 3 of 24 at most; 84 s of 120 s left").is_visible()
    assert view.texts("sentence")[0] == "1.3 to 1.4× faster under a steady allocator · ✓ loss follows"
    assert row_of(view, "autocast").get_by_test_id("whisker").is_visible()
    assert view.page.get_by_role("button", name="Keep").count() == 0
    assert "Took" not in view.texts("trial-notes")[0]


def test_a_search_that_has_measured_nothing_yet_has_no_table(show):
    view = show(LadderPanel, trials=[tuning(is_over=False)])
    assert not view.page.locator("table").is_visible()


def test_a_search_that_is_over_says_its_answer_and_what_each_part_adds(show):
    left_out = (LeftOut("prune", "LOSS DRIFTS", is_news=True), LeftOut("ema", "LOSS DRIFTS", is_news=True),
                LeftOut("ddp", "you excluded it"))  # fmt: skip
    rows = (searched("prune", 1.6), searched("autocast", 1.35), searched("compile_model", 0.8, "slower"))
    over = tuning(
        best=TOGETHER, parts=PARTS, confirmed=(CHANNELS, TOGETHER), searched=rows, left_out=left_out, notes=("Noisy.",)
    )  # fmt: skip
    view = show(LadderPanel, trials=[over])
    assert over["facts"] == [
        f"channels_last+autocast: 1.93× [1.88, 1.99] faster; {TOGETHER.quality}", "baseline 24.9 ms a step"
    ]  # fmt: skip
    assert view.page.locator("[data-testid='trial-notes'] > li").all_text_contents() == [
        "What each part adds, as this notebook runs:",
        "channels_last: 1.40× [1.37, 1.43]",
        "+ autocast: 1.93× [1.88, 1.99] together, 1.38× [1.33, 1.43] more",
        "Left out: prune, ema: LOSS DRIFTS",
        "Took 119 s of 120 s; the time was up.",
        "Noisy.",
        "Allocator: steady.",
        "Xeon, 2 cores",
    ]
    shown = view.page.locator("tbody tr")
    assert [row.get_attribute("data-plan") for row in shown.all()] == [
        TOGETHER.plan, CHANNELS.plan, "prune", "autocast", "compile_model"
    ]  # fmt: skip
    keep = view.page.get_by_role("button", name="Keep")
    assert [each.get_attribute("aria-label") for each in keep.all()] == [
        f"Keep {plan}" for plan in (TOGETHER.plan, CHANNELS.plan)
    ]


def test_a_plan_for_several_processes_says_how_to_run_it_and_is_not_kept_here():
    best = dataclasses.replace(FASTER, plan="ddp(n=2)")
    over = tuning(best=best, confirmed=(best,), how_to_run="Put %%accel ddp --n 2 over the cell.")
    assert over["notes"][0] == "Next: Put %%accel ddp --n 2 over the cell."
    assert not over["rows"][0]["can_keep"]


def test_the_twelve_fastest_of_a_search_are_shown_and_a_row_that_falls_behind_goes(show):
    plans = [f"intraop_threads(n={n})" for n in range(1, 14)]
    rows = [searched(plan, 1.5 - n / 100) for n, plan in enumerate(plans)]
    view = show(LadderPanel, trials=[tuning(is_over=False, searched=tuple(rows[1:]))])
    view.set(trials=[tuning(is_over=False, searched=tuple(rows))])
    shown = view.page.locator("tbody tr")
    assert [row.get_attribute("data-plan") for row in shown.all()] == plans[:12]
    assert "12 of 13 plans are shown, the fastest." in view.texts("trial-notes")[0]


def test_a_row_of_a_search_moves_to_the_top_when_it_is_measured_anew(show):
    rows = (searched("compile_model", 1.5), searched("channels_last", 1.4))
    view = show(LadderPanel, trials=[tuning(is_over=False, searched=rows)])
    anew = dataclasses.replace(CHANNELS, headline=None, state="confirming")
    view.set(trials=[tuning(is_over=False, searched=rows, confirmed=(anew,))])
    shown = view.page.locator("tbody tr")
    assert [row.get_attribute("data-plan") for row in shown.all()] == ["channels_last", "compile_model"]
    assert view.texts("progress")[0].startswith("confirming")


def test_a_row_that_goes_and_a_keep_that_hides_hand_their_focus_to_the_trial(show):
    rows = (searched("channels_last", 1.4), searched("compile_model", 1.2))
    view = show(LadderPanel, trials=[tuning(is_over=False, searched=rows)])
    view.page.get_by_text("How it was found").first.focus()
    anew = dataclasses.replace(CHANNELS, headline=None, state="confirming")
    view.set(trials=[tuning(is_over=False, searched=rows, confirmed=(anew,))])
    assert view.page.evaluate(IN_FOCUS) == "Tuning 2"
    view.set(trials=[trial(FASTER)])
    view.page.get_by_test_id("keep").focus()
    of_another_cell = trial(FASTER)
    of_another_cell["rows"][0]["can_keep"] = False
    view.set(trials=[of_another_cell])
    assert view.page.evaluate(IN_FOCUS) == "Trial 1"
