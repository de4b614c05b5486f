"""Time marks around the phases of a training step, made by patches that exist only while a cell runs.

The patches are in `phase_patches.py`; what they report to is in `phase_record.py`.
"""

from __future__ import annotations

from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING

from accel.errors import AccelError
from accel.workload.applied_time import applied_ns
from accel.workload.phase_patches import install_patches
from accel.workload.phase_record import PHASES, PhaseRecord, compiled_graphs

if TYPE_CHECKING:
    from typing_extensions import Self

_active: PhaseMarks | None = None


def active_marks() -> PhaseMarks | None:
    """The marks of the cell that is running now, if any."""
    return _active


class PhaseMarks(PhaseRecord):
    """Marks the phases of whatever runs inside the `with`, in this thread.

    >>> with PhaseMarks() as marks:
    ...     train_one_epoch()
    >>> marks.boundaries, marks.marks[0]
    """

    def __enter__(self) -> Self:
        global _active
        from torch._C._autograd import _get_sequence_nr, _profiler_enabled
        from torch._C._profiler import _RecordFunctionFast

        if _active is not None:
            raise AccelError(
                "profile", because="another cell is being profiled", do="Profile one cell at a time."
            )
        self._fast_ranges = {phase: _RecordFunctionFast(f"accel::{phase}") for phase in PHASES}
        self._step_range = _RecordFunctionFast("accel.step")
        self._profiler_enabled, self._nodes_recorded = _profiler_enabled, _get_sequence_nr
        self.nodes_before = _get_sequence_nr()
        self._graphs = self._graphs_before = compiled_graphs()
        self._applied_ns = applied_ns()
        self.patches.see_compiler()
        try:
            install_patches(self)
        except BaseException:
            self.patches.take_back()
            raise
        _active, self.thread, self.home_thread = self, get_ident(), get_ident()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _active
        self.thread = self.home_thread = -1
        _active = None
        self.patches.take_back()
        for phase in reversed(list(self.open)):
            self.end(phase)
        if self._awaits_step:
            self._step_instant()
        self._end_last_probe()
        self._forget_quiet_loops()
