"""A panel is few messages: what a busy page does not fetch in time, the kernel's socket drops beyond 1,000."""

from __future__ import annotations

import comm
import ipywidgets
import pytest
import torch
from torch import nn

from accel.workbench import Workbench
from accel_widgets import WorkbenchPanel
from accel_widgets.shared_looks import shared

A_SOCKET_HOLDS = 1000  # ZeroMQ's high-water mark, as ipykernel leaves it


@pytest.fixture
def messages(monkeypatch):
    sent = []
    monkeypatch.setattr(
        comm.DummyComm, "publish_msg", lambda self, kind, *given, **named: sent.append(kind), raising=False
    )
    return sent


def test_opening_the_panel_leaves_room_in_the_kernels_socket(messages):
    model = nn.Linear(4, 2)
    bench = Workbench({"model": model, "optimizer": torch.optim.SGD(model.parameters())}, spare_workers=0)
    panel = WorkbenchPanel(bench)
    try:
        assert "comm_open" in messages
        assert len(messages) < A_SOCKET_HOLDS / 2
    finally:
        panel.close()
        bench.close()


def test_widgets_of_one_kind_have_one_layout_and_one_style():
    first, second = (shared(ipywidgets.HTML, text, classes="accel-layer") for text in "ab")
    assert first.layout is second.layout
    assert first.style is second.style
    assert (first.value, second.value) == ("a", "b")
    assert first._dom_classes == ("accel-layer",)


def test_one_that_was_closed_by_the_user_is_not_shared_again():
    before = shared(ipywidgets.HTML)
    before.layout.close()
    before.style.close()
    after = shared(ipywidgets.HTML)
    assert after.layout.comm is not None
    assert after.style.comm is not None
