"""A job that another kernel launched, taken up by this one: followed, and its state put into the objects of the same names."""

from __future__ import annotations

from typing import Any

from accel.distributed.cells.ddp_result import DdpResult
from accel.distributed.cells.homecoming import Homecoming
from accel.distributed.cells.model_shapes import check_shapes
from accel.distributed.jobs.job_folder import JobFolder
from accel.distributed.jobs.job_run import JobRun
from accel.distributed.ranks.called_function import CALLED, REACHED
from accel.distributed.ranks.rank_page import RankLane
from accel.distributed.ranks.run_outcome import Print, RunOutcome, Watch
from accel.errors import AccelError


class FoundJob:
    """Like a run that this kernel began, from the moment that it was launched.

    >>> job = FoundJob(folder, namespace)
    >>> result = job.go()

    Raises AccelError where the notebook lacks a name that the job began with. An interrupt leaves the job running.
    """

    def __init__(
        self, folder: JobFolder, namespace: dict[str, Any], *, watch: Watch | None = None, on_print: Print | None = None
    ) -> None:  # fmt: skip
        request = folder.request()
        if missing := [
            name for name in request.names if name not in namespace and name not in (CALLED, REACHED)
        ]:
            names = ", ".join(missing)
            raise AccelError(
                f"Bringing {folder.name} home", because=f"this notebook has no {names} yet, where its state belongs",
                do=f"Run the cells that make {names}, then try again.",
            )  # fmt: skip
        check_shapes(f"Bringing {folder.name} home", request.shapes, namespace)
        self._run = JobRun(folder, watch=watch, on_print=on_print)
        self.job, self.ranks, self.source = folder.name, self._run.description.ranks, request.source
        self.where = self._run.description.cluster.where
        self.home = Homecoming(namespace, request.names, request.options)

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now."""
        return self._run.lanes

    @property
    def waits_for(self) -> str:
        """What it waits for in a queue."""
        return self._run.waits_for

    def stop(self) -> None:
        """All ranks end after the same step."""
        self._run.stop()

    def run(self) -> RunOutcome:
        """Wait for its end; raises RankError where a rank failed."""
        return self._run.go()

    def go(self) -> DdpResult:
        """Wait for its end, and bring its state home."""
        return self.home.finish(self.run())
