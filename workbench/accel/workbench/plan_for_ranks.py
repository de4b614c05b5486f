"""The plan of a run on ranks, asked of the notebook before any rank hears of it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.distributed.cells.plan_on_ranks import check_on_ranks, check_without_profile
from accel.errors import NotApplicable

if TYPE_CHECKING:
    from accel.distributed.cells.run_options import RunOptions
    from accel.plans.plan import Plan
    from accel.workbench.notebook_state import NotebookState
    from accel.workload.read_backs import ReadBack
    from accel.workload.workload import Workload


def for_this_cell(
    workbench: NotebookState, plan: Plan, options: RunOptions, cell: str | Callable[[], Any], filename: str
) -> tuple[Plan, list[ReadBack]]:
    """The plan as it is to be applied, and the lines that the cell's profile saw reading numbers back.

    >>> for_this_cell(workbench, Plan.parse("channels_last"), RunOptions(), cell, "<cell>")[0].names
    ('channels_last',)

    Where this cell was profiled, every entry is asked whether it can work on what the cell trains, as for a trial. Raises
    NotApplicable.
    """
    check_on_ranks(plan, options)
    if not plan:
        return plan, []
    workload = workbench.workload
    if workload is None or not _is_of(workload, cell, workbench.namespace):
        check_without_profile(plan)
        return plan, []
    plan = plan.resolved(workload)
    for name, reasons in plan.why_not(workload, workbench.machine, on_ranks=True).items():
        raise NotApplicable(f"--plan {name}", reasons)
    reads = [
        replace(read, filename=filename) if read.filename == workload.filename else read
        for read in workload.reads_back or ()
        if read.waits
    ]
    return plan, reads


def _is_of(workload: Workload, cell: str | Callable[[], Any], namespace: dict[str, Any]) -> bool:
    """Whether it is this cell that was profiled, or a call of this function; comments and blank lines count for nothing."""
    if not workload.has_training_step:
        return False
    if isinstance(cell, str):
        return ast.dump(ast.parse(cell)) == ast.dump(ast.parse(workload.source))
    names = [name for name, value in namespace.items() if value is cell]
    return workload.source.strip() in [f"{name}()" for name in names]
