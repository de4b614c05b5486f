"""A sweep over the notebook's own cell: each configuration on ranks of its own, from the same state, on copies."""

from __future__ import annotations

import ast
import statistics
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_devices import CudaHere
from accel.distributed.sweep.sweep_plan import SweepWish, counts, gpus_of, planned_rows
from accel.distributed.sweep.sweep_run import SweepRun
from accel.errors import AccelError
from accel.machine.others_measuring import OthersMeasuring
from accel.machine.peaks.other_work import OtherWork
from accel.measuring.disturbance import Disturbance
from accel.measuring.sweep import Sweep
from accel.measuring.sweep_row import Configuration, SweepRow, SweptRun
from accel.workbench.ddp_options import DdpOptions
from accel.workbench.kept_ranks import registered
from accel.workbench.sweep_quality import find_quality

if TYPE_CHECKING:
    from accel.distributed.cells.ddp_result import DdpResult
    from accel.distributed.cells.run_cell import CellRun
    from accel.workbench.workbench import Workbench
    from accel.workload.workload import Workload

Show = Callable[[Sweep, str], object]  # the rows so far, and what runs now
_ASKED = "%accel sweep"


class RankSweep:
    """The profiled cell, or the one given, in each configuration that was wished for.

    >>> RankSweep(workbench, SweepWish(processes=(1, 2), threads=(1,))).run()

    Nothing of the notebook changes, and files that the cell writes go with the ranks. `show` draws the rows as they fill, in
    the thread that runs.
    """

    def __init__(
        self, workbench: Workbench, wish: SweepWish, *, cell: str | None = None, filename: str = "",
        held_out: Any = None, metric: Any = None, show: Show = lambda _sweep, _now: None,
    ) -> None:  # fmt: skip
        self._workbench, self._wish, self._show = workbench, wish, show
        self._workload, training = _workload(workbench, cell, filename)
        self._quality = find_quality(
            self._workload, training, held_out=held_out, metric=metric, was_profiled=cell is None
        )
        self._rows = planned_rows(wish)
        self._notes: dict[str, None] = {}  # in order of first appearance
        self._now = ""
        self._others = OthersMeasuring()

    def run(self) -> Sweep:
        """Measure them; Ctrl-C ends it and gives what was measured until then."""
        if all(row.reason for row in self._rows):
            raise AccelError(
                _ASKED, because=self._rows[0].reason, do="Ask for fewer processes, threads or GPUs."
            )
        if kept := self._workbench.kept:
            self._notes[f"What is kept here ({kept}) had no part in these runs."] = None
        with self._workbench.ranks.alone(_ASKED), OthersMeasuring() as self._others:
            run = SweepRun(
                self._rows, self._measured_beside_others, rounds=self._wish.rounds, show=self._draw
            )
            rows, why_ended = run.go()
        if line := self._others.line:
            self._notes[line] = None
        return self._sweep(rows, why_ended)

    def _draw(self, rows: tuple[SweepRow, ...], now: str) -> None:
        self._rows, self._now = rows, now
        self._show(self._sweep(rows), now)

    def _sweep(self, rows: tuple[SweepRow, ...], why_ended: str = "") -> Sweep:
        wish, quality = self._wish, self._quality
        return Sweep(
            rows, self._workbench.machine.line, rounds=wish.rounds, bound=wish.bound, batch=wish.batch, metric=quality.label,
            metric_line=quality.line, quality_reason=quality.reason, notes=tuple(self._notes), why_ended=why_ended,
        )  # fmt: skip

    def _measured_beside_others(self, configuration: Configuration) -> SweptRun:
        """What other programs took of the CPUs during a run hits its row alone, so it is told of that row."""
        with OtherWork(counts_children=True) as others:
            run = self._measure(configuration)
        self._others.look()
        threads = configuration.processes * (configuration.threads or 1)
        if disturbed := Disturbance(
            others.share, others.cpus, threads, stopped=others.stopped, quota_cores=others.quota_cores
        ):
            self._notes[f"{configuration.words}: {disturbed}"] = None
        return run

    def _measure(self, configuration: Configuration) -> SweptRun:
        drawn = time.monotonic()

        def watch(run: CellRun) -> None:
            nonlocal drawn
            lanes = run.lanes
            if (
                self._wish.budget_s is not None
                and lanes
                and max(lane.training_s for lane in lanes) >= self._wish.budget_s
            ):
                run.stop()
            if time.monotonic() - drawn >= 1.0:
                drawn = time.monotonic()
                doing = f", step {lanes[0].step:,}" if lanes and lanes[0].step else ", starting"
                self._show(self._sweep(self._rows), f"{self._now}{doing}")

        result = self._workbench.ranks.measure(
            self._workload.source, self._options(configuration), filename=self._workload.filename,
            asked=f"{_ASKED}, {configuration.words}", question=self._quality.question, extra=self._quality.reads, watch=watch,
        )  # fmt: skip
        if configuration.backend and result.backend != configuration.backend:
            raise AccelError(
                _ASKED, because=f"the ranks talked by {result.backend} instead. {' '.join(result.notes)}", do="See the reason."
            )  # fmt: skip
        if result.was_stopped and not self._wish.bound:
            raise KeyboardInterrupt  # by the panel's Stop: what it took so far is no time of the cell
        for note in result.warnings:
            self._notes[f"{configuration.words}: {note}"] = None
        if result.quality_reason:
            self._notes[f"{configuration.words} has no {self._quality.label}: {result.quality_reason}."] = (
                None
            )
        return swept(result)

    def _options(self, configuration: Configuration) -> DdpOptions:
        wish = self._wish
        run = RunOptions(
            check="off",
            batch=wish.batch, timeout_s=wish.timeout_s, discard=True, steps=wish.steps or 0
        )  # fmt: skip
        backend: Any = configuration.backend or "gloo"
        gpus = gpus_of(configuration, CudaHere.now()) if configuration.on_gpus else "auto"
        return DdpOptions(configuration.processes, configuration.threads, backend, gpus, run=run)


