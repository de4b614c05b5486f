"""Ranks that a launcher starts, for one run: what a cell is run on in place of warm processes of this machine."""

from __future__ import annotations

import dataclasses
import re
import shutil
import socket
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.job_folder import JobDescription, JobFolder
from accel.distributed.jobs.job_run import JobRun
from accel.distributed.jobs.launchers.table import launcher_of
from accel.distributed.ranks.rank_environment import changed_here
from accel.distributed.ranks.rank_messages import RunRequest
from accel.distributed.ranks.rank_page import RankLane
from accel.distributed.ranks.run_outcome import Print, RunOutcome, Watch
from accel.errors import AccelError
from accel.workload.shipping import Parcel

FOLDER = "accel-jobs"  # beside the notebook, where a cluster's machines see it as a rule
_RUN = '''"""What each rank of this job runs. The launcher starts it: see launch.sh."""

import sys
from pathlib import Path

sys.path.append({place!r})  # where accel lies

from accel.distributed.jobs.job_rank import main

if __name__ == "__main__":
    main(str(Path(__file__).resolve().parent))
'''


@dataclass(frozen=True)
class JobRanks:
    """The ranks of a cluster's launcher; each run is a job with a folder of its own, which stays unless `is_kept` is False.

    >>> ranks = JobRanks(Cluster(launcher="torchrun", ranks_per_node=2), threads=1)
    >>> outcome = ranks.begin(request, parcel, asked="%%accel ddp").go()
    """

    cluster: Cluster
    threads: int | None = None
    max_restarts: int = 0
    is_of_copies: bool = False
    is_kept: bool = True

    @property
    def ranks(self) -> int:
        """How many."""
        return self.cluster.ranks

    @property
    def restart_themselves(self) -> bool:
        """torchrun starts ranks again, and SLURM queues the job again."""
        return self.cluster.launcher != "mpirun"

    @property
    def notes(self) -> tuple[str, ...]:
        """A run of copies changes no object of the notebook; on the cluster's disks it writes as ever."""
        return (
            ("Files that the cell wrote stay: only ranks of the notebook's own write to copies.",)
            if self.is_of_copies
            else ()
        )

    @property
    def where(self) -> str:
        """In words."""
        return self.cluster.where

    def begin(
        self, request: RunRequest, parcel: Parcel, *, asked: str, watch: Watch | None = None,
        on_print: Print | None = None,
    ) -> LaunchedJob:  # fmt: skip
        """Pack the job into its folder; `go` launches it."""
        if request.options.check == "strict":
            raise AccelError(
                "--check strict", because="the first step can be checked on this machine only, but a job runs elsewhere",
                do="First run the cell on ranks of this machine with --check strict. Then start the job without --check.",
            )  # fmt: skip
        launcher = launcher_of(self.cluster.launcher)
        launcher.check(self.cluster)
        folder = JobFolder.make(Path(self.cluster.folder or FOLDER), _name(request))
        description = JobDescription(
            name=folder.name, asked=asked, cluster=self.cluster, ranks=self.ranks, began_s=time.time(),
            host=socket.gethostname(), versions=_versions(), threads=self.threads,
            max_restarts=self.max_restarts if self.restart_themselves else 0,
        )  # fmt: skip
        folder.write_request(self._for_there(request), parcel.blob, parcel.memory.descriptor)
        folder.write_text(folder.script, _RUN.format(place=str(Path(__file__).resolve().parents[3])))
        folder.write_text(folder.launch_script, launcher.script(folder, description), is_program=True)
        folder.write_json("job.json", description)  # now it is a job: it is listed
        return LaunchedJob(folder, watch, on_print, is_kept=self.is_kept)

    def _for_there(self, request: RunRequest) -> RunRequest:
        """Without what belongs to this process, and not to a rank elsewhere; another interpreter imports from its own places."""
        environment = {name: value for name, value in changed_here().items() if name not in self.cluster.env}
        path = request.import_path
        if self.cluster.python:
            path = [each for each in path if not each.startswith((sys.prefix, sys.base_prefix))]
        return msgspec.structs.replace(request, environment=environment, import_path=path)


class LaunchedJob:
    """A run that is a job: `go` launches it and waits for its end, as often as it is called."""

    def __init__(
        self, folder: JobFolder, watch: Watch | None, on_print: Print | None, *, is_kept: bool = True
    ) -> None:  # fmt: skip
        self.run, self._is_kept = JobRun(folder, watch=watch, on_print=on_print), is_kept

    @property
    def job(self) -> str:
        """Its folder's name."""
        return self.run.folder.name

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now."""
        return self.run.lanes

    @property
    def waits_for(self) -> str:
        """What it waits for in a queue."""
        return self.run.waits_for

    def stop(self) -> None:
        """All ranks end after the same step."""
        self.run.stop()

    def go(self) -> RunOutcome:
        """Launch it and wait."""
        self.run.launch()
        outcome = self.run.go()
        return outcome if self._is_kept else dataclasses.replace(outcome, on_home=self._remove)

    def _remove(self) -> None:
        shutil.rmtree(self.run.folder.path, ignore_errors=True)  # a shared disk may keep what is still open


def _name(request: RunRequest) -> str:
    """A word for the job: the function that is called, or the file's name without what a path does not take."""
    word = re.sub(r"[^A-Za-z0-9]+", "-", request.filename).strip("-").lower()
    return word[:24] or "cell"


def _versions() -> dict[str, str]:
    """What the ranks should have too."""
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in ("torch", "numpy")}}
