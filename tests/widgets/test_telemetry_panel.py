"""The strip with the machine's load: its view in a browser alone, and when it samples at all."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest

from accel.machine.telemetry import Monitor
from accel_widgets.seen_views import PATIENCE, SeenViews
from accel_widgets.telemetry_panel import TelemetryPanel

TILES = [
    {"key": "cpu", "label": "CPU", "lines": ["CPU 0", "CPU 1"]},
    {"key": "memory", "label": "memory", "lines": ["memory"]},
]


numbers = itertools.count(1)


def frame(cpu0, cpu1, memory):
    busy = (cpu0 + cpu1) // 2
    return {
        "number": next(numbers),
        "row": [cpu0, cpu1, memory],
        "texts": [[f"{busy} %", "2 CPUs"], [f"{memory / 10:.1f} of 10.0 GiB", ""]],
        "said": f"CPU {busy} % (2 CPUs); memory {memory / 10:.1f} of 10.0 GiB.",
    }


def told(panel, **message):
    """A message as it arrives from a view."""
    panel._handle_custom_msg(message, [])


# --- its view ---------------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_values_move_as_text_and_as_pixels_and_nothing_else_does(show):
    view = show(TelemetryPanel, tiles=TILES, now=frame(40, 60, 30), is_open=True)
    page = view.page
    assert view.texts("telemetry-cpu") == ["50 %"]
    picture = "() => [...document.querySelectorAll('canvas')].map((one) => one.toDataURL())"
    boxes = """() => [...document.querySelectorAll('.accel-telemetry, .accel-telemetry-tile, canvas')]
        .map((one) => JSON.stringify(one.getBoundingClientRect()))"""
    painted = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    for value in (10, 20):
        view.set(now=frame(value, value, 30))
    page.evaluate(painted)
    drawn, places = page.evaluate(picture), page.evaluate(boxes)
    view.set(now=frame(100, 100, 90))
    page.evaluate(painted)
    assert view.texts("telemetry-cpu") == ["100 %"]
    assert page.evaluate("() => document.querySelectorAll('.accel-telemetry-tile').length") == 2
    assert all(new != old for new, old in zip(page.evaluate(picture), drawn, strict=True))
    view.set(now={**frame(5, 5, 5), "texts": [["5 %", "a detail " * 60], ["0.5 of 10.0 GiB", ""]]})
    assert page.evaluate(boxes) == places


@pytest.mark.browser
def test_a_screen_reader_gets_one_sentence_and_no_live_region(show):
    view = show(TelemetryPanel, tiles=TILES, now=frame(40, 60, 30), is_open=True)
    assert view.texts("telemetry-said") == ["CPU 50 % (2 CPUs); memory 3.0 of 10.0 GiB."]
    assert view.page.locator("[aria-live]").count() == 0  # twice a second would drown everything else
    assert view.page.get_by_role("group", name="Load of this machine").count() == 1
    assert view.page.get_by_test_id("telemetry-fold").get_attribute("aria-expanded") == "true"


@pytest.mark.browser
def test_folding_pausing_and_ending_are_told_to_python(show):
    view = show(TelemetryPanel, tiles=TILES, now=frame(40, 60, 30), is_open=True, can_close=True)
    view.page.get_by_test_id("telemetry-pause").press("Enter")
    assert view.saved[-1]["is_paused"] is True
    assert view.page.get_by_test_id("telemetry-pause").inner_text() == "Go on"
    view.page.get_by_test_id("telemetry-end").click()
    assert view.sent[-1] == {"do": "end"}
    view.page.get_by_test_id("telemetry-fold").click()
    assert view.saved[-1]["is_open"] is False
    assert not view.page.get_by_test_id("telemetry-cpu").is_visible()
    assert not view.page.get_by_test_id("telemetry-pause").is_visible()


@pytest.mark.browser
def test_a_view_says_when_it_appears_and_goes_also_off_the_screen_and_stops_listening(show):
    view = show(TelemetryPanel, tiles=TILES, now=frame(40, 60, 30), is_open=True)
    view.page.wait_for_function("() => model.sent.at(-1)?.seen === true")
    appeared = view.sent[-1]
    page = view.page
    page.evaluate("document.querySelector('.accel').style.marginTop = '5000px'")  # scrolled away it goes on
    for display, is_seen in (("none", False), ("", True)):  # its tab is left, and shown again
        page.evaluate("(display) => { document.querySelector('.accel').style.display = display; }", display)
        page.wait_for_function("(is_seen) => model.sent.at(-1).seen === is_seen", arg=is_seen, timeout=60_000)
    page.evaluate("cleanup()")
    assert view.sent[-1] == {"seen": False, "view": appeared["view"]}
    assert view.page.evaluate("model.listening()") == 0


@pytest.mark.browser
def test_a_view_whose_kernel_is_gone_raises_nothing_in_the_page(show):
    view = show(TelemetryPanel, tiles=TILES, now=frame(40, 60, 30), is_open=True)
    view.page.evaluate("() => { model.send = () => { throw new Error('Cannot send'); }; }")
    view.set(is_open=False)
    view.page.evaluate("cleanup()")  # show() fails the test if the page raised


@pytest.mark.browser
def test_time_goes_on_while_values_stay_the_same_and_the_past_is_drawn_once(show):
    view = show(TelemetryPanel, tiles=TILES, past=[[0, 0, 0]], now=frame(90, 90, 90), is_open=True)
    painted = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    picture = "() => document.querySelector('canvas').toDataURL()"
    view.page.evaluate(painted)
    before = view.page.evaluate(picture)
    same = view.page.evaluate("() => model.get('now')")
    view.set(past=[[0, 0, 0], [0, 0, 0]])
    view.set(
        past=[[0, 0, 0]], now={**same, "said": "again"}
    )  # the same sample, as another view may have it sent again
    view.page.evaluate(painted)
    assert view.page.evaluate(picture) == before
    view.set(now=frame(90, 90, 90))
    view.page.evaluate(painted)
    assert view.page.evaluate(picture) != before


@pytest.mark.browser
@pytest.mark.parametrize("cpus", [1, 16, 256])
def test_so_many_cpus_are_drawn_within_the_tile(show, cpus):
    tiles = [{"key": "cpu", "label": "CPU", "lines": [f"CPU {n}" for n in range(cpus)]}]
    row = {"row": [100] * (cpus - 1) + [-1], "texts": [["99 %", f"{cpus} CPUs"]], "said": "CPU 99 %."}
    view = show(TelemetryPanel, tiles=tiles, past=[[50] * cpus], now=row, is_open=True)
    box = view.page.locator("canvas").bounding_box()
    assert box["height"] == 30


# --- when it samples --------------------------------------------------------------------------------------------------


@pytest.fixture
def strip():
    made = TelemetryPanel()
    yield made
    made.close()


def test_the_strip_samples_only_while_a_view_of_it_is_unfolded_on_a_page(strip):
    assert strip.monitor is None  # nobody sees it: no thread
    told(strip, seen=True, view="one")
    assert strip.monitor.is_running
    strip.is_open = False
    assert not strip.monitor.is_running
    assert "Not sampled" in strip.note
    strip.is_open = True
    told(strip, seen=True, view="two")
    told(strip, seen=False, view="one")
    assert strip.monitor.is_running
    told(strip, seen=False, view="two")
    assert not strip.monitor.is_running
    assert "accel telemetry" not in {thread.name for thread in threading.enumerate()}


def test_values_arrive_from_the_sampling_thread_and_a_new_view_gets_the_past():
    monitor = Monitor(every_s=0.05)
    panel = TelemetryPanel(monitor)
    arrived = threading.Event()
    told(panel, seen=True, view="zero")
    panel.observe(lambda change: arrived.set(), "now")
    assert [tile["key"] for tile in panel.tiles][:4] == ["cpu", "memory", "process", "children"]
    assert arrived.wait(60)
    assert len(panel.now["row"]) == sum(len(tile["lines"]) for tile in panel.tiles)
    assert len(panel.now["texts"]) == len(panel.tiles)
    panel.is_paused = True
    told(panel, seen=True, view="one")
    assert [*panel.past, panel.now["row"]] == panel._past
    panel.close()


def test_a_monitor_that_was_asked_for_goes_on_without_a_view_until_it_is_ended():
    panel = TelemetryPanel(Monitor())
    assert panel.monitor.is_running
    told(panel, seen=True, view="one")
    told(panel, seen=False, view="one")
    assert panel.monitor.is_running
    panel.is_paused = True
    assert not panel.monitor.is_running
    assert "Paused." in panel.note
    panel.is_paused = False
    assert panel.monitor.is_running
    told(panel, do="end")
    assert not panel.monitor.is_running
    assert panel.note.startswith("Ended.")
    assert panel.monitor.summary().samples > 0
    panel.close()


def test_updates_come_at_most_twice_a_second_however_often_it_samples():
    monitor = Monitor(every_s=60)
    panel = TelemetryPanel(monitor)
    shown = []
    told(panel, seen=True, view="one")
    panel.observe(lambda change: shown.append(change["new"]), "now")
    sample = monitor.sampler.latest
    for tenth in range(1, 31):  # three seconds at ten samples a second, each with another load
        panel._show(
            replace(sample, time_s=sample.time_s + tenth / 10, load=tenth, process_rss_bytes=tenth * 2**30)
        )
    assert 5 <= len(shown) <= 7
    panel.close()


def test_without_widgets_the_last_sample_stands_in_for_it():
    panel = TelemetryPanel(Monitor())
    bundle = panel._repr_mimebundle_()
    assert "this process" in bundle["text/html"]
    assert "memory" in bundle["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    panel.close()


class Page:
    """Samples as the sampling thread hands them over, and what went to the page."""

    def __init__(self, panel):
        self.panel, self.sent = panel, []
        self.sample = panel.monitor.sampler.latest
        panel.observe(lambda change: self.sent.append(change.name), ["now", "note", "past"])

    def show(self, **changes):
        time_s = self.sample.time_s + 0.5
        self.sample = replace(self.sample, time_s=time_s, **changes)
        self.panel._show(self.sample)


@pytest.fixture
def page_of_a_monitor():
    monitor = Monitor(every_s=60)
    panel = TelemetryPanel(monitor)
    yield Page(panel)
    panel.close()


def test_nothing_is_sent_while_nobody_sees_it_and_the_past_when_somebody_does(page_of_a_monitor):
    panel, sent = page_of_a_monitor.panel, page_of_a_monitor.sent
    for load in (1.0, 2.0, 3.0):
        page_of_a_monitor.show(load=load)
    assert sent == []
    told(panel, seen=True, view="one")
    assert len(panel.past) == 2
    assert panel.now["number"] == panel._kept
    told(panel, seen=True, view="one")  # said again
    page_of_a_monitor.show()
    told(panel, seen=False, view="one")
    sent.clear()
    page_of_a_monitor.show(load=4.0)
    assert sent == []
    assert panel.monitor.is_running  # it was asked for


def test_equal_values_are_sent_so_that_time_goes_on(page_of_a_monitor):
    told(page_of_a_monitor.panel, seen=True, view="one")
    page_of_a_monitor.show()
    row = page_of_a_monitor.panel.now["row"]
    page_of_a_monitor.sent.clear()
    page_of_a_monitor.show()
    assert page_of_a_monitor.sent == ["now"]
    assert page_of_a_monitor.panel.now["row"] == row


def test_a_cpu_that_goes_off_line_leaves_its_line_empty_and_every_other_in_its_place(page_of_a_monitor):
    panel, cpus = page_of_a_monitor.panel, page_of_a_monitor.sample.cpus
    told(panel, seen=True, view="one")
    page_of_a_monitor.show(busy=(0.5,) * len(cpus))
    before = panel.now["row"]
    page_of_a_monitor.show(cpus=cpus[1:], busy=(0.5,) * (len(cpus) - 1))
    assert panel.now["row"] == [-1, *before[1:]]


def test_a_page_that_was_reloaded_and_says_nothing_more_ends_the_sampling(strip):
    told(strip, seen=True, view="one")
    page_of_it = Page(strip)
    assert strip.monitor.is_running
    for _ in range(PATIENCE + 2):  # without a kernel, the main thread is always free to hear a page
        page_of_it.show()
    assert not strip.monitor.is_running
    told(strip, seen=True, view="two")
    assert strip.monitor.is_running


def test_a_monitor_that_is_closed_elsewhere_tells_its_panel():
    monitor = Monitor(every_s=60)
    panel = TelemetryPanel(monitor)
    monitor.close()
    assert panel.is_over
    assert panel.note.startswith("Ended.")
    panel.is_paused = True
    panel.is_paused = False
    assert not monitor.is_running
    panel.close()


def test_clicks_and_messages_at_the_same_moment_start_one_thread(strip):
    together = threading.Barrier(8)

    def click(number):
        together.wait(30)
        told(strip, seen=True, view=str(number))

    clicks = [threading.Thread(target=click, args=(number,)) for number in range(8)]
    for each in clicks:
        each.start()
    for each in clicks:
        each.join()
    assert sum(each.name == "accel telemetry" for each in threading.enumerate()) == 1


def test_the_monitor_that_is_shown_next_ends_the_one_before():
    monitors = [Monitor(every_s=60) for _ in range(3)]
    panels = [each.panel() for each in monitors]
    assert [each.is_running for each in monitors] == [False, False, True]
    assert [panel.is_over for panel in panels] == [True, True, False]
    panels[-1].close()


def test_while_a_cell_runs_one_question_waits_for_its_end():
    waiting = []
    views = SeenViews(waiting.append)
    views.told({"seen": True, "view": "one"})
    assert all(views.turn() for _ in range(10 * PATIENCE))
    assert len(waiting) == 1
