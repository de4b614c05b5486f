"""The notebook's own cell on ranks: shipped, trained data-parallel, and its state brought home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from accel.distributed.cells.ddp_result import DdpResult
from accel.distributed.cells.homecoming import Homecoming
from accel.distributed.cells.model_shapes import shapes_of
from accel.distributed.cells.plan_on_ranks import check_on_ranks, notes_on
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.checkpoints.checkpoint_wish import checked_folder
from accel.distributed.oneccl.limits import check_limits
from accel.distributed.ranks.called_function import globals_of
from accel.distributed.ranks.rank_page import RankLane
from accel.distributed.ranks.rank_pool import request_for
from accel.distributed.ranks.run_outcome import Print, Ranks, RunOutcome, Watch
from accel.errors import RankError
from accel.plans.plan import Plan
from accel.private_disk import in_words
from accel.workload.cell_names import names_read, names_written
from accel.workload.shipping import pack_cell

if TYPE_CHECKING:
    from accel.workers.messages import QualityQuestion
    from accel.workload.read_backs import ReadBack

_AS_USUAL = RunOptions()


class CellRun:
    """A cell on ranks: those of a pool, or of a job.

    >>> run = CellRun(ranks, source, namespace, filename="<cell>")
    >>> result = run.go()

    `go` waits; `stop`, from any thread, ends all ranks after the same step, and the state of that step comes back. With
    `discard` the notebook's objects stay as they are. `extra` names travel too, and what they lead to comes home. With a
    folder for checkpoints it goes on from the newest one in it that a run which did not come to its end left there; by itself,
    after a rank died, as often as the options allow. `plan` is that of the options, where it was read and resolved before.
    """

    @in_words("%%accel ddp")
    def __init__(
        self, ranks: Ranks, source: str, namespace: dict[str, Any], options: RunOptions = _AS_USUAL, *, filename: str,
        backend: str = "gloo", watch: Watch | None = None, on_print: Print | None = None, extra: Mapping[str, Any] | None = None,
        asked: str = "%%accel ddp", reads_back: Sequence[ReadBack] = (),
        question: QualityQuestion | None = None, plan: Plan | None = None,
    ) -> None:  # fmt: skip
        self.ranks, self.source, self.where = ranks.ranks, source, ranks.where
        plan = Plan.parse(options.plan) if plan is None else plan
        check_on_ranks(plan, options)
        if backend == "ccl":
            check_limits(options, plan.names)
        self._options = msgspec.structs.replace(
            options, checkpoint=checked_folder(options, source), plan=str(plan or "")
        )
        self._restarts_left = 0 if ranks.restart_themselves else options.max_restarts
        extra = dict(extra or {})
        reads = [*names_read(source, namespace), *globals_of(extra.values(), namespace)]
        reads = [name for name in dict.fromkeys(reads) if name not in extra]
        self._parcel = pack_cell(source, filename, namespace, reads, extra=extra)
        names = [*reads, *extra]
        self.home = Homecoming(
            namespace, names, self._options, extra=extra, notes=[*notes_on(plan), *ranks.notes]
        )  # fmt: skip
        request = request_for(
            "cell", source=source, filename=filename, backend=backend, options=self._options, names=names,
            writes=list(names_written(source)), reads_back=list(reads_back), question=question,
            shapes=shapes_of(namespace, names),
        )  # fmt: skip
        self._run = ranks.begin(request, self._parcel, asked=asked, watch=watch, on_print=on_print)

    def stop(self) -> None:
        """All ranks end after the same step."""
        self._run.stop()

    @property
    def job(self) -> str:
        """The name of its job; empty where it is none."""
        return self._run.job

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now; none before they are up."""
        return self._run.lanes

    @property
    def waits_for(self) -> str:
        """What the ranks wait for before they are up, where that is known."""
        return self._run.waits_for

    def go(self) -> DdpResult:
        """Run it and bring its state home; see `run`."""
        return self.home.finish(self.run())

    def run(self) -> RunOutcome:
        """Run it; raises RankError with the rank that caused a failure, and then nothing has changed in the notebook."""
        try:
            with in_words("%%accel ddp"):
                return self._outcome()
        finally:
            self._parcel.close()

    def _outcome(self) -> RunOutcome:
        while True:
            try:
                return self._run.go()
            except RankError as error:
                if error.has_raised or not self._restarts_left:
                    raise
                self._restarts_left -= 1
                self.home.restarts.append(
                    f"Rank {error.rank} was lost ({error.because}), and the ranks were started again."
                )
