"""The ranks that a notebook keeps warm, and the data-parallel runs on them: one at a time."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from accel.bounds import check_count, check_ranks
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_prints import RankPrints
from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.units import counted
from accel.workbench.plan_for_ranks import for_this_cell

if TYPE_CHECKING:
    from accel.distributed.cells.ddp_result import DdpResult
    from accel.distributed.cells.ddp_run import DdpRun
    from accel.distributed.cells.run_cell import CellRun
    from accel.distributed.cells.run_pages import RunPage
    from accel.distributed.cells.watched_run import WatchedRun
    from accel.distributed.ranks.rank_devices import Backend, RankDevices
    from accel.distributed.ranks.rank_page import RankLane
    from accel.distributed.ranks.rank_pool import RankPool
    from accel.distributed.ranks.rank_run import RunOutcome
    from accel.workbench.notebook_state import NotebookState
    from accel.workers.messages import QualityQuestion

AnyRun = TypeVar("AnyRun", bound="WatchedRun")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class DdpOptions:
    """How a cell is run on ranks; see `accel.ddp`."""

    n: int = 2
    threads: int | None = None
    backend: Backend = "auto"
    gpus: str = "auto"
    all_output: bool = False
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        check_ranks(f"-n {self.n}", self.n)
        if self.threads is not None:
            check_count(f"--threads {self.threads}", self.threads)


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
        self._background: DdpRun | None = None  # whose state may not be home yet
        self.last_line = ""

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

        def look(_lanes: object = None) -> None:
            if show is not None:
                show(watched)

        with self.alone():
            run, devices = self._prepared(cell, options, filename=filename, on_print=on_print, watch=look)
            watched = self._begins(WatchedRun(run))
            with run.true_interrupts():
                try:
                    with watched.followed():
                        look()
                        outcome = run.run()
                        watched.ended(outcome)
                        watched.came_home(self._finish(run, outcome, devices))
                finally:
                    look()
        return watched.result if isinstance(cell, str) else run.returned

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

        self._take()
        try:
            run, devices = self._prepared(cell, options, filename=filename, on_print=on_print)
            begun = DdpRun(
                run, on_over=self._busy.release, finish=lambda run, outcome: self._finish(run, outcome, devices)
            )  # fmt: skip
        except BaseException:
            self._busy.release()
            raise
        if on_over is not None:
            begun.on_change(lambda: on_over(begun))
        self._begins(begun)
        self._background = begun.begin()
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
            result = run.finish(outcome)  # nothing comes home: `discard`
            watched.came_home(result)
        return result

    def bring_home(self) -> None:
        """Put what a run in the background trained into the notebook's objects, if it is over; called between two cells."""
        if self._background is not None:
            self._background.bring_home()

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
        from accel.distributed.ranks.rank_devices import rank_devices
        from accel.distributed.ranks.room_for_ranks import crowding

        self.bring_home()  # before what it trained is packed again
        devices = rank_devices(options.n, backend=options.backend, gpus=options.gpus)
        namespace, asked = self._workbench.namespace, "%%accel ddp"
        source, extra = (cell, {}) if isinstance(cell, str) else (SOURCE, names_for(cell))
        if not isinstance(cell, str):
            namespace, asked = namespace_of(cell, namespace), f"accel.ddp({name_of(cell)})"
        elif not filename:
            ast.parse(source)  # a SyntaxError belongs to who wrote it
        filename = filename or registered(source, f"<on ranks {next(_numbers)}>")
        _check_loaders(options.run.loaders, namespace, source)
        plan = Plan.parse(options.run.plan)
        if (crowded := crowding(options.n)) and not self._is_warm_for(options, plan):
            write_out(f"{crowded}\n")
        with self._as_if_nothing_were_kept():
            plan, reads = for_this_cell(self._workbench, plan, options.run, cell, filename)
            run = CellRun(
                self._pool_for(options, devices, plan), source, namespace, options.run, filename=filename, reads_back=reads,
                backend=devices.backend, watch=watch, on_print=on_print, extra=extra, asked=asked, plan=plan,
            )  # fmt: skip
        run.home_changes.begin()
        return run, devices

    def _finish(self, run: CellRun, outcome: RunOutcome, devices: RankDevices) -> DdpResult:
        run.home_changes.look()
        with (
            run.true_interrupts(),
            self._as_if_nothing_were_kept(),
        ):  # what is kept sits on the objects that the state is put into
            result = run.finish(outcome)
        notes = [*result.notes, devices.reason] if devices.reason else [*result.notes]
        if kept := self._workbench.kept:
            notes.append(f"What is kept here ({kept}) had no part in this run.")
        self.last_line = result.line
        return replace(result, notes=tuple(notes))

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
