"""A trial by quality on the panel's ladder: its rows in words, its curves, its plans to keep."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.trial_view import trial_shown
from tests.widgets.conftest import saved
from tests.workbench.test_best_tried import BASELINE, LATER, REFUSED, SOONER, result, row

pytestmark = pytest.mark.browser


def shown(*rows, state="done", **more):
    trial = SimpleNamespace(
        result=replace(result(*rows), **more), state=state, is_over=state == "done", began="2026-11-28T14:02:11+01:00"
    )  # fmt: skip
    told = trial_shown(trial, 1, kept="")
    json.dumps(told, allow_nan=False)  # a browser takes nothing else
    return told


def test_rows_say_when_and_how_good_next_to_the_baseline(show):
    view = show(LadderPanel, trials=[shown(BASELINE, SOONER, LATER, REFUSED)])
    assert view.page.get_by_text("Seconds of training until accuracy>=0.95").is_visible()
    says = view.texts("sentence")
    assert says[0] == "the baseline · accuracy 0.95 after 4.1 s"
    assert "sooner [" in says[1]
    assert says[1].endswith("· accuracy 0.95 after 3.05 s")
    assert "later: takes" in says[2]
    assert "not applicable: No GPU. Leave it off." in says[3]


def test_a_plan_can_be_kept_and_the_baseline_cannot(show):
    view = show(LadderPanel, trials=[shown(BASELINE, SOONER, REFUSED)])
    keep = view.page.get_by_role("button", name="Keep")
    assert keep.count() == 1
    keep.click()
    assert view.sent == [{"do": "keep", "plan": "channels_last"}]


def test_there_is_a_curve_for_each_plan_and_seed_and_each_plan_is_named(show):
    view = show(LadderPanel, trials=[shown(BASELINE, SOONER)])
    curves = view.page.get_by_test_id("curve")
    assert [curve.get_attribute("data-plan") for curve in curves.all()] == ["baseline"] * 3 + [
        "channels_last"
    ] * 3
    assert view.page.locator(".accel-curves-name").all_text_contents() == ["baseline", "channels_last"]
    ends = [float(curve.get_attribute("d").split("L")[-1].split(" ")[0]) for curve in curves.all()]
    assert max(ends[3:]) < min(ends[:3])  # sooner lies further to the left
    view.page.set_viewport_size({"width": 400, "height": 700})
    expect(view.page.locator(".accel-curves")).not_to_have_attribute("width", "760")
    assert view.page.locator(".accel-curves").bounding_box()["width"] < 400
    png = saved(view, "trial-png", "accel-Trial-1.png")
    assert png[1] > 400  # two rows, and the curves below


def test_while_it_trains_a_row_says_how_far_it_is_and_gives_no_answer(show):
    training = [replace(one, state="training") for one in (BASELINE, SOONER)]
    view = show(LadderPanel, trials=[shown(*training, state="measuring")], is_running=True)
    assert view.texts("progress") == ["training … seed 2, 100 steps"] * 2
    assert view.texts("sentence") == ["", ""]
    assert view.page.get_by_role("button", name="Keep").count() == 0


def test_after_equal_seconds_there_is_quality_to_compare_and_no_bar(show):
    base = row("baseline", 4.0, 4.0, 4.0, quality=0.8)
    own = row("channels_last", 4.0, 4.0, 4.0, quality=0.9)
    view = show(LadderPanel, trials=[shown(base, own, target=None, train_s=4.0)])
    assert view.texts("sentence")[0] == "the baseline · accuracy 0.8 after 4 s"
    assert view.texts("sentence")[1].endswith("· accuracy 0.9 after 4 s")
    assert not view.page.locator(".accel-ladder-bar").first.is_visible()
    assert view.page.locator(".accel-ladder-axis").count() == 0


def test_a_trial_that_trains_nothing_yet_has_no_curves(show):
    waiting = [replace(one, curves=(), state="waiting") for one in (BASELINE, SOONER)]
    view = show(LadderPanel, trials=[shown(*waiting, state="starting")], is_running=True)
    assert view.page.get_by_test_id("curve").count() == 0
    assert view.texts("progress") == ["waiting …", "waiting …"]
