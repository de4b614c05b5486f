"""What activation_checkpointing is for: a lower peak of GPU memory, with the same losses. Skipped where there is no GPU."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from accel.accelerations.activation_checkpointing import ActivationCheckpointing
from accel.workload import Replica

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


def peak_and_losses(entry):
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Dropout(0.1), nn.Linear(512, 512)) for _ in range(12)
    ]
    model = nn.Sequential(*blocks).cuda()
    inputs, losses = torch.randn(4096, 512, device="cuda"), []
    with entry.apply(Replica(models={"model": model})) if entry else nullcontext():
        for _ in range(3):
            torch.cuda.reset_peak_memory_stats()
            loss = model(inputs).square().mean()
            loss.backward()
            losses.append(loss.item())
    return torch.cuda.max_memory_allocated(), losses


def test_the_peak_is_lower_and_the_losses_are_the_same():
    usual, expected = peak_and_losses(None)
    peak, losses = peak_and_losses(ActivationCheckpointing())
    assert peak < 0.7 * usual
    assert losses == expected
