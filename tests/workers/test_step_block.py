"""How long a variant's turn is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.workers.step_block import StepBlock


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
