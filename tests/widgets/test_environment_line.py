"""The panel makes an environment that an acceleration lacks, while the notebook's cells go on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accel.environments.environment import environments
from accel.environments.wanted import find
from accel.workbench import Workbench
from accel_widgets import WorkbenchPanel
from tests.environments.wheels import add_wheel, only_from

CELL = """
for _ in range(12):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def panel(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_ENVIRONMENTS", str(tmp_path / "environments"))
    add_wheel(tmp_path / "wheels", "intel_openmp", library="libiomp5.so")
    only_from(tmp_path / "wheels", monkeypatch)
    model, threads = nn.Linear(16, 4), torch.get_num_threads()
    torch.set_num_threads(2)
    namespace = {
        "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "criterion": nn.CrossEntropyLoss(),
        "x": torch.randn(8, 16), "y": torch.randint(4, (8,)),
    }  # fmt: skip
    workbench = Workbench(namespace, spare_workers=0)
    workbench.profile(CELL)
    shown = WorkbenchPanel(workbench)
    yield shown
    shown.close()
    workbench.close()
    torch.set_num_threads(threads)


def test_a_row_that_lacks_an_environment_stays_open_and_its_button_makes_it(panel):
    def row():
        return next(each for each in panel.board.entries if each["name"] == "intel_openmp")

    assert row()["make"]["words"].startswith("Make openmp (up to ")
    panel.board._handle_custom_msg({"do": "make", "environment": row()["make"]["environment"]}, [])
    panel.environment_line.wait()
    assert "openmp is made" in panel.errors.value
    assert find("openmp").versions == {"intel-openmp": "1.0"}
    assert panel.environment_line.layout.display == "none"
    assert row()["make"] is None


def test_stop_leaves_nothing_of_it_and_it_can_be_made_again(panel):
    line = panel.environment_line
    line.make("openmp")
    line.stop_button.click()
    line.wait()
    assert "was not made" in panel.errors.value
    assert environments() == ()
    line.make("openmp")
    line.make("openmp")
    assert "is being made" in panel.errors.value
    line.wait()
    assert len(environments()) == 1


def test_what_cannot_be_made_says_why_in_the_panel(panel, monkeypatch):
    monkeypatch.setenv("UV_FIND_LINKS", "/nowhere")
    panel.environment_line.make("openmp")
    panel.environment_line.wait()
    assert 'role="alert"' in panel.errors.value
    assert environments() == ()


def test_a_panel_that_is_closed_makes_no_more_of_it(panel):
    panel.environment_line.make("openmp")
    panel.close()
    panel.environment_line.wait()
    assert environments() == ()
