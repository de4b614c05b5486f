"""What holds for the view of every panel: axe finds nothing, few Tab stops, keys stay, the focus is seen, 360 px are enough."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import anywidget
import jupyterlab.commands
import pytest
from axe_playwright_python.sync_playwright import Axe

import accel_widgets
from accel.accelerations import CATALOGUE
from accel.errors import Reason
from accel.html_parts import page as html_page
from accel.labs.quiz.quiz import Quiz
from accel.labs.quiz.quiz_file import read_quiz
from accel.labs.student_record import StudentRecord
from accel.machine import read_machine
from accel.profiling.findings import Finding, Prediction
from accel.shown import PANELS
from accel_widgets.bar_panel import BarPanel
from accel_widgets.board_panel import BoardPanel
from accel_widgets.core_map_panel import CoreMapPanel
from accel_widgets.ddp_lanes_panel import DdpLanesPanel
from accel_widgets.guess_panel import GuessPanel
from accel_widgets.jobs_panel import JobsPanel
from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.op_table_panel import OpTablePanel
from accel_widgets.phase_bar_panel import PhaseBarPanel
from accel_widgets.quiz_panel import QuizPanel
from accel_widgets.telemetry_panel import TelemetryPanel
from accel_widgets.timeline_panel import TimelinePanel
from tests.machine.made_topologies import recorded
from tests.widgets import test_core_map_panel as cores
from tests.widgets import test_ddp_lanes_panel as lanes
from tests.widgets import test_jobs_panel as jobs
from tests.widgets import test_ladder_panel as ladders
from tests.widgets import test_op_table_panel as ops
from tests.widgets import test_phase_bar_panel as phases
from tests.widgets import test_quiz_panel as quizzes
from tests.widgets import test_telemetry_panel as telemetry
from tests.widgets import test_timeline_panel as timeline
from tests.widgets.test_guess_panel import guess

pytestmark = pytest.mark.browser


def quiz(folder: Path) -> dict[str, Any]:
    """Every kind of question, one answered rightly, one wrongly, one not at all."""
    (folder / "05.yaml").write_text(quizzes.FILE)
    panel = QuizPanel(Quiz(read_quiz(folder / "05.yaml"), StudentRecord(), lambda: None))
    for question, given in (("one", [1]), ("number", "5"), ("some", [])):
        panel._answered(None, {"question": question, "given": given}, None)
    return panel.get_state()


def guessed(folder: Path) -> dict[str, Any]:
    panel = GuessPanel(guess())
    panel._guessed(None, {"given": "35"}, None)
    return panel.get_state()


def of(**state: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda folder: state


CHOSEN = {"op": "aten::relu", "phase": "backward", "module": "net.conv1"}
ALL_ROWS = [*ops.ROWS, ops.row("aten::relu", "backward", "net.conv1", 3.0, 1)]
BEAT = {"called": "Trial", "phase": "measuring", "phase_s": 8.0, "detail": "round 3 of at most 40", "seconds": 65.0,
        "at_most_s": 240.0, "is_strict": True, "can_stop": True, "interrupt": "Interrupt stops it."}  # fmt: skip
NO_GPU = Reason("There is no GPU", "Use a machine with one.")


def board(folder: Path) -> dict[str, Any]:
    """Two findings, entries with knobs, one that is refused as it is turned, and a reason that several share."""
    reasons = {"fused_optimizer": [NO_GPU], "compile_model": [NO_GPU], "autocast": [NO_GPU]}
    panel = BoardPanel(CATALOGUE[:12], why_not=lambda entry: reasons.get(entry.name, []), on_try=print, on_make=print,
                       on_change=lambda: None)  # fmt: skip
    advised = Finding("layout", "Layout: 38 % of each step", "It is copied.", 0.38, ("12 copies",), Prediction(1.3, 1.1, 1.5),
                      ("channels_last",), "", "there is no convolution")  # fmt: skip
    panel.ask(
        kept=(),
        findings=[advised, replace(advised, kind="edit", suggests=(), remedy="Move it out of the loop.")],
    )
    panel.chosen = {"channels_last": {}, "autocast": {"dtype": "bf16"}}
    return panel.get_state()


STATES: dict[type, Callable[[Path], dict[str, Any]]] = {
    BarPanel: of(headline="24.9 ms a step", plan="channels_last+autocast", can=["try", "tune", "undo", "copy"], beat=BEAT,
                 live="channels_last", tab="speed_up"),
    BoardPanel: board,
    CoreMapPanel: of(**{**cores.state(cores.two_ranks()), "notes": ["Two ranks share a core"]}),
    DdpLanesPanel: of(**lanes.state(lanes.FAST, lanes.SLOW, notes=["Rank 1 holds the others up"], has_fold=True)),
    GuessPanel: guessed,
    JobsPanel: of(rows=jobs.rows(jobs.QUEUED, jobs.RUNNING, jobs.DONE), line="cnn is removed", logs_of="cnn",
                  logs=[["the launcher", "it fell over"], ["rank 0", "loss 0.5"]], has_fold=True),
    LadderPanel: of(trials=[{**ladders.trial(ladders.FASTER, ladders.SLOWER, ladders.FAILED), "summary": "Keep it."},
                            *({**ladders.trial(ladders.FASTER), "id": each, "title": each} for each in ("t2", "t3"))],
                    removed=["t3"], compared="t1 against t2: autocast 1.10× [1.04, 1.17] the speed-up."),
    OpTablePanel: of(rows=ALL_ROWS, chosen_op=CHOSEN),
    PhaseBarPanel: of(phases=phases.PHASES, headline="24.9 ms a step", facts=["1,285 samples/s"],
                      remarks=["2 steps are warm-up"], phase="data"),
    QuizPanel: quiz,
    TelemetryPanel: of(tiles=telemetry.TILES, now=telemetry.frame(40, 60, 30), can_close=True, note="Sampling costs little."),
    TimelinePanel: of(**{**timeline.FEW, "chosen_op": CHOSEN, "query": "relu", "span_ms": [20, 50], "counted_ms": [30.0, 1e9]}),
}  # fmt: skip
STATIC = {
    "topology": lambda: recorded("h100x4_nv6_4nic"),
    "machine": read_machine,
    "affinity": lambda: cores.two_ranks(),
}
MOST_STOPS = {QuizPanel: 20, BoardPanel: 16, LadderPanel: 16, BarPanel: 8}  # a form's fields are a stop each
THEMES = Path(jupyterlab.commands.get_app_dir()) / "themes" / "@jupyterlab"
# The page round a view: what axe asks of a whole page, and JupyterLab's variables or a browser's own light and dark.
IN_A_PAGE = """() => {
  document.documentElement.lang = "en";
  document.title = "A notebook";
  const main = document.createElement("main");
  main.innerHTML = "<h1>A notebook</h1><h2>A chapter</h2>";
  main.append(...document.body.children);
  document.body.append(main);
}"""
IN_A_THEME = """([light, ground]) => {
  document.body.style.background = ground;
  document.body.style.color = light === null ? "#808080" : "var(--jp-content-font-color1)";
  document.body.toggleAttribute("data-jp-theme-light", light !== null);
  if (light !== null) document.body.dataset.jpThemeLight = light;
}"""
FOCUSED = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  if (at === document.body || !at.closest(".accel")) return null;
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return [`${at.tagName} ${at.dataset.testid ?? at.className}`, ring || at.classList.contains("accel-skip")];
}"""
LISTEN = """() => {
  [window.heard, window.heardFirst] = [[], []];  // as JupyterLab does, and as Notebook 7 does
  document.addEventListener("keydown", (event) => window.heard.push(event.key));
  document.addEventListener("keydown", (event) => {
    if (!event.target.hasAttribute("data-lm-suppress-shortcuts")) window.heardFirst.push(event.key);
  }, true);
  document.querySelector("main").insertAdjacentHTML("beforeend", "<button data-testid='outside'>a cell</button>");
}"""


