"""What of the CUDA allocator's statistics is told."""

from __future__ import annotations

import pytest
import torch

from accel.profiling.memory_use import STATISTICS, allocator_statistics, chosen_statistics


def test_what_tells_a_full_or_fragmented_allocator_is_picked_in_torchs_own_names():
    statistics = {"num_ooms": 2, "allocated_bytes.all.peak": 4096, "segment.all.freed": 3}
    assert chosen_statistics(statistics) == (("allocated_bytes.all.peak", 4096), ("num_ooms", 2))


def test_on_the_cpu_there_is_none():
    assert allocator_statistics("cpu") == ()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_torch_knows_every_name():
    torch.ones(1, device="cuda:0")
    assert [name for name, _ in allocator_statistics("cuda:0")] == list(STATISTICS)
