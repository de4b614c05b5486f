"""The notebook's own cell on all ranks of a pool: shipped, trained data-parallel, and its state brought home."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from accel.distributed.cells.brought_home import Key, bring_home
from accel.distributed.cells.changed_during_run import ChangedDuringRun
from accel.distributed.cells.ddp_result import DdpResult, RankReport
from accel.distributed.cells.home_objects import Home, walk
from accel.distributed.cells.plan_effects import effects_of
from accel.distributed.cells.plan_on_ranks import check_on_ranks, notes_on
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.checkpoints.checkpoint_wish import checked_folder
from accel.distributed.communication.communication_report import CommunicationReport
from accel.distributed.data_parallel.gradient_compression import compression_of
from accel.distributed.oneccl.limits import check_limits
from accel.distributed.ranks.called_function import RETURNED, globals_of
from accel.distributed.ranks.rank_page import RankLane
from accel.distributed.ranks.rank_pool import request_for
from accel.distributed.ranks.rank_run import Print, RankRun, RunOutcome, Watch
from accel.errors import RankError
from accel.plans.plan import Plan
from accel.private_disk import in_words
from accel.workload.cell_names import names_read, names_written
from accel.workload.memory_file import MemoryFile
from accel.workload.separate_parts import unpack_parts
from accel.workload.shipping import pack_cell
from accel.workload.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from accel.distributed.ranks.rank_pool import RankPool
    from accel.workers.messages import QualityQuestion
    from accel.workload.read_backs import ReadBack

_AS_USUAL = RunOptions()


class CellRun:
    """A cell on the ranks of a pool.

    >>> run = CellRun(pool, source, namespace, filename="<cell>")
    >>> result = run.go()

    `go` waits; `stop`, from any thread, ends all ranks after the same step, and the state of that step comes back. With
    `discard` the notebook's objects stay as they are. `extra` names travel too, and what they lead to comes home. With a
    folder for checkpoints it goes on from the newest one in it that a run which did not come to its end left there; by itself,
    after a rank died, as often as the options allow. `plan` is that of the options, where it was read and resolved before.
    """

    @in_words("%%accel ddp")
    def __init__(
        self, pool: RankPool, source: str, namespace: dict[str, Any], options: RunOptions = _AS_USUAL, *, filename: str,
        backend: str = "gloo", watch: Watch | None = None, on_print: Print | None = None, extra: Mapping[str, Any] | None = None,
        asked: str = "%%accel ddp", reads_back: Sequence[ReadBack] = (),
        question: QualityQuestion | None = None, plan: Plan | None = None,
    ) -> None:  # fmt: skip
        self.pool, self._namespace = pool, namespace
        plan = Plan.parse(options.plan) if plan is None else plan
        check_on_ranks(plan, options)
        if backend == "ccl":
            check_limits(options, plan.names)
        self._notes = [*notes_on(plan), *(pool.allocation.notes if pool.allocation else ())]
        self._options = msgspec.structs.replace(
            options, checkpoint=checked_folder(options, source), plan=str(plan or "")
        )
        self._restarts_left = options.max_restarts
        extra = dict(extra or {})
        reads = [*names_read(source, namespace), *globals_of(extra.values(), namespace)]
        reads = [name for name in dict.fromkeys(reads) if name not in extra]
        self._parcel = pack_cell(source, filename, namespace, reads, extra=extra)
        self._home = Home(walk(namespace | extra, [*reads, *extra]))
        self.home_changes = ChangedDuringRun(self._home)
        self.returned: Any = None  # by the function that was called, in rank 0
        self._request = request_for(
            "cell", source=source, filename=filename, backend=backend, options=self._options, names=[*reads, *extra],
            writes=list(names_written(source)), reads_back=list(reads_back), question=question,
        )  # fmt: skip
        self._run = RankRun(
            pool, self._request, self._parcel, asked=asked, watch=watch, on_print=on_print
        )  # fmt: skip
        self._restarted: list[str] = []
        self._not_home: list[tuple[str, str]] = []
        self.is_home = False  # its state, or all of it that can be, is in the notebook's objects

    def stop(self) -> None:
        """All ranks end after the same step."""
        self._run.stop()

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now; none before they are up."""
        return self._run.lanes

    def go(self) -> DdpResult:
        """Run it and bring its state home; see `run`."""
        return self.finish(self.run())

    def run(self) -> RunOutcome:
        """Run it; raises RankError with the rank that caused a failure, and then nothing has changed in the notebook."""
        try:
            with in_words("%%accel ddp"):
                return self._outcome()
        finally:
            self._parcel.close()

    @in_words("%%accel ddp")
    def finish(self, outcome: RunOutcome) -> DdpResult:
        """Put what a run made of the notebook's objects into them, and say how it went."""
        self.home_changes.look()
        self._take(outcome)
        result = self._result(outcome)
        self._home.clear()  # a run that is remembered keeps no model alive
        self.home_changes.forget()
        return result

    @contextmanager
    def true_interrupts(self) -> Iterator[None]:
        """An interrupt that comes when the state is in the notebook's objects says so."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.is_home:
                raise
            raise KeyboardInterrupt(
                "the run was over: the trained state is in your notebook's own objects."
            ) from None

    def _outcome(self) -> RunOutcome:
        while True:
            try:
                return self._run.go()
            except RankError as error:
                if error.has_raised or not self._restarts_left:
                    raise
                self._restarts_left -= 1
                self._restarted.append(
                    f"Rank {error.rank} was lost ({error.because}), and the ranks were started again."
                )

    def _take(self, outcome: RunOutcome) -> None:
        first = outcome.answers[0]
        for answer in outcome.answers:
            if answer.memory is None:
                continue
            memory = MemoryFile(answer.memory)
            try:
                if answer is first and not self._options.discard:
                    with uninterrupted():
                        self._put(*unpack_parts(answer.blob, memory, self._home))
            finally:
                memory.close()

    def _put(self, arrived: list[tuple[Key, Any]], refused: dict[Key, str]) -> None:
        variables: dict[str, Any] = {}
        self._not_home = bring_home(arrived, refused, self._home, variables)
        self.returned = variables.pop(RETURNED, None)
        self._namespace.update(variables)
        self.is_home = True

    def _result(self, outcome: RunOutcome) -> DdpResult:
        reports = tuple(
            RankReport(
                lane=lane, cpus=tuple(each.cpus) if each else (), threads=each.threads if each else 0, output=output,
            )
            for lane, each, output in zip(outcome.lanes, outcome.ready, outcome.outputs, strict=True)
        )  # fmt: skip
        first = outcome.answers[0].done
        steps = [lane.seconds / lane.step for lane in outcome.lanes if lane.step]
        return DdpResult(
            ranks=reports, backend=first.backend, batch=self._options.batch, seconds=outcome.seconds,
            start_s=outcome.start_s,
            first_step_s=first.first_step_s, steps=outcome.lanes[0].step,
            step_ms=1e3 * statistics.mean(steps) if steps else float("nan"),
            was_stopped=outcome.was_stopped, has_state=not self._options.discard,
            left_behind=(*((name, why) for name, why in first.left_behind), *self._not_home),
            notes=(*self._restarted, *first.notes, *self._notes, *filter(None, (self.home_changes.note,))),
            plan=self._options.plan, effects=effects_of([answer.done.proofs for answer in outcome.answers]),
            compilation=first.compilation,
            communication=self._communication(outcome),
            quality=first.quality, quality_reason=first.quality_reason, distributes_itself=first.distributes_itself,
        )  # fmt: skip

    def _communication(self, outcome: RunOutcome) -> CommunicationReport | None:
        seen = [answer.done.communication for answer in outcome.answers]
        times = tuple(each for each in seen if each is not None)
        if len(times) < len(seen):
            return None
        backend = outcome.answers[0].done.backend  # not what was asked for, where that could not be used
        return CommunicationReport(times, backend, str(compression_of(self._options.compress)))
