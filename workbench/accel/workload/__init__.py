"""A workload is a training cell we remember: watched while it runs, copied into workers, changed by accelerations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.workload.capture import CellCapture as CellCapture
    from accel.workload.capture import Recording as Recording
    from accel.workload.phase_marks import PhaseMarks as PhaseMarks
    from accel.workload.phase_record import Mark as Mark
    from accel.workload.replica import Replica as Replica
    from accel.workload.step_boundaries import Step as Step
    from accel.workload.step_boundaries import Steps as Steps
    from accel.workload.workload import Role as Role
    from accel.workload.workload import Workload as Workload

_HOME = {
    "CellCapture": "capture", "Recording": "capture", "Mark": "phase_record", "PhaseMarks": "phase_marks",
    "Replica": "replica", "Step": "step_boundaries", "Steps": "step_boundaries",
    "Role": "workload", "Workload": "workload",
}  # fmt: skip
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
