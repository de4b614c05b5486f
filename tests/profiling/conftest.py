"""Small cells, and a way to run one under phase marks and a profiled window."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accel.profiling.profile_options import ProfileOptions
from accel.profiling.profiled_window import ProfiledWindow
from accel.workload.phase_marks import PhaseMarks


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 3 * 3, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.head(x.flatten(1))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(y)))


class Loop:
    """A training loop on random batches, as a user would write it."""

    def __init__(self, model, shape=(4, 1, 8, 8)):
        self.model, self.shape = model, shape
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(model.parameters())

    def run(self, steps):
        for _ in range(steps):
            x, y = torch.randn(self.shape), torch.randint(0, 10, self.shape[:1])
            self.optimizer.zero_grad()
            self.criterion(self.model(x), y).backward()
            self.optimizer.step()


@pytest.fixture
def loop():
    torch.manual_seed(0)
    return Loop(SmallCNN())


@pytest.fixture
def residual_loop():
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), Block(4), Block(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return Loop(nn.Sequential(body, nn.Linear(4, 10)))


@pytest.fixture
def profiled():
    """Run something under marks and a window; gives the window. Keywords are those of ProfileOptions."""

    def run(work, *, warmup=2, **options):
        window = ProfiledWindow(PhaseMarks(ranges="off"), ProfileOptions(**options), warmup=warmup)
        with window.marks, window:
            work()
        return window

    return run


TRAINING = """
for _ in range(12):
    x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="session")
def real_profile():
    """The profile of a small CNN's training; tests of views read it and replace fields in copies."""
    from accel.workbench import Workbench

    torch.manual_seed(0)
    model = SmallCNN()
    namespace = {
        "torch": torch, "model": model, "criterion": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters()),
    }  # fmt: skip
    workbench = Workbench(namespace, spare_workers=0)
    yield workbench.profile(TRAINING)
    workbench.close()
