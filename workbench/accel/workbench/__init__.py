"""One notebook's state: the workload, its profile, the trials, what is kept.

notebook_state.py   what it knows: workload, profile, trials, the plan that is live
workbench.py        Workbench, the commands on it: profile · try_ · keep · undo · status · export
profile_session.py  one profiled run of a cell, whoever runs it
profile_findings.py what the rules of diagnosis found in it
trace_findings.py   what they find in a trace from anywhere
history_keeping.py  what was predicted and what was measured goes into the history
trial_start.py      pack the workload, guard the notebook's state, make the trial
status.py           Status and Applicability, as the user reads them
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.workbench.workbench import Workbench as Workbench

__all__ = ["Workbench"]


def __getattr__(name: str) -> Any:
    if name == "Workbench":
        from accel.workbench.workbench import Workbench

        return Workbench
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
