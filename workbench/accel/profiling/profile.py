"""Profile: where the time of a training step goes, by phase, module and operation, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from accel.machine.peaks import known_peaks
from accel.machine.peaks import peaks as find_peaks
from accel.profiling.completeness import Completeness, check_completeness
from accel.profiling.kineto_columns import read_columns
from accel.profiling.line_cost import LineCost, add_up_lines, read_lines, with_lines
from accel.profiling.op_cost import read_op_costs
from accel.profiling.op_table import OpRow, add_up, read_op_table
from accel.profiling.profile_notes import notes_for
from accel.profiling.profile_options import ProfileOptions
from accel.profiling.profiled_events import ProfiledEvents, read_events
from accel.profiling.reading_device_activity import read_device_activity
from accel.profiling.reading_memory_use import read_memory_use
from accel.profiling.step_timing import PhaseShare, StepTiming, read_timing
from accel.profiling.whole_run import WholeRun, read_whole_run

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    import plotly.graph_objects

    from accel.machine import Machine
    from accel.machine.peaks import Peaks
    from accel.profiling.compilation import Compilation
    from accel.profiling.device_activity import DeviceActivity
    from accel.profiling.finding import Finding
    from accel.profiling.loader_time import LoaderTime
    from accel.profiling.memory_use import MemoryUse
    from accel.profiling.op_cost import OpCost
    from accel.profiling.profile_diff import ProfileDiff
    from accel.profiling.profiled_window import ProfiledWindow
    from accel.profiling.roofline import Roofline
    from accel.profiling.synchronisations import Synchronisation
    from accel.workload.capture import Recording
    from accel.workload.workload import Workload


@dataclass(frozen=True)
class Profile:
    """Where a step's time goes. Timing is from the marks; shares of operations are from the profiled steps.

    >>> profile = accel.profile(cell)
    >>> print(profile)                      # for a terminal; the value of a notebook's cell shows tables
    >>> profile.ops[0]                      # the most expensive operation, over all phases and modules
    >>> profile.to_dataframe()              # one row per (phase, module, operation)
    >>> profile.figure()                    # a sunburst: phase, module, operation

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
        """What the timed steps trained on, by their median time; None where samples could not be counted."""
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

    def __str__(self) -> str:
        from accel.profiling.profile_text import profile_text

        return profile_text(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        from accel.profiling.profile_html import profile_html

        return {"text/plain": str(self), "text/html": profile_html(self)}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what is not known is None."""
        told = asdict(replace(self, events=None)) | {"versions": dict(self.versions)}
        del told["events"]
        told["samples_per_s"] = told["timing"].pop("samples_per_s")
        told["timing"]["step_ms"] = _known(self.step_ms)
        told["timing"]["spread_ms"] = [_known(value) for value in self.spread_ms]
        return told

    def to_dataframe(self, kind: str = "operations") -> pandas.DataFrame:
        """One row per (phase, module, operation), most expensive first; or another of the tables.

        >>> profile.to_dataframe("steps")       # phases, steps, lines, costs, kernels, copies, memory, loaders, findings
        """
        from accel.profiling.profile_tables import profile_table

        return profile_table(self, kind)

    def figure(self, kind: str = "sunburst") -> plotly.graph_objects.Figure:
        """A picture in plotly: "sunburst" (phase, module, operation), "steps", "memory" or "roofline".

        >>> profile.figure("steps")             # every step with its phases; warm-up and slow ones marked
        """
        from accel.profiling.profile_figure import profile_figure

        return profile_figure(self, kind)

    def roofline(self) -> Roofline:
        """How near each operation comes to this machine's peaks; needs the shapes of `%%accel profile --shapes`.

        >>> profile.roofline().points[0].attained       # of the rate that computing or memory allows
        """
        from accel.profiling.roofline import roofline_of

        return roofline_of(self)

    def diff(self, after: Profile) -> ProfileDiff:
        """What is different in another profile of the same training: operations that came, went, sped up, slowed down.

        >>> eager.diff(compiled)
        """
        from accel.profiling.profile_diff import compare_profiles

        return compare_profiles(self, after)

    def panel(self) -> Any:
        """The profiled steps as a live timeline: zoom, search, click a slice for its details.

        >>> profile.panel()
        """
        from accel_widgets.timeline_panel import TimelinePanel

        return TimelinePanel(self, is_open=True)

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write the profiled steps for Perfetto or chrome://tracing, compressed where the name ends in .gz.

        >>> profile.to_chrome_trace("step.json.gz")
        """
        from accel.profiling.chrome_trace import write_chrome_trace

        return write_chrome_trace(self, path)


def build_profile(
    recording: Recording,
    window: ProfiledWindow,
    workload: Workload,
    machine: Machine,
    *,
    ended_early: str = "",
    synchronisations: tuple[Synchronisation, ...] = (),
    loaders: tuple[LoaderTime, ...] = (),
    compilation: Compilation | None = None,
) -> Profile:
    """Put together what a run of the cell left: its marks, the profiled steps, and what they ran on.

    `ended_early` says why the cell did not come to its end ("The cell was interrupted"); the profile is then of the
    steps until there, and says so. Without it an exception that went through the window is told. Parsing the profiler's
    events happens here, after the run.
    """
    if window.raised and not ended_early:
        was_interrupted = window.raised == "KeyboardInterrupt"
        ended_early = "The cell was interrupted" if was_interrupted else f"The cell raised {window.raised}"
    events = read_events(read_columns(window.events, with_inputs=window.options.shapes), warmup=window.warmup)
    events = with_lines(window.events, window.user_lines.lines, events)
    devices = read_device_activity(events)
    table = read_op_table(events)
    timing = read_timing(recording, window.window_ns)
    return Profile(
        timing=timing,
        rows=table.rows,
        profiled_steps=table.steps if table.has_steps else 0,
        accumulation=workload.accumulation,
        notes=notes_for(timing, table, window, machine, ended_early=ended_early),
        machine_line=machine.line,
        versions=(("python", machine.python), ("torch", machine.torch or "")),
        options=window.options,
        memory=read_memory_use(window.events, events) if window.options.memory else (),
        lines=read_lines(
            window.events, window.user_lines.lines, events, total_ms=sum(row.self_ms for row in table.rows)
        ),
        costs=read_op_costs(events),
        peaks=find_peaks() if window.options.shapes else known_peaks() if devices else None,
        synchronisations=synchronisations,
        loaders=loaders,
        compilation=compilation,
        whole_run=read_whole_run(recording, workload),
        devices=devices,
        completeness=check_completeness(events, uses_gpu=workload.objects().device_type == "cuda"),
        events=events,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
