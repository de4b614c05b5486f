"""Ranks with a GPU each, talking by NCCL: the model of a notebook that used CUDA trains and stays where it is."""

from __future__ import annotations

import pytest
import torch

from accel.workbench import Workbench
from accel.workbench.ddp_options import DdpOptions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]

CELL = """
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_model_on_the_last_gpu_trains_on_ranks_with_one_each(ranks: int) -> None:
    if torch.cuda.device_count() < ranks:
        pytest.skip(f"there are not {ranks} GPUs")
    device = f"cuda:{torch.cuda.device_count() - 1}"
    model = torch.nn.Linear(8, 2, device=device)
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
    losses: list[float] = []
    names = {
        "torch": torch, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "losses": losses,
        "loader": torch.utils.data.DataLoader(data, batch_size=8, shuffle=True),
    }  # fmt: skip
    weights, before = model.weight, model.weight.detach().clone()
    workbench = Workbench(names, spare_workers=0)
    try:
        result = workbench.ranks.run(CELL, DdpOptions(n=ranks))
    finally:
        workbench.close()
    assert result.backend == "nccl"
    assert len(losses) == result.steps == 8 // ranks
    assert model.weight is weights
    assert str(model.weight.device) == device
    assert not model.weight.equal(before)
