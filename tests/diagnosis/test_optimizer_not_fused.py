"""Adam without `fused=True` is found, and with it is not."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn

from accel.diagnosis.optimizer_not_fused import optimizer_not_fused
from accel.profiling.whole_run import WholeRun
from tests.diagnosis.making import by_hand, real, row

MANY = "model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(20)], nn.Linear(32, 4)); x = torch.randn(8, 32)\n"


@cache
def faulty():
    return real(setup=MANY + "optimizer = torch.optim.Adam(model.parameters())")


@cache
def sound():
    return real(setup=MANY + "optimizer = torch.optim.Adam(model.parameters(), fused=True)")


def test_a_plain_adam_is_found_with_its_share_of_the_step():
    finding = optimizer_not_fused(faulty())
    assert finding is not None
    assert finding.suggests == ("fused_optimizer",)
    assert finding.share == pytest.approx(faulty().share("optimizer"))
    assert "42 parameters" in finding.what


def test_a_fused_adam_is_not():
    assert optimizer_not_fused(sound()) is None


def test_an_optimizer_that_has_no_fused_kernel_is_not():
    assert optimizer_not_fused(real(setup="optimizer = torch.optim.RMSprop(model.parameters())")) is None


def test_plain_sgd_on_large_weights_gains_nothing_and_is_not():
    def with_sgd(**settings):
        update = (row("aten::add_", "optimizer", 0.3, calls=4.0), row("aten::mm", "backward", 0.7))
        evidence = by_hand({"optimizer": 0.3, "backward": 0.7}, update)
        weights = nn.Linear(512, 512).parameters()
        evidence.objects.optimizers["optimizer"] = torch.optim.SGD(weights, lr=0.1, **settings)
        return evidence

    assert optimizer_not_fused(with_sgd()) is None
    assert optimizer_not_fused(with_sgd(momentum=0.9)) is not None


WITH_CLOSURE = """
for _ in range(30):
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        time.sleep(0.003)
        return loss
    optimizer.step({})
"""


@pytest.mark.parametrize("given", ["closure", "closure=closure"])
def test_what_a_closure_takes_is_not_held_against_the_update(given):
    evidence = real(WITH_CLOSURE.format(given), "import time", timed=False)
    finding = optimizer_not_fused(evidence)
    assert finding.share == pytest.approx(evidence.share("optimizer"))
    assert finding.share < evidence.share("closure")
    assert finding.prediction.high < 2


def test_an_update_whose_tensors_come_from_new_pages_gains_more():
    def predicted(kind, faults, width=1024):
        evidence = by_hand(
            {"optimizer": 0.4, "backward": 0.6}, whole_run=WholeRun(page_faults_per_step=faults)
        )
        weights = nn.Linear(width, width).parameters()
        evidence.objects.optimizers["optimizer"] = getattr(torch.optim, kind)(weights, lr=0.1)
        return optimizer_not_fused(evidence).prediction

    pages = 1024 * 1024 * 4 / 4096
    plain, faulting = predicted("Adam", 0.0), predicted("Adam", 2 * pages)
    assert plain.ratio < faulting.ratio
    assert plain.high < faulting.high
    assert "page faults" in faulting.basis
    assert predicted("Adam", pages / 2) == plain  # they come from elsewhere
    assert predicted("Adam", 2 * pages, width=64) == predicted("Adam", 0.0, width=64)
