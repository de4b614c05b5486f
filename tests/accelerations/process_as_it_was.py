"""Fixtures: what exported code and plans leave behind in this process does not reach the next test."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.config  # reads the environment once, here: tests change it later
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from accel.accelerations.steady_allocator import fix_thresholds
from accel.workload.torch_settings import read_settings, write_settings


@pytest.fixture(autouse=True)
def one_thread_and_the_usual_allocator():
    """Losses are compared bit for bit, and sums depend on the number of threads. What exported code sets is put back."""
    before, set_anomaly_mode = torch.get_num_threads(), torch.set_anomaly_enabled
    enter_autocast = torch.autocast.__enter__
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.set_anomaly_enabled = set_anomaly_mode
    torch.set_anomaly_enabled(False)
    torch.autocast.__enter__ = enter_autocast
    fix_thresholds()


@pytest.fixture(autouse=True)
def the_process_as_it_was():
    """Plain code has no undo: what it changed for the whole process must not reach the next test."""
    settings, backward = read_settings(), torch.autograd.backward
    hooks = [(each, dict(each)) for each in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)]
    yield
    torch.autograd.backward = backward
    write_settings(settings)
    for each, before in hooks:
        each.clear()
        each.update(before)
