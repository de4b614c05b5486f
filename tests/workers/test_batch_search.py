"""The search for the fastest batch: where it goes with workers on a clock of their own, what it meets with real ones."""

from __future__ import annotations

from functools import partial

import pytest

from accel.distributed.trials import trial_group
from accel.errors import AccelError, NotApplicable
from accel.workbench import batch_search
from accel.workers import time_budget
from accel.workers.time_budget import TimeBudget
from tests.workers.conftest import CELL
from tests.workers.stand_ins import Costly, Costs, MachineClock

# Each step waits, as for a slow device: that costs the same on a busy machine, whatever the batch.
COSTS_THE_SAME = """
for x, y in loader:
    time.sleep(0.03)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""


@pytest.fixture
def a_step_takes(monkeypatch):
    """Workers whose step takes the seconds that a function of its batch gives, on a clock that only they move."""

    def a_step_takes(seconds_of):
        clock = MachineClock()
        clock.times_trials(monkeypatch)
        for module in (batch_search, time_budget):
            monkeypatch.setattr(module, "TimeBudget", partial(TimeBudget, clock=clock))

        def stand_in(variant, load):
            entries = variant.plan.entries
            batch = round(16 * entries[0].factor) if entries else 16
            return Costly(clock, Costs(step=seconds_of(batch), noise=0.02), variant.plan, batch=batch)

        monkeypatch.setattr(trial_group, "group_for", stand_in)

    return a_step_takes


def test_it_climbs_while_more_samples_cost_the_same_and_ends_at_the_largest(workbench, a_step_takes):
    workbench.profile(CELL)
    a_step_takes(lambda batch: 0.03)
    result = workbench.fastest_batch(largest=64)
    assert (result.present, result.fastest.batch) == (16, 64)
    assert {rung.batch: rung.row.state for rung in result.rungs if rung.row} == {
        8: "done", 32: "done", 64: "done", 128: "not applicable",
    }  # fmt: skip
    assert "--largest" in str(result)
    assert workbench.namespace["loader"].batch_size == 16
    assert len(workbench.trials) == 2


def test_it_ends_where_a_larger_batch_trains_no_more_samples_a_second(workbench, a_step_takes):
    workbench.profile(CELL)
    a_step_takes(lambda batch: 0.03 * max(1, batch / 32))
    result = workbench.fastest_batch()
    assert result.fastest.batch == 32
    assert [rung.batch for rung in result.rungs] == [8, 16, 32, 64]


def test_it_climbs_down_where_smaller_batches_train_more(workbench, a_step_takes):
    workbench.profile(CELL)
    a_step_takes(lambda batch: 0.001 * batch**2)
    result = workbench.fastest_batch()
    assert result.fastest.batch == 4
    assert [rung.batch for rung in result.rungs] == [4, 8, 16, 32]


def test_a_size_whose_worker_fails_is_a_row_with_its_error(workbench):
    workbench.profile(COSTS_THE_SAME + "    assert len(x) < 32, 'out of memory'\n")
    result = workbench.fastest_batch()
    by_size = {rung.batch: rung for rung in result.rungs}
    assert by_size[32].row.state == "failed"
    assert "out of memory" in by_size[32].sentence
    assert by_size[8].row.state == "done"
    assert result.fastest.batch in (8, 16)


def test_sizes_that_nobody_had_time_to_measure_are_not_called_slower(workbench):
    workbench.profile(COSTS_THE_SAME)
    says = str(workbench.fastest_batch(budget_s=0.5))
    assert "the time was up. --budget-s" in says
    assert "no faster" not in says


def test_a_cell_without_a_loader_is_told_so(workbench):
    workbench.profile("""
for start in range(0, 160, 16):
    x, y = data[start:start + 16]
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
""")
    with pytest.raises(NotApplicable, match="No DataLoader"):
        workbench.fastest_batch()


@pytest.mark.parametrize("options", [{"largest": 0}, {"largest": 2.5}, {"budget_s": -1.0}])
def test_bounds_that_make_no_sense_are_refused(workbench, options):
    workbench.profile(CELL)
    with pytest.raises(AccelError, match="fastest_batch"):
        workbench.fastest_batch(**options)
