"""Number formats on a CUDA device: float16 with loss scaling, TF32, reductions, cuDNN's choice. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accel.accelerations.autocast import Autocast
from accel.accelerations.cudnn_benchmark import CudnnBenchmark
from accel.accelerations.matmul_precision import MatmulPrecision
from accel.accelerations.reduced_precision_reductions import ReducedPrecisionReductions
from accel.techniques.numerics.loss_scaling import live_loss_scaling
from accel.workload import Replica

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


def train(plan: Autocast | None, factor: float = 1.0, count: int = 5):
    """Some steps with clipping: the norms that the cell saw, and the losses."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)
    ).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images, targets = torch.randn(16, 3, 8, 8, device="cuda"), torch.arange(16, device="cuda") % 5
    replica = Replica(models={"model": model}, optimizers={"optimizer": optimizer})
    norms, losses, proof = [], [], None

    def steps():
        for _ in range(count):
            optimizer.zero_grad()
            loss = factor * nn.functional.cross_entropy(model(images), targets)
            loss.backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
            optimizer.step()
            losses.append(loss.item())

    if plan is None:
        steps()
    else:
        with plan.apply(replica):
            steps()
            proof = plan.took_effect(replica)
    return norms, losses, proof


def test_float16_follows_float32_and_clipping_sees_true_gradients():
    norms, losses, _ = train(None)
    found_norms, found_losses, proof = train(Autocast(dtype="fp16"))
    assert found_norms == pytest.approx(norms, rel=0.05)
    assert found_losses == pytest.approx(losses, rel=0.02)
    assert proof.took_effect
    assert "0 of 5 steps skipped, loss scale 65536" in proof.evidence


def test_overflowing_steps_are_skipped_and_told():
    _, losses, proof = train(Autocast(dtype="fp16"), factor=1e3, count=12)
    assert proof.took_effect, proof.evidence
    assert "0 of 12" not in proof.evidence
    assert losses[1] == losses[0]
    assert live_loss_scaling() is None


def test_matmul_precision_is_seen_in_what_products_round():
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("TF32 came with Ampere")
    replica = Replica(models={"model": nn.Linear(1, 1).cuda()})
    for precision in ("high", "medium"):  # torch knows no bfloat16 inside float32 products on GPUs
        entry = MatmulPrecision(precision=precision)
        assert not entry.took_effect(replica).took_effect
        with entry.apply(replica):
            assert entry.took_effect(replica).evidence.endswith("TF32")
    assert not MatmulPrecision().took_effect(replica).took_effect


@pytest.mark.parametrize(
    ("entry", "sabotage"),
    [
        (CudnnBenchmark(), lambda: setattr(torch.backends.cudnn, "benchmark", False)),
        (
            ReducedPrecisionReductions(accumulation=True),
            lambda: setattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", False),
        ),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_flags_take_effect_on_a_device_and_sabotage_is_noticed(entry, sabotage):
    replica = Replica(models={"model": nn.Conv2d(1, 1, 3).cuda()})
    with entry.apply(replica):
        assert entry.took_effect(replica).took_effect
        sabotage()
        assert not entry.took_effect(replica).took_effect
    assert not entry.took_effect(replica).took_effect
