"""The peak of memory: of this process's pages, and of what tensors hold."""

from __future__ import annotations

import gc
import sys

import pytest
import torch
from torch import nn
from torch.autograd.profiler import profile

from accel.profiling.peak_memory import PeakMemory
from accel.profiling.tensor_peak import TensorPeak, held_by_tensors

MIB = 1 << 20
FLOATS = MIB // 4


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_what_was_held_for_a_moment_counts_and_what_came_before_does_not():
    before = bytearray(64 * MIB)
    peak = PeakMemory("cpu")
    assert peak.resident_bytes < 16 * MIB
    del before
    for_a_moment = bytearray(b"x") * (96 * MIB)
    del for_a_moment
    assert 24 * MIB < peak.resident_bytes < 160 * MIB


def test_where_no_step_was_watched_nothing_is_known_of_tensors():
    assert PeakMemory("cpu").tensor_bytes == 0
    assert PeakMemory("cpu", counts_tensors=False).tensors is None


def watched(step, count=3):
    """What TensorPeak says of a step, after two that are not watched."""
    peak = TensorPeak()
    for number in range(2 + count):
        if number == 2:
            peak.begin()
        step()
        peak.step()
    peak.end()
    return peak.bytes


def training(batch=64, *, keeps_gradients=False, micro_batches=1, again=False):
    """A step of a small network, and its parameters."""
    blocks = [nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 128)) for _ in range(4)]
    model = nn.Sequential(*blocks)
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.randn(batch, 128)

    def step():
        optimizer.zero_grad(set_to_none=not keeps_gradients)
        for part in data.chunk(micro_batches):
            for block in blocks:
                part = (
                    torch.utils.checkpoint.checkpoint(block, part, use_reentrant=False)
                    if again
                    else block(part)
                )
            part.pow(2).mean().backward()
        optimizer.step()

    return step


def test_what_a_step_holds_for_a_moment_is_on_top_of_what_lives_across_steps():
    gc.collect()  # tensors that tests before this one left in cycles
    weights = torch.ones(4 * FLOATS)
    before = held_by_tensors()
    assert before >= 4 * MIB

    def step():
        moment = torch.empty(8 * FLOATS)
        other = moment + 1
        del moment, other

    assert watched(step) == pytest.approx(before + 16 * MIB, rel=0.001)
    del weights
    assert held_by_tensors() == before - 4 * MIB


def test_gradients_are_counted_once_whether_they_are_kept_or_made_anew():
    kept, anew = (watched(training(1, keeps_gradients=keeps)) for keeps in (True, False))
    assert kept == pytest.approx(anew, rel=0.1)


def test_equal_programs_need_the_same():
    few, many = (watched(training(), count=count) for count in (3, 5))
    assert few == many > 0


@pytest.mark.parametrize("saves", [{"batch": 512}, {"micro_batches": 4}, {"again": True}])
def test_what_saves_memory_shows(saves):
    less, usual = (watched(training(**{"batch": 1024} | each)) for each in (saves, {}))
    assert less < 0.8 * usual


def test_views_and_gradients_are_of_one_storage_and_what_holds_none_counts_nothing():
    gc.collect()
    whole = torch.zeros(2 * FLOATS, requires_grad=True)
    before = held_by_tensors()
    views = [whole[:10], whole.detach().view(2, -1)]
    sparse = torch.zeros(100).to_sparse()
    meta = torch.empty(MIB, device="meta")
    assert held_by_tensors() - before < MIB / 100
    whole.sum().backward()
    assert held_by_tensors() - before >= MIB
    del views, sparse, meta


def test_where_another_profiler_runs_nothing_is_counted_and_it_goes_on():
    with profile(use_kineto=True) as other:
        assert watched(training(1)) == 0
    assert len(other.kineto_results.events()) > 0


def test_nothing_is_printed(capfd):
    watched(training(1))
    assert capfd.readouterr() == ("", "")
