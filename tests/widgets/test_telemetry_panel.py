"""The strip with the machine's load: its view in a browser alone, and when it samples at all."""

from __future__ import annotations

import threading

import pytest

from accel.machine.telemetry import Monitor
from accel_widgets.telemetry_panel import TelemetryPanel

TILES = [
    {"key": "cpu", "label": "CPU", "lines": ["CPU 0", "CPU 1"]},
    {"key": "memory", "label": "memory", "lines": ["memory"]},
]


def frame(cpu0, cpu1, memory):
    busy = (cpu0 + cpu1) // 2
    return {
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
def test_a_view_says_when_it_appears_and_goes_and_stops_listening(show):
    view = show(TelemetryPanel, tiles=TILES, now=frame(40, 60, 30), is_open=True)
    appeared = view.sent[-1]
    assert appeared["do"] == "shown"
    view.page.evaluate("cleanup()")
    assert view.sent[-1] == {"do": "hidden", "view": appeared["view"]}
    assert view.page.evaluate("model.listening()") == 0


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
    told(strip, do="shown", view="one")
    assert strip.monitor.is_running
    strip.is_open = False
    assert not strip.monitor.is_running
    assert "Not sampled" in strip.note
    strip.is_open = True
    told(strip, do="shown", view="two")
    told(strip, do="hidden", view="one")
    assert strip.monitor.is_running
    told(strip, do="hidden", view="two")
    assert not strip.monitor.is_running
    assert "accel telemetry" not in {thread.name for thread in threading.enumerate()}


def test_values_arrive_from_the_sampling_thread_and_a_new_view_gets_the_past():
    monitor = Monitor(every_s=0.05)
    panel = TelemetryPanel(monitor)
    arrived = threading.Event()
    panel.observe(lambda change: arrived.set(), "now")
    assert [tile["key"] for tile in panel.tiles][:4] == ["cpu", "memory", "process", "children"]
    assert arrived.wait(60)
    assert len(panel.now["row"]) == sum(len(tile["lines"]) for tile in panel.tiles)
    assert len(panel.now["texts"]) == len(panel.tiles)
    panel.is_paused = True
    told(panel, do="shown", view="one")
    assert panel.past[-1] == panel.now["row"]
    panel.close()


def test_a_monitor_that_was_asked_for_goes_on_without_a_view_until_it_is_ended():
    panel = TelemetryPanel(Monitor())
    assert panel.monitor.is_running
    told(panel, do="shown", view="one")
    told(panel, do="hidden", view="one")
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
    panel.observe(lambda change: shown.append(change["new"]), "now")
    sample = monitor.sampler.latest
    from dataclasses import replace

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
