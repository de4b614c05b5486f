"""A panel in a saved notebook that is opened without a kernel: an output of its own, in plain HTML."""

from __future__ import annotations

import IPython.display
import pytest

from accel.machine.telemetry import Monitor
from accel.workbench import Workbench
from accel_widgets.core_map_panel import CoreMapPanel
from accel_widgets.ddp_lanes_panel import DdpLanesPanel
from accel_widgets.telemetry_panel import TelemetryPanel
from accel_widgets.timeline_panel import TimelinePanel
from accel_widgets.workbench_panel import WorkbenchPanel

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def outputs(monkeypatch):
    """What is displayed, as MIME bundles."""
    shown = []

    def display(bundle, raw, display_id=None):
        shown.append(bundle)
        return IPython.display.DisplayHandle(display_id) if display_id else None

    monkeypatch.setattr(IPython.display, "display", display)
    return shown


@pytest.fixture
def profile():
    namespace = {"__name__": "__main__"}
    exec("import torch\nw = torch.zeros(2, requires_grad=True)\no = torch.optim.SGD([w], lr=0.1)", namespace)
    workbench = Workbench(namespace, spare_workers=0)
    yield workbench.profile(
        "for _ in range(4):\n    o.zero_grad()\n    (w - 1).square().sum().backward()\n    o.step()"
    )
    workbench.close()


def check(panel, outputs, words):
    panel._ipython_display_()
    live, saved = outputs
    assert WIDGET in live
    assert "text/html" not in live
    assert WIDGET not in saved
    assert "<div data-accel-saved>" in saved["text/html"]
    assert words in saved["text/html"]
    assert "<script" not in saved["text/html"]
    panel.close()


def test_the_cores(outputs):
    check(CoreMapPanel(), outputs, "CPU 0")


def test_the_load(outputs):
    check(TelemetryPanel(Monitor()), outputs, "this process")


def test_the_timeline(outputs, profile):
    check(profile.panel(), outputs, "Backward")


def test_the_whole_panel(outputs):
    check(WorkbenchPanel(Workbench({}, spare_workers=0)), outputs, "no cell was profiled yet")


def test_in_each_cell_that_shows_it_the_page_to_save_is_written_anew(outputs, monkeypatch):
    written = []
    monkeypatch.setattr(
        IPython.display.DisplayHandle,
        "update",
        lambda self, bundle, raw: written.append((self.display_id, bundle)),
    )
    panel = CoreMapPanel()
    panel.save_again()
    assert written == []  # no cell has shown it yet
    panel._ipython_display_()
    first = panel._saved.display_id
    panel._ipython_display_()
    monkeypatch.setattr(panel, "_stand_in", lambda: {"text/plain": "now", "text/html": "<b>now</b>"})
    panel.save_again()
    assert [shown for shown, _ in written] == [first]  # an id that the outputs of both cells have
    assert "<b>now</b>" in written[0][1]["text/html"]
    panel.close()


@pytest.mark.parametrize("panel", [DdpLanesPanel, TimelinePanel])
def test_a_panel_without_anything_to_show_leaves_no_empty_output(panel, outputs):
    empty = panel()
    empty._ipython_display_()
    assert [WIDGET in bundle for bundle in outputs] == [True]
    empty.close()
