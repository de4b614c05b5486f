"""Adam without `fused=True` is found, and with it is not."""

from __future__ import annotations

from functools import cache

import pytest

from accel.diagnosis.optimizer_not_fused import optimizer_not_fused
from tests.diagnosis.making import real

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
    large = "model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 4)); x = torch.randn(8, 512)\n"
    sgd = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1{})"
    assert optimizer_not_fused(real(setup=large + sgd.format(""))) is None
    assert optimizer_not_fused(real(setup=large + sgd.format(", momentum=0.9"))) is not None
