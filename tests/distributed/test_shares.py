"""Shares of an epoch: each sample once, as many steps on every rank, weights that make means of means right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.distributed.data_parallel.lineages import Lineages
from accel.distributed.data_parallel.shared_loader import SharedSampling
from accel.distributed.data_parallel.shares import BatchMeans, shares_of, steps_of

RANKS = st.integers(1, 5)
EPOCHS = st.lists(st.integers(1, 9), min_size=1, max_size=9).map(
    lambda sizes: [list(range(sum(sizes[:at]), sum(sizes[: at + 1]))) for at in range(len(sizes))]
)


@given(EPOCHS, RANKS)
def test_a_global_batch_is_cut_into_pieces_that_make_it_up(epoch: list[list[int]], ranks: int) -> None:
    shares = [
        shares_of(epoch, rank=r, world_size=ranks, batch="global", drop_last=False) for r in range(ranks)
    ]
    assert {len(own) for own in shares} == {len(epoch)}
    for number, batch in enumerate(epoch):
        pieces = [own[number] for own in shares]
        if len(batch) >= 2 * ranks or ranks == 1:
            assert [index for piece in pieces for index in piece.indices] == batch
            assert all(len(piece.indices) > 1 for piece in pieces) or ranks == 1
        else:
            assert all(list(piece.indices) == batch for piece in pieces)
        assert abs(sum(piece.weight for piece in pieces) - ranks) < 1e-9


@given(EPOCHS, RANKS)
def test_the_mean_of_weighted_means_is_the_mean_over_the_batch(epoch: list[list[int]], ranks: int) -> None:
    shares = [
        shares_of(epoch, rank=r, world_size=ranks, batch="global", drop_last=False) for r in range(ranks)
    ]
    for number, batch in enumerate(epoch):
        pieces = [own[number] for own in shares]
        of_ranks = [piece.weight * sum(piece.indices) / len(piece.indices) for piece in pieces]
        assert abs(sum(of_ranks) / ranks - sum(batch) / len(batch)) < 1e-9


@given(EPOCHS, RANKS, st.booleans())
def test_whole_batches_go_round(epoch: list[list[int]], ranks: int, drop_last: bool) -> None:
    shares = [
        shares_of(epoch, rank=r, world_size=ranks, batch="per-rank", drop_last=drop_last)
        for r in range(ranks)
    ]
    steps = steps_of(len(epoch), world_size=ranks, batch="per-rank", drop_last=drop_last)
    assert {len(own) for own in shares} == {steps}
    given_out = [tuple(own[step].indices) for step in range(steps) for own in shares]
    count = len(epoch) - len(epoch) % ranks if drop_last else len(epoch)
    assert given_out[:count] == [tuple(batch) for batch in epoch[:count]]
    assert set(given_out) <= {tuple(batch) for batch in epoch}
    for step in range(steps):
        assert abs(sum(own[step].weight for own in shares) - ranks) < 1e-9


@pytest.mark.parametrize("batch", ["global", "per-rank"])
@pytest.mark.parametrize("drop_last", [True, False])
def test_a_long_epoch_is_drawn_step_by_step_and_gives_the_same_shares(
    batch: BatchMeans, drop_last: bool
) -> None:
    epoch, lineages = [[n] for n in range(20_002)], Lineages(0)  # torch's samplers give lists of numbers
    lineages.batches_over = 3  # of a checkpoint
    for rank in range(2):
        sampling = SharedSampling(epoch, lineages, rank=rank, world_size=2, batch=batch, drop_last=drop_last)
        whole = shares_of(epoch[3:], rank=rank, world_size=2, batch=batch, drop_last=drop_last)
        assert list(sampling) == [share.indices for share in whole]
        assert [share.weight for share in sampling.shares] == [share.weight for share in whole]
        assert sampling.steps == len(whole)


def test_the_first_step_of_an_epoch_without_a_foreseeable_end_costs_no_more_than_a_step() -> None:
    from torch.utils.data import BatchSampler, RandomSampler

    endless = BatchSampler(RandomSampler(range(50), replacement=True, num_samples=10**10), 12, False)
    sampling = SharedSampling(endless, Lineages(0), rank=0, world_size=2, batch="global", drop_last=False)
    assert [len(indices) for indices, _ in zip(sampling, range(3), strict=False)] == [6, 6, 6]
    assert len(sampling) == sampling.steps == -(-(10**10) // 12)
