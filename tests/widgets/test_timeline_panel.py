"""The timeline in a real browser: what is drawn, zoom, search, choice; 100,000 slices cost no more than a screenful."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from accel_widgets.op_table_panel import OpTablePanel
from accel_widgets.timeline_panel import TimelinePanel
from tests.widgets.conftest import saved
from tests.widgets.test_op_table_panel import row

pytestmark = pytest.mark.browser

GUTTER, AXIS, LANE = 150, 24, 17
PHASES = [
    {"name": "forward", "label": "Forward", "colour": "#2563eb"},
    {"name": "backward", "label": "Backward", "colour": "#0e7490"},
]
LINES = [{"where": "train.py, line 12", "text": "loss.backward()"}]
NAMES = ["aten::conv2d", "aten::relu", "aten::convolution_backward", "<img src=x onerror=alert(1)>"]
MODULES = ["", "net.conv1"]
# Frames are drawn and read back, so that the picture is really there when the clock stops.
TIME_FRAMES = """async ([esm, count, frames]) => {
  const { drawLanes, layOut } = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
  const lanes = 10, per = count / lanes;
  const start = new Float64Array(count), duration = new Float64Array(count), rows = [{ label: "T", lanes: [] }];
  for (let lane = 0; lane < lanes; lane += 1) {
    rows[0].lanes.push([lane * per, (lane + 1) * per]);
    for (let i = 0; i < per; i += 1) {
      start[lane * per + i] = (1000 * i) / per;
      duration[lane * per + i] = (i % 100 ? 400 : 900) / per;
    }
  }
  const data = { count, last: 1000, names: ["conv", "relu"], modules: [""], lines: [], rows, counted: [0, 1000],
    start, duration, self: duration, module: new Int32Array(count),
    phases: [{ label: "F", colour: "#2563eb" }, { label: "B", colour: "#0e7490" }],
    name: Int32Array.from({ length: count }, (_, i) => i % 2),
    phase: Int32Array.from({ length: count }, (_, i) => (i >> 3) % 2) };
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [1150, 260];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const layout = layOut(rows, 1150), times = [];
  let most = 0;
  for (let frame = 0; frame < frames; frame += 1) {
    const from = (500 * frame) / frames, began = performance.now();
    context.clearRect(0, 0, 1150, 260);
    const view = { from, until: from + 500, width: 1150, gutter: 150, top: 0, height: 260, wanted: [], selected: -1, span: [] };
    most = Math.max(most, drawLanes(context, data, layout, view));
    context.getImageData(0, 0, 1, 1);
    times.push(performance.now() - began);
  }
  return { quickest: Math.min(...times), most };
}"""
# Seen from outside: the colour under a point of the picture.
PIXEL = """([x, y]) => { const canvas = document.querySelector("canvas"), ratio = window.devicePixelRatio;
  return [...canvas.getContext("2d").getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data]; }"""
SET_BYTES = """(bytes) => { for (const [key, all] of Object.entries(bytes))
  model.set(key, new DataView(Uint8Array.from(all).buffer)); }"""
# As jslink joins two models.
LINK = """() => { for (const [one, other] of [models, [...models].reverse()]) {
  one.on("change:chosen_op", () => {
    const [now, then] = [one.get("chosen_op"), other.get("chosen_op")];
    if (JSON.stringify(now) !== JSON.stringify(then)) other.set("chosen_op", now);
  }); } }"""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def traits(
    start: list[float], duration: list[float], name: list[int], lanes: list[list[int]], **more: Any
) -> dict[str, Any]:
    """The traits of slices in one row; each in phase `name % 2`, the first name in no module."""
    count = len(start)
    numbers = {
        "name": name,
        "phase": [n % 2 for n in name],
        "module": [int(n > 0) for n in name],
        "line": [0 if n == 2 else -1 for n in name],
    }
    floats = {"start_ms": start, "duration_ms": duration, "self_ms": [0.5 * d for d in duration]}
    assert all(len(values) == count for values in (duration, name))
    return {
        "names": NAMES, "ops": [*NAMES[:3], ""], "steps": 1, "modules": MODULES, "phases": PHASES, "lines": LINES,
        "counted_ms": [0.0, 1e9], "summary": ["aten::conv2d: 3 ms itself, 4 times"], "is_open": True,
        "rows": [{"label": "Training thread", "kind": "thread", "is_band": False, "lanes": lanes}],
        "label": "Timeline of slices.",
        **{key: np.array(values, "<f8").tobytes() for key, values in floats.items()},
        **{key: np.array(values, "<i4").tobytes() for key, values in numbers.items()}, **more,
    }  # fmt: skip


FEW = traits(
    start=[0, 40, 60, 5, 45], duration=[40, 20, 40, 10, 5], name=[0, 1, 2, 1, 3], lanes=[[0, 3], [3, 5]]
)


class Timeline:
    """The panel in a page, pointed at by time and lane."""

    def __init__(self, view: Any, last: float = 100.0) -> None:
        self.view, self.page, self.last = view, view.page, last
        self.page.evaluate(DRAWN)
        self.box = self.page.get_by_test_id("timeline-canvas").bounding_box()

    def spot(self, time_ms: float, lane: int = 0) -> tuple[float, float]:
        """Where a time lies on the canvas while all is shown."""
        return GUTTER + time_ms / self.last * (self.box["width"] - GUTTER), AXIS + lane * LANE + 7

    def point(self, time_ms: float, lane: int = 0) -> None:
        x, y = self.spot(time_ms, lane)
        self.page.mouse.move(self.box["x"] + x, self.box["y"] + y)

    def click(self, time_ms: float, lane: int = 0) -> None:
        self.point(time_ms, lane)
        self.page.mouse.down()
        self.page.mouse.up()
        self.page.evaluate(DRAWN)

    def drag(self, begin_ms: float, end_ms: float, lane: int = 0) -> None:
        self.point(begin_ms, lane)
        self.page.mouse.down()
        self.point(end_ms, lane)
        self.page.mouse.up()
        self.page.evaluate(DRAWN)

    def colour(self, time_ms: float, lane: int = 0) -> tuple[int, ...]:
        self.page.evaluate(DRAWN)
        x, y = self.spot(time_ms, lane)
        return tuple(self.page.evaluate(PIXEL, [x, y + 5]))  # below the name

    def text(self, test_id: str) -> str:
        return self.page.get_by_test_id(f"timeline-{test_id}").inner_text()

    def press(self, key: str) -> None:
        self.page.get_by_test_id("timeline-canvas").press(key)
        self.page.evaluate(DRAWN)


@pytest.fixture
def timeline(show: Any) -> Any:
    return lambda **more: Timeline(show(TimelinePanel, **{**FEW, **more}))


FORWARD = (37, 99, 235, 255)


def test_slices_are_drawn_where_and_how_long_they_were(timeline):
    drawn = timeline()
    assert drawn.colour(1) == drawn.colour(39) == FORWARD
    assert drawn.colour(41) != FORWARD
    assert drawn.colour(41)[3] == 255
    assert drawn.colour(33, lane=1)[3] == 0  # nothing runs there
    wide, _ = saved(drawn.view, "timeline-png", "accel-timeline.png")
    assert wide == 2 * round(drawn.box["width"])


def test_a_click_shows_a_slice_with_its_line_and_tells_python(timeline):
    drawn = timeline()
    drawn.click(80)
    assert drawn.view.saved[-1]["selected"] == 2
    told = drawn.text("details")
    for part in ("aten::convolution_backward", "40 ms, of it itself 20 ms", "Forward", "net.conv1",
                 "train.py, line 12: loss.backward()"):  # fmt: skip
        assert part in told
    drawn.click(30, lane=1)
    assert drawn.text("details") == ""


def test_hovering_tells_what_a_click_would(timeline):
    drawn = timeline()
    assert drawn.page.get_by_test_id("timeline-tip").is_hidden()
    drawn.point(10)
    assert "aten::conv2d" in drawn.text("tip")
    assert "Forward" in drawn.text("tip")
    drawn.page.mouse.move(0, 0)
    assert drawn.page.get_by_test_id("timeline-tip").is_hidden()


def test_names_from_the_users_code_stay_text(timeline):
    drawn = timeline()
    drawn.click(47, lane=1)
    assert NAMES[3] in drawn.text("details")
    drawn.point(47, lane=1)
    assert drawn.page.locator(".accel-timeline img").count() == 0


def test_the_wheel_zooms_at_the_pointer_once_the_picture_is_chosen(timeline):
    drawn = timeline()
    drawn.point(20)
    drawn.page.mouse.wheel(0, -400)
    assert drawn.colour(80) != FORWARD  # not chosen: the page has the wheel
    drawn.click(20)
    drawn.page.mouse.wheel(0, -600)
    drawn.page.mouse.wheel(0, -600)
    assert drawn.colour(55) == FORWARD  # what lies under the pointer stays there, and its slice is wider now
    drawn.click(20)
    assert "aten::conv2d" in drawn.text("details")


def test_keys_zoom_move_and_show_all(timeline):
    drawn = timeline()
    whole = drawn.colour(20)
    drawn.press("+")  # 25 to 75 ms
    drawn.press("ArrowLeft")
    drawn.press("ArrowLeft")
    drawn.press("ArrowLeft")  # 0 to 50 ms: the first slice fills four fifths
    assert drawn.colour(75) == FORWARD
    drawn.press("0")
    assert (drawn.colour(20), drawn.colour(75) == FORWARD) == (whole, False)


def test_dragging_moves_and_chooses_nothing(timeline):
    drawn = timeline()
    drawn.press("+")
    drawn.drag(50, 99)
    assert drawn.colour(70) == FORWARD  # 0 to 50 ms is shown
    assert all(saved["selected"] == -1 for saved in drawn.view.saved)


def test_a_search_counts_fades_the_rest_and_goes_from_match_to_match(timeline):
    drawn = timeline()
    drawn.page.get_by_test_id("timeline-search").fill("RELU")
    assert drawn.text("found") == "2 found"
    assert drawn.colour(20)[3] < 100
    assert drawn.colour(45)[3] == 255
    drawn.page.get_by_test_id("timeline-next").click()
    assert drawn.text("found") == "1 of 2"
    assert drawn.view.saved[-1]["selected"] == 3  # in order of time, not of lanes
    drawn.page.get_by_test_id("timeline-next").click()
    drawn.page.get_by_test_id("timeline-next").click()
    assert drawn.view.saved[-1]["selected"] == 3
    drawn.page.get_by_test_id("timeline-previous").click()
    assert drawn.text("found") == "2 of 2"


def test_matches_of_warm_up_come_behind_the_counted_ones_and_the_count_says_so(timeline):
    drawn = timeline(counted_ms=[30.0, 1e9])
    drawn.page.get_by_test_id("timeline-search").fill("relu")
    assert drawn.text("found") == "1 found, 1 more in warm-up"
    drawn.press("n")
    assert (drawn.view.saved[-1]["selected"], drawn.text("found")) == (1, "1 of 2")
    drawn.press("n")
    assert (drawn.view.saved[-1]["selected"], drawn.text("found")) == (3, "2 of 2, in warm-up")
    drawn.page.get_by_test_id("timeline-search").fill("conv2d")
    assert drawn.text("found") == "1 found, all in warm-up"


def test_a_span_along_the_times_or_with_shift_is_added_up_by_phase_and_operation(timeline):
    drawn = timeline()
    drawn.drag(20, 50, lane=-1)  # on the axis
    assert drawn.view.saved[-1]["span_ms"] == pytest.approx([20, 50], abs=0.2)
    drawn.view.set(span_ms=[20, 50])  # half of conv2d, half of a relu, and a bracket below it
    assert drawn.text("sums").split("\n") == [
        "A span of 30 ms: 3 slices",
        "Own time by phase", "Forward", "10 ms", "Backward", "5 ms",
        "Operations with most own time", "aten::conv2d", "10 ms, 1 slice", "aten::relu", "5 ms, 1 slice",
    ]  # fmt: skip
    drawn.page.keyboard.down("Shift")
    drawn.drag(99, 70, lane=1)
    drawn.page.keyboard.up("Shift")
    assert drawn.view.saved[-1]["span_ms"] == pytest.approx([70, 99], abs=0.2)
    assert drawn.text("sums").split("\n")[0].endswith(": 1 slice")
    drawn.press("Escape")
    assert (drawn.text("sums"), drawn.view.saved[-1]["span_ms"]) == ("", [])
    assert drawn.view.saved[-1]["selected"] == -1


def test_shift_with_arrows_adds_up_from_the_chosen_slice_to_its_neighbours(timeline):
    drawn = timeline()
    drawn.press("Shift+ArrowRight")
    assert drawn.view.saved == []  # from which slice on?
    drawn.click(50)
    for key, span in (("Right", [40, 100]), ("Right", [40, 100]), ("Left", [40, 60]), ("Left", [0, 60])):
        drawn.press(f"Shift+Arrow{key}")
        assert drawn.view.saved[-1]["span_ms"] == span
    drawn.press("Escape")
    drawn.press("Escape")
    assert (drawn.view.saved[-1]["selected"], drawn.view.saved[-1]["span_ms"]) == (-1, [])


def test_of_a_thread_that_waits_for_another_only_its_own_time_is_added_up(timeline):
    rows = [{"label": f"Thread {n}", "kind": kind, "is_band": False, "lanes": [[n, n + 1]]}
            for n, kind in enumerate(["thread", "thread", "stream"])]  # fmt: skip
    more = traits([0, 10, 20], [100, 60, 30], [1, 3, 2], [])
    drawn = timeline(**{**more, "rows": rows, "ops": ["", "Python code", "", "aten::mm"]})
    drawn.view.set(span_ms=[0, 100])
    assert "3 slices, 30 ms of kernels on GPUs" in drawn.text("sums")
    assert ("Backward\n50 ms" in drawn.text("sums"), "aten::mm\n30 ms" in drawn.text("sums")) == (True, True)
    assert "Python code\n20 ms" in drawn.text("sums")


def test_an_operation_and_its_slices_are_chosen_in_the_table_or_in_the_timeline(show):
    rows = [row(op, phase, "net.conv1" if op != NAMES[0] else "", 9.0, 1)
            for op, phase in zip(NAMES, ["forward", "backward", "forward"], strict=False)]  # fmt: skip
    table = show(OpTablePanel, rows=rows)
    drawn = Timeline(show(TimelinePanel, beside=True, **{**FEW, "counted_ms": [30.0, 1e9]}))
    drawn.page.evaluate(LINK)
    relu = drawn.page.get_by_role("button", name="aten::relu")
    relu.press("Enter")
    assert relu.get_attribute("aria-pressed") == "true"
    assert drawn.text("found") == "1 of 1 slice, 10 ms a step"
    assert "aten::relu" in drawn.text("details")  # the first of a counted step, with a frame
    drawn.press("n")
    assert drawn.text("found") == "1 in warm-up, of 1 slice, 10 ms a step"
    drawn.press("0")
    assert drawn.colour(20)[3] < 200 < drawn.colour(45)[3]
    drawn.click(80)
    pressed = drawn.page.locator("tr", has=drawn.page.locator("[aria-pressed=true]"))
    assert NAMES[2] in pressed.inner_text()
    pressed.click()  # again: none any more
    assert (drawn.text("found"), drawn.text("details")) == ("", "")
    assert (table.saved[-1]["chosen_op"], drawn.view.saved[-1]["selected"]) == ({}, -1)


def test_an_operation_that_is_chosen_opens_the_timeline_and_waits_for_its_data(show):
    view = show(TimelinePanel)
    view.set(chosen_op={"op": NAMES[1], "phase": "backward", "module": "net.conv1"})
    assert view.saved[-1]["is_open"] is True
    view.page.evaluate(
        SET_BYTES, {key: list(value) for key, value in FEW.items() if isinstance(value, bytes)}
    )
    view.set(**{key: value for key, value in FEW.items() if not isinstance(value, bytes)}, generation=1)
    assert view.texts("timeline-found") == ["1 of 2 slices, 15 ms a step"]


def test_where_there_is_no_room_beside_them_labels_stand_above_their_rows(show, page):
    page.set_viewport_size({"width": 360, "height": 600})
    drawn = Timeline(show(TimelinePanel, **FEW))
    x = 6 + 0.8 * (drawn.box["width"] - 6)  # 80 ms, in the first lane below a line of text
    drawn.page.mouse.click(drawn.box["x"] + x, drawn.box["y"] + AXIS + LANE + 7)
    assert NAMES[2] in drawn.text("details")


def test_a_search_looks_into_modules_and_says_when_there_is_nothing(timeline):
    drawn = timeline()
    drawn.page.get_by_test_id("timeline-search").fill("conv1 backward")
    assert drawn.text("found") == "1 found"
    drawn.page.get_by_test_id("timeline-search").fill("attention")
    assert drawn.text("found") == "Nothing found"
    assert drawn.page.get_by_test_id("timeline-next").is_disabled()


def test_phases_are_no_matches_and_stay_as_they_are(timeline):
    rows = [
        {"label": "Phases", "is_band": True, "lanes": [[0, 3]]},
        {"label": "Training thread", "is_band": False, "lanes": [[3, 5]]},
    ]
    drawn = timeline(rows=rows)
    drawn.page.get_by_test_id("timeline-search").fill("relu")
    assert drawn.text("found") == "1 found"  # the one on the thread
    assert drawn.colour(20) == FORWARD


def test_a_match_too_short_to_see_is_made_wide_enough_to_see(show):
    starts = [i * 0.01 for i in range(10_000)]
    names = [0] * 10_000
    names[7777] = 2
    drawn = Timeline(show(TimelinePanel, **traits(starts, [0.009] * 10_000, names, [[0, 10_000]])))
    drawn.page.get_by_test_id("timeline-search").fill("convolution_backward")
    drawn.page.get_by_test_id("timeline-search").press("Enter")
    assert drawn.view.saved[-1]["selected"] == 7777
    assert drawn.colour(50)[3] == 255  # it is in the middle, and so wide that the middle is its own


def test_slices_below_a_pixel_are_merged_and_still_found(show):
    starts = [i * 0.001 for i in range(100_000)]
    names = [0] * 100_000
    names[50_000] = 2
    drawn = Timeline(show(TimelinePanel, **traits(starts, [0.001] * 100_000, names, [[0, 100_000]])))
    assert drawn.colour(33) == FORWARD
    drawn.page.get_by_test_id("timeline-search").fill("backward")
    assert drawn.colour(33)[3] < 100
    x, y = drawn.spot(50)
    near = [drawn.page.evaluate(PIXEL, [x + by, y + 5])[3] for by in (-2, -1, 0, 1, 2)]
    assert max(near) == 255


def test_a_hundred_thousand_slices_are_as_smooth_as_a_screenful(page):
    page.goto("about:blank")
    quickest: dict[
        int, float
    ] = {}  # in turns: each frame has about as much to draw, and other work interrupts some
    for _ in range(3):
        for slices in (10_000, 100_000):
            timed = page.evaluate(TIME_FRAMES, [TimelinePanel._esm, slices, 30])
            quickest[slices] = min(timed["quickest"], quickest.get(slices, math.inf))
    lanes, width = 10, 1000
    assert timed["most"] <= 2 * lanes * width
    assert quickest[100_000] <= 3 * quickest[10_000] + 1


def test_it_is_sharp_on_dense_screens_and_follows_its_width(show, page):
    drawn = Timeline(show(TimelinePanel, **FEW))
    page.set_viewport_size({"width": 700, "height": 600})
    page.evaluate(DRAWN)
    size = page.evaluate(
        "() => { const c = document.querySelector('canvas'); return [c.width, c.clientWidth * devicePixelRatio]; }"
    )
    assert abs(size[0] - size[1]) <= 1
    assert size[1] < drawn.box["width"]


def test_it_is_read_out_and_told_as_text(timeline):
    drawn = timeline()
    canvas = drawn.page.get_by_role("application", name="Timeline of slices.")
    assert "Arrow keys move" in canvas.get_attribute("aria-label")
    drawn.page.get_by_text("As text").click()
    assert drawn.view.texts("timeline-summary") == ["aten::conv2d: 3 ms itself, 4 times"]


def test_closed_it_asks_for_no_room_and_opens_with_a_click(show):
    view = show(TimelinePanel, **{**FEW, "is_open": False})
    assert view.page.get_by_test_id("timeline-canvas").is_hidden()
    view.page.get_by_role("button", name="Show").click()
    assert view.saved[-1]["is_open"] is True
    assert view.page.get_by_test_id("timeline-canvas").is_visible()
    assert view.page.get_by_role("button", name="Hide").get_attribute("aria-expanded") == "true"


def test_without_a_profile_it_says_what_to_do(show):
    view = show(TimelinePanel, is_open=True, note="No profiled steps to show.")
    assert view.texts("timeline-note") == ["No profiled steps to show."]
    assert view.page.get_by_test_id("timeline-canvas").is_hidden()


def test_other_data_take_the_place_of_the_first(timeline):
    drawn = timeline()
    other = traits(start=[0], duration=[10], name=[1], lanes=[[0, 1]])
    numbers = {key: list(value) for key, value in other.items() if isinstance(value, bytes)}
    drawn.page.evaluate(SET_BYTES, numbers)
    drawn.view.set(rows=other["rows"], generation=1)
    drawn.last = 10.0
    drawn.click(5)
    assert "aten::relu" in drawn.text("details")