def sweep_of(
    workbench: Workbench, cell: str | None = None, *, filename: str = "", show: Show = lambda _sweep, _now: None,
    held_out: Any = None, metric: Any = None, processes: int | str | Iterable[int] = (), threads: int | str | Iterable[int] = (),
    gpus: int | str | Iterable[int] = (), backends: str | Iterable[str] = (), **bounds: Any,
) -> Sweep:  # fmt: skip
    """The sweep of a workbench; `show` is called with the rows as they fill.

    >>> sweep_of(Workbench(globals()), "train()", processes="1,2", threads="1")
    """
    wish = SweepWish(
        processes=counts(processes),
        threads=counts(threads),
        gpus=counts(gpus),
        backends=tuple(filter(None, map(str.strip, backends.split(","))))
        if isinstance(backends, str)
        else tuple(backends),
        **bounds,
    )
    return RankSweep(
        workbench, wish, cell=cell, filename=filename, held_out=held_out, metric=metric, show=show
    ).run()


def swept(result: DdpResult) -> SweptRun:
    """What a run tells of its configuration; the slowest rank has the time. Raises AccelError where nothing was trained."""
    lanes = [each.lane for each in result.ranks]
    if not result.steps:
        raise AccelError(
            _ASKED, because="no optimizer stepped in this cell", do="Sweep the cell that trains."
        )
    return SweptRun(
        seconds=max(lane.training_s for lane in lanes), samples=sum(lane.samples for lane in lanes), steps=result.steps,
        samples_per_s=sum(lane.steady_samples_per_s for lane in lanes),
        communication_share=float("nan") if result.distributes_itself
        else statistics.mean(lane.communication_share for lane in lanes), quality=result.quality,
    )  # fmt: skip


def _workload(workbench: Workbench, cell: str | None, filename: str) -> tuple[Workload, str | None]:
    if cell is not None and not isinstance(cell, str):
        called = getattr(cell, "__name__", "train")
        raise AccelError(
            f"accel.sweep({called})", because="a sweep takes source text, and that is a " + type(cell).__name__,
            do=f'Write accel.sweep("{called}()"): what it reads travels with it.',
        )  # fmt: skip
    if cell is not None:
        from accel.workload.unprofiled_cell import training_loader_of, unprofiled_workload

        if not filename:
            ast.parse(cell)  # a SyntaxError belongs to who wrote it
        filename = filename or registered(cell, "<swept cell>")
        found = unprofiled_workload(cell, filename, workbench.namespace)
        return found, training_loader_of(found)
    workload = workbench.workload
    if workload is None or not workload.has_training_step:
        raise AccelError(
            _ASKED, because="no cell that trains was profiled yet",
            do="Put %%accel sweep over your training cell, or profile it first.",
        )  # fmt: skip
    return workload, workbench.training_loader
