"""How long a variant's turn is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.plans import Plan
from accel.workers.messages import Load
from accel.workers.step_block import Pipeline, StepBlock

LOAD = Load("", "as the notebook", "train()", "<cell>", "", "/", [], {}, False, epoch_steps=20)


@pytest.mark.parametrize("step_s", [1.0, 5.0, 100.0])
def test_long_steps_are_taken_one_at_a_time(step_s):
    assert StepBlock.of(step_s) == StepBlock(settle=0, timed=1)


@given(st.floats(0, 0.999))
def test_shorter_steps_settle_first_and_a_turn_stays_short(step_s):
    block = StepBlock.of(step_s)
    assert block.settle >= (2 if step_s < 0.1 else 1)
    assert block.settle * step_s >= 0.015 or block.settle == 32
    assert block.timed >= 1
    assert block.steps * step_s <= 2.1
    assert block.steps <= 64


def test_the_faster_the_step_the_more_of_them_make_a_block():
    steps = [StepBlock.of(step_s).steps for step_s in (1e-5, 1e-3, 0.02, 0.3)]
    assert steps == sorted(steps, reverse=True)


def pipeline(*plans, **load):
    return Pipeline.of(map(Plan.parse, plans), msgspec.structs.replace(LOAD, **load))


@pytest.mark.parametrize(
    ("plans", "load", "found"),
    [
        (["channels_last"], {}, None),
        (["loader_workers(n=4)", "channels_last"], {}, Pipeline(20, 4, cycle=4)),
        (["cache_dataset"], {}, Pipeline(20, 0)),
        (["loader_workers(n=0)"], {"makes_ahead": True, "loader_workers": 2}, Pipeline(20, 2, cycle=2)),
        (["channels_last"], {"makes_ahead": True, "loader_workers": 2}, Pipeline(20, 2, cycle=2)),
        (["channels_last"], {"makes_ahead": True}, Pipeline(20, 0, has_threads=True)),
    ],
)
def test_batches_made_in_the_background_are_known_from_the_cell_and_the_plans(plans, load, found):
    assert pipeline(*plans, **load) == found


@pytest.mark.parametrize(
    ("others", "own", "cycle"),
    [
        (2, [2], 2),
        (0, [4], 4),  # without workers every step is alike
        (4, [0], 4),
        (2, [4], 4),
        (3, [4], 12),
        (0, [2, 3], 6),
        (5, [7], 7),  # 35 steps are too many
        (0, [8, 9], 9),
    ],
)
def test_a_cycle_is_steps_after_which_the_workers_of_every_variant_begin_anew(others, own, cycle):
    found = pipeline(*(f"loader_workers(n={n})" for n in own), loader_workers=others, makes_ahead=others > 0)
    assert (found.cycle, found.workers) == (cycle, max(others, *own))


@pytest.mark.parametrize("step_s", [0.1, 0.2, 1.0])
@pytest.mark.parametrize("cycle", [1, 2, 4, 8])
def test_a_turn_times_whole_cycles_of_the_workers(step_s, cycle):
    assert StepBlock.of(step_s, Pipeline(workers=cycle, cycle=cycle)).timed % cycle == 0


@pytest.mark.parametrize(("step_s", "timed"), [(0.3, 24), (0.5, 8), (5.0, 8)])
def test_numbers_of_workers_that_share_no_short_cycle_leave_that_of_the_most_workers(step_s, timed):
    assert StepBlock.of(step_s, Pipeline(workers=8, cycle=24)).timed == timed


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("step_s", [0.02, 0.4, 0.9, 2.0])
def test_turns_time_waits_as_often_as_a_loop_without_interruption(workers, step_s):
    """Workers that finish together let one step in so many wait, whatever the turn's first step."""
    block = StepBlock.of(step_s, Pipeline(workers=workers, cycle=workers))
    for began in range(workers):
        waits = [(began + block.settle + step) % workers == 0 for step in range(block.timed)]
        assert sum(waits) * workers == block.timed


@given(st.floats(1e-4, 3), st.integers(0, 500), st.integers(1, 24))
def test_a_turn_of_a_pipeline_is_whole_epochs_if_they_are_short_or_half_a_second_of_whole_cycles(
    step_s, epoch, cycle
):
    timed = StepBlock.of(step_s, Pipeline(epoch, cycle, cycle=cycle)).timed
    unit = epoch if 0 < epoch * step_s <= 1.5 else cycle
    assert timed % unit == 0
    assert timed * step_s >= 0.5 - 1e-9
    assert (timed - unit) * step_s < 0.5 + 1e-9, "one unit fewer would do"


@pytest.mark.parametrize("step_s", [0.001, 0.05, 0.2, 1.0])
def test_what_threads_made_while_others_had_their_turn_is_used_up_first(step_s):
    settle = StepBlock.of(step_s, Pipeline(0, 0, has_threads=True)).settle
    assert settle == 64 or settle * step_s >= 2.0 - 1e-9
    assert settle > StepBlock.of(step_s, Pipeline(0, 0)).settle
