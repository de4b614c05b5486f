"""A profile on a CUDA device: kernels, copies, busy time, and a stamp for each of several profiles in one process."""

from __future__ import annotations

import pytest
import torch

from accel.workbench import Workbench

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]

BATCH = 64
# 28 × 28 float32 images and int64 labels
BATCH_BYTES = BATCH * (28 * 28 * 4 + 8)
SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel.labs import CNN

torch.manual_seed(0)
data = TensorDataset(torch.randn({rows}, 1, 28, 28), torch.randint(0, 10, ({rows},)))
loader = DataLoader(data, batch_size={batch}, pin_memory={pinned})
model, criterion = CNN().cuda(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
"""
CELL = """
for images, labels in loader:
    images, labels = images.cuda(non_blocking={pinned}), labels.cuda(non_blocking={pinned})
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
"""


@pytest.fixture
def profile():
    """Profiles a training cell whose batches lie in pinned or pageable memory, as often as it is called."""
    benches = []

    def run(*, pinned=False):
        namespace = {"__name__": "__main__"}
        exec(compile(SETUP.format(rows=20 * BATCH, batch=BATCH, pinned=pinned), "<setup>", "exec"), namespace)
        benches.append(Workbench(namespace, spare_workers=0))
        return benches[-1].profile(CELL.format(pinned=pinned))

    yield run
    for bench in benches:
        bench.close()


def test_kernels_are_told_with_operation_phase_and_module(profile):
    (activity,) = profile().devices
    assert activity.kernels_per_step > 20
    assert 0 < activity.median_kernel_us < 1e6
    phases = {row.phase for row in activity.kernels}
    assert {"forward", "backward", "optimizer"} <= phases
    convolutions = [row for row in activity.kernels if "conv" in row.op]
    assert convolutions
    assert all(row.module for row in convolutions)
    assert sum(row.share for row in activity.kernels) == pytest.approx(1)


def test_busy_and_idle_time_add_up_to_the_step(profile):
    (activity,) = profile().devices
    assert activity.busy_share + activity.idle_share == pytest.approx(1)
    assert 0 <= activity.launch_gaps_share <= activity.idle_share
    assert sum(share for _, share in activity.idle_phases) == pytest.approx(activity.idle_share)
    assert sum(row.ms for row in activity.kernels) <= activity.step_ms * len(activity.streams) * 1.01


@pytest.mark.parametrize(("pinned", "memory"), [(False, "pageable"), (True, "pinned")])
def test_copies_to_the_device_carry_the_bytes_of_the_batch(profile, pinned, memory):
    (activity,) = profile(pinned=pinned).devices
    (copy,) = [row for row in activity.copies if row.kind == "host to device"]
    assert copy.memory == memory
    assert copy.calls == pytest.approx(2)
    if copy.bytes:  # torch before 2.10 does not tell
        assert copy.bytes == pytest.approx(BATCH_BYTES)
        assert copy.gb_per_s > 0


def test_three_profiles_in_a_row_are_each_stamped_by_what_their_rows_are_worth(profile):
    """CUPTI may fail at later ones; then the stamp has to say so, and where it does not the figures have to agree."""
    profiles = [profile() for _ in range(3)]
    assert profiles[0].completeness.is_complete, profiles[0].completeness
    first = profiles[0].devices[0].kernels_per_step
    for later in profiles[1:]:
        if later.completeness.is_complete:
            assert later.devices[0].kernels_per_step == pytest.approx(first)
        else:
            assert later.completeness.reasons


def test_the_report_shows_the_device(profile):
    told = str(profile())
    assert "On the GPU (cuda:0): busy" in told
    assert "Host to device, pageable memory" in told
