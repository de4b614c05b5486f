"""Faults of jobs on test beds: what the notebook says, after how long, whether it goes on from its checkpoint, what is left.

`seconds` run from the fault to the notebook's answer: an error, or the trained state where the job goes on by itself. `equal`:
its losses are those of a run without a fault. `left` counts the processes that still run two seconds later. A rank is killed;
the link between two hosts is cut; a node of SLURM loses its power, and comes back; the queue is full; the time is over; the
disk of the job's folder is full.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
from tests.clusters.trainings import cell, kill_rank, losses_here, opened, options

from accel.distributed.jobs.cluster import Cluster
from accel.errors import AccelError
from benchmarks.cluster_beds import Beds, cluster_beds
from benchmarks.machine_line import report

TIMEOUT_S, PATIENCE_S, STEPS_BEFORE = 15, 300, 3
SLOW = "time.sleep(0.2)"
Breaks = Callable[[Path, Any], object]


@dataclass(frozen=True)
class Fault:
    """One fault on one cluster; with restarts the run goes on from its checkpoints."""

    name: str
    cluster: Cluster
    breaks: Breaks
    restarts: int = 0
    epochs: int = 3
    waits_for_steps: bool = True
    row: dict[str, Any] = field(default_factory=dict)


def run(fault: Fault, folder: Path) -> dict[str, Any]:
    """What came of it."""
    source, jobs = cell(fault.epochs, SLOW), Path(fault.cluster.folder)
    more = (
        {"checkpoint": str(folder / fault.name.replace(" ", "-")), "every": 2, "max_restarts": fault.restarts}
        if fault.restarts
        else {}
    )
    with opened() as bench:
        ddp = bench.ranks.begin(source, options(fault.cluster, timeout_s=TIMEOUT_S, **more))
        if fault.waits_for_steps:
            wait_until(
                lambda: ddp.is_over or (ddp.lanes and min(lane.step for lane in ddp.lanes) >= STEPS_BEFORE)
            )
        began = time.monotonic()
        said = str(fault.breaks(jobs, ddp) or "")
        try:
            result, ended = ddp.wait(PATIENCE_S), "state home"
            said = said or " ".join(note for note in result.warnings if "CPUs" not in note) or result.line
            equal = (
                bench.namespace["losses"] == losses_here(cell(fault.epochs))[: len(bench.namespace["losses"])]
            )
        except AccelError as error:
            ended, said, equal = "error", said or str(error).splitlines()[-1], None
        seconds = time.monotonic() - began
    time.sleep(2)
    row = {"fault": fault.name, "seconds": round(seconds, 1), "ends with": ended, "equal": equal, "left": len(running_in(jobs)),
           "says": short(said)}  # fmt: skip
    print(json.dumps(row, ensure_ascii=False), flush=True)
    return row


def wait_until(holds: Callable[[], object], patience_s: float = 90) -> None:
    """Look again and again; raises TimeoutError."""
    until = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.05)


def running_in(jobs: Path) -> list[int]:
    """Processes that name the folder in their words."""
    return [
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if any(str(jobs) in word for word in each.info["cmdline"] or []) and each.pid != os.getpid()
    ]


def short(said: str) -> str:
    """The answer's first sentences, without the folders of this run."""
    told = re.split(r" Its last lines| The notebook's own objects| See whether", said)[0]
    return " ".join(re.sub(r"(/[\w.:,-]+)+/", "…/", told).split())


def kill_rank_one(jobs: Path, _run: Any) -> None:
    """As the system does where memory is short."""
    kill_rank(jobs, rank=1)


def fill(jobs: Path, _run: Any) -> None:
    """The rest of the disk that the job's folder is on."""
    status = os.statvfs(jobs)
    with open(jobs / "fill", "wb") as file:
        try:
            file.write(b"x" * (status.f_bavail * status.f_frsize))
        except OSError:
            return


@contextmanager
def small_disk(size: str = "3m") -> Iterator[Path]:
    """A disk in memory."""
    place = Path(tempfile.mkdtemp(prefix="ab-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


def faults_of_slurm(beds: Beds) -> Iterator[Fault]:
    """A lost node, a full queue, a time limit."""
    slurm = beds.slurm
    assert slurm is not None

    def lose_and_bring_back(_jobs: Path, _run: Any) -> None:
        slurm.lose_node("n2")
        time.sleep(3)
        slurm.start_node("n2")

    def wait_in_the_queue(_jobs: Path, ddp: Any) -> str:
        wait_until(lambda: "nodes to be free" in ddp.line)
        line = str(ddp.line)
        slurm.ask("scancel", "--name", "other")
        return line

    place = lambda name, **more: slurm.cluster(str(beds.folder / name), **more)
    yield Fault("slurm: rank killed", place("a"), kill_rank_one)
    yield Fault("slurm: node lost", place("b"), lose_and_bring_back)
    slurm.wait_until_idle()
    yield Fault("slurm: node lost, one restart", place("c"), lose_and_bring_back, restarts=1)
    slurm.wait_until_idle()
    slurm.ask(
        "sbatch",
        "--job-name",
        "other",
        "--nodes",
        "2",
        "--exclusive",
        "--output",
        "/dev/null",
        "--wrap",
        "sleep 300",
    )
    yield Fault("slurm: queue full", place("d"), wait_in_the_queue, waits_for_steps=False)
    yield Fault("slurm: time over", place("e", partition="short", time="1"), lambda *_: None, epochs=100)


def faults_here(beds: Beds, disk: Path) -> Iterator[Fault]:
    """Of torchrun and mpirun."""
    torchrun = Cluster(ranks_per_node=2, folder=str(beds.folder / "f"))
    yield Fault("torchrun: rank killed", torchrun, kill_rank_one)
    again = msgspec.structs.replace(torchrun, folder=str(beds.folder / "g"))
    yield Fault("torchrun: rank killed, one restart", again, kill_rank_one, restarts=1)
    yield Fault("torchrun: disk full", msgspec.structs.replace(torchrun, folder=str(disk)), fill)
    if "mpirun" in beds.clusters() and (hosts := beds.hosts) is not None:
        yield Fault("mpirun: rank killed", hosts.cluster(str(beds.folder / "h")), kill_rank_one)
        yield Fault(
            "mpirun: rank killed, one restart",
            hosts.cluster(str(beds.folder / "i")),
            kill_rank_one,
            restarts=1,
        )
        yield Fault("mpirun: link cut", hosts.cluster(str(beds.folder / "j")), lambda *_: hosts.cut(1))
        hosts.mend(1)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--quick", action="store_true", help="one fault of torchrun, and nothing is written"
    )
    quick = arguments.parse_args().quick
    rows = []
    with cluster_beds() as beds, small_disk() as disk:
        faults = faults_here(beds, disk)
        for fault in [next(faults)] if quick else faults:
            rows.append(run(fault, beds.folder))
        if not quick and beds.slurm is not None:
            rows += [run(fault, beds.folder) for fault in faults_of_slurm(beds)]
    equal = [row["equal"] for row in rows if row["equal"] is not None]
    figures = {
        "faults": len(rows), "left_processes": sum(row["left"] for row in rows), "longest_s": max(row["seconds"] for row in rows),
        "went_on": len(equal), "with_equal_losses": sum(equal),
    }  # fmt: skip
    report("job_faults", figures, is_full_run=not quick, rows=rows)


if __name__ == "__main__":
    main()
