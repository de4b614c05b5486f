from __future__ import annotations

import pytest

from accel_widgets.phase_bar_panel import PhaseBarPanel

pytestmark = pytest.mark.browser

PHASES = [
    {
        "name": "data",
        "label": "data",
        "share": 0.38,
        "share_text": "38 %",
        "time_text": "9.46 ms",
        "colour": "#b45309",
    },
    {
        "name": "forward",
        "label": "forward",
        "share": 0.6,
        "share_text": "60 %",
        "time_text": "14.9 ms",
        "colour": "#2563eb",
    },
    {
        "name": "gap",
        "label": "forward → <b>backward</b>",
        "share": 0.02,
        "share_text": "2 %",
        "time_text": "0.5 ms",
        "colour": "#6b7280",
    },
]


def test_shows_step_time_and_each_phase_in_words(show):
    view = show(PhaseBarPanel, phases=PHASES, headline="24.9 ms per step", facts=["1 285 samples/s"])
    assert view.texts("step-time") == ["24.9 ms per step"]
    assert view.texts("phase-item") == [
        "data9.46 ms38 %",
        "forward14.9 ms60 %",
        "forward → <b>backward</b>0.5 ms2 %",
    ]
    assert view.page.get_by_text("1 285 samples/s").is_visible()


def test_segments_are_as_wide_as_their_share(show):
    view = show(PhaseBarPanel, phases=PHASES)
    widths = [box.bounding_box()["width"] for box in view.page.get_by_test_id("phase-segment").all()]
    assert widths[1] / widths[0] == pytest.approx(60 / 38, rel=0.02)


def test_choosing_a_phase_by_keyboard_is_told_to_python_and_choosing_it_again_clears_it(show):
    view = show(PhaseBarPanel, phases=PHASES)
    item = view.page.get_by_test_id("phase-item").nth(1)
    item.press("Enter")
    assert view.saved[-1]["phase"] == "forward"
    assert item.get_attribute("aria-pressed") == "true"
    item.press("Enter")
    assert view.saved[-1]["phase"] == ""


def test_without_a_profile_says_what_to_do(show):
    view = show(
        PhaseBarPanel, note="No profile yet. Put %%accel profile above your training cell and run it."
    )
    assert view.page.get_by_test_id("phase-note").is_visible()
    assert not view.page.get_by_test_id("phase-bar").is_visible()
    view.set(note="", phases=PHASES)
    assert view.page.get_by_test_id("phase-bar").is_visible()
    assert not view.page.get_by_test_id("phase-note").is_visible()
