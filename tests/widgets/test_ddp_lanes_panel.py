"""The ranks' lanes: how they are drawn, when they are read, and who may stop a run."""

from __future__ import annotations

import threading

import pytest

from accel.distributed.cells.watched_run import WatchedRun
from accel.distributed.ranks.rank_page import RankLane
from accel_widgets.ddp_lanes_panel import DdpLanesPanel, lanes_traits

FAST = RankLane(
    0,
    step=1200,
    samples=76_800,
    phase="backward",
    loss=0.25,
    seconds=10.0,
    communication_s=4.0,
    memory_bytes=2**29,
)
SLOW = RankLane(
    1,
    step=1198,
    samples=76_672,
    phase="data",
    loss=0.5,
    seconds=10.0,
    communication_s=0.5,
    memory_bytes=2**29,
)
HOSTILE = '<img src=x onerror="window.hurt = true"><b>bold</b>'
SEEN = {"seen": True, "view": "one"}


class Cell:
    """What a run is made of, seen from outside: its lanes, and whether it was asked to stop."""

    def __init__(self, *lanes: RankLane) -> None:
        self.lanes, self.pool, self.is_stopped, self.reads = lanes, self, threading.Event(), 0
        self.ranks, self.job = 2, ""

    def stop(self) -> None:
        self.is_stopped.set()


class InBackground(WatchedRun):
    is_background = True


def state(*lanes: RankLane, **traits: object) -> dict[str, object]:
    return {"lanes": lanes_traits(lanes, 1), "line": "Training on 2 ranks, 10 s.", "can_stop": True, **traits}


