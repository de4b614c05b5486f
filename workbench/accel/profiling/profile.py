"""Profile: where the time of a training step goes, by phase, module and operation, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from accel.errors import LeftOut
from accel.machine.peaks import known_peaks
from accel.machine.peaks import peaks as find_peaks
from accel.profiling.completeness import Completeness, check_completeness
from accel.profiling.kineto_columns import read_columns
from accel.profiling.line_cost import read_lines, with_lines
from accel.profiling.memory_use import read_memory_use
from accel.profiling.op_cost import read_op_costs
from accel.profiling.op_table import read_op_table
from accel.profiling.profile_data import ProfileData, none_for_nan
from accel.profiling.profile_diff import ProfileDiff, compare_profiles
from accel.profiling.profile_notes import notes_for
from accel.profiling.profile_tables import columns_and_rows, profile_table
from accel.profiling.profiled_events import read_events
from accel.profiling.reading_device_activity import read_device_activity
from accel.profiling.roofline import Roofline, roofline_of
from accel.profiling.step_timing import read_timing
from accel.profiling.whole_run import WholeRun, read_whole_run
from accel.shown import Drawn, live_panel, view_of
from accel.units import csv_table, markdown_table, milliseconds

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    import plotly.graph_objects

    from accel.machine import Machine
    from accel.profiling.compilation import Compilation
    from accel.profiling.loader_time import LoaderTime
    from accel.profiling.profiled_events import ProfiledEvents
    from accel.profiling.profiled_window import ProfiledWindow
    from accel.profiling.synchronisations import Synchronisation
    from accel.workload.capture import Recording
    from accel.workload.workload import Workload


@dataclass(frozen=True)
class Profile(ProfileData, Drawn):
    """Where a step's time goes. Timing is from the marks; shares of operations are from the profiled steps.

    Examples:
        >>> profile = accel.profile("train(model, loader, criterion, optimizer)")
        >>> print(profile)             # for a terminal; a notebook shows tables
        >>> profile.ops[0]             # the most expensive operation
        >>> profile.to_dataframe()     # one row per (phase, module, operation)
        >>> profile.figure()           # a sunburst: phase, module, operation
    """

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what is not known is None."""
        values = asdict(replace(self, events=None)) | {"versions": dict(self.versions)}
        del values["events"]
        values["samples_per_s"] = values["timing"].pop("samples_per_s")
        values["timing"]["step_ms"] = none_for_nan(self.step_ms)
        values["timing"]["spread_ms"] = [none_for_nan(value) for value in self.spread_ms]
        return values

    def to_dataframe(self, kind: str = "operations") -> pandas.DataFrame:
        """One row per (phase, module, operation), most expensive first; or another of the tables.

        Args:
            kind: "operations", "phases", "steps", "lines", "costs", "kernels", "copies", "memory", "loaders",
                "synchronisations" or "findings".

        Returns:
            The table; empty, with its columns, where the profile has no such data. Times are in ms, sizes in bytes.

        Raises:
            UnknownName: There is no such table.

        Examples:
            >>> profile.to_dataframe("steps")
        """
        return profile_table(self, kind)

    def to_markdown(self, kind: str = "operations", *, most: int = 20) -> str:
        """One of the tables in Markdown, for an issue or a README.

        Args:
            kind: As of `to_dataframe`.
            most: How many rows, the most expensive first.

        Examples:
            >>> print(profile.to_markdown("phases"))
        """
        rows = columns_and_rows(self, kind)[1][:most]
        above = f"{milliseconds(self.step_ms)} a {self.timing.unit}"
        return markdown_table(rows, above=above, below=self.machine_line)

    def to_csv(self, kind: str = "operations") -> str:
        """The rows of `to_dataframe` for a spreadsheet."""
        columns, rows = columns_and_rows(self, kind)
        return csv_table(rows, columns)

    def figure(self, kind: str = "sunburst") -> plotly.graph_objects.Figure:
        """A picture in plotly.

        Args:
            kind: "sunburst" (phase, module, operation), "steps" (warm-up and slow ones marked), "memory" or "roofline".

        Returns:
            The figure, which a notebook shows.

        Raises:
            AccelError: There is no such picture, or it needs an option of the profile, such as memory=True.

        Examples:
            >>> profile.figure("steps")
        """
        return view_of(self).figure(self, kind)

    def roofline(self) -> Roofline:
        """How near each operation comes to this machine's peaks.

        Returns:
            A point for each operation and module: FLOPs, bytes, the share of the rate that computing or memory allows.

        Raises:
            AccelError: The profile has no shapes: `accel.profile(..., shapes=True)` records them.

        Examples:
            >>> accel.profile("train(model, loader, criterion, optimizer)", shapes=True).roofline().points[0].attained

        Method: the roofline model (Williams, Waterman and Patterson, CACM 2009), against `accel.peaks()`.
        """
        return roofline_of(self.costs, self.peaks)

    def diff(self, after: Profile) -> ProfileDiff:
        """What is different in another profile of the same training: operations that came, went, sped up, slowed down.

        Args:
            after: The later profile.

        Returns:
            The differences per step, largest first.

        Examples:
            >>> accel.keep("channels_last")
            >>> print(profile.diff(accel.profile("train(model, loader, criterion, optimizer)")))
        """
        return compare_profiles(self, after)

    def panel(self) -> Any:
        """The profiled steps as a live timeline: zoom, search, click a slice for its details.

        Returns:
            The widget.

        Examples:
            >>> profile.panel()
        """
        return live_panel(self, is_open=True)

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write the profiled steps for Perfetto or chrome://tracing, as torch.profiler would.

        Args:
            path: The file; compressed where its name ends in .gz.

        Returns:
            The path.

        Raises:
            AccelError: No step was profiled, or the file cannot be written.

        Examples:
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
    steps until there, and says so. Without it an exception that went through the window is reported. Parsing the profiler's
    events happens here, after the run.
    """
    if window.raised and not ended_early:
        was_interrupted = window.raised == "KeyboardInterrupt"
        ended_early = "The cell was interrupted" if was_interrupted else f"The cell raised {window.raised}"
    lines, options = window.user_lines.lines, window.options

    def read() -> ProfiledEvents | None:
        columns = read_columns(window.events, with_inputs=options.shapes)
        return with_lines(window.events, lines, read_events(columns, warmup=window.warmup))

    left_out = LeftOut()
    events = left_out.unless("Operations", read, None)
    has_events = not left_out.said
    devices = left_out.unless("GPU activities", lambda: read_device_activity(events), ())
    table = left_out.unless("Operation times", lambda: read_op_table(events), read_op_table(None))
    timing = read_timing(recording, window.window_ns)
    total_ms = sum(row.self_ms for row in table.rows)
    profile = Profile(
        timing=timing,
        rows=table.rows,
        profiled_steps=table.steps if table.has_steps else 0,
        accumulation=workload.accumulation,
        notes=notes_for(
            timing, table, window, machine, conditions=recording.conditions, on_gpu=bool(devices), ended_early=ended_early,
        ),
        machine_line=machine.line,
        versions=(("python", machine.python), ("torch", machine.torch or "")),
        options=options,
        memory=left_out.unless("Memory figures", lambda: read_memory_use(window.events, events), ()) if options.memory else (),
        lines=left_out.unless("Times of source lines", lambda: read_lines(window.events, lines, events, total_ms=total_ms), ()),
        costs=left_out.unless("FLOPs and bytes of operations", lambda: read_op_costs(events), ()),
        peaks=find_peaks() if options.shapes else known_peaks() if devices else None,
        synchronisations=synchronisations,
        loaders=loaders,
        compilation=compilation,
        whole_run=left_out.unless("Whole-run figures", lambda: read_whole_run(recording, workload), WholeRun()),
        devices=devices,
        completeness=left_out.unless(
            "Completeness checks of GPU events",
            lambda: check_completeness(events, uses_gpu=has_events and workload.objects().device_type == "cuda"), Completeness(),
        ),
        events=events,
    )  # fmt: skip
    return replace(profile, notes=(*profile.notes, *left_out.said))
