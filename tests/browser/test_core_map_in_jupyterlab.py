"""The core map where users see it: ranks and loader workers on their CPUs, live while a cell runs, still when folded."""

from __future__ import annotations

import os
import re

import pytest
from playwright.sync_api import expect
from tests.browser.ranks_and_workers import END, LOADER, RANKS, SHOW, TRAIN

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="there are no affinity masks here"),
]
CELLS = (RANKS, LOADER, SHOW, TRAIN.format(seconds=12), "found.processes", END)
TRAINING, FOUND, ENDING = 3, 4, 5


def test_ranks_and_loader_workers_are_on_their_cpus_while_a_cell_runs(notebook, server):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed")
    page = notebook.open(server.add_notebook("cores.ipynb", *CELLS)).page
    for index in range(TRAINING):
        notebook.run_cell(index)
    cpus = page.get_by_test_id("core-map-cpu")
    expect(cpus.first).to_be_visible()
    notebook.run_cell(TRAINING, wait=False)
    for number in (0, 1):  # the map goes on while the kernel is busy
        chips = page.locator(f"[data-testid=core-map-cpu]:has-text('R{number}') [data-busy=true]")
        expect(chips.filter(has_text=f"R{number}")).to_have_text(
            re.compile(rf"R{number}main thread\d+ %"), timeout=120_000
        )
    processes = page.get_by_test_id("core-map-process")
    expect(processes.filter(has_text="loader worker 2")).to_contain_text("may use")
    masks = {processes.filter(has_text=f"rank {n}").locator(".accel-cores-mask").inner_text() for n in (0, 1)}
    assert len(masks) == 2  # each a CPU of its own
    notebook.run_cell(ENDING)
    expect(processes.filter(has_text="rank 0")).to_have_count(0, timeout=120_000)
    page.get_by_test_id("core-map-fold").click()
    expect(cpus.first).not_to_be_visible()
    assert notebook.errors_in_cells() == []