@pytest.fixture
def panel():
    made: list[DdpLanesPanel] = []

    def panel_of(*given, **traits) -> DdpLanesPanel:
        made.append(DdpLanesPanel(*given, **traits))
        return made[-1]

    yield panel_of
    for each in made:
        each.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_rank_has_a_lane_in_words_and_the_one_that_holds_up_is_marked(show, page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    view = show(DdpLanesPanel, **state(FAST, SLOW))
    assert view.texts("lane-name") == ["rank 0", "rank 1 ⚠ slowest"]
    assert view.texts("lane-phase") == ["backward", "data"]
    assert view.texts("lane-step") == ["1200", "1198 (2 behind)"]
    assert view.texts("lane-loss") == ["0.25", "0.5"]
    assert view.texts("lane-rate") == ["7,680", "7,667"]
    assert view.texts("lane-waiting") == ["40 %", "5 %"]
    colours = page.evaluate("""() => {
      const brightness = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
      const style = getComputedStyle(document.querySelector("[data-testid=lane-phase]"));
      return [brightness(style.color), getComputedStyle(document.querySelector("[data-holds-up] th")).color !== style.color];
    }""")
    assert (colours[0] > 384) == (scheme == "dark")
    assert colours[1]


@pytest.mark.browser
def test_rows_stay_while_values_move_and_go_with_their_ranks(show) -> None:
    view = show(DdpLanesPanel, **state(FAST, SLOW))
    view.page.evaluate(
        "() => document.querySelectorAll('[data-testid=lane]').forEach((row) => row.dataset.old = 'yes')"
    )
    view.set(lanes=lanes_traits((FAST, SLOW, RankLane(2))))
    old = "() => [...document.querySelectorAll('[data-testid=lane]')].map((row) => row.dataset.old ?? '')"
    assert view.page.evaluate(old) == ["yes", "yes", ""]
    assert view.texts("lane-name") == ["rank 0", "rank 1", "rank 2"]
    assert view.texts("lane-loss")[2] == ""
    view.set(lanes=lanes_traits((FAST,)))
    assert view.page.evaluate(old) == ["yes"]


@pytest.mark.browser
def test_stop_is_sent_and_goes_when_the_run_is_over(show) -> None:
    view = show(DdpLanesPanel, **state(FAST, SLOW))
    view.page.get_by_test_id("ddp-stop").click()
    assert {"do": "stop"} in view.sent
    view.set(can_stop=False)
    assert not view.page.get_by_test_id("ddp-stop").is_visible()


@pytest.mark.browser
def test_what_code_says_is_text_and_never_html(show) -> None:
    lanes = [{**lane, "phase": HOSTILE, "loss": HOSTILE} for lane in lanes_traits((FAST,))]
    view = show(DdpLanesPanel, **state(), notes=[HOSTILE])
    view.set(lanes=lanes, line=HOSTILE)
    for test_id in ("lane-phase", "lane-loss", "ddp-notes", "ddp-line"):
        assert view.texts(test_id) == [HOSTILE]
    assert view.page.evaluate("() => [document.querySelectorAll('img').length, window.hurt]") == [0, None]


@pytest.mark.browser
def test_in_a_panel_it_appears_with_the_first_run_and_is_folded_by_key(show) -> None:
    view = show(DdpLanesPanel, has_fold=True)
    fold = view.page.get_by_test_id("ddp-fold")
    assert not fold.is_visible()
    view.set(**state(FAST, SLOW))
    assert fold.inner_text() == "▾ Ranks"
    view.page.wait_for_function("() => model.sent.at(-1)?.seen === true")
    fold.press("Enter")
    assert view.saved[-1]["is_open"] is False
    assert fold.get_attribute("aria-expanded") == "false"
    assert view.sent[-1]["seen"] is False
    assert not view.page.get_by_test_id("lane").first.is_visible()
    assert view.page.get_by_test_id("ddp-stop").is_visible()
    view.page.evaluate("cleanup()")
    assert view.page.evaluate("model.listening()") == 0


def test_it_looks_while_it_is_seen_and_the_run_goes_on_and_draws_the_end(panel) -> None:
    cell = Cell(FAST, SLOW)
    shown = panel(run := InBackground(cell))
    assert not shown.is_live
    shown._told(shown, SEEN, [])
    looking = shown._live._thread
    moved = threading.Event()
    shown.observe(lambda change: moved.set(), "lanes")
    cell.lanes = (RankLane(0, step=1201), SLOW)
    assert moved.wait(30)
    shown.is_open = False
    shown._told(shown, SEEN, [])
    assert not shown.is_live
    shown.is_open = True
    shown._told(shown, SEEN, [])
    assert shown.is_live
    looking = shown._live._thread
    run.ended(None, ValueError(HOSTILE))
    looking.join(30)
    assert not shown.is_live
    assert shown.line.startswith("Failed on 2 ranks")
    assert shown.notes == [HOSTILE]
    assert not shown.can_stop


def test_a_run_that_begins_while_the_page_is_seen_is_looked_at_at_once(panel) -> None:
    shown = panel()
    shown._told(shown, SEEN, [])
    assert not shown.is_live
    shown.show(InBackground(Cell(FAST)))
    assert shown.is_live
    assert len(shown.lanes) == 1


def test_who_holds_the_others_up_is_named_while_it_runs(panel) -> None:
    shown = panel(InBackground(Cell(FAST, SLOW)))
    assert [lane["holds_up"] for lane in shown.lanes] == [False, True]
    (note,) = shown.notes
    assert note.startswith(
        "Rank 1 holds the others up: 7.9 ms of its own work a step, the others at most 5.0 ms"
    )
    early = [
        RankLane(each.rank, step=19, seconds=1.0, communication_s=each.rank / 2) for each in (FAST, SLOW)
    ]
    assert panel(InBackground(Cell(*early))).notes == []


def test_a_run_in_the_background_is_stopped_by_a_click(panel) -> None:
    shown = panel(InBackground(cell := Cell(FAST)))
    assert shown.can_stop
    shown._told(shown, {"do": "stop"}, [])
    assert cell.is_stopped.is_set()
    assert shown.line.startswith("Stopping on 2 ranks")


def test_a_run_that_a_cell_waits_for_has_the_button_once_the_kernel_hears_the_page(panel) -> None:
    shown = panel(run := WatchedRun(cell := Cell(FAST)))
    assert not shown.can_stop
    assert "--background" in shown.notes[-1]
    shown._told(shown, SEEN, [])
    assert shown.can_stop
    assert shown.notes == []
    shown._told(shown, {"do": "stop"}, [])
    assert cell.is_stopped.is_set()
    cell.is_stopped.clear()
    run.ended(None, KeyboardInterrupt())
    shown._told(shown, {"do": "stop"}, [])  # a click that comes late
    assert not cell.is_stopped.is_set()
    assert shown.line.startswith("Interrupted on 2 ranks")


def test_who_fails_to_show_the_end_of_a_run_keeps_nobody_else_from_it(panel, capsys) -> None:
    run = InBackground(Cell(FAST))
    run.on_change(lambda: 1 / 0)
    shown = panel(run)
    run.ended(None, ValueError("no more"))
    assert run.state == "failed"
    assert shown.notes == ["no more"]
    assert "ZeroDivisionError" in capsys.readouterr().err
