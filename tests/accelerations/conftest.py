from __future__ import annotations

import pytest
import torch
import torch._dynamo.config  # reads the environment once, here: tests change it later

from accel.accelerations.steady_allocator import use_default_thresholds


@pytest.fixture(autouse=True)
def one_thread_and_the_usual_allocator():
    """Losses are compared bit for bit, and sums depend on the number of threads. What exported code sets is put back."""
    before, set_anomaly_mode = torch.get_num_threads(), torch.set_anomaly_enabled
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.set_anomaly_enabled = set_anomaly_mode
    torch.set_anomaly_enabled(False)
    use_default_thresholds()
