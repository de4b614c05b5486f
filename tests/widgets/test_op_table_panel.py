from __future__ import annotations

import pytest
from playwright.sync_api import expect

from accel_widgets.op_table_panel import OpTablePanel

pytestmark = pytest.mark.browser


def row(op: str, phase: str, module: str, self_ms: float, calls: int) -> dict[str, object]:
    texts = {"self_ms": f"{self_ms:.2f} ms", "share": f"{self_ms:.0f} %"}
    return {"op": op, "phase": phase, "module": module, "self_ms": self_ms, "share": self_ms / 100, "calls": calls,
            "colour": "#2563eb", "texts": texts}  # fmt: skip


ROWS = [
    row("aten::conv2d", "forward", "net.conv1", 9.0, 1),
    row("aten::relu", "forward", "net.act", 2.0, 12),
    row("aten::convolution_backward", "backward", "net.conv1", 18.0, 1),
    row("aten::_fused_adam_", "optimizer", "", 0.5, 1),
]


def first_cells(view) -> list[str]:
    return view.page.eval_on_selector_all("tbody tr", "rows => rows.map(row => row.cells[0].textContent)")


def test_starts_with_the_most_expensive_operation(show):
    view = show(OpTablePanel, rows=ROWS)
    assert first_cells(view)[0] == "aten::convolution_backward"
    assert view.texts("op-count") == ["4 of 4"]


def test_typing_keeps_the_rows_with_every_word_in_operation_phase_or_module(show):
    view = show(OpTablePanel, rows=ROWS)
    view.page.get_by_test_id("op-filter").fill("CONV backward")
    assert first_cells(view) == ["aten::convolution_backward"]
    view.page.get_by_test_id("op-filter").fill("conv1")
    assert first_cells(view) == ["aten::convolution_backward", "aten::conv2d"]
    assert view.saved[-1]["filter"] == "conv1"


def test_a_filter_that_matches_nothing_says_so(show):
    view = show(OpTablePanel, rows=ROWS)
    view.page.get_by_test_id("op-filter").fill("attention")
    assert view.texts("op-count") == ["Nothing matches the filter."]


@pytest.mark.parametrize(
    ("column", "presses", "expected"),
    [
        ("calls", 1, "aten::relu"),
        ("calls", 2, "aten::conv2d"),
        ("op", 1, "aten::_fused_adam_"),
        ("op", 2, "aten::relu"),
        ("self_ms", 1, "aten::_fused_adam_"),
    ],
)
def test_a_heading_sorts_and_a_second_press_turns_the_order(show, column, presses, expected):
    view = show(OpTablePanel, rows=ROWS)
    for _ in range(presses):
        view.page.get_by_test_id(f"sort-{column}").press("Enter")
    assert first_cells(view)[0] == expected
    assert view.page.locator(f"th[data-key={column}]").get_attribute("aria-sort") in {
        "ascending",
        "descending",
    }


def test_a_phase_chosen_elsewhere_filters_here(show):
    view = show(OpTablePanel, rows=ROWS)
    view.set(phase="backward")
    assert first_cells(view) == ["aten::convolution_backward"]
    assert view.page.get_by_test_id("op-phase").input_value() == "backward"


def test_names_from_the_users_code_stay_text(show):
    view = show(OpTablePanel, rows=[row("<img src=x onerror=alert(1)>", "forward", "<b>net</b>", 1.0, 1)])
    assert first_cells(view) == ["<img src=x onerror=alert(1)>"]
    assert view.page.locator("tbody img, tbody b").count() == 0


def test_many_rows_are_shown_on_demand(show):
    view = show(OpTablePanel, rows=[row(f"op{i}", "forward", "net", float(i), 1) for i in range(300)])
    assert view.page.get_by_test_id("op-row").count() == 40
    view.page.get_by_test_id("op-more").click()
    assert view.page.get_by_test_id("op-row").count() == 300


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (1000, ["Operation", "Phase", "Module", "Self time", "Share of step", "Calls"]),
        (740, ["Operation", "Phase", "Module", "Self time", "Share of step", "Calls"]),
        (600, ["Operation", "Phase", "Self time", "Share of step"]),
        (360, ["Operation", "Phase", "Self time"]),
    ],
)
def test_a_narrow_panel_shows_what_matters_most_without_scrolling_sideways(show, page, width, headings):
    show(OpTablePanel, rows=[row(f"aten::op_{i}", "forward", "net", 9.0, 1) for i in range(40)])
    page.set_viewport_size({"width": 1000, "height": 700})
    page.get_by_test_id("sort-calls").focus()
    page.set_viewport_size({"width": width, "height": 700})
    assert page.locator("thead button:visible").all_inner_texts() == headings
    assert page.locator(".accel-op-scroll").evaluate("scroll => scroll.scrollWidth <= scroll.clientWidth")
    expect(page.locator("thead button[tabindex='0']:visible")).to_have_count(1)
    page.locator("thead button").first.focus()
    for heading in headings[1:]:
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.innerText") == heading
