"""A profile that cannot begin says why."""

from __future__ import annotations

import pytest

from accel.errors import AccelError
from accel.workbench import Workbench


def test_a_profile_within_a_profile_is_told_that_another_cell_is_being_profiled():
    workbench = Workbench({}, spare_workers=0)
    workbench.namespace["again"] = lambda: Workbench({}, spare_workers=0).profile("x = 1")
    with pytest.raises(AccelError, match="another cell is being profiled") as raised:
        workbench.profile("again()")
    assert raised.value.__context__ is None
    assert workbench.profile_result is None


def test_what_a_cell_raises_is_raised_after_its_partial_profile_was_kept():
    workbench = Workbench({}, spare_workers=0)
    cell = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    if step == 3:
        raise ZeroDivisionError
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
    with pytest.raises(ZeroDivisionError):
        workbench.profile(cell)
    assert workbench.profile_result is not None
    workbench.close()
