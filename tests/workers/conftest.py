"""A tiny training cell on a workbench of its own, and a check that no worker outlives its test."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import psutil
import pytest

from accel.distributed.trials import trial_group
from accel.workbench import Workbench, trial_start
from accel.workers import time_budget
from accel.workers.samples import Effort
from accel.workers.time_budget import TimeBudget
from accel.workers.worker import Worker
from tests.threads import threads
from tests.workers.stand_ins import Costly, Costs, MachineClock

SETUP = """
import os
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
home = os.getpid()
data = TensorDataset(torch.randn(160, 1, 8, 8), torch.randint(0, 4, (160,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
losses = []

def train():
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
CELL = "train()"
QUICK = Effort(warm_up=2, least_rounds=10, most_rounds=12, seconds=2)


def worker_processes():
    """Our worker processes that are alive."""
    children = psutil.Process().children(recursive=True)
    return [
        p
        for p in children
        if p.status() != psutil.STATUS_ZOMBIE and "accel.workers.worker_main" in " ".join(p.cmdline())
    ]


@pytest.fixture
def one_thread():
    """Tiny steps on one thread."""
    with threads(1):
        yield


@pytest.fixture
def workbench(monkeypatch, one_thread):
    """A workbench over the tiny cell's namespace; a trial is one relaunch, as the notebook runs."""
    trials_with(monkeypatch, can_be_steady=False)
    monkeypatch.setattr(trial_start, "threads_of_others", lambda cores: 0.0)  # whatever else runs here
    namespace = {"__name__": "__main__"}
    exec(compile(SETUP, "<setup>", "exec"), namespace)
    bench = Workbench(namespace, spare_workers=0)
    yield bench
    bench.close()
    assert worker_processes() == [], "a worker outlived its test"


@pytest.fixture
def two_stages(workbench, monkeypatch):
    """Trials have a relaunch under a steady allocator, and one as the notebook runs."""
    trials_with(monkeypatch, steady_relaunches=1)


def trials_with(monkeypatch, **more):
    """Let trials be short; `more` is of TrialSetting."""
    from accel.workers.staged_trial import TrialSetting

    def setting(**given):
        return TrialSetting(**given | more, effort=QUICK, notebook_relaunches=1)

    monkeypatch.setattr(trial_start, "TrialSetting", setting)


@pytest.fixture
def clock():
    return MachineClock()


@pytest.fixture
def steps_take(monkeypatch, workbench, clock):
    """Workers whose step takes a share of 50 ms: the product of the shares of their parts; `make` may give others."""

    def steps_take(shares, together=None, *, make=lambda plan: Costly, compiling=5.0, memory=None):
        clock.times_trials(monkeypatch)
        monkeypatch.setattr(Worker, "usual_start_s", 5.0)  # as before a real one was started
        monkeypatch.setattr(time_budget, "TimeBudget", partial(TimeBudget, clock=clock))

        def stand_in(variant, load):
            share = 1.0
            for name in variant.plan.names:
                share *= shares.get(name, 1.0)
            for pair, more in (together or {}).items():
                share *= more if set(pair) <= set(variant.plan.names) else 1.0
            bytes_held = (3 << 30) if memory else 0
            for name in variant.plan.names:
                bytes_held *= (memory or {}).get(name, 1.0)
            costs = Costs(step=0.05 * share, noise=0.01, compiling=compiling, memory=int(bytes_held))
            return make(variant.plan)(clock, costs, variant.plan)

        monkeypatch.setattr(trial_group, "group_for", stand_in)
        workbench.profile(CELL)
        workbench.workload = replace(workbench.workload, step_ms=50.0)

    return steps_take
