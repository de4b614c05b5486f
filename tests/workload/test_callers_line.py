"""Warnings that torch raises in calls that accel patched: the same, from the same lines, as without accel."""

from __future__ import annotations

import gc
import traceback
import warnings
import weakref
from contextlib import suppress

import pytest
import torch
from capturing import capture, notebook

from accel.profiling.synchronisations import SynchronisationWatch
from accel.workload.callers_line import at_callers_line

SETUP = """
class Nine(torch.utils.data.IterableDataset):
    def __iter__(self): return iter([torch.zeros(8)] * 9)
    def __len__(self): return 3
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
"""
CELL = """
scheduler.step()
for x, y in loader:
    optimizer.zero_grad()
    x = x.to(torch.complex64).to(torch.float32)
    loss = criterion(model(x), y)
    loss.backward()
    float(loss)
    optimizer.step()
scheduler.step(3)
for _ in DataLoader(Nine(), batch_size=1): pass
torch.cuda.amp.GradScaler(enabled=False)
"""


def told(caught):
    return {
        (each.filename, each.lineno, str(each.message)[:40])
        for each in caught
        if "/torch/" not in each.filename
    }


def run_watched(namespace):
    return capture(
        CELL, namespace, ready=lambda captured: SynchronisationWatch().install(captured.marks.patches)
    )


@pytest.fixture
def _each_time():
    torch.set_warn_always(True)  # else what is written in C++ warns once a process
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("_each_time")
def test_each_warning_names_the_users_line():
    plain = notebook(SETUP)
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        exec(compile(CELL, "cell", "exec"), plain)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        workload, _ = run_watched(notebook(SETUP))
    lines = {(line, text) for _, line, text in told(expected)}
    assert len({line for line, _ in lines}) >= 5
    assert told(found) == {(workload.filename, line, text) for line, text in lines}


def test_filters_go_by_the_users_module():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", module="__main__")
        run_watched(notebook(SETUP))
    assert any("lr_scheduler" in str(each.message) for each in found)


def test_an_error_shows_the_users_line_once():
    def refuse():
        raise ValueError("no")

    watched = at_callers_line(refuse)
    with pytest.raises(ValueError, match="no") as failed:
        watched()
    shown = [frame.name for frame in traceback.extract_tb(failed.value.__traceback__)]
    assert shown == ["test_an_error_shows_the_users_line_once", "called", "refuse"]


def test_a_built_in_that_fails_is_shown_without_a_frame_of_ours_between():
    with pytest.raises(ValueError, match="invalid literal") as failed:
        at_callers_line(int)("x")
    assert [each.name for each in traceback.extract_tb(failed.value.__traceback__)][1:] == ["called"]


def test_an_iterator_that_ended_is_freed_at_once():
    iterator = iter(torch.utils.data.DataLoader([1, 2]))
    alive, draw = weakref.ref(iterator), at_callers_line(type(iterator).__next__)
    gc.disable()
    try:
        with suppress(StopIteration):
            while True:
                draw(iterator)
        del iterator
        assert alive() is None
    finally:
        gc.enable()
