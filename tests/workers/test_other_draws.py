"""What the row of a plan keeps of its relaunches: why losses part where workers draw other numbers, and what proved an effect."""

from __future__ import annotations

import pytest

from accel.plans.plan import Plan
from accel.workers.samples import Samples
from accel.workers.stage import Standing
from accel.workers.trial_rows import comparison_of


@pytest.mark.parametrize(
    ("plan", "losses", "is_told"),
    [
        ("loader_workers", [2.0, 1.7], True),
        ("loader_workers", [2.0, 1.5], False),
        ("channels_last", [2.0, 1.7], False),
    ],
)
def test_losses_that_part_under_loader_workers_are_explained(plan, losses, is_told):
    usual, own = (
        Samples(step_ns=[1e6], warm_up_s=1.0, warm_up_steps=1, steps=1, losses=found)
        for found in ([2.0, 1.5], losses)
    )
    row = comparison_of(Plan.parse(plan), Standing(samples=[own], base_samples=[usual]), None, floor=[])
    assert any("Random augmentation" in note for note in row.notes) == is_told


def test_what_proved_an_effect_stays_when_the_last_relaunch_is_cut_short():
    taken = ("channels_last", True, "strides of the weights")
    read, cut_short = (
        Samples(step_ns=[1e6], warm_up_s=1.0, warm_up_steps=1, steps=1, losses=[2.0], proofs=proofs)
        for proofs in ((taken,), ())
    )
    standing = Standing(samples=[read, cut_short], base_samples=[read, read])
    row = comparison_of(Plan.parse("channels_last"), None, standing, floor=[])
    assert row.proofs == (taken,)
