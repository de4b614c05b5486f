"""A step that is mostly fixed cost on few samples is found; one that computes, or trains on many samples, is not."""

from __future__ import annotations

from functools import cache

import pytest
from torch.utils.data import DataLoader

from accel.diagnosis.batch_too_small import batch_too_small
from accel.profiling.device_activity import DeviceActivity
from tests.diagnosis.making import by_hand, real
from tests.threads import threads


@cache
def faulty():
    with threads(1):
        return real()


@cache
def sound():
    return real(setup="model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4))\n"
                "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                "x, y = torch.randn(1000, 1024), torch.randint(0, 4, (1000,))")  # fmt: skip


def test_a_step_on_eight_samples_is_found_and_four_times_as_many_are_proposed():
    finding = batch_too_small(faulty())
    assert "trains on 8 samples" in finding.what
    assert "32 samples" in finding.remedy
    assert finding.suggests == ()
    assert 1 < finding.prediction.low < finding.prediction.ratio < 4


def test_a_loaders_batches_can_be_tried_four_times_as_large():
    evidence = by_hand({"optimizer": 0.6, "forward": 0.4}, samples_per_step=16)
    evidence.objects.loaders["loader"] = DataLoader([0, 1])
    finding = batch_too_small(evidence)
    assert finding.suggests == ("batch_size(factor=4)",)
    assert finding.prediction.ratio == pytest.approx(
        1 / (0.6 / 4 + 0.4), rel=0.1
    )  # of a sample, as the trial measures it


def test_a_large_batch_is_not_small_whatever_the_optimizer_costs():
    assert batch_too_small(by_hand({"optimizer": 0.6, "forward": 0.4}, samples_per_step=4096)) is None
    assert batch_too_small(by_hand({"optimizer": 0.6, "forward": 0.4}, samples_per_step=16)) is not None


@pytest.mark.parametrize(
    ("gap", "is_found"),
    [
        ("data → zero_grad", False),
        ("zero_grad → forward", False),
        ("optimizer → forward", False),
        ("copy → forward", False),
        ("forward → backward", True),
        ("backward → optimizer", True),
    ],
)
def test_a_batch_that_the_loop_makes_before_forward_is_no_fixed_cost(gap, is_found):
    evidence = by_hand({gap: 0.7, "forward": 0.1, "optimizer": 0.2}, samples_per_step=16)
    assert (batch_too_small(evidence) is not None) == is_found


def test_the_rest_of_a_closure_grows_with_the_batch():
    evidence = by_hand({"closure": 0.5, "forward": 0.3, "optimizer": 0.2}, samples_per_step=16)
    assert batch_too_small(evidence) is None


def test_without_a_count_of_samples_nothing_is_said():
    assert batch_too_small(by_hand({"optimizer": 0.6, "forward": 0.4}, samples_per_step=None)) is None


@pytest.mark.parametrize(
    ("idle_in", "is_found"),
    [
        ("data", False),
        ("copy", False),
        ("data → zero_grad", False),
        ("optimizer → forward", False),
        ("forward", True),
        ("forward → backward", True),
        ("optimizer", True),
    ],
)
def test_a_gpu_that_is_idle_until_the_loop_has_its_batch_does_not_make_the_batch_small(idle_in, is_found):
    gpu = DeviceActivity(
        "cuda:0", 10.0, 0.3, 0.7, 0.0, (), (), (), 9.0, 30.0, 0.0,
        idle_phases=((idle_in, 0.6), ("backward", 0.1)),
    )  # fmt: skip
    evidence = by_hand({"forward": 0.3, idle_in: 0.1, "backward": 0.6}, samples_per_step=16, devices=(gpu,))
    assert (batch_too_small(evidence) is not None) == is_found
