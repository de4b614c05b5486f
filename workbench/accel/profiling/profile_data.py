"""ProfileData: what was found out about a training step; `Profile` adds what one can ask of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel.profiling.completeness import Completeness
from accel.profiling.line_cost import LineCost, add_up_lines
from accel.profiling.op_table import OpRow, add_up
from accel.profiling.profile_options import ProfileOptions
from accel.profiling.profiled_events import ProfiledEvents
from accel.profiling.step_timing import PhaseShare, StepTiming
from accel.profiling.whole_run import WholeRun

if TYPE_CHECKING:
    from accel.machine.peaks import Peaks
    from accel.profiling.compilation import Compilation
    from accel.profiling.device_activity import DeviceActivity
    from accel.profiling.findings import Finding
    from accel.profiling.loader_time import LoaderTime
    from accel.profiling.memory_use import MemoryUse
    from accel.profiling.op_cost import OpCost
    from accel.profiling.synchronisations import Synchronisation


def none_for_nan(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class ProfileData:
    """The figures of a profile: timing is from the marks, shares of operations are from the profiled steps.

    `rows` are the finest; `ops`, `by_phase` and `by_module` are sums of them. Times of operations are per step (per run
    of the cell where it takes no step), averaged over `profiled_steps`; those of phases come from the steps that were
    counted in `timing`.
    """

    timing: StepTiming
    rows: tuple[OpRow, ...]
    profiled_steps: int
    accumulation: int
    notes: tuple[str, ...]
    machine_line: str
    versions: tuple[tuple[str, str], ...]
    options: ProfileOptions = field(default_factory=ProfileOptions)
    completeness: Completeness = field(default_factory=Completeness)
    memory: tuple[MemoryUse, ...] = ()
    lines: tuple[LineCost, ...] = ()
    costs: tuple[OpCost, ...] = ()
    peaks: Peaks | None = None
    loaders: tuple[LoaderTime, ...] = ()
    compilation: Compilation | None = None
    synchronisations: tuple[Synchronisation, ...] = ()
    devices: tuple[DeviceActivity, ...] = ()
    whole_run: WholeRun = field(default_factory=WholeRun)
    findings: tuple[Finding, ...] = ()
    events: ProfiledEvents | None = field(default=None, repr=False, compare=False)

    @property
    def step_ms(self) -> float:
        """Median wall time of a step; NaN when no step was seen."""
        return self.timing.step_ms

    @property
    def spread_ms(self) -> tuple[float, float]:
        """First and third quartile of the step times."""
        return self.timing.spread_ms

    @property
    def steps(self) -> int:
        """Steps that `step_ms` is the median of."""
        return self.timing.steps

    @property
    def samples_per_s(self) -> float | None:
        """Samples of all timed steps, divided by the time of all timed steps; None where samples could not be counted."""
        return self.timing.samples_per_s

    @property
    def phases(self) -> tuple[PhaseShare, ...]:
        """Phases and named gaps, most expensive first; their shares add up to 1."""
        return self.timing.phases

    @property
    def ops(self) -> tuple[OpRow, ...]:
        """Operations, added up over phases and modules."""
        return add_up(self.rows, by=lambda row: (row.op, "", ""))

    @property
    def by_phase(self) -> tuple[OpRow, ...]:
        """(operation, phase), added up over modules."""
        return add_up(self.rows, by=lambda row: (row.op, row.phase, ""))

    @property
    def by_module(self) -> tuple[OpRow, ...]:
        """(phase, module), added up over operations; module "" is what belongs to none."""
        return add_up(self.rows, by=lambda row: ("", row.phase, row.module))

    @property
    def by_line(self) -> tuple[LineCost, ...]:
        """Lines of the user's code, added up over operations, phases and modules; empty without `--stacks`."""
        return add_up_lines(self.lines)
