"""What every launcher does, and the frame of the script that it writes into a job's folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from accel.distributed.jobs.cluster import Cluster, LauncherName
from accel.distributed.jobs.job_folder import JobDescription, JobFolder, Launched

STARTS = "starts"  # a file in the job's folder: how often launch.sh has been started
START = "ACCEL_START"  # the number of the start, from 0, for the ranks


@dataclass(frozen=True)
class LaunchState:
    """Where a launcher has got to. `because` says what it waits for, or how it ended."""

    word: Literal["queued", "running", "ended"]
    because: str = ""
    hosts: str = ""


@dataclass(frozen=True)
class Blame:
    """The rank that a launcher saw end first, and how."""

    rank: int
    how: str = ""


class Launcher(Protocol):
    """Starts the ranks of a job, says how far it is, and ends it.

    >>> launcher = launcher_of("slurm")
    >>> launched = launcher.start(folder, description)
    >>> launcher.look(launched, folder).word
    'queued'
    """

    @property
    def name(self) -> LauncherName:
        """Its name, as `--launcher` takes it."""

    @property
    def patience_s(self) -> float:
        """How long it may take, once a rank has failed, until it has ended all, or has started them again."""

    def check(self, cluster: Cluster) -> None:
        """Raises AccelError where it is not here, or cannot do what the cluster asks for."""

    def script(self, folder: JobFolder, description: JobDescription) -> str:
        """The text of launch.sh."""

    def start(self, folder: JobFolder, description: JobDescription) -> Launched:
        """Run launch.sh; raises AccelError where that fails at once."""

    def look(self, launched: Launched, folder: JobFolder) -> LaunchState:
        """How far it is."""

    def cancel(self, launched: Launched, folder: JobFolder) -> None:
        """End it, with all its ranks."""

    def blames(self, text: str) -> Blame | None:
        """The rank that it saw end first, by what it printed; None where it names none."""


def framed(
    folder: JobFolder, cluster: Cluster, lines: Sequence[str], *, head: Sequence[str] = (), starter: str = "bash"
) -> str:  # fmt: skip
    """A script around the lines that start the ranks: it counts its starts, and leaves their exit status in the job's folder.

    >>> print(framed(folder, cluster, ["python run.py"]))

    A wish to stop or to cancel holds where a queue starts the job again; where a person does, it is of an earlier time.
    """
    return "\n".join(
        [
            "#!/bin/bash", *head, "umask 077", f"# Starts the ranks of this job again: {starter} {folder.launch_script.name}",
            *setup_of(cluster), f"cd {shlex.quote(str(folder.path))} || exit 1",
            f"start=$(cat {STARTS} 2>/dev/null || echo 0)", f'echo "$((start + 1))" > {STARTS}', f'export {START}="$start"',
            'if [ "$start" -gt 0 ] && [ "${SLURM_RESTART_COUNT:-0}" -eq 0 ]; then rm -f stop cancel; fi',
            "rm -f exit_status node_lost", *lines, "status=$?",
            f'echo "$status" > {folder.exit_status.name}', 'exit "$status"', "",
        ]
    )  # fmt: skip


def setup_of(cluster: Cluster) -> list[str]:
    """The lines of shell that come before the ranks, on each machine: the cluster's own, and its variables."""
    return [*cluster.setup, *(f"export {name}={shlex.quote(value)}" for name, value in cluster.env.items())]


def last_blame(pattern: str, text: str) -> Blame | None:
    """What a pattern with the groups `rank` and `how` finds last in a launcher's words.

    >>> last_blame(r"task (?P<rank>\\d+): (?P<how>Killed)", "srun: error: n2: task 1: Killed")
    Blame(rank=1, how='Killed')
    """
    found = list(re.finditer(pattern, text))
    return Blame(int(found[-1]["rank"]), " ".join(found[-1]["how"].split())) if found else None


def words(*parts: str) -> str:
    """Words for a shell, each quoted.

    >>> words("srun", "a b")
    "srun 'a b'"
    """
    return " ".join(map(shlex.quote, parts))
