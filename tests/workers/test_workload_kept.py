"""Which cell the workbench remembers."""

from __future__ import annotations

import pytest

from tests.workers.conftest import CELL


def test_a_cell_that_fails_before_its_first_step_does_not_replace_the_workload(workbench):
    workbench.profile(CELL)
    before = workbench.workload
    with pytest.raises(NameError):
        workbench.profile("not_there")
    assert workbench.workload is before


def test_a_cell_that_fails_after_some_steps_is_remembered_with_what_was_seen(workbench):
    with pytest.raises(ZeroDivisionError):
        workbench.profile("train()\n1 / 0")
    assert workbench.workload.steps == 10
    assert workbench.profile_result.step_ms > 0
