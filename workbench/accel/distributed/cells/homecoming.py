"""What a run trained, put into the notebook's own objects: of ranks that this notebook waited for, or of a job it found again."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from accel.distributed.cells.brought_home import Key, bring_home
from accel.distributed.cells.changed_during_run import ChangedDuringRun
from accel.distributed.cells.ddp_result import DdpResult, RankReport
from accel.distributed.cells.home_objects import Home, walk
from accel.distributed.cells.plan_effects import effects_of
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.communication.communication_report import CommunicationReport
from accel.distributed.data_parallel.gradient_compression import compression_of
from accel.distributed.ranks.called_function import RETURNED
from accel.distributed.ranks.run_outcome import RunOutcome
from accel.private_disk import in_words
from accel.workload.memory_file import MemoryFile
from accel.workload.separate_parts import unpack_parts
from accel.workload.uninterrupted import uninterrupted


class Homecoming:
    """The notebook's objects that a run began with, by these names, and the way its outcome gets into them.

    >>> home = Homecoming(namespace, ["model", "optimizer", "loader"], RunOptions())
    >>> result = home.finish(outcome)

    `extra` names are those of a function that was called; what it `returned` in rank 0 is here then. With `discard` the
    notebook's objects stay as they are.
    """

    def __init__(
        self, namespace: dict[str, Any], names: Iterable[str], options: RunOptions, *,
        extra: Mapping[str, Any] | None = None, notes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._namespace, self._options, self._notes = namespace, options, tuple(notes)
        self.restarts: list[str] = []  # what there is to say of each
        self._home = Home(walk(namespace | dict(extra or {}), names))
        self.changes = ChangedDuringRun(self._home)
        self._not_home: list[tuple[str, str]] = []
        self.returned: Any = None  # by the function that was called, in rank 0
        self.is_home = False  # its state, or all of it that can be, is in the notebook's objects

    @in_words("%%accel ddp")
    def finish(self, outcome: RunOutcome) -> DdpResult:
        """Put what a run made of the notebook's objects into them, and say how it went."""
        self.changes.look()
        self._take(outcome)
        outcome.on_home()
        result = self._result(outcome)
        self._home.clear()  # a run that is remembered keeps no model alive
        self.changes.forget()
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
                host=each.host if each else "",
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
            notes=(*self.restarts, *first.notes, *self._notes, *filter(None, (self.changes.note,))),
            plan=self._options.plan, effects=effects_of([answer.done.proofs for answer in outcome.answers]),
            compilation=first.compilation,
            communication=self._communication(outcome),
            first_step=first.first_step, values=tuple(first.values),
            quality=first.quality, quality_reason=first.quality_reason, distributes_itself=first.distributes_itself,
        )  # fmt: skip

    def _communication(self, outcome: RunOutcome) -> CommunicationReport | None:
        seen = [answer.done.communication for answer in outcome.answers]
        times = tuple(each for each in seen if each is not None)
        if len(times) < len(seen):
            return None
        backend = outcome.answers[0].done.backend  # not what was asked for, where that could not be used
        return CommunicationReport(times, backend, str(compression_of(self._options.compress)))
