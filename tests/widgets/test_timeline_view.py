"""What the timeline panel is given, without a browser: bytes as the page reads them, words as the report says them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from accel.profiling.timeline import read_timeline
from accel.shown import short_text
from accel.workbench import Workbench
from accel_widgets.timeline_panel import TimelinePanel
from accel_widgets.timeline_view import NO_EVENTS, timeline_traits

CELL = """
for _ in range(9):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).sum().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def profile():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    namespace = {"torch": torch, "model": model, "optimizer": torch.optim.SGD(model.parameters())}
    workbench = Workbench(namespace, spare_workers=0)
    yield workbench.profile(CELL)
    workbench.close()


def test_the_bytes_are_the_numbers_of_the_timeline(profile):
    traits, timeline = timeline_traits(profile), read_timeline(profile.events)
    assert np.frombuffer(traits["start_ms"], "<f8") == pytest.approx(timeline.start_ms)
    assert np.frombuffer(traits["name"], "<i4").tolist() == timeline.name.tolist()
    assert {len(traits[one]) for one in ("duration_ms", "self_ms")} == {8 * len(timeline)}
    assert {len(traits[one]) for one in ("phase", "module", "line")} == {4 * len(timeline)}


def test_every_number_has_its_name(profile):
    traits = timeline_traits(profile)
    for numbers, names in (("name", "names"), ("phase", "phases"), ("module", "modules")):
        assert np.frombuffer(traits[numbers], "<i4").max() < len(traits[names])
    assert traits["rows"][-1]["lanes"][-1][1] == len(traits["name"]) // 4


def test_a_reader_without_eyes_gets_the_rows_and_the_most_expensive_names(profile):
    traits = timeline_traits(profile)
    assert traits["label"].startswith("Timeline of ")
    assert "Steps, Phases, Training thread" in traits["label"]
    assert any("aten::addmm" in line and "times" in line for line in traits["summary"])
    assert not any(line.startswith("Step ") for line in traits["summary"])


def test_data_are_sent_when_the_panel_is_opened_and_once(profile):
    panel = TimelinePanel(profile)
    assert panel.start_ms == b""
    panel.is_open = True
    sent, generation = panel.start_ms, panel.generation
    assert len(sent) == 8 * len(read_timeline(profile.events))
    panel.is_open = False
    panel.is_open = True
    assert panel.generation == generation
    panel.close()


def test_another_profile_takes_the_place_of_the_first_and_its_selection(profile):
    panel = TimelinePanel(profile, is_open=True)
    panel.selected, panel.query = 5, "mm"
    panel.show(None)
    assert (panel.selected, panel.start_ms, panel.note) == (-1, b"", NO_EVENTS)
    assert panel.query == "mm"
    panel.close()


def test_saved_without_widgets_the_report_stands_in_for_it(profile):
    panel = profile.panel()
    bundle = panel._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "Forward" in bundle["text/html"]
    assert bundle["text/plain"] == short_text(profile)
    panel.close()
