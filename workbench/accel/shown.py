"""Where results and their views meet: a result holds data and imports only this; the table names the module that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import is_dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from accel import options

if TYPE_CHECKING:
    import plotly.graph_objects

Line = TypeVar("Line")
Result = TypeVar("Result")

# A view imports its result, never the other way round: it is looked up here by the name of the class.
VIEWS = {
    "accel.commands.accelerations.AccelerationList": "accel.views.acceleration_list",
    "accel.commands.help.Help": "accel.views.help",
    "accel.commands.overview.Overview": "accel.views.overview",
    "accel.distributed.cells.ddp_result.DdpResult": "accel.views.ddp_result",
    "accel.distributed.cells.run_lanes.RunLanes": "accel.views.run_lanes",
    "accel.distributed.communication.communication_report.CommunicationReport": "accel.views.communication",
    "accel.distributed.jobs.jobs_here.JobLogs": "accel.views.job_logs",
    "accel.distributed.jobs.jobs_here.Jobs": "accel.views.jobs",
    "accel.distributed.oneccl.state.OneCcl": "accel.views.oneccl",
    "accel.environments.asked.Environments": "accel.views.environments",
    "accel.distributed.scaling.cluster_view.ClusterView": "accel.views.cluster_view",
    "accel.distributed.scaling.forecast.ScalingForecast": "accel.views.scaling_forecast",
    "accel.exporting.cluster_scripts.ClusterScripts": "accel.views.cluster_scripts",
    "accel.exporting.export.Export": "accel.views.export",
    "accel.exporting.launcher.Launcher": "accel.views.launcher",
    "accel.exporting.program.Program": "accel.views.program",
    "accel.history.past_predictions.PastPredictions": "accel.views.past_predictions",
    "accel.history.records.PastTrials": "accel.views.past_trials",
    "accel.labs.course.diagram.Diagram": "accel.views.labs.diagram",
    "accel.labs.course.fetching.Fetched": "accel.views.labs.fetched",
    "accel.labs.course.grading.Graded": "accel.views.labs.graded",
    "accel.labs.course.guess.GuessOutcome": "accel.views.labs.guess_outcome",
    "accel.labs.course.lab.Lab": "accel.views.labs.lab",
    "accel.labs.course.lab_files.StartedLab": "accel.views.labs.started_lab",
    "accel.labs.course.lab_lint.Lint": "accel.views.labs.lint",
    "accel.labs.course.recorded.Recorded": "accel.views.labs.recorded",
    "accel.labs.course.reference_table.ReferenceTable": "accel.views.labs.reference_table",
    "accel.labs.course.standing.ChapterStanding": "accel.views.labs.chapter_standing",
    "accel.labs.course.standing.CourseStanding": "accel.views.labs.course_standing",
    "accel.labs.course.submission.Grades": "accel.views.labs.grades",
    "accel.labs.quiz.quiz.Score": "accel.views.quiz_score",
    "accel.machine.affinity.affinity.Affinity": "accel.views.affinity",
    "accel.machine.gpu_details.details.GpuDetails": "accel.views.gpu_details",
    "accel.machine.installation.Installation": "accel.views.installation",
    "accel.machine.machine.Machine": "accel.views.machine",
    "accel.machine.number_formats.NumberFormats": "accel.views.number_formats",
    "accel.machine.peaks.machine_peaks.Peaks": "accel.views.peaks",
    "accel.machine.telemetry.load_in_words.LoadSnapshot": "accel.views.load_snapshot",
    "accel.machine.telemetry.load_summary.LoadSummary": "accel.views.load_summary",
    "accel.machine.topology.topology.Topology": "accel.views.topology",
    "accel.measuring.fastest_batch.FastestBatch": "accel.views.fastest_batch",
    "accel.measuring.ladder.Ladder": "accel.views.ladder",
    "accel.measuring.progress.Progress": "accel.views.progress",
    "accel.measuring.sweep.Sweep": "accel.views.sweep",
    "accel.measuring.time_to_quality.TimeToQuality": "accel.views.time_to_quality",
    "accel.measuring.tuning.Tuning": "accel.views.tuning",
    "accel.opgraph.op_graph.OpGraph": "accel.views.op_graph",
    "accel.opgraph.op_graph.WhatIf": "accel.views.what_if",
    "accel.profiling.device_activity.DeviceActivity": "accel.views.profile.devices",
    "accel.profiling.findings.Findings": "accel.views.profile.findings",
    "accel.profiling.profile.Profile": "accel.views.profile.report",
    "accel.profiling.profile_diff.ProfileDiff": "accel.views.profile_diff",
    "accel.profiling.roofline.Roofline": "accel.views.profile.roofline",
    "accel.techniques.compiling.compile_backends.CompileBackends": "accel.views.compile_backends",
    "accel.traces.ranks_report.RanksReport": "accel.views.ranks_report",
    "accel.workbench.kernelspec.KernelSpec": "accel.views.kernel_spec",
    "accel.workbench.report_file.ReportFile": "accel.views.report_file",
    "accel.workbench.status.Applicabilities": "accel.views.applicabilities",
    "accel.workbench.status.Status": "accel.views.status",
    "accel.workbench.voila_app.EndedApp": "accel.views.ended_app",
    "accel.workers.background_trial.BackgroundTrial": "accel.views.progress",
}

# So is the widget of what has a live panel, by its module and class.
PANELS = {
    "accel.distributed.cells.watched_run.WatchedRun": ("accel_widgets.ddp_lanes_panel", "DdpLanesPanel"),
    "accel.distributed.jobs.jobs_here.Jobs": ("accel_widgets.jobs_panel", "JobsPanel"),
    "accel.labs.course.guess.Guess": ("accel_widgets.guess_panel", "GuessPanel"),
    "accel.labs.quiz.quiz.Quiz": ("accel_widgets.quiz_panel", "QuizPanel"),
    "accel.machine.affinity.affinity.Affinity": ("accel_widgets.core_map_panel", "CoreMapPanel"),
    "accel.machine.telemetry.monitor.Monitor": ("accel_widgets.telemetry_panel", "TelemetryPanel"),
    "accel.profiling.profile.Profile": ("accel_widgets.timeline_panel", "TimelinePanel"),
}


class Shown:
    """A result that prints as `text` of its view and shows in a notebook as its `html`.

    >>> class Sweep(Shown): ...

    A view may have a `short` text besides, of at most a screen: what a terminal shows of a cell's value.
    """

    is_in_full = False  # `accel.options.full` makes all so

    def __str__(self) -> str:
        return str(view_of(self).text(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        html = str(view_of(self).html(self))
        if self.is_in_full or options.full:  # only html_parts writes tags: what is the user's is escaped
            return {"text/plain": str(self), "text/html": html.replace("<details>", "<details open>")}
        return {"text/plain": short_text(self), "text/html": html}


class Drawn(Shown):
    """A result that has a picture too."""

    def figure(self) -> plotly.graph_objects.Figure:
        """The result as a picture (plotly)."""
        return view_of(self).figure(self)


def in_full(result: Result) -> Result:
    """The same result, shown whole: all of its text, and nothing of its HTML folded. What goes on still is as it is.

    >>> in_full(ladder)
    """
    if not (isinstance(result, Shown) and is_dataclass(result)):
        return result
    whole = copy(result)
    object.__setattr__(whole, "is_in_full", True)
    return whole


def short_text(result: Shown) -> str:
    """What a terminal shows of a cell's value."""
    view = view_of(result)
    return str(getattr(view, "short", view.text)(result))


def view_of(result: Shown) -> ModuleType:
    """The module with `text`, `html` and perhaps `figure` of a result.

    >>> view_of(sweep).html(sweep)
    """
    return import_module(_line_for(result, VIEWS, "VIEWS"))


def live_panel(result: object, **traits: Any) -> Any:
    """A new widget that shows a result while it changes or is looked through.

    >>> live_panel(profile, is_open=True)
    """
    module, name = _line_for(result, PANELS, "PANELS")
    return getattr(import_module(module), name)(result, **traits)


def _line_for(result: object, table: Mapping[str, Line], called: str) -> Line:
    """What a table says about the class of a result, or about one that it derives from."""
    names = [f"{each.__module__}.{each.__qualname__}" for each in type(result).__mro__]
    line = next((table[name] for name in names if name in table), None)
    if line is None:
        raise LookupError(f"{names[0]} has no line in {called} (shown.py): give it one")
    return line
