"""The core map: what it draws in a browser, what it sends, and that it looks only while somebody sees it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from accel.machine.affinity import Affinity, CpuMap, LogicalCpu
from accel.machine.affinity.thread_places import ThreadPlace
from accel_widgets.core_map_panel import CoreMapPanel
from accel_widgets.core_map_view import core_map_traits
from accel_widgets.looks_while_seen import GAP_S, REST, LooksWhileSeen
from accel_widgets.seen_views import PATIENCE

EVIL = "<img src=x onerror=alert(1)>"


def thread(pid, cpu, kind, group, allowed, busy=0.0, what="main thread", number=None) -> ThreadPlace:
    return ThreadPlace(pid, number or pid, group, what, cpu, allowed, 0.0, False, busy, kind)


def two_ranks(cpus: int = 4) -> Affinity:
    """Two ranks on cores of their own, a loader worker that may run everywhere, on two sockets with SMT."""
    half = cpus // 2
    xeon = [
        LogicalCpu(n, n % half, n % half * 2 // half, n % half * 2 // half, (n % half, n % half + half))
        for n in range(cpus)
    ]
    return Affinity(
        CpuMap(tuple(xeon)),
        (
            thread(1, 1, "notebook", "this notebook", tuple(range(cpus))),
            thread(2, 0, "rank", "rank 0", (0,), 0.98),
            thread(3, 1, "rank", "rank 1", (1,), 0.51),
            thread(4, 0, "loader worker", "loader worker 1", tuple(range(cpus)), 0.2),
            thread(4, 1, "loader worker", "loader worker 1", tuple(range(cpus)), 0.0, EVIL, 5),
        ),
    )


def state(found: Affinity) -> dict:
    return core_map_traits(found)


@pytest.mark.browser
def test_each_cpu_is_drawn_once_with_who_is_there_and_nothing_of_a_name_is_markup(show):
    view = show(CoreMapPanel, **state(two_ranks()))
    cells = view.page.get_by_test_id("core-map-cpu")
    assert cells.count() == 4
    assert cells.nth(0).inner_text().split() == ["CPU", "0", "●", "R0", "100", "%", "●", "L1", "20", "%"]
    assert "R0main thread100 %" in cells.nth(0).text_content()
    assert view.page.locator(".accel-cores-socket").count() == 2
    assert view.page.locator("img").count() == 0
    assert EVIL in cells.filter(has_text="R1").get_attribute("aria-label")


@pytest.mark.browser
def test_a_process_chosen_by_keyboard_lights_up_where_it_may_run_and_again_clears_it(show):
    view = show(CoreMapPanel, **state(two_ranks()))
    process = view.page.get_by_test_id("core-map-process").filter(has_text="rank 1")
    process.focus()
    process.press("Enter")
    assert process.get_attribute("aria-pressed") == "true"
    lit = view.page.locator('[data-may="run"]')
    assert [cell.get_attribute("data-cpu") for cell in lit.all()] == ["1"]
    process.press("Enter")
    assert process.get_attribute("aria-pressed") == "false"
    view.page.get_by_test_id("core-map-fold").focus()
    assert lit.count() == 0


@pytest.mark.browser
def test_arrow_keys_move_between_cpus_and_tell_who_is_there(show):
    view = show(CoreMapPanel, **state(two_ranks()))
    cells = view.page.get_by_test_id("core-map-cpu")
    assert [cell.get_attribute("tabindex") for cell in cells.all()] == ["0", "-1", "-1", "-1"]
    cells.first.focus()
    assert "CPU 0, core 0: rank 0: ● main thread 100 %" in view.texts("core-map-details")[0]
    cells.first.press("ArrowRight")
    assert view.texts("core-map-details") == ["CPU 2, core 0: nobody of these processes"]
    assert "rank 0 (R0) may use CPU 0: main thread on CPU 0." in view.texts("core-map-summary")[0]


@pytest.mark.browser
def test_a_look_redraws_only_the_cpus_on_which_something_changed(show):
    view = show(CoreMapPanel, **state(two_ranks()))
    view.page.evaluate(
        "() => document.querySelectorAll('.accel-cores-chip').forEach((chip) => chip.dataset.old = 'yes')"
    )
    found = two_ranks()
    moved = replace(found, threads=(replace(found.threads[0], cpu=2), *found.threads[1:]))
    view.set(cpus=state(moved)["cpus"])
    kept = view.page.evaluate(
        "() => [...document.querySelectorAll('[data-cpu]')].map((cell) => [cell.dataset.cpu, "
        "[...cell.querySelectorAll('.accel-cores-chip')].every((chip) => chip.dataset.old)])"
    )
    assert dict(kept) == {"0": True, "1": False, "2": False, "3": True}


@pytest.mark.browser
def test_a_process_keeps_its_button_and_the_focus_while_its_threads_change(show):
    view = show(CoreMapPanel, **state(two_ranks()))
    buttons = view.page.get_by_test_id("core-map-process")
    buttons.nth(1).focus()
    view.page.evaluate("() => document.activeElement.dataset.old = 'yes'")
    found = two_ranks()
    idle = replace(found, threads=tuple(replace(each, busy=0.0) for each in found.threads[:3]))
    view.set(processes=state(idle)["processes"])
    assert buttons.count() == 3
    assert view.page.evaluate("() => document.activeElement.dataset.old") == "yes"
    assert "1 thread, idle" in buttons.nth(1).inner_text()
    view.set(processes=state(found)["processes"])
    assert buttons.count() == 4
    assert "loader worker 1" in buttons.nth(3).inner_text()


@pytest.mark.browser
def test_the_page_says_when_it_shows_the_map_and_when_not(show):
    view = show(CoreMapPanel, **state(two_ranks()))
    view.page.wait_for_function("() => model.sent.at(-1)?.seen === true")
    view.page.get_by_test_id("core-map-fold").press("Enter")
    assert view.saved[-1]["is_open"] is False
    assert view.sent[-1]["seen"] is False
    assert not view.page.get_by_test_id("core-map-cpu").first.is_visible()
    view.page.get_by_test_id("core-map-fold").press("Enter")
    assert view.sent[-1]["seen"] is True
    view.page.evaluate("cleanup()")
    assert view.sent[-1]["seen"] is False
    assert len({message["view"] for message in view.sent}) == 1
    assert view.page.evaluate("model.listening()") == 0


@pytest.mark.browser
def test_hundreds_of_cpus_fit_and_what_is_amiss_stands_above(show):
    view = show(CoreMapPanel, **state(two_ranks(256)), is_open=True)
    view.page.set_viewport_size({"width": 1100, "height": 900})
    cells = view.page.get_by_test_id("core-map-cpu")
    assert cells.count() == 256
    assert view.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert cells.nth(0).bounding_box()["y"] < 900 > cells.nth(255).bounding_box()["y"] + 20
    view.set(notes=["<b>Narrowed</b>"])
    assert view.texts("core-map-notes") == ["⚠ <b>Narrowed</b>"]


@pytest.mark.browser
def test_a_system_that_tells_nothing_says_so(show):
    view = show(CoreMapPanel, **state(Affinity(CpuMap(()), (), why_not="Linux tells it.")))
    assert view.texts("core-map-note") == ["Linux tells it."]
    assert not view.page.locator(".accel-cores-map").is_visible()


def test_a_share_that_trembles_is_not_sent_again():
    found = two_ranks()
    trembled = replace(
        found, threads=tuple(replace(each, busy=max(0.0, each.busy - 0.004)) for each in found.threads)
    )
    trembled = replace(trembled, threads=(*trembled.threads[:3], *found.threads[3:]))
    panel = CoreMapPanel(found)
    sent = []
    panel.observe(lambda change: sent.append(change.name), ["boxes", "cpus", "processes", "summary", "notes"])
    panel.show(trembled)
    assert sent == []
    panel.show(replace(found, threads=found.threads[:3]))
    assert "cpus" in sent
    panel.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads are read from /proc")
def test_it_shows_this_process_and_stands_as_a_static_map_in_a_saved_notebook():
    panel = CoreMapPanel()
    assert panel.processes[0]["mask"] == sorted(os.sched_getaffinity(0))
    bundle = panel._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "may use CPU" in bundle["text/plain"]
    assert ">CPU 0<" in bundle["text/html"]
    panel.close()


def test_folded_it_does_not_look_and_a_page_that_shows_it_does_not_change_that():
    panel = CoreMapPanel(is_open=False)
    assert panel.affinity is None
    panel._told(panel, {"seen": True}, [])
    assert not panel.is_live
    panel.close()


SEEN, GONE = ({"seen": seen, "view": "one"} for seen in (True, False))


class Kernel:
    """A main thread that is busy until it is told otherwise, and a clock that looking makes go on."""

    def __init__(self, look_s: float = 0.0) -> None:
        self.waiting, self.looks, self.now_s, self.look_s = [], 0, 0.0, look_s

    def look(self) -> None:
        self.looks += 1
        self.now_s += self.look_s

    def is_free(self) -> None:
        for action in self.waiting:
            action()
        self.waiting.clear()

    def looks_while_seen(self) -> LooksWhileSeen:
        made = LooksWhileSeen(self.look, clock=lambda: self.now_s, when_idle=self.waiting.append)
        made._views.told(SEEN)  # and no thread: the test takes the turns
        return made


def test_a_look_that_is_dear_is_taken_more_rarely():
    assert Kernel().looks_while_seen().turn() == GAP_S
    assert Kernel(look_s=0.5).looks_while_seen().turn() == pytest.approx(REST * 0.5)


def test_while_a_cell_runs_the_silence_of_the_page_means_nothing():
    kernel = Kernel()
    looks = kernel.looks_while_seen()
    assert all(looks.turn() is not None for _ in range(10 * PATIENCE))


def test_looking_ends_when_the_kernel_is_free_and_no_page_says_that_it_shows_the_map():
    kernel = Kernel()
    looks, turns = kernel.looks_while_seen(), 0
    while looks.turn() is not None:
        kernel.is_free()
        turns += 1
    assert turns == kernel.looks == PATIENCE + 1


def test_a_page_that_goes_does_not_end_it_for_another():
    looks = Kernel().looks_while_seen()
    looks.told({"seen": True, "view": "two"})
    looks.told(GONE)
    assert looks.is_looking
    looks.told({"seen": False, "view": "two"})
    assert not looks.is_looking
    looks.close()


def test_the_thread_is_there_while_it_is_seen_and_never_after_it_is_closed():
    kernel = Kernel()
    looks = kernel.looks_while_seen()
    looks.told(SEEN)
    thread_of_it = looks._thread
    looks.told(SEEN)
    assert looks._thread is thread_of_it
    looks.told(GONE)
    thread_of_it.join(10)
    assert not thread_of_it.is_alive()
    looks.close()
    looks.told(SEEN)
    assert not looks.is_looking
