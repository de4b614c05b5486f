"""Which steps count while a cell runs: those of every fold, and not those of an optimizer beside it."""

from __future__ import annotations

import itertools

import pytest
import torch

from accel.hooks.leading_optimizer import LeadingOptimizer


class Cell:
    """Optimizers that step in nests of folds, epochs and probes; notes which steps were said to count."""

    def __init__(self, leading):
        self.leading, self.counted, self.steps, self.kept = leading, [], 0, []

    def optimizer(self):
        built = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        self.kept.append(built)  # as a list of results does
        return built

    def step(self, optimizer, *, counts):
        optimizer.step()
        self.counted.append((counts, self.leading.leads(optimizer)))

    def fold(self, epochs, batches, others, probe):
        own = [self.optimizer() for _ in range(1 + others)]
        for _ in range(epochs):
            for _ in range(batches):
                for number, optimizer in enumerate(own):
                    self.step(optimizer, counts=number == 0)
            head = self.optimizer() if probe else None
            for _ in range(probe):
                self.step(head, counts=False)


def ran(folds, probe, others, *, keeps, runs=1):
    cells = []
    with LeadingOptimizer() as leading:
        for _ in range(runs):
            leading.begins()
            cell = Cell(leading)
            for epochs, batches in folds:
                cell.fold(epochs, batches, others, probe)
                if not keeps:
                    cell.kept.clear()
            cells.append(cell.counted)
    return cells


SHAPES = [[(1, 1)], [(1, 3), (1, 2)], [(3, 4), (2, 6), (1, 5)], [(2, 5)] * 4]


@pytest.mark.parametrize(
    ("folds", "others", "keeps", "runs"), [*itertools.product(SHAPES, (0, 1, 2), (True, False), (1, 2))]
)
def test_every_step_of_every_folds_first_optimizer_counts(folds, others, keeps, runs):
    for counted in ran(folds, 0, others, keeps=keeps, runs=runs):
        assert all(truth == said for truth, said in counted)
        assert sum(said for _, said in counted) == sum(epochs * batches for epochs, batches in folds)


@pytest.mark.parametrize(("probe", "others", "keeps"), [*itertools.product((1, 2, 3), (0, 1), (True, False))])
def test_once_a_probe_is_known_its_steps_count_no_more_and_folds_soon_do(probe, others, keeps):
    (counted,) = ran([(3, 8)] * 3, probe, others, keeps=keeps)
    wrong = [said for truth, said in counted if truth != said]
    assert sum(wrong) <= probe  # the first probe's, which nobody knew for one
    assert len(wrong) <= probe * 3  # and as many of each later fold, which could have been a probe
    half = counted[: len(counted) // 3][len(counted) // 6 :]
    assert all(truth == said for truth, said in half)


def test_an_optimizer_that_was_there_before_or_steps_beside_never_takes_the_lead():
    with LeadingOptimizer() as leading:
        cell = Cell(leading)
        generator, discriminator = cell.optimizer(), cell.optimizer()
        for _ in range(4):
            cell.step(generator, counts=True)
            cell.step(discriminator, counts=False)
    assert all(truth == said for truth, said in cell.counted)
