"""The ranks that a notebook keeps warm, and the data-parallel runs on them: one at a time."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from accel.distributed.ranks.rank_prints import RankPrints
from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.units import counted
from accel.workbench.ddp_options import DdpOptions, devices_for
from accel.workbench.plan_for_ranks import for_this_cell

if TYPE_CHECKING:
    from accel.distributed.cells.ddp_result import DdpResult
    from accel.distributed.cells.ddp_run import DdpRun
    from accel.distributed.cells.run_cell import CellRun
    from accel.distributed.cells.run_pages import RunPage
    from accel.distributed.cells.watched_run import Runnable, WatchedRun
    from accel.distributed.jobs.job_folder import JobFolder
    from accel.distributed.ranks.rank_devices import RankDevices
    from accel.distributed.ranks.rank_page import RankLane
    from accel.distributed.ranks.rank_pool import RankPool
    from accel.distributed.ranks.run_outcome import Ranks, RunOutcome
    from accel.workbench.notebook_state import NotebookState
    from accel.workers.messages import QualityQuestion

AnyRun = TypeVar("AnyRun", bound="WatchedRun")
_numbers = itertools.count(1)


class KeptRanks:
    """Runs cells and functions on ranks, which stay warm for the next run of as many with as many threads.

    >>> ranks = KeptRanks(workbench)
    >>> ranks.run("for x, y in loader: ...", DdpOptions(n=2))

    `latest` is the run that goes on, or was the last: a panel shows its lanes.
    """

    def __init__(self, workbench: NotebookState) -> None:
        self._workbench = workbench
        self._pool: RankPool | None = None
        self._pool_is_for: tuple[Any, ...] = ()
        self._busy = threading.Lock()
        self.latest: WatchedRun | None = None
        self._background: list[DdpRun] = []  # whose state may not be home yet
        self.last_line = ""
        self._rates: dict[
            tuple[str, str, int], float
        ] = {}  # samples a second, by source, place and number of ranks

    @property
    def is_running(self) -> bool:
        """Whether a run goes on."""
        return self._busy.locked()

    @property
    def pids(self) -> dict[int, int]:
        """The process of each rank that is up."""
        return self._pool.pids if self._pool is not None else {}

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank of the run that goes on is doing."""
        return self.latest.lanes if self.latest is not None and not self.latest.is_over else ()

    @property
    def line(self) -> str:
        """What is kept, for a status; empty where nothing is."""
        if self._pool is None or not self.pids:
            return self.last_line
        threads = self._pool_is_for[1]
        each = f" with {counted(threads, 'thread')} each" if threads else ""
        warm = f"{len(self.pids)} warm{each}{', running' if self.is_running else ''}"
        return f"{warm}; last run: {self.last_line}" if self.last_line else warm

    def measured_speed_ups(self, where: str) -> dict[int, float]:
        """Of the profiled cell there: by number of ranks, how many times as many samples a second as in its profile."""
        workload, profile = self._workbench.workload, self._workbench.profile_of_workload
        alone = profile.samples_per_s if profile is not None else None
        if workload is None or not alone:
            return {}
        cell = workload.source.strip()
        of_cell = {
            n: rate for (source, place, n), rate in self._rates.items() if (source, place) == (cell, where)
        }
        return {n: rate / alone for n, rate in sorted(of_cell.items()) if rate}

    def _is_warm_for(self, options: DdpOptions, plan: Plan) -> bool:
        """Whether a run of this plan with these options would find its ranks up."""
        return (
            self._pool is not None
            and self._pool.is_warm
            and (*self._pool_is_for[:2], *self._pool_is_for[3:])
            == (options.n, options.threads, _own_process(plan), options.run.is_private)
        )

    def run(
        self, cell: str | Callable[[], Any], options: DdpOptions, *, filename: str = "",
        on_print: Callable[[int, str], object] | None = None, show: Callable[[WatchedRun], object] | None = None,
    ) -> Any:  # fmt: skip
        """Run a cell and give its DdpResult, or call a function and give what it returned in rank 0.

        `show` is called with the run when it begins, now and then, and when it is over, in this thread.
        """
        from accel.distributed.cells.watched_run import WatchedRun

        with self.alone():
            watched: list[WatchedRun] = []
            run, devices = self._prepared(
                cell, options, filename=filename, on_print=on_print, watch=lambda _: show_all(watched, show)
            )  # fmt: skip
            watched.append(self._begins(WatchedRun(run)))
            self._wait_for(run, watched[0], show, devices)
        return watched[0].result if isinstance(cell, str) else run.home.returned

    def take_home(self, folder: JobFolder, page: RunPage | None = None) -> DdpResult:
        """Wait for a job that this kernel or another launched, and put its state into the objects of the same names."""
        from accel.distributed.cells.watched_run import WatchedRun
        from accel.distributed.jobs.found_job import FoundJob

        prints, watched = RankPrints(write_out), list[WatchedRun]()

        def show(run: WatchedRun) -> None:
            prints.show()
            if page is not None:
                page.show(run)

        with self.alone("%accel jobs home"):
            job = FoundJob(
                folder, self._workbench.namespace, watch=lambda _: show_all(watched, show), on_print=prints.take
            )  # fmt: skip
            watched.append(self._begins(WatchedRun(job)))
            try:
                self._wait_for(job, watched[0], show)
            finally:
                prints.end()
        assert watched[0].result is not None
        return watched[0].result

    def _wait_for(
        self, run: Runnable, watched: WatchedRun, show: Callable[[WatchedRun], object] | None,
        devices: RankDevices | None = None,
    ) -> None:  # fmt: skip
        with run.home.true_interrupts():
            try:
                with watched.followed():
                    show_all([watched], show)
                    outcome = run.run()
                    watched.ended(outcome)
                    watched.came_home(self._finish(run, outcome, devices))
            finally:
                show_all([watched], show)

    def run_printing(
        self, cell: str | Callable[[], Any], options: DdpOptions, *, filename: str = "", page: RunPage | None = None
    ) -> Any:  # fmt: skip
        """Run it, with what rank 0 prints where this process prints, and its lanes on a page where there is one."""
        prints = RankPrints(write_out, all_output=options.all_output)

        def show(run: WatchedRun) -> None:
            prints.show()
            if page is not None:
                page.show(run)

        try:
            return self.run(cell, options, filename=filename, on_print=prints.take, show=show)
        finally:
            prints.end()

    def begin(
        self, cell: str | Callable[[], Any], options: DdpOptions, *, filename: str = "",
        on_print: Callable[[int, str], object] | None = None, on_over: Callable[[DdpRun], object] | None = None,
    ) -> DdpRun:  # fmt: skip
        """Begin it in the background; `on_over` is called, in another thread, when the ranks have finished."""
        from accel.distributed.cells.ddp_run import DdpRun

        is_here = options.cluster is None  # a job waits and trains elsewhere, and nothing here waits for it
        if is_here:
            self._take()
        release = self._busy.release if is_here else lambda: None
        try:
            run, devices = self._prepared(cell, options, filename=filename, on_print=on_print)
            begun = DdpRun(
                run, on_over=release, finish=lambda run, outcome: self._finish(run, outcome, devices)
            )
        except BaseException:
            release()
            raise
        if on_over is not None:
            begun.on_change(lambda: on_over(begun))
        self._begins(begun)
        self._background.append(begun.begin())
        return begun

    def measure(
        self, source: str, options: DdpOptions, *, filename: str, asked: str, question: QualityQuestion | None = None,
        extra: Mapping[str, Any] | None = None, watch: Callable[[CellRun], object] = lambda _: None,
    ) -> DdpResult:  # fmt: skip
        """Run a cell on copies, while `alone`, and answer the question about what it trained; `watch` may stop the run."""
        from accel.distributed.cells.run_cell import CellRun
        from accel.distributed.cells.watched_run import WatchedRun
        from accel.distributed.ranks.rank_devices import rank_devices

        self.bring_home()  # before what it trained is packed again
        devices = rank_devices(options.n, backend=options.backend, gpus=options.gpus)
        with self._as_if_nothing_were_kept():
            run = CellRun(
                self._pool_for(options, devices, Plan()), source, self._workbench.namespace, options.run, filename=filename,
                backend=devices.backend, watch=lambda _: watch(run), on_print=lambda _rank, _text: None, extra=extra,
                asked=asked, question=question,
            )  # fmt: skip
        watched = self._begins(
            WatchedRun(
                run,
                "Interrupt ends the sweep; what it measured until then stays, and your objects are as they were.",
            )
        )
        with watched.followed():
            outcome = run.run()
            watched.ended(outcome)
            result = run.home.finish(outcome)  # nothing comes home: `discard`
            watched.came_home(result)
        return result

    def bring_home(self) -> None:
        """Put what a run in the background trained into the notebook's objects, if it is over; called between two cells."""
        for run in list(self._background):
            if run.is_over:
                self._background.remove(run)
                run.bring_home()

    def close(self) -> None:
        """End all ranks, and with them what runs on them."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    # --- one run -----------------------------------------------------------------------------------------------------

    @contextmanager
    def alone(self, asked: str = "%%accel ddp") -> Iterator[None]:
        """While entered, no other run begins; raises AccelError where one goes on, or a trial."""
        self._take(asked)
        try:
            yield
        finally:
            self._busy.release()

    def _begins(self, run: AnyRun) -> AnyRun:
        """From now on it is the latest; whoever shows the workbench hears of its beginning, its end, and of its state at home."""
        self.latest = run
        run.on_change(lambda: self._workbench.tell("ranks"))
        self._workbench.tell("ranks")
        return run

    def _take(self, asked: str = "%%accel ddp") -> None:
        wait = "Wait for it, or stop it first."
        if self._workbench.running_trial is not None:
            raise AccelError(asked, because="a trial is running, and both would measure each other", do=wait)
        if not self._busy.acquire(blocking=False):
            raise AccelError(asked, because="a run on the ranks goes on", do=wait)

    def _prepared(
        self, cell: str | Callable[[], Any], options: DdpOptions, *, filename: str = "",
        on_print: Callable[[int, str], object] | None = None, watch: Callable[[tuple[RankLane, ...]], object] | None = None,
    ) -> tuple[CellRun, RankDevices]:  # fmt: skip
        from accel.distributed.cells.run_cell import CellRun
        from accel.distributed.ranks.called_function import SOURCE, name_of, names_for, namespace_of
        from accel.distributed.ranks.room_for_ranks import crowding

        self.bring_home()  # before what it trained is packed again
        devices = devices_for(options)
        namespace, asked = self._workbench.namespace, "%%accel ddp"
        source, extra = (cell, {}) if isinstance(cell, str) else (SOURCE, names_for(cell))
        if not isinstance(cell, str):
            namespace, asked = namespace_of(cell, namespace), f"accel.ddp({name_of(cell)})"
        elif not filename:
            ast.parse(source)  # a SyntaxError belongs to who wrote it
        filename = filename or registered(source, f"<on ranks {next(_numbers)}>")
        _check_loaders(options.run.loaders, namespace, source)
        plan = Plan.parse(options.run.plan)
        if (
            options.cluster is None
            and (crowded := crowding(options.n))
            and not self._is_warm_for(options, plan)
        ):
            write_out(f"{crowded}\n")
        with self._as_if_nothing_were_kept():
            plan, reads = for_this_cell(self._workbench, plan, options.run, cell, filename)
            run = CellRun(
                self._ranks_for(options, devices, plan), source, namespace, options.run, filename=filename, reads_back=reads,
                backend=devices.backend, watch=watch, on_print=on_print, extra=extra, asked=asked, plan=plan,
            )  # fmt: skip
        run.home.changes.begin()
        return run, devices

    def _finish(self, run: Runnable, outcome: RunOutcome, devices: RankDevices | None = None) -> DdpResult:
        run.home.changes.look()
        with (
            run.home.true_interrupts(),
            self._as_if_nothing_were_kept(),
        ):  # what is kept sits on the objects that the state is put into
            result = run.home.finish(outcome)
        notes = [*result.notes, *([devices.reason] if devices is not None and devices.reason else [])]
        if kept := self._workbench.kept:
            notes.append(f"What is kept here ({kept}) had no part in this run.")
        self.last_line = result.line
        self._rates[run.source.strip(), run.where, run.ranks] = result.samples_per_s
        return replace(result, notes=tuple(notes))

    def _ranks_for(self, options: DdpOptions, devices: RankDevices, plan: Plan) -> Ranks:
        """Those of a job, or warm ones."""
        if options.cluster is None:
            return self._pool_for(options, devices, plan)
        from accel.distributed.jobs.job_ranks import JobRanks

        return JobRanks(
            options.cluster, options.threads, options.run.max_restarts, is_of_copies=options.run.discard
        )

    def _pool_for(self, options: DdpOptions, devices: RankDevices, plan: Plan) -> RankPool:
        """The pool that is warm, where it fits; a rank takes half a gigabyte and more, so no other is kept beside it."""
        from accel.distributed.ranks.rank_pool import RankPool
        from accel.distributed.ranks.room_for_ranks import check_room

        wanted = (
            options.n,
            options.threads,
            devices.environments,
            _own_process(plan),
            options.run.is_private,
        )
        if self._pool is None or self._pool_is_for != wanted:
            self.close()
            check_room(options.n)
            self._pool = RankPool(
                options.n, threads=options.threads, environments=[dict(each) for each in devices.environments],
                is_private=options.run.is_private,
            )  # fmt: skip
            self._pool_is_for = wanted
        return self._pool

    def _as_if_nothing_were_kept(self) -> AbstractContextManager[None]:
        return self._workbench.live.suspended() if self._workbench.kept else nullcontext()


def _own_process(plan: Plan) -> Plan:
    """The part of the plan that belongs to whole processes, which are as they were for no other run afterwards."""
    return Plan(tuple(entry for entry in plan.entries if entry.needs_own_process))


def show_all(runs: Sequence[WatchedRun], show: Callable[[WatchedRun], object] | None) -> None:
    """Show those that have begun, where somebody looks."""
    if show is not None:
        for run in runs:
            show(run)


def registered(source: str, filename: str) -> str:
    """Let tracebacks show the lines of this source; gives its name."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    return filename


def _check_loaders(names: Sequence[str], namespace: dict[str, Any], source: str) -> None:
    from torch.utils.data import DataLoader

    from accel.workload.cell_names import names_written

    made = names_written(source)
    for name in names:
        if name not in made and not isinstance(namespace.get(name), DataLoader):
            here = sorted(known for known, value in namespace.items() if isinstance(value, DataLoader))
            raise AccelError(
                f"--loaders {','.join(names)}", because=f"{name!r} is no DataLoader of this notebook",
                do=f"There are: {', '.join(here)}." if here else "There is none yet.",
            )  # fmt: skip


def write_out(text: str) -> None:
    """To wherever the running cell prints."""
    sys.stdout.write(text)
    sys.stdout.flush()