def looks() -> list[tuple[str, list[str | None], str]]:
    """Color scheme of the browser, JupyterLab's theme and its ground, and the theme's style sheet."""
    own: list[tuple[str, list[str | None], str]] = [
        ("light", [None, "#ffffff"], ""),
        ("dark", [None, "#0d1117"], ""),
    ]
    return [
        *own,
        (
            "dark",
            ["true", "var(--jp-layout-color1)"],
            style_of("light"),
        ),  # JupyterLab's theme is not the browser's
        ("light", ["false", "var(--jp-layout-color1)"], style_of("dark")),
    ]


def style_of(theme: str) -> str:
    """The variables alone: the theme's other rules ask for pictures."""
    text = (THEMES / f"theme-{theme}-extension" / "index.css").read_text()
    return text[text.index(":root") : text.index("}", text.index(":root")) + 1]


def problems(page: Any) -> list[str]:
    """What axe finds, of any impact, with the elements."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.fixture
def panel_in_a_page(show, page, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "history.sqlite"))

    def opened(panel: type) -> Any:
        view = show(panel, **STATES[panel](tmp_path))
        page.evaluate(IN_A_PAGE)
        return view

    return opened


def test_every_panel_is_in_this_contract():
    modules = [
        import_module(f"accel_widgets.{each.name}") for each in pkgutil.iter_modules(accel_widgets.__path__)
    ]
    panels = {
        each for module in modules for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, anywidget.AnyWidget) and each.__module__ == module.__name__
    }  # fmt: skip
    assert panels == set(STATES)
    assert {name for _, name in PANELS.values()} <= {each.__name__ for each in panels}


@pytest.mark.parametrize("panel", STATES, ids=lambda panel: panel.__name__)
def test_axe_finds_nothing_in_either_theme_and_360_pixels_are_enough(panel_in_a_page, page, panel):
    view = panel_in_a_page(panel)
    found = {}
    for scheme, theme, style in looks():
        page.emulate_media(color_scheme=scheme)
        page.add_style_tag(content=style or "/* the browser's own */")
        page.evaluate(IN_A_THEME, theme)
        found[scheme, bool(style)] = problems(page)
    assert found == {key: [] for key in found}
    page.set_viewport_size({"width": 376, "height": 800})  # 8 on each side are the page's own
    page.evaluate(timeline.DRAWN)
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    page.evaluate("cleanup()")
    assert page.evaluate("model.listening()") == 0
    assert view.errors == []


@pytest.mark.parametrize("panel", STATES, ids=lambda panel: panel.__name__)
def test_a_panel_is_a_few_tab_stops_each_with_a_ring_and_its_keys_stay_in_it(panel_in_a_page, page, panel):
    panel_in_a_page(panel)
    page.evaluate(LISTEN)
    page.keyboard.press("Tab")
    stops = []
    while (stop := page.evaluate(FOCUSED)) is not None and len(stops) < 40:
        stops.append(stop)
        for key in ("x", "d", "ArrowDown", "ArrowUp"):
            page.keyboard.press(key)
        page.keyboard.press("Tab")
    assert 0 < len(stops) <= MOST_STOPS.get(panel, 7)
    assert [name for name, has_ring in stops if not has_ring] == []
    assert page.evaluate("() => document.activeElement.dataset.testid") == "outside"
    page.keyboard.press("Shift+Tab")
    for key in ("Shift+Enter", "Control+s", "Escape"):
        page.keyboard.press(key)
    page.get_by_test_id("outside").press("x")
    for heard in ("heard", "heardFirst"):
        keys = page.evaluate(f"{heard}.filter((key) => !['Tab', 'Control', 'Shift'].includes(key))")
        assert keys == ["s", "Escape", "x"]


def test_a_link_that_the_focus_shows_leads_past_a_panel_of_many_controls(panel_in_a_page, page):
    panel_in_a_page(OpTablePanel)
    page.evaluate(LISTEN)
    skip = page.get_by_role("button", name="Skip the operations")
    assert skip.bounding_box()["width"] <= 1
    page.keyboard.press("Tab")
    assert skip.bounding_box()["width"] > 100
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.dataset.testid") == "outside"


def test_two_panels_in_a_page_listen_once(show, page):
    show(OpTablePanel)
    before = page.evaluate("Object.getOwnPropertySymbols(document.body).length")
    show(LadderPanel, beside=True)
    assert page.evaluate("Object.getOwnPropertySymbols(document.body).length") == before == 1


@pytest.mark.parametrize("name", STATIC)
def test_axe_finds_nothing_in_static_maps(page, name):
    shown = STATIC[name]()._repr_mimebundle_()["text/html"]
    page.set_content(html_page(name, "<main>{}</main>"))
    page.evaluate("html => { document.body.innerHTML = `<main><h1>A map</h1>${html}</main>`; }", shown)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert problems(page) == []
