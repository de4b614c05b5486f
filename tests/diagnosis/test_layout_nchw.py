"""Convolutions in NCHW are found; channels-last ones, and models without convolutions, are not."""

from __future__ import annotations

from functools import cache

from accel.diagnosis import Evidence
from accel.diagnosis.layout_nchw import layout_nchw
from tests.diagnosis.making import real

CNN = """
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(16 * 12 * 12, 4))
model = model.to(memory_format=torch.{})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 3, 16, 16).to(memory_format=torch.{}), torch.randint(0, 4, (8,))
"""


@cache
def faulty():
    return real(setup=CNN.replace("{}", "contiguous_format"))


@cache
def sound():
    return real(setup=CNN.replace("{}", "channels_last"))


def test_convolutions_in_nchw_are_found_with_their_number():
    finding = layout_nchw(faulty())
    assert finding.suggests == ("channels_last",)
    assert finding.evidence[0].startswith("2 of 2 convolution weights")


def test_a_model_without_convolutions_is_not():
    assert layout_nchw(real()) is None


def test_what_is_kept_already_is_not():
    given = faulty()
    assert (
        layout_nchw(Evidence(given.profile, given.workload, given.machine, live=("channels_last",))) is None
    )
